"""A replay driven through the debugger while a client waits for its stream."""

import asyncio
import json
from contextlib import suppress

import pytest
from aiohttp import ClientSession
from for_each import for_each

from wiretape.errors import InputError
from wiretape_inspect.debugger.replay_forwarder import ReplayAddress
from wiretape_replay import ReplayOptions, serve_replay

MARK = {"X-Wiretape-Debug": "1"}
STREAM = "/v1/sessions/s1/events/stream?event_deltas=true"


@pytest.fixture
async def replay(session):
    async with serve_replay(session, ReplayOptions(paused=True)) as playing:
        yield playing


@pytest.fixture
async def driver(session, replay, open_debugger):
    """A page that drives the replay."""
    async with open_debugger(session, ReplayAddress.parse(replay.url, replay.token)) as client:
        yield client


async def send(client, name, fields=None, method="POST", headers=MARK):
    body = json.dumps(fields).encode() if fields is not None else b""
    async with client.session.request(method, f"/api/replay/{name}", data=body, headers=headers) as response:
        assert response.content_type == "application/json"
        return response.status, json.loads(await response.text())


async def test_page_stops_a_stream_at_a_breakpoint_and_steps_it(driver, replay):
    async with (
        ClientSession(replay.url, headers={"Authorization": "Bearer key"}) as client,
        client.get(STREAM) as stream,
    ):
        await send(driver, "breakpoints", {"type": "tool.*"})
        await send(driver, "resume")
        status, document = await send(driver, "wait", {"until": "breakpoint", "timeout_s": 20})
        assert (status, document["reached"], document["channels"][0]["status"]) == (200, True, "breakpoint")
        assert b"run.started" in await stream.content.readuntil(b"\n\n")
        _, document = await send(driver, "step")
        assert document["stepped"]["type"] == "tool.started"
        assert b"tool.started" in await stream.content.readuntil(b"\n\n")


async def test_page_reads_state_and_sets_and_removes_breakpoints(driver, replay):
    assert (await driver.get("/api/recording"))[1]["replay"] == {"url": replay.url}
    await send(driver, "breakpoints", {"sequence": 2})
    assert (await driver.get("/api/replay/breakpoints"))[1]["breakpoints"]["s1"][0]["sequence"] == 2
    await send(driver, "breakpoints", {"sequence": 2}, "DELETE")
    assert (await driver.get("/api/replay/state?channel=s1"))[1]["channels"][0]["breakpoints"] == []
    for name, fields in (("seek", {"sequence": 2}), ("pause", None), ("reset", None)):
        assert (await send(driver, name, fields))[0] == 200


async def test_events_of_the_playhead_are_forwarded(driver):
    async with driver.session.get("/api/replay/events") as events:
        assert events.content_type == "text/event-stream"
        first = await events.content.readuntil(b"\n\n")
        await send(driver, "step")
        second = await events.content.readuntil(b"\n\n")
    assert (b'"position": 0' in first, b'"position": 1' in second) == (True, True)


async def test_errors_of_the_replay_are_forwarded(driver):
    status, document = await send(driver, "seek", {"sequence": 99})
    assert status == 400
    assert "99" in document["error"]["message"]
    assert (await send(driver, "step", {"channel": "other"}))[0] == 404


@pytest.mark.parametrize(
    ("method", "name", "headers", "status"),
    [
        ("POST", "step", {}, 403),
        ("POST", "step", {"X-Wiretape-Debug": "0"}, 403),
        ("POST", "step", MARK | {"Origin": "http://evil.example"}, 403),
        ("DELETE", "breakpoints", {}, 403),
        ("GET", "step", {}, 405),
        ("PUT", "step", MARK, 405),
        ("POST", "state", MARK, 405),
        ("GET", "advance", {}, 405),
        ("GET", "..%2fv1", {}, 404),
    ],
)
async def test_requests_that_are_not_allowed_are_not_forwarded(driver, replay, method, name, headers, status):
    found, document = await send(driver, name, None, method, headers)
    assert found == status
    assert isinstance(document["error"]["message"], str)
    assert replay.control.channel_state().position == 0


async def test_control_token_never_reaches_the_page(driver, replay):
    for path in ("/", "/api/recording", "/api/replay/state", "/api/replay/breakpoints"):
        async with driver.session.get(path) as response:
            assert replay.token not in await response.text()
            assert replay.token not in str(response.headers)


async def test_unreachable_replay_is_reported_in_one_sentence(session, open_debugger, unused_tcp_port):
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with open_debugger(session, ReplayAddress.parse(url, "token")) as client:
        status, message = await client.error("/api/replay/state")
    assert status == 502
    assert message.startswith(f"The replay at {url} cannot be reached")


async def test_requests_share_one_connection_that_closes_with_the_debugger(session, open_debugger):
    connections, ended = [], asyncio.Event()

    async def response(reader, writer):
        connections.append(writer)
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        ended.set()
        writer.close()

    server = await asyncio.start_server(response, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, open_debugger(session, ReplayAddress.parse(f"http://127.0.0.1:{port}", "token")) as client:
        for _ in range(3):
            assert await client.get("/api/replay/state") == (200, {})
        assert not ended.is_set()
    await ended.wait()
    assert len(connections) == 1


async def test_refused_control_token_is_not_a_refused_cookie(session, replay, open_debugger):
    async with open_debugger(session, ReplayAddress.parse(replay.url, "another")) as client:
        status, message = await client.error("/api/replay/state")
    assert status == 502
    assert "refused the control token" in message


@for_each("url", ["", "x", "https://127.0.0.1:1", "http://evil.example", "http://127.0.0.1:1/x", "http://127.0.0.1:x"])
def test_url_that_is_not_a_replay_on_this_machine_is_refused(url):
    with pytest.raises(InputError, match="Invalid replay URL"):
        ReplayAddress.parse(url, "token")


@for_each("token", [None, "", "\n", "é"])
def test_missing_or_invalid_control_token_is_refused(token):
    with pytest.raises(InputError, match="control token"):
        ReplayAddress.parse("http://127.0.0.1:1", token)
