"""Live updates of a recording while it is made."""

import gzip
import sqlite3
from contextlib import closing

import pytest
from findings import finding

from wiretape.observations import Ending


class Page:
    """The rows, heads and findings that a page has after some messages."""

    def __init__(self) -> None:
        self.rows = []
        self.settled = 0
        self.heads = {}
        self.findings = []
        self.last = None

    def take(self, messages):
        for message in messages:
            self.last, data = message, message.data
            if message.event == "rows":
                assert 0 <= data["first"] <= len(self.rows)
                self.rows[data["first"] :] = data["rows"]
                self.settled = data["settled"]
                assert self.settled <= len(self.rows)
            elif message.event == "exchange":
                self.heads[data["exchange"]] = data
            elif message.event == "finding":
                self.findings.append(data)
        return self

    def kinds(self):
        return [row["row"] for row in self.rows]


def rows(message):
    return message.event == "rows"


@pytest.fixture
def growing(builder, message):
    """A recording with an open stream that has one event."""
    builder.exchange([(5, message("run.started", id="e1", sequence=1, run_id="r1"))], ending=None)
    builder.save()
    return builder


async def test_updates_are_sent_until_the_recording_is_closed(growing, message, delta, open_debugger):
    page = Page()
    async with open_debugger(growing.path) as client, client.live("?exchange=1") as live:
        page.take(await live.until(rows))
        assert (page.kinds(), list(page.heads), page.heads[1]["ending"]) == (["event"], [1], "open")
        growing.extend(1, [delta("Hel"), delta("lo")])
        page.take(await live.until(rows))
        assert (page.kinds(), page.rows[1]["preview"], page.settled) == (["event", "deltas"], "Hello", 1)
        growing.extend(1, [delta(" you"), (2000, b": keep-alive\n\n")])
        page.take(await live.until(rows))
        assert (page.kinds(), page.rows[1]["count"], page.settled) == (["event", "deltas", "pause"], 3, 1)
        growing.extend(1, [message("run.completed", id="e2", sequence=2)], Ending.CLIENT_CLOSED)
        growing.exchange(target="/x", status=404, headers=())
        growing.save()
        page.take(await live.until(rows))
        assert page.kinds() == ["event", "deltas", "pause", "event", "end"]
        assert (page.settled, page.rows[-1]["ending_label"]) == (5, "client closed")
        assert page.heads[1]["ending"] == "client-closed"
        growing.close()
        page.take(await live.until(lambda message: message.event == "closed"))
        assert page.heads[2]["status"] == 404
        assert page.last.data["ended_ns"] == growing.now
        assert await live.next() is None
        assert page.rows == (await client.lines("/api/rows?exchange=1"))[1:]


async def test_finding_is_sent_before_the_rows_that_it_changes(growing, message, delta, open_debugger):
    growing.extend(1, [delta(text) for text in "abcd"])
    async with open_debugger(growing.path) as client, client.live("?exchange=1") as live:
        page = Page().take(await live.until(rows))
        assert page.kinds() == ["event", "deltas"]
        growing.find(finding(3))
        messages = await live.until(rows)
        assert [one.event for one in messages] == ["finding", "rows"]
        page.take(messages)
        assert page.findings[0]["rule"]["name"] == "sequence-not-increasing"
        assert page.kinds() == ["event", "deltas", "event", "deltas"]
        assert [len(row.get("findings", ())) for row in page.rows] == [0, 0, 1, 0]
        growing.extend(1, [delta("e")])
        growing.find(finding(1))
        page.take(await live.until(lambda message: message.event == "finding"))
        page.take(await live.until(rows))
        assert page.findings[1]["rule"] is None, "the rule was sent before"
        growing.extend(1, [], Ending.COMPLETE)
        page.take(await live.until(lambda message: rows(message) and message.data["rows"][-1]["row"] == "end"))
        growing.find(finding(None))
        page.take(await live.until(rows))
        growing.close()
        await live.until(lambda message: message.event == "closed")
        assert page.rows == (await client.lines("/api/rows?exchange=1"))[1:]
        assert len(page.rows[-1]["findings"]) == 1


async def test_findings_that_the_recorder_replaces_are_sent_again(growing, open_debugger):
    growing.find(finding(1))
    async with open_debugger(growing.path) as client, client.live("?exchange=1") as live:
        page = Page().take(await live.until(rows))
        assert [one["code"] for one in page.rows[0]["findings"]] == ["SEQ001"]
        with closing(sqlite3.connect(growing.path)) as connection, connection:
            connection.execute("UPDATE finding SET id = 2, code = 'SEQ002'")
        connection.close()
        messages = await live.until(rows)
        assert [one.event for one in messages] == ["findings-replaced", "finding", "rows"]
        page.take(messages)
        assert [one["code"] for one in page.rows[0]["findings"]] == ["SEQ002"]
        growing.close()


async def test_late_finding_resends_only_the_rows_after_it(builder, message, open_debugger):
    data = [(1, message("message.completed", id=f"e{number}", sequence=number)) for number in range(1, 2001)]
    builder.exchange(data, ending=None)
    builder.save()
    async with open_debugger(builder.path) as client, client.live("?exchange=1") as live:
        page = Page()
        while len(page.rows) < 2000:
            page.take(await live.until(rows))
        builder.find(finding(1500))
        messages = await live.until(lambda message: rows(message) and message.data["settled"] == 2000)
        page.take(messages)
        first = next(message for message in messages if rows(message))
        assert first.data["first"] == 1499, "earlier rows are not sent again"
        builder.extend(1, [], Ending.COMPLETE)
        page.take(await live.until(lambda message: rows(message) and message.data["rows"][-1]["row"] == "end"))
        assert page.rows == (await client.lines("/api/rows?exchange=1"))[1:]


async def test_reconnecting_client_gets_what_is_new(growing, message, delta, open_debugger):
    growing.extend(1, [delta("a")])
    async with open_debugger(growing.path) as client:
        async with client.live("?exchange=1") as live:
            page = Page().take(await live.until(rows))
        growing.extend(1, [delta("b"), message("run.completed", id="e2")])
        async with client.live("?exchange=1", **{"Last-Event-ID": page.last.id}) as live:
            messages = await live.until(rows)
        assert messages[-1].data["first"] == 1
        page.take(messages)
        assert (page.kinds(), page.rows[1]["preview"]) == (["event", "deltas", "event"], "ab")
        growing.find(finding(2))
        async with client.live("?exchange=1", **{"Last-Event-ID": page.last.id}) as live:
            messages = await live.until(rows)
        assert [one.event for one in messages] == ["exchange", "finding", "rows"]
        page.take(messages)
        assert page.kinds() == ["event", "event", "deltas", "event"]
        growing.close()


async def test_finding_changes_a_row_of_an_earlier_connection(growing, message, open_debugger):
    async with open_debugger(growing.path) as client:
        async with client.live("?exchange=1") as live:
            page = Page().take(await live.until(rows))
        async with client.live("?exchange=1", **{"Last-Event-ID": page.last.id}) as live:
            growing.extend(1, [message("run.completed", id="e2")])
            page.take(await live.until(rows))
            growing.find(finding(1))
            page.take(await live.until(rows))
        growing.close()
        assert [len(row["findings"]) for row in page.rows] == [1, 0]


async def test_client_that_selects_another_exchange_gets_all_of_its_rows(growing, message, open_debugger):
    other = growing.exchange([message("run.started", id="f1")], ending=None)
    growing.save()
    async with open_debugger(growing.path) as client:
        async with client.live("?exchange=1") as live:
            place = (await live.until(rows))[-1].id
        async with client.live(f"?exchange={other}&after={place}") as live:
            assert (await live.until(rows))[-1].data["first"] == 0
        async with client.live(f"?exchange=1&rows=1&after={place}") as live:
            growing.extend(1, [message("run.completed", id="e2")])
            assert (await live.until(rows))[-1].data["first"] == 1
    growing.close()


async def test_client_with_too_many_rows_is_corrected_once(growing, open_debugger):
    async with open_debugger(growing.path) as client, client.live("?exchange=1&rows=99") as live:
        assert (await live.until(rows))[-1].data | {"exchange": 1} == {
            "exchange": 1,
            "first": 1,
            "rows": [],
            "settled": 1,
        }
        growing.close()
        assert [message.event for message in await live.until(lambda one: one.event == "closed")] == ["closed"]


async def test_only_changes_after_a_position_are_sent(growing, open_debugger):
    growing.exchange(target="/x", status=404, headers=())
    growing.find(finding(1))
    async with open_debugger(growing.path) as client:
        _, document = await client.get("/api/recording")
        growing.exchange(target="/y", status=404, headers=())
        growing.save()
        async with client.live(f"?after={document['position']}") as live:
            heads = [(await live.next()).data["exchange"] for _ in range(2)]
            assert heads == [1, 3], "the one that is open, and the one that is new"
            growing.close()
            assert (await live.next()).event == "closed"


async def test_rows_start_when_an_exchange_becomes_a_stream(builder, message, open_debugger):
    builder.exchange(status=None, ending=None)
    builder.save()
    async with open_debugger(builder.path) as client, client.live("?exchange=1") as live:
        assert (await live.next()).data["status"] is None
        builder.answer(1)
        builder.extend(1, [message("run.started", id="e1")])
        page = Page().take(await live.until(rows))
        assert page.kinds() == ["event"]
        assert page.heads[1]["status"] == 200
        builder.close()


async def test_closed_is_sent_when_the_recorder_was_killed(builder, message, open_debugger):
    builder.exchange([(5, message("run.started", id="e1")), b"data: cut"], ending=None)
    path = builder.close(killed=True)
    async with open_debugger(path) as client, client.live("?exchange=1") as live:
        page = Page().take(await live.until(lambda message: message.event == "closed"))
    assert page.kinds() == ["event"]
    assert page.last.data == {"ended_ns": None}


async def test_closed_is_sent_when_the_recording_is_renamed(growing, open_debugger):
    async with open_debugger(growing.path) as client, client.live("?exchange=1") as live:
        await live.until(rows)
        growing.path.rename(growing.path.with_suffix(".old"))
        last = (await live.until(lambda message: message.event == "closed"))[-1]
        assert last.data["error"]["message"].startswith(f"There is no file {growing.path}")


async def test_compressed_stream_has_live_rows(builder, message, open_debugger):
    whole = gzip.compress(message("run.started", id="e1") + message("run.completed", id="e2"))
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    builder.exchange([whole[:60]], headers=headers, ending=None)
    builder.save()
    async with open_debugger(builder.path) as client, client.live("?exchange=1") as live:
        page = Page()
        builder.extend(1, [whole[60:]], Ending.COMPLETE)
        while "end" not in page.kinds():
            page.take(await live.until(rows))
        builder.find(finding(1))
        page.take(await live.until(rows))
        assert page.rows == (await client.lines("/api/rows?exchange=1"))[1:]
        builder.close()
