"""How long a client waits is real time, whatever the clock of the service, except for what `advance` lets pass."""

import asyncio
import re
import time

import pytest
from stages import Stage

from wiretape_contracts.agent_sessions.stand_in.scenario_file import bundled_scenarios
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.stand_in import ServeOptions, serve_scenario


async def refused(scenario, clock, seconds, wait, http):
    """Request a session again after `wait`, while a run takes place; the findings, and the longest possible wait."""
    checker = ClientChecker()
    limit = {"do": "error", "code": "RATE_LIMITED", "retry-after": seconds, "times": 1}
    faults = limit | {"operation": "POST /v1/sessions", "skip": 1}
    async with serve_scenario(scenario, ServeOptions(clock=clock, faults=faults), checker=checker) as service:
        stage = Stage(service, http)
        session = await stage.session()
        stream = await stage.stream(session)
        began = time.monotonic()
        reply = await stage.post("/v1/sessions")
        assert (reply.status, reply.headers["retry-after"]) == (429, str(seconds))
        await stage.post(f"{session}/runs")
        await wait(service)
        assert (await stage.post("/v1/sessions")).status == 201
        most = time.monotonic() - began
        stream.close()
    return checker.attribution.client.kept, most


@pytest.fixture
def at_once(http):
    """Try all bundled scenarios at the same time."""

    async def each(clock, seconds, wait):
        tries = (refused(scenario, clock, seconds, wait, http) for scenario in bundled_scenarios())
        return await asyncio.gather(*tries)

    return each


@pytest.mark.parametrize("clock", ["virtual", "real"])
async def test_a_client_that_waits_too_little_has_a_finding(at_once, clock):
    for findings, _ in await at_once(clock, 60, lambda _: asyncio.sleep(0.1)):
        (finding,) = (finding for finding in findings if finding.code == "CLI004")
        waited = re.fullmatch(r"Expected a wait of 60 s after exchange 3, got (.+) s\.", finding.message)
        assert float(waited[1]) >= 0.1


@pytest.mark.parametrize("clock", ["virtual", "real"])
async def test_a_client_that_waits_has_no_finding(at_once, clock):
    for findings, _ in await at_once(clock, 1, lambda _: asyncio.sleep(1)):
        assert findings == []


async def test_a_client_whose_clock_is_mocked_waits_by_advancing_virtual_time(at_once):
    for findings, _ in await at_once("virtual", 60, lambda service: service.control.async_advance(60)):
        assert findings == []
    for findings, most in await at_once("virtual", 60, lambda service: service.control.async_advance(50)):
        (finding,) = (finding for finding in findings if finding.code == "CLI004")
        waited = re.fullmatch(r"Expected a wait of 60 s after exchange 3, got (.+) s\.", finding.message)
        assert 50 <= float(waited[1]) < 50 + most + 0.05
