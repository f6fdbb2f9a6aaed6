"""All bundled scenarios, served to a correct client, and checked."""

import pytest

from wiretape import check
from wiretape_contracts.agent_sessions.stand_in.scenario_file import bundled_scenarios

RUNS = {"conversation": 3, "missed-deadline": 2, "sandbox": 3, "failures": 2, "everything": 3}
"""How many runs of a scenario are created; 1 for all others."""
ASK = {("question", 1), ("everything", 3)}
"""The runs that wait for input: scenario and number."""
LATE = {("missed-deadline", 1)}
"""The runs whose result arrives too late."""
ENDS = "session.status_idle"


class Visit:
    """A client of one scenario: it follows the stream, sends results, and retries where the specification allows it."""

    def __init__(self, stage, scenario):
        self.stage, self.scenario = stage, scenario
        self.session, self.run, self.cursor = "", "", None
        self.known = []

    async def play(self):
        self.session = await self.stage.session()
        for number in range(1, RUNS.get(self.scenario, 1) + 1):
            stream = await self.stage.stream(self.session, self.cursor)
            await self.create()
            if (self.scenario, number) in ASK:
                await self.give_input()
            await self.read(stream, late=(self.scenario, number) in LATE)

    async def post(self, path, body):
        """Send a request with an idempotency key, the same one for the same request."""
        self.known += [(path, body, self.run)] if (path, body, self.run) not in self.known else []
        return await self.stage.post(path, body, idem=f"{self.session}-{self.known.index((path, body, self.run))}")

    async def create(self):
        while (reply := await self.post(f"{self.session}/runs", {})).status in {422, 503}:
            await self.stage.service.control.async_advance(5)
        assert reply.status == 201, reply.body
        self.run = f"{self.session}/runs/{reply.json['id']}"

    async def give_input(self):
        while (await self.stage.get(self.run)).json["status"] == "running":
            pass
        assert (await self.post(f"{self.run}/resume", {"input": "Yes."})).status == 200

    async def read(self, stream, *, late):
        """To the end of the run, over as many streams as that takes."""
        while True:
            while (event := await stream.next()) is not None and event["type"] not in {ENDS, "stream.resync"}:
                if event["type"] == "agent.custom_tool_use":
                    if late:
                        await self.stage.service.control.async_advance(2)
                    else:
                        await self.answer(event["content"]["tool_call_id"])
            self.cursor = stream.cursor
            stream.close()
            if event is not None and event["type"] == ENDS:
                return
            stream = await self.stage.stream(self.session, self.cursor)

    async def answer(self, call):
        body = {"tool_call_id": call, "output": {"celsius": 21.5}}
        while (reply := await self.post(f"{self.run}/resume", body)).status == 503:
            await self.stage.service.control.async_advance(5)
        assert reply.status == 200, reply.body


@pytest.mark.parametrize("name", bundled_scenarios())
async def test_a_bundled_scenario_has_no_findings_against_either_side(serve, tmp_path, name):
    async with serve(name, virtual=True) as stage:
        await Visit(stage, name).play()
    (record,) = tmp_path.glob("passed-*.db")
    found = check(record).findings
    assert [finding for finding in found if finding.severity != "note"] == []
