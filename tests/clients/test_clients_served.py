"""Other people's clients follow a scenario with three drops and a resync: none loses a durable event.

After each drop the run waits until the client is back, so that every client meets all of them, however long it takes to
reconnect: the service sends no `retry`, so those that reconnect by themselves take the 3 s that they take without one.
All of them are at it at the same time.
"""

import asyncio
import json
from dataclasses import replace

import aiohttp
import clients
import pytest

from wiretape.sse import FrameKind, Parser
from wiretape_contracts.agent_sessions.stand_in.assumptions import default_settings
from wiretape_contracts.agent_sessions.stand_in.event_emitter import generate_id
from wiretape_replay.stand_in import ServeOptions, serve_scenario

SCENARIO = """
title = "Three drops and a resync, each of which waits for the client"

[[run]]
steps = [
  { say = "One." }, { end-stream = "close" }, { tool = "look" }, { wait-for-input = true },
  { say = "Two." }, { end-stream = "reset" }, { tool = "look" }, { wait-for-input = true },
  { say = "Three." }, { end-stream = "end" }, { tool = "look" }, { wait-for-input = true },
  { think = "Are they all there?" }, { resync = true }, { say = "They are." },
]
"""
PATIENCE_S = 60
"""Reconnecting three times takes 9 s, and longer on a busy machine."""
CONNECTIONS = 4
EVENTS = 18
"""Durable ones."""


async def post(http, path):
    async with http.post(path, json={"input": "go on"}) as response:
        assert response.status < 300, await response.text()
        return await response.json()


async def play(http, session, connected):
    """Start the run once the client is connected; continue it whenever it waits and the client is back."""
    await connected.get()
    run = f"{session}/runs/{(await post(http, f'{session}/runs'))['id']}"
    for _ in range(CONNECTIONS - 1):
        await connected.get()
        while True:
            async with http.get(run) as response:
                if (await response.json())["status"] == "waiting_for_input":
                    break
        await post(http, f"{run}/resume")


async def stored(http, session):
    """All durable events of a session after its run."""
    parser, ids = Parser(), []
    async with http.get(f"{session}/events/stream") as response:
        async for data in response.content.iter_any():
            for frame in parser.feed(data):
                if frame.kind is FrameKind.MESSAGE:
                    ids.append(frame.id)
                    if json.loads(frame.data)["type"] == "session.status_idle":
                        return ids
    raise AssertionError("the stream ended before the run")


async def follow(http, url, connected, way):
    """How a client handled a session of its own, and how often it connected."""
    session_id = (await post(http, "/v1/sessions"))["id"]
    session = f"/v1/sessions/{session_id}"
    came = connected[session] = Came()
    playing = asyncio.create_task(play(http, session, came.queue))
    last = generate_id("evt", 0, session_id, EVENTS)
    heard = await way(clients.Told(f"{url}{session}/events/stream?event_deltas=true", last))
    playing.cancel()
    ids = await stored(http, session)
    assert (len(ids), ids[-1]) == (EVENTS, last)
    return clients.Outcome.of(heard, ids), came.times, "stream.resync" in {line.get("type") for line in heard}


class Came:
    """How often a client opened its stream."""

    def __init__(self):
        self.queue, self.times = asyncio.Queue(), 0

    def again(self):
        self.times += 1
        self.queue.put_nowait(None)


async def followed(ways):
    """How the clients handled the scenario, by name, all running at the same time."""
    connected = {}

    def log(line):
        path = line.removeprefix("GET ").partition("/events/stream →")
        if path[1] and " session " in path[2] and path[0] in connected:
            connected[path[0]].again()

    settings = default_settings()
    # A browser's EventSource cannot send a key.
    options = ServeOptions(
        clock="virtual", service=replace(settings, access=replace(settings.access, authentication=False))
    )
    async with (
        serve_scenario(SCENARIO, options, log=log) as service,
        aiohttp.ClientSession(service.url) as http,
        asyncio.TaskGroup() as group,
    ):
        tasks = {
            name: group.create_task(follow(http, service.url, connected, way(service.url)))
            for name, way in ways.items()
        }
    return {name: task.result() for name, task in tasks.items()}


async def test_no_client_loses_a_durable_event():
    """npm's and Chromium's EventSource ignore stream.resync and lose nothing by that."""
    if why := next(
        (why for why in [*(client.missing() for client in clients.CLIENTS), clients.no_chromium()] if why), None
    ):
        pytest.skip(why)
    # @microsoft/fetch-event-source takes a stream that ends as it should for the end of all.
    ways = {
        client.name: lambda _, client=client: lambda told: asyncio.to_thread(client.follow, told, PATIENCE_S)
        for client in clients.CLIENTS
        if not client.name.startswith("@microsoft")
    }
    async with clients.chromium() as follow_in:
        ways["Chromium"] = lambda url: lambda told: follow_in(told, url, PATIENCE_S)
        outcomes = await followed(ways)
    assert len(outcomes) == 4
    for name, (outcome, times, resync) in outcomes.items():
        assert (outcome.lost, outcome.repeated, outcome.gave_up) == (0, 0, None), name
        assert times >= CONNECTIONS, f"{name} met {times - 1} drops"
        assert resync, name
