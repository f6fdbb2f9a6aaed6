"""The control API over HTTP: its operations, its errors, and who may use it."""

import asyncio
import json

import pytest
import staging
from tables import read_tables

from wiretape.observations import Ending

TABLES = read_tables(__file__)

STATE = "/_wiretape/state"


@pytest.fixture
def entries() -> list:
    return [
        staging.event(1, 1, "run.started"),
        staging.delta("hel", 2),
        staging.event(2, 1000, keys={"tool_call": "t1"}, findings=("SEQ001",)),
        staging.event(3, 2000, "tool.completed", keys={"tool_call": "t1"}),
    ]


@pytest.fixture
def play(tmp_path):
    return lambda entries, **how: staging.playing(tmp_path, entries, **how)


async def get(stage, target: str, headers: str, *, method: str = "GET") -> tuple[int, bytes, dict]:
    """Status, head and document of the response to a request with exactly these headers."""
    client = await stage.connect()
    client.send(f"{method} {target} HTTP/1.1\r\n{headers}Content-Length: 0\r\n\r\n".encode("latin-1"))
    head = await client.begun()
    return int(head.split()[1]), head, json.loads(await client.body())


async def test_state_contains_the_playhead_and_the_connected_streams(play, entries):
    async with play(entries, paused=True) as stage:
        await stage.stream(cursor="", deltas=True)
        await stage.stream(cursor="e9")
        status, state = await stage.ask_control("state")

    (session,) = state.pop("channels")
    assert status == 200
    requests = {"streams": 1, "refused": 1, "recorded": 0, "misses": []}
    assert state == {"speed": "max", "requests": requests, "held": []}
    assert session.pop("next") == {
        "position": 0,
        "kind": "durable",
        "time_ms": 1.0,
        "type": "run.started",
        "sequence": 1,
        "id": "e1",
        "keys": {},
        "ending": None,
        "source": "7:1",
        "findings": [],
    }
    assert session == {
        "channel": "s1",
        "status": "paused",
        "position": 0,
        "length": 4,
        "time_ms": 0.0,
        "paused": True,
        "stopped": True,
        "at_end": False,
        "breakpoints": [],
        "stopped_by": None,
        "streams": [{"cursor": None, "deltas": True, "position": 0}],
        "playheads": 1,
    }


async def test_state_lists_requests_without_a_match(play, entries):
    async with play(entries) as stage:
        await (await stage.ask("/v1/nothing?api_key=secret")).begun()
        _, state = await stage.ask_control("state")

    (miss,) = state["requests"]["misses"]
    assert (miss["method"], miss["path"]) == ("GET", "/v1/nothing")
    assert "recorded" in miss["message"]


async def test_a_stream_follows_the_playhead_that_is_moved_over_http(play, entries):
    async with play(entries, paused=True) as stage:
        client = await stage.stream(deltas=True)

        _, stepped = await stage.ask_control("step", {"to": "event"})
        assert await client.chunk() == entries[0].data
        assert (stepped["stepped"]["position"], stepped["stepped"]["id"]) == (0, "e1")
        _, stepped = await stage.ask_control("step", {"to": "finding"})
        assert await client.chunks(2) == [entries[1].data, entries[2].data]
        assert (stepped["stepped"]["sequence"], stepped["channels"][0]["position"]) == (2, 3)
        _, state = await stage.ask_control("resume", {})
        assert state["channels"][0]["status"] == "end"
        assert await client.chunk() == entries[3].data


@pytest.mark.parametrize(
    ("body", "position", "time_ms"),
    [
        ({"sequence": 2}, 3, 1000),
        ({"event": "e1"}, 1, 1),
        ({"time_s": 1.5}, 3, 1500),
        ({"time_s": 0}, 0, 0),
        ({"time_s": 99}, 4, 2000),
        ({"position": 2}, 2, 2),
        ({"position": 0}, 0, 0),
        ({"end": True}, 4, 2000),
    ],
)
async def test_seek_goes_just_after_its_target(play, entries, body, position, time_ms):
    async with play(entries, speed=1, paused=True) as stage:
        status, state = await stage.ask_control("seek", body)

    assert (status, state["channels"][0]["position"], state["channels"][0]["time_ms"]) == (200, position, time_ms)


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("pause", b"{", "The request body is not valid JSON."),
        ("pause", b"[]", "The request body is not a JSON object"),
        ("pause", b'"x"', "The request body is not a JSON object"),
        ("pause", b"\xff\xfe\x00", "The request body is not valid JSON."),
        ("pause", b"[" * 100_000, "The request body is not valid JSON."),
        ("pause", b'{"channel": 1}', "pause: channel: expected a string, got 1."),
        ("pause", b'{"to": "event"}', "pause: to: unknown key; use channel."),
        ("seek", b'{"time_s": NaN}', "The request body is not valid JSON."),
        ("seek", b'{"time_s": 1e999}', "seek: time_s: expected a number of at most 1000000000, got inf."),
        ("seek", b'{"sequence": ' + b"9" * 5000 + b"}", "The request body is not valid JSON."),
        (
            "step",
            b'{"to": "finding!"}',
            "step: to: expected one of event, durable, finding, got 'finding!'; did you mean finding?",
        ),
        ("step", b'{"to": null}', "step: to: expected a string, got null."),
        ("step", b'{"count": 0}', "step: count: expected a whole number of at least 1, got 0."),
        (
            "wait",
            b'{"until": "christmas"}',
            "wait: until: expected one of stopped, breakpoint, end, connected, held, got 'christmas'.",
        ),
        ("wait", b'{"timeout_s": -1}', "wait: timeout_s: expected a number of at least 0, got -1."),
        ("wait", b'{"timeout_s": 601}', "wait: timeout_s: expected a number of at most 600, got 601."),
        ("seek", b"{}", "seek: expected exactly one of sequence, event, time_s, position or end."),
        ("seek", b'{"sequence": 1, "end": true}', "seek: expected exactly one of"),
        ("seek", b'{"end": false}', "seek: expected exactly one of"),
        ("seek", b'{"sequence": 4}', "no event with the sequence number 4"),
        ("seek", b'{"event": "e4\\u001b"}', "no durable event with the id e4\\x1b"),
        ("seek", b'{"position": 5}', "Invalid position 5: expected a number from 0 to 4."),
        ("seek", b'{"position": -1}', "Invalid position -1: expected a number from 0 to 4."),
        ("seek", b'{"sequence": 1.0}', "seek: sequence: expected a whole number, got 1.0."),
        ("seek", b'{"end": 1}', "seek: end: expected true or false, got 1."),
        ("seek", b'{"sequenze": 1}', "seek: sequenze: unknown key; did you mean sequence?"),
        ("breakpoints", b"{}", "A breakpoint needs a condition"),
        ("breakpoints", b'{"sequence": "1"}', "breakpoints: sequence: expected a whole number, got '1'."),
    ],
)
async def test_an_invalid_body_is_refused_in_one_sentence(play, entries, name, body, message):
    async with play(entries, paused=True) as stage:
        status, document = await stage.ask_control(name, body)

    assert (status, set(document), set(document["error"])) == (400, {"error"}, {"code", "message", "request_id"})
    assert document["error"]["code"] == "wiretape_invalid_request"
    assert message in document["error"]["message"]


async def test_a_body_that_is_too_long_is_refused(play, entries):
    async with play(entries) as stage:
        status, document = await stage.ask_control("pause", b" " * 2_000_000)

    assert (status, document["error"]["message"]) == (413, "The request body is too long.")


async def test_breakpoints_stop_the_playhead_and_can_be_listed_and_removed(play, entries):
    async with play(entries, paused=True) as stage:
        await stage.ask_control("breakpoints", {"type": "tool.*", "keys": {"tool_call": "t1"}})
        await stage.ask_control("breakpoints", {"type": "tool.*", "keys": {"tool_call": "t1"}})
        await stage.ask_control("breakpoints", {"sequence": 3})
        _, listed = await stage.ask_control("breakpoints")
        tool = {"type": "tool.*", "sequence": None, "keys": {"tool_call": "t1"}, "finding": None}
        assert listed == {"breakpoints": {"s1": [tool, {**dict.fromkeys(tool), "sequence": 3}]}}

        await stage.stream()
        _, state = await stage.ask_control("resume", {})
        (session,) = state["channels"]
        assert (session["status"], session["stopped_by"], session["next"]["id"]) == ("breakpoint", tool, "e2")
        await stage.ask_control("breakpoints", {"sequence": 3}, method="DELETE")
        _, refused = await stage.ask_control("breakpoints", {"sequence": 3}, method="DELETE")
        assert refused["error"]["message"] == "There is no such breakpoint."
        _, state = await stage.ask_control("breakpoints", {}, method="DELETE")
        assert state["channels"][0]["breakpoints"] == []
        _, state = await stage.ask_control("resume", {})
        assert state["channels"][0]["at_end"]


async def test_reset_resets_everything(play, entries):
    async with play(entries, paused=True) as stage:
        done = []
        stage.control.on_reset.append(lambda: done.append("faults"))
        client = await stage.stream()
        await stage.ask_control("breakpoints", {"sequence": 3})
        await stage.ask_control("seek", {"end": True})
        await client.chunks(3)
        status, state = await stage.ask_control("reset", {})

        assert (status, state["channels"][0]["position"], done) == (200, 0, ["faults"])
        assert state["channels"][0]["breakpoints"] != []
        assert await client.rest() == (b"", "closed")


async def test_reset_of_one_session_resets_nothing_else(play, entries):
    async with play({"s1": entries, "s2": entries}, paused=True) as stage:
        done = []
        stage.control.on_reset.append(lambda: done.append("faults"))
        await stage.ask_control("seek", {"channel": "s1", "end": True})
        await stage.ask_control("seek", {"channel": "s2", "end": True})
        await stage.ask_control("reset", {"channel": "s1"})
        _, state = await stage.ask_control("state")

        assert ([session["position"] for session in state["channels"]], done) == ([0, 4], [])


async def test_step_seek_and_wait_need_a_session_if_there_are_several(play, entries):
    async with play({"s1": entries, "s2": entries}, paused=True) as stage:
        for name, body in (("step", {}), ("seek", {"end": True}), ("wait", {})):
            status, document = await stage.ask_control(name, body)
            assert (status, document["error"]["message"]) == (400, "There are several channels: choose one (s1, s2).")
        for name, body in (("pause", {}), ("resume", {}), ("breakpoints", {"sequence": 1}), ("reset", {})):
            status, document = await stage.ask_control(name, body)
            assert [session["channel"] for session in document["channels"]] == ["s1", "s2"]
        status, document = await stage.ask_control("step", {"channel": "s2"})
        assert [(session["channel"], session["position"]) for session in document["channels"]] == [("s2", 1)]
        _, document = await stage.ask_control("state?channel=s1")
        assert [(session["channel"], session["position"]) for session in document["channels"]] == [("s1", 0)]


@pytest.mark.parametrize("name", ["pause", "resume", "step", "seek", "wait", "reset", "breakpoints"])
async def test_an_unknown_session_is_not_found(play, entries, name):
    async with play(entries) as stage:
        status, document = await stage.ask_control(name, {"channel": "s9\x1b", **_needed(name)})

    assert (status, document["error"]["code"]) == (404, "wiretape_not_found")
    assert document["error"]["message"] == "Unknown channel s9\\x1b: use s1."


def _needed(name: str) -> dict:
    return {"seek": {"end": True}, "breakpoints": {"sequence": 1}}.get(name, {})


async def test_a_replay_without_playheads_has_a_state_and_a_reset(play):
    async with play({}) as stage:
        assert (await stage.ask_control("state"))[1]["channels"] == []
        assert (await stage.ask_control("reset", {}))[0] == 200
        status, document = await stage.ask_control("pause", {})

    assert status == 400
    assert document["error"]["message"].startswith("There is no playhead")


@pytest.mark.parametrize(
    ("target", "method", "status", "code"),
    [
        ("/_wiretape", "GET", 404, "wiretape_not_found"),
        ("/_wiretape/", "GET", 404, "wiretape_not_found"),
        ("/_wiretape/nope", "POST", 404, "wiretape_not_found"),
        ("/_wiretape/state/", "GET", 404, "wiretape_not_found"),
        ("/_wiretape/state", "POST", 405, "wiretape_method_not_allowed"),
        ("/_wiretape/pause", "GET", 405, "wiretape_method_not_allowed"),
        ("/_wiretape/pause", "OPTIONS", 405, "wiretape_method_not_allowed"),
        ("/_wiretape/breakpoints", "PATCH", 405, "wiretape_method_not_allowed"),
        ("/_wiretape/events", "DELETE", 405, "wiretape_method_not_allowed"),
    ],
)
async def test_unknown_paths_and_methods_get_an_envelope(play, entries, target, method, status, code):
    async with play(entries) as stage:
        headers = f"Host: {stage.host}\r\nX-Wiretape-Token: {staging.TOKEN}\r\nAccept: text/html\r\n"
        seen, head, document = await get(stage, target, headers, method=method)

    assert (seen, document["error"]["code"]) == (status, code)
    assert b"\r\nContent-Type: application/json" in head
    assert (b"\r\nAllow: " in head) == (status == 405)


async def test_requests_to_loopback_names_with_the_token_are_accepted(play, entries):
    async with play(entries) as stage:
        port = stage.host.partition(":")[2]
        token = f"X-Wiretape-Token: {staging.TOKEN}\r\n"
        for host in (stage.host, f"localhost:{port}", f"LocalHost:{port}", "127.9.9.9", "[::1]:80"):
            for origin in ("", f"Origin: http://{host}\r\n"):
                assert (await get(stage, STATE, f"Host: {host}\r\n{origin}{token}"))[0] == 200


@pytest.mark.parametrize("host", TABLES["other-hosts"])
async def test_requests_to_other_host_names_are_refused(play, entries, host):
    """DNS rebinding: a page of evil.test sends requests to its own name, which now resolves to this machine."""
    async with play(entries) as stage:
        status, _, document = await get(stage, STATE, f"Host: {host}\r\nX-Wiretape-Token: {staging.TOKEN}\r\n")

    assert (status, document["error"]["code"]) == (403, "wiretape_forbidden")


async def test_two_host_headers_are_refused(play, entries):
    async with play(entries) as stage:
        hosts = f"Host: {stage.host}\r\nHost: {stage.host}\r\n"
        client = await stage.connect()
        client.send(f"GET {STATE} HTTP/1.1\r\n{hosts}X-Wiretape-Token: {staging.TOKEN}\r\n\r\n".encode())

        assert (await client.begun()).split()[1] in {b"400", b"403"}


@pytest.mark.parametrize(
    "origin",
    ["http://evil.test", "null", "http://localhost:1", "https://{host}", "http://{host}.evil.test", "{host}", ""],
)
async def test_pages_of_other_origins_are_refused(play, entries, origin):
    async with play(entries) as stage:
        origin = origin.format(host=stage.host)
        headers = f"Host: {stage.host}\r\nOrigin: {origin}\r\nX-Wiretape-Token: {staging.TOKEN}\r\n"
        status, head, document = await get(stage, STATE, headers)

    assert (status, document["error"]["code"]) == (403, "wiretape_forbidden")
    assert b"access-control" not in head.lower()


@pytest.mark.parametrize(
    "token",
    [
        "",
        "X-Wiretape-Token:\r\n",
        "X-Wiretape-Token: let-me-i\r\n",
        "X-Wiretape-Token: \xe4\r\n",
        "X-Wiretape-Token: let-me-in\r\nX-Wiretape-Token: let-me-in\r\n",
        "Authorization: Bearer let-me-in\r\n",
    ],
)
@pytest.mark.parametrize("target", [STATE, "/_wiretape/events", "/_wiretape/nope"])
async def test_requests_without_the_token_are_refused(play, entries, target, token):
    async with play(entries) as stage:
        status, head, document = await get(stage, target, f"Host: {stage.host}\r\n{token}")

    assert (status, document["error"]["code"]) == (401, "wiretape_token_required")
    assert b"\r\nWWW-Authenticate: X-Wiretape-Token\r\n" in head
    assert "let-me-in" not in json.dumps(document)


async def test_wait_returns_when_the_playhead_is_at_a_breakpoint(play, entries):
    async with play(entries, speed=1000) as stage:
        await stage.ask_control("breakpoints", {"sequence": 3})
        waiting = asyncio.ensure_future(stage.ask_control("wait", {}))
        connected = asyncio.ensure_future(stage.ask_control("wait", {"until": "connected"}))
        client = await stage.stream()

        _, document = await connected
        assert (document["reached"], len(document["channels"][0]["streams"])) == (True, 1)
        _, document = await waiting
        assert (document["reached"], document["channels"][0]["next"]["id"]) == (True, "e3")
        assert await client.chunks(2) == [entries[0].data, entries[2].data]


@pytest.mark.parametrize("until", ["stopped", "breakpoint", "end", "connected"])
async def test_wait_reports_that_the_timeout_expired(play, entries, until):
    """A playhead that waits for its first stream is not stopped."""
    async with play(entries, speed=1) as stage:
        status, document = await stage.ask_control("wait", {"until": until, "timeout_s": 0.01})

    assert (status, document["reached"], document["channels"][0]["status"]) == (200, False, "waiting")


def _asked(body: bytes) -> str:
    return f"X-Wiretape-Token: let-me-in\r\nContent-Length: {len(body)}\r\n"


async def _message(client) -> tuple[int, dict]:
    """The next message of the feed: its id and its data."""
    lines = (await client.chunk()).decode().splitlines()
    fields = dict(line.split(": ", 1) for line in lines if line)
    assert fields["event"] == "playhead"
    return int(fields["id"]), json.loads(fields["data"])


async def test_the_feed_sends_the_state_and_then_every_change(play, entries):
    async with play(entries, paused=True) as stage:
        feed = await stage.ask("/_wiretape/events", _asked(b""))
        assert b"Content-Type: text/event-stream\r\n" in await feed.begun()
        first_id, state = await _message(feed)
        assert (state["channel"], state["position"], state["streams"], state["status"]) == ("s1", 0, 0, "paused")
        assert state["next"] == {"kind": "durable", "type": "run.started", "sequence": 1, "id": "e1"}

        await stage.stream()
        _, state = await _message(feed)
        assert state["streams"] == 1
        stage.control.seek(position=4)
        second_id, state = await _message(feed)
        assert (state["status"], state["next"], state["time_ms"]) == ("end", None, 2000.0)
        assert second_id > first_id

        async with asyncio.timeout(45):
            stage.control.changes.close()
            while await feed.chunk():
                pass


async def test_the_feed_stops_when_its_reader_leaves(play, entries):
    async with play(entries) as stage:
        feed = await stage.ask("/_wiretape/events", _asked(b""))
        await feed.begun()
        await _message(feed)
        await staging.until(lambda: stage.control.changes.waiting)
        feed.leave()
        await staging.until(lambda: not stage.control.changes.waiting)


async def test_step_moves_the_latest_playhead_of_a_session_and_resume_moves_all(play, entries):
    async with play(entries, own=True, paused=True) as stage:
        first, second = await stage.stream(key="a"), await stage.stream(key="b")
        _, state = await stage.ask_control("step", {})
        assert (state["channels"][0]["playheads"], len(state["channels"][0]["streams"])) == (2, 2)
        assert await second.chunk() == entries[0].data

        await stage.ask_control("resume", {})
        assert await first.chunk() == entries[0].data


async def test_ids_that_other_json_encoders_refuse_are_sent(play):
    """Lone surrogates and numbers beyond 64 bits are JSON all the same."""
    odd = staging.event(2**80, 1, keys={"tool_call": "\ud800"})
    async with play([odd, staging.ending(Ending.COMPLETE, 2)], paused=True) as stage:
        _, state = await stage.ask_control("state")
        assert state["channels"][0]["next"]["keys"] == {"tool_call": "\ud800"}
        status, state = await stage.ask_control("seek", {"sequence": 2**80})
        assert (status, state["channels"][0]["next"]["ending"]) == (200, "complete")
