"""A replay driven by way of the debugger, while a client waits for its stream."""

import asyncio
import json
from contextlib import suppress

import pytest
from aiohttp import ClientSession

from wiretape.errors import InputError
from wiretape_inspect.debugging.forwarding import Replay
from wiretape_replay import ReplayOptions, serve_replay

MARK = {"X-Wiretape-Debug": "1"}
STREAM = "/v1/sessions/s1/events/stream?event_deltas=true"


@pytest.fixture
async def replay(session):
    async with serve_replay(session, ReplayOptions(paused=True)) as playing:
        yield playing


@pytest.fixture
async def driver(session, replay, looking):
    """A page that drives the replay."""
    async with looking(session, Replay.at(replay.url, replay.token)) as looker:
        yield looker


async def send(looker, name, fields=None, method="POST", headers=MARK):
    body = json.dumps(fields).encode() if fields is not None else b""
    async with looker.session.request(method, f"/api/replay/{name}", data=body, headers=headers) as answer:
        assert answer.content_type == "application/json"
        return answer.status, json.loads(await answer.text())


async def test_the_page_stops_a_client_at_a_breakpoint_and_lets_it_go_on(driver, replay):
    async with (
        ClientSession(replay.url, headers={"Authorization": "Bearer key"}) as client,
        client.get(STREAM) as stream,
    ):
        await send(driver, "breakpoints", {"type": "tool.*"})
        await send(driver, "resume")
        status, told = await send(driver, "wait", {"until": "breakpoint", "timeout_s": 20})
        assert (status, told["reached"], told["sessions"][0]["status"]) == (200, True, "breakpoint")
        assert b"run.started" in await stream.content.readuntil(b"\n\n")
        _, told = await send(driver, "step")
        assert told["stepped"]["type"] == "tool.started"
        assert b"tool.started" in await stream.content.readuntil(b"\n\n")


async def test_state_and_breakpoints_are_told_and_taken_away(driver, replay):
    assert (await driver.get("/api/recording"))[1]["replay"] == {"url": replay.url}
    await send(driver, "breakpoints", {"sequence": 2})
    assert (await driver.get("/api/replay/breakpoints"))[1]["breakpoints"]["s1"][0]["sequence"] == 2
    await send(driver, "breakpoints", {"sequence": 2}, "DELETE")
    assert (await driver.get("/api/replay/state?session=s1"))[1]["sessions"][0]["breakpoints"] == []
    for name, fields in (("seek", {"sequence": 2}), ("pause", None), ("reset", None)):
        assert (await send(driver, name, fields))[0] == 200


async def test_what_happens_to_the_playhead_is_told_as_it_happens(driver):
    async with driver.session.get("/api/replay/events") as events:
        assert events.content_type == "text/event-stream"
        first = await events.content.readuntil(b"\n\n")
        await send(driver, "step")
        second = await events.content.readuntil(b"\n\n")
    assert (b'"place": 0' in first, b'"place": 1' in second) == (True, True)


async def test_errors_of_the_replay_are_passed_on(driver):
    status, told = await send(driver, "seek", {"sequence": 99})
    assert status == 400
    assert "99" in told["error"]["message"]
    assert (await send(driver, "step", {"session": "other"}))[0] == 404


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
        ("GET", "advance", {}, 404),
        ("GET", "..%2fv1", {}, 404),
    ],
)
async def test_what_may_not_be_done_is_not_passed_on(driver, replay, method, name, headers, status):
    found, told = await send(driver, name, None, method, headers)

    assert found == status
    assert isinstance(told["error"]["message"], str)
    assert replay.control.session_state(None).place == 0


async def test_the_token_of_the_replay_is_never_told(driver, replay):
    for path in ("/", "/api/recording", "/api/replay/state", "/api/replay/breakpoints"):
        async with driver.session.get(path) as answer:
            assert replay.token not in await answer.text()
            assert replay.token not in str(answer.headers)


async def test_a_replay_that_is_gone_is_one_sentence(session, looking, unused_tcp_port):
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with looking(session, Replay.at(url, "token")) as looker:
        status, said = await looker.error("/api/replay/state")

    assert status == 502
    assert said.startswith(f"The replay at {url} cannot be reached")


async def test_what_is_asked_of_the_replay_goes_over_one_connection_that_ends_with_the_debugger(session, looking):
    connections, ended = [], asyncio.Event()

    async def answer(reader, writer):
        connections.append(writer)
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        ended.set()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, looking(session, Replay.at(f"http://127.0.0.1:{port}", "token")) as looker:
        for _ in range(3):
            assert await looker.get("/api/replay/state") == (200, {})
        assert not ended.is_set()
    await ended.wait()

    assert len(connections) == 1


async def test_another_token_is_not_taken_for_a_page_that_is_not_known(session, replay, looking):
    async with looking(session, Replay.at(replay.url, "another")) as looker:
        status, said = await looker.error("/api/replay/state")

    assert status == 502
    assert "does not take our token" in said


@pytest.mark.parametrize(
    "url", ["", "x", "https://127.0.0.1:1", "http://evil.example", "http://127.0.0.1:1/x", "http://127.0.0.1:x"]
)
def test_an_address_that_is_no_replay_of_this_machine_is_refused(url):
    with pytest.raises(InputError, match="is no URL of a replay"):
        Replay.at(url, "token")


@pytest.mark.parametrize("token", [None, "", "\n", "é"])
def test_a_replay_without_a_usable_token_is_refused(token):
    with pytest.raises(InputError, match="WIRETAPE_TOKEN"):
        Replay.at("http://127.0.0.1:1", token)
