"""All bundled scenarios, served to a correct client, and checked by `wiretape report`."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.rules import CATALOGUE, Party, Verdict
from wiretape_replay.service.scenario_file import bundled_scenarios

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"
NOT_EXERCISED = {
    "SSE010": "the service does not send `retry`, because the specification does not define it",
}
"""Rules that a correct service cannot exercise, by code, and why."""

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


async def refusals(stage):
    """What a correct client may be refused: a run while one is active, a result, a limit."""
    session = await stage.session()
    run = await stage.run(session)
    stream = await stage.stream(session)
    events = await stream.until("agent.custom_tool_use")
    assert (await stage.post(f"{session}/runs")).code == "SESSION_BUSY"
    call = events[-1]["content"]["tool_call_id"]
    wrong = await stage.post(f"{run}/resume", {"tool_call_id": call, "output": {"celsius": "warm"}})
    assert wrong.code == "tool_result_invalid"
    await stage.service.control.async_advance(20)
    assert (await stage.post(f"{run}/cancel")).status == 200
    events += await stream.until(ENDS)
    stream.close()
    assert (await stage.post(f"{run}/cancel")).code == "RUN_NOT_CANCELLABLE"
    await again(stage, session, [event for event in events if "id" in event])
    while (reply := await stage.post("/v1/sessions")).status == 201:
        pass
    assert reply.code == "RATE_LIMITED"
    await stage.service.control.async_advance(int(reply.headers["retry-after"]))
    await stage.session()


async def again(stage, session, stored):
    """Read from a cursor of another client, then live events."""
    stream = await stage.stream(session, stored[0]["id"], key="second-key")
    run = await stage.run(session)
    assert await stream.until(ENDS) == stored[1:]
    await stream.until("agent.custom_tool_use")
    assert (await stage.post(f"{run}/cancel")).status == 200
    await stream.until(ENDS)
    stream.close()


async def mistakes(stage):
    """Mistakes that have to be refused: no key, and a cursor of another session."""
    assert (await stage.post("/v1/sessions", key=None)).status == 401
    cursors = []
    for _ in range(2):
        session = await stage.session()
        stream = await stage.stream(session)
        await stage.run(session)
        cursors.append((await stream.until(ENDS))[0]["id"])
        stream.close()
    reply = await stage.get(f"{session}/events/stream", headers={"Last-Event-ID": cursors[0]})
    assert reply.code == "invalid_cursor"


@pytest.fixture
def recorded(serve, stages, tmp_path):
    """Record a scenario."""

    async def record(scenario, visit):
        keys = {"wiretape-key": stages.ApiKey(), "second-key": stages.ApiKey()}
        async with serve(scenario, virtual=True, keys=keys) as stage:
            await visit(stage)
        return max(tmp_path.glob("passed-*.db"), key=lambda path: path.stat().st_mtime_ns)

    return record


def report(path):
    """The JSON report on a recording."""
    args = ["report", str(path), "--format", "json", "--no-config", "--fail-on", "never"]
    result = CliRunner().invoke(wiretape, args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_all_scenarios_have_no_findings_and_exercise_every_rule(recorded):
    """No finding above a note, against either side; some rules are exercised only by mistakes of a client."""
    records = [await recorded(name, lambda stage, name=name: Visit(stage, name).play()) for name in bundled_scenarios()]
    records.append(await recorded("application-tool", refusals))
    checked = [report(record) for record in records]
    assert [found for one in checked for found in one["findings"] if found["severity"] != "note"] == []
    wrong = report(await recorded("hello", mistakes))
    assert [found["code"] for found in wrong["findings"]] == ["CLI001"]
    passed = {rule["code"] for one in (*checked, wrong) for rule in one["rules"] if rule["verdict"] == Verdict.PASS}
    service = {code for code, rule in CATALOGUE.items() if rule.side is Party.SERVICE}
    assert service - passed == NOT_EXERCISED.keys()
    verdicts = {rule["verdict"] for one in checked for rule in one["rules"] if rule["code"] in NOT_EXERCISED}
    assert verdicts == {Verdict.NOT_EXERCISED}


def test_the_page_lists_the_rules_that_are_not_exercised():
    rows = re.findall(r"^\| `([A-Z]+\d{3})` \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert dict(rows) == NOT_EXERCISED
