"""What the debugger's server tells of a recording, over real sockets."""

import asyncio
import json
import sqlite3
import sys
import threading
from base64 import b64decode
from contextlib import closing

import pytest

from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_inspect import jsonlines, timeline

NO_STREAM = "Exchange 1 is no event stream."


async def test_a_recording_is_told_with_its_exchanges_and_what_was_found(tape, message, looking):
    number = tape.exchange(chunks=[(5, message("run.started", id="e1", sequence=1))])
    tape.exchange("/v1/runs", method="POST", status=409, headers=())
    tape.find(Finding("SEQ001", Severity.ERROR, Party.SERVICE, number, 1, 1, None, 5, "It is wrong."))
    async with looking(tape.close()) as looker:
        _, told = await looker.get("/api/recording")

    assert (told["file"], told["upstream"], told["live"], told["replay"]) == (
        "run.db",
        "http://service.test",
        False,
        None,
    )
    assert [(head["exchange"], head["status"], head["stream"]) for head in told["exchanges"]] == [
        (1, 200, True),
        (2, 409, False),
    ]
    assert [(found["code"], found["exchange"], found["event"]) for found in told["findings"]] == [("SEQ001", 1, 1)]
    assert told["rules"]["SEQ001"]["name"] == "sequence-not-increasing"
    assert set(told["rules"]["SEQ001"]) == {"name", "severity", "side", "clause", "about"}


async def test_rows_are_those_that_the_command_line_shows(session, looker, run):
    shown = [json.loads(line) for line in run("show", session, "--json").output.splitlines()]
    told = [row for number in range(1, 5) for row in await looker.lines(f"/api/rows?exchange={number}")]

    assert told == shown
    assert [row["row"] for row in told].count("deltas") == 1


async def test_a_run_of_deltas_is_told_one_by_one(looker):
    told = await looker.lines("/api/events?exchange=2&first=3&last=5")

    assert [(row["row"], row["event"], row["preview"]) for row in told] == [
        ("event", number, "word ") for number in (3, 4, 5)
    ]
    assert {row["gap_ns"] for row in told} == {10_000_000}
    assert [row["event"] for row in await looker.lines("/api/events?exchange=2&first=39&last=999999999999999999")] == [
        39,
        40,
    ]
    assert await looker.lines("/api/events?exchange=2&first=5&last=3") == []


async def test_one_event_is_told_closely(session, looker, run):
    _, told = await looker.get("/api/event?exchange=2&event=40")

    assert told == json.loads(run("show", session, "--at", "2:40", "--json").output)
    assert told["state"]["text"] == {"text": "word word", "characters": 9, "final": True}


async def test_what_was_cut_off_is_told_byte_for_byte(looker):
    (row,) = [row for row in await looker.lines("/api/rows?exchange=2") if row["row"] == "cut"]
    _, told = await looker.get(f"/api/cut?exchange=2&start={row['start']}&event=40")

    assert (told["start"], told["end"], len(told["chunks"])) == (row["start"], row["end"], 1)
    assert b64decode(told["base64"]) == b"event: run.comp"


async def test_a_stream_is_told_at_a_glance(looker):
    _, told = await looker.get("/api/overview?exchange=2")

    assert [stretch["folded"] for stretch in told["axis"]] == [False, True, False]
    assert [call["id"] for call in told["calls"]] == ["t1"]


async def test_two_connections_are_told_side_by_side(session, looker, run):
    shown = [json.loads(line) for line in run("show", session, "--resume", "2:3", "--json").output.splitlines()]

    assert await looker.lines("/api/resume?first=2&second=3") == shown


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ("rows", 400, "The parameter exchange is missing."),
        ("rows?exchange=", 400, "has to be a whole number"),
        ("rows?exchange=-1", 400, "has to be a whole number"),
        ("rows?exchange=%D9%A1", 400, "has to be a whole number"),
        ("rows?exchange=1&exchange=2", 400, "or it came twice"),
        ("rows?exchange=1&colour=%1b[31m", 400, "There is no parameter colour here"),
        ("rows?exchange=0", 404, "has no exchange 0: its exchanges are 1 to 4"),
        ("rows?exchange=999999999999999999", 404, "has no exchange 999999999999999999"),
        ("rows?exchange=1" + "0" * 30, 400, "has to be a whole number of at most 18 digits"),
        ("events?exchange=1&first=1&last=2", 404, NO_STREAM),
        ("overview?exchange=1", 404, NO_STREAM),
        ("event?exchange=1&event=1", 404, NO_STREAM),
        ("event?exchange=2&event=0", 404, "Exchange 2 has no event 0: they go from 1 to 40."),
        ("event?exchange=2&event=41", 404, "Exchange 2 has no event 41: they go from 1 to 40."),
        ("event?exchange=2&event=999999999999999999", 404, "they go from 1 to 40."),
        ("cut?exchange=1&start=0&event=1", 404, NO_STREAM),
        ("cut?exchange=2&start=1&event=1", 404, "Exchange 2 has no message that begins at byte 1 and was cut off."),
        ("cut?exchange=2&start=999999999999999999&event=999999999999999999", 404, "has no message that begins at"),
        ("resume?first=3&second=2", 400, "Name the earlier connection first: 2:3."),
        ("resume?first=1&second=2", 400, "Exchange 1 is no event stream, so nothing was resumed on it."),
        ("live?exchange=9", 404, "has no exchange 9"),
        ("live?after=1.2", 400, "is no place in a recording"),
        ("live?after=" + "9" * 30 + ".0.0", 400, "is no place in a recording"),
        ("replay/state", 404, "No replay is attached"),
        ("nothing", 404, "Not Found."),
    ],
)
async def test_what_cannot_be_told_is_one_sentence(looker, asked, status, said):
    found = await looker.error(f"/api/{asked}")

    assert found[0] == status
    assert said in found[1]
    assert "\x1b" not in found[1]


async def test_a_killed_proxy_leaves_a_recording_that_is_told_and_not_live(tape, message, looking):
    tape.exchange(chunks=[(5, message("run.started", id="e1", sequence=1)), (1, b"data: cut")], ending=None)
    async with looking(tape.close(killed=True)) as looker:
        _, told = await looker.get("/api/recording")
        rows = await looker.lines("/api/rows?exchange=1")

    assert (told["ended_ns"], told["live"]) == (None, False)
    assert [row["row"] for row in rows] == ["exchange", "event", "cut", "end"]
    assert rows[-1]["ending"] == Ending.OPEN


_KILLED = """
import os, signal, sys
from wiretape.observations import BytesArrived, RequestStarted, ResponseStarted, Side
from wiretape.recording import Writer

writer = Writer.create(sys.argv[1], upstream="http://service.test")
writer.feed([
    RequestStarted(1, 1, "127.0.0.1", "GET", "http", "service.test", "/v1/sessions/s1/events/stream", "HTTP/1.1", ()),
    ResponseStarted(1, 2, 200, "", "HTTP/1.1", (("content-type", "text/event-stream"),)),
    BytesArrived(1, Side.RESPONSE, 0, b"data: {}\\n\\n", (10,), (3,)),
])
writer.commit()
print("recorded", flush=True)
sys.stdin.read()
"""


async def test_a_recorder_that_is_killed_was_live_until_then(tmp_path, looking):
    path = tmp_path / "run.db"
    recorder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _KILLED, str(path)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    await recorder.stdout.readline()
    async with looking(path) as looker:
        assert (await looker.get("/api/recording"))[1]["live"]
        recorder.kill()
        await recorder.wait()
        assert not (await looker.get("/api/recording"))[1]["live"]
        rows = await looker.lines("/api/rows?exchange=1")

    assert [row["row"] for row in rows] == ["exchange", "event", "end"]


async def test_a_recording_that_is_being_written_is_live(tape, message, looking):
    tape.exchange(chunks=[(5, message("run.started", id="e1", sequence=1))], ending=None)
    tape.save()
    async with looking(tape.path) as looker:
        assert (await looker.get("/api/recording"))[1]["live"]
        tape.close()
        assert not (await looker.get("/api/recording"))[1]["live"]


async def test_recorded_text_stays_data(tape, message, looking):
    evil = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e\u2028"
    tape.exchange(
        f"/v1/sessions/s1/events/stream?{evil}",
        [(1, message("x.y", id=evil.replace("\x1b", ""), text=evil)), (1, b'data: "\\ud800 \xff\xfe"\n\n')],
    )
    async with looking(tape.close()) as looker, looker.session.get("/api/rows?exchange=1") as answer:
        text = await answer.text()

    assert not set(text) & set("\x1b\u202e\u2028")
    assert [json.loads(line)["row"] for line in text.splitlines()] == ["exchange", "event", "event", "end"]


async def test_a_damaged_recording_is_one_sentence_also_in_the_middle(tape, message, looking):
    tape.exchange(chunks=[(1, message("message.completed", id=f"e{n}", text="x" * 1000)) for n in range(100)])
    path = tape.close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE segment SET chunks = '[1]' WHERE id = (SELECT max(id) FROM segment)")
    async with looking(path) as looker:
        rows = await looker.lines("/api/rows?exchange=1")

    assert "is damaged" in rows[-1]["error"]["message"]
    assert [row["row"] for row in rows[:3]] == ["exchange", "event", "event"]


async def test_a_recording_that_is_gone_is_one_sentence(tape, looking):
    path = tape.close()
    async with looking(path) as looker:
        path.unlink()
        assert await looker.error("/api/recording") == (500, f"There is no file {path}.")


async def test_one_who_leaves_early_stops_the_work(tape, message, looking):
    tape.exchange(chunks=[(0, message("message.completed", id=f"e{n}", text="x" * 1000)) for n in range(10_000)])
    async with looking(tape.close()) as looker:
        async with looker.session.get("/api/rows?exchange=1") as answer:
            await answer.content.readline()
            (reader,) = [thread for thread in threading.enumerate() if thread.name == "reader"]
            answer.close()
        await asyncio.to_thread(reader.join, 10)
        assert not reader.is_alive()


def test_rows_are_written_quickly_as_they_are_slowly(session):
    with open_recording(session) as recording:
        for exchange in recording.exchanges():
            for row in timeline.rows(recording, exchange, ()):
                assert jsonlines.row_text(7, row) == jsonlines.dump(jsonlines.row(7, row))
