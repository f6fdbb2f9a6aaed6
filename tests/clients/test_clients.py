"""Other people's clients read a replay that breaks its stream: none loses or repeats a durable event.

`make clients` tries every place and every way to break, and Chromium 50 times; here it is one place each.
"""

import asyncio
import os

import clients
import pytest
from programs import find_program

from wiretape_replay.client_verdict.client_checker import ClientChecker

RUNS = int(os.environ.get("WIRETAPE_CHROMIUM_RUNS", "3"))
"""How often Chromium meets each broken connection."""
AT_ONCE = 4
"""Its tabs."""


def resumed_rightly(playing, overtakes=False):
    """Whether the second request continued where the first stream broke.

    An ending that `overtakes` may throw away events that had arrived and had not been handed on.
    """
    first, second = (stream.cursor for stream in playing.player.streams.requests)
    return first is None and (second == "evt_3" or (overtakes and second in {None, "evt_1", "evt_2"}))


@pytest.mark.parametrize("how", ["drop", "reset", "end"])
@pytest.mark.parametrize("name", ["curl", "httpx with httpx-sse", "npm eventsource", "@microsoft/fetch-event-source"])
async def test_a_client_gets_every_durable_event_once(tmp_path, name, how):
    client = next(client for client in clients.CLIENTS if client.name == name)
    if (why := client.missing()) is not None:
        pytest.skip(why)
    path, script, ids = clients.broken(tmp_path, how, after=3, events=6)
    async with clients.served(path, script) as playing:
        heard = await asyncio.to_thread(client.follow, clients.told(playing, ids))
    seen = clients.Outcome.of(heard, ids)
    if (name, how) == ("@microsoft/fetch-event-source", "end"):
        # To it a stream that ends as it should is over.
        assert (seen.lost, seen.repeated) == (3, 0)
        assert seen.gave_up is not None
    else:
        assert (seen.lost, seen.repeated, seen.gave_up) == (0, 0, None)
        assert resumed_rightly(playing, overtakes=how == "reset"), playing.player.streams.requests


async def test_a_client_that_resumes_after_half_an_event_has_a_finding(tmp_path):
    client = next(client for client in clients.CLIENTS if client.name == "@microsoft/fetch-event-source")
    if (why := client.missing()) is not None:
        pytest.skip(why)
    path, script, ids = clients.broken(tmp_path, "cut-id", after=3, events=6)
    checker = ClientChecker()
    async with clients.served(path, script, checker) as playing:
        heard = await asyncio.to_thread(client.follow, clients.told(playing, ids))
    assert clients.Outcome.of(heard, ids).lost == 1
    assert set(checker.attribution.client.codes) == {"CLI002"}


async def test_chromium_gets_every_durable_event_once(tmp_path):
    find_program("chromium")
    async with clients.chromium() as follow:
        for how in ("drop", "reset", "end"):
            path, script, ids = clients.broken(tmp_path, how, after=3, events=6)
            async with clients.served(path, script) as playing:
                seen = clients.Outcome.of(await follow(clients.told(playing, ids)), ids)
            assert (seen.lost, seen.repeated, seen.gave_up) == (0, 0, None), how
            # Chunked and cut short is an error to Chromium, which now and then hands it on before what had come:
            # so it does with every server, with all bytes read off the socket (seen in 13 of 144 streams under load).
            assert resumed_rightly(playing, overtakes=how != "end"), (how, playing.player.streams.requests)


@pytest.mark.timeout(30 + 10 * RUNS)
async def test_chromium_breaks_no_rule_when_its_connection_breaks(tmp_path):
    """It may discard what was sent just before, and then resumes after an earlier event, or without a cursor."""
    find_program("chromium")
    turns = asyncio.Semaphore(AT_ONCE)

    async def try_once(follow, how):
        path, script, ids = broken[how]
        checker = ClientChecker()
        async with turns, clients.served(path, script, checker) as playing:
            seen = clients.Outcome.of(await follow(clients.told(playing, ids)), ids)
        assert (seen.lost, seen.repeated, seen.gave_up) == (0, 0, None), how
        assert [finding.message for finding in checker.attribution.client.kept] == [], how
        assert checker.inconclusive.keys() <= {"CLI002"}, "a missing cursor is unknown to be right"

    broken = {how: clients.broken(tmp_path, how, after=3, events=6) for how in ("drop", "cut-id")}
    async with clients.chromium() as follow, asyncio.TaskGroup() as group:
        for how in list(broken) * RUNS:
            group.create_task(try_once(follow, how))


def test_lost_and_repeated_events_are_counted():
    heard = [
        {"id": "a", "data": '{"id": "a"}'},
        {"id": "a", "data": '{"type": "message.delta"}'},
        {"id": "a", "data": '{"id": "a"}'},
        {"id": "a", "data": ""},
        {"gave_up": "tired"},
    ]
    assert clients.Outcome.of(heard, ["a", "b", "c"]) == clients.Outcome(2, 1, 1, "tired")
