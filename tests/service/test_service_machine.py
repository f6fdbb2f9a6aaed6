"""Requests of clients in any order: there are never findings against the service."""

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from wiretape.contract import ERROR_CODES
from wiretape_replay.service.scenario_file import read_scenario

PLAY = """
title = "Everything in turn"
deadline = 50

[[tool]]
name = "weigh"
output = { type = "object", required = ["grams"] }

[[run]]
steps = [{ think = "Hm." }, { ask = "weigh", unavailable = 1 }, { say = "That is heavy." }]

[[run]]
refuse = { code = "SANDBOX_PROVISION_FAILED", times = 2 }
steps = [{ end-stream = "reset" }, { say = "One." }, { resync = true }, { end-stream = "close" }, { tool = "look" }, { wait = 20 }, { say = "Two." }]

[[run]]
steps = [{ wait-for-input = true }, { together = [{ ask = "weigh" }, { tool = "look", takes = 3 }] }, { sandbox = "missing" }, { tool = "look" }]

[[run]]
steps = [{ say = "No." }, { end-stream = "end" }, { fail = "It is over." }]

[[run]]
steps = [{ ask = "weigh", deadline = 5 }, { say = "Again." }]
"""  # noqa: E501 - a run a line
TENANT = {"alice": "acme", "admin": "acme", "bob": "globex"}
QUIET_S = 40
"""A keep-alive is sent within this time."""
places = st.integers(0, 30)


@dataclass
class Known:
    """What clients know about a session."""

    key: str
    path: str
    runs: list = field(default_factory=list)
    events: list = field(default_factory=list)
    """The durable ones, in order."""
    live: object = None
    """An open stream, and the number of events before it."""


class Clients(RuleBasedStateMachine):
    """Clients of a service, which only know its responses."""

    stages = None

    def __init__(self):
        super().__init__()
        self.runner, self.folder = asyncio.Runner(), Path(tempfile.mkdtemp(prefix="wiretape-"))
        self.sessions, self.answered = [], []
        self.stack, self.stage, self.asked = None, None, 0
        (self.folder / "play.toml").write_text(PLAY, "utf-8")
        self.scenario = read_scenario(self.folder / "play.toml")

    @initialize()
    def begin(self):
        self.runner.run(self._start())

    async def _start(self):
        self.stack = AsyncExitStack()
        serving = self.stages.serving(self.scenario, self.folder, keys=self.stages.KEYS, virtual=True)
        self.stage = await self.stack.enter_async_context(serving)

    async def _stop(self):
        for session in self.sessions:
            if session.live is not None:
                session.live.close()
                session.live = None
        await self.stack.aclose()

    def teardown(self):
        try:
            if self.stack is not None:
                self.runner.run(self._stop())
        finally:
            self.runner.close()
            shutil.rmtree(self.folder)

    def ask(self, method, path, body=None, **how):
        """An answer, which must be good or one of the specification's errors."""
        reply = self.runner.run(self.stage.ask(method, path, body, **how))
        if reply.status >= 400:
            assert ERROR_CODES[reply.code].status == reply.status
        return reply

    def change(self, path, body, key, twice):
        """A request that changes something; sent again at once if `twice`.  Its answer."""
        self.asked += 1
        idem = f"key-{self.asked}"
        reply = self.ask("POST", path, body, key=key, idem=idem)
        if reply.status < 400:
            self.answered.append((path, body, key, idem, reply.body))
        if twice and reply.status < 400:
            again = self.ask("POST", path, body, key=key, idem=idem)
            assert again.status == 429 or again.body == reply.body
        return reply

    def at(self, place):
        return self.sessions[place % len(self.sessions)]

    @rule(key=st.sampled_from(sorted(TENANT)), twice=st.booleans())
    def create_session(self, key, twice):
        reply = self.change("/v1/sessions", {}, key, twice)
        if reply.status == 201:
            self.sessions.append(Known(key, f"/v1/sessions/{reply.json['id']}"))

    @precondition(lambda self: self.sessions)
    @rule(place=places, twice=st.booleans(), sandbox=st.booleans())
    def create_run(self, place, twice, sandbox):
        session = self.at(place)
        reply = self.change(f"{session.path}/runs", {} if sandbox else {"sandbox": False}, session.key, twice)
        if reply.status == 201:
            session.runs.append(f"{session.path}/runs/{reply.json['id']}")

    @precondition(lambda self: any(session.runs for session in self.sessions))
    @rule(place=places, which=places, twice=st.booleans())
    def cancel(self, place, which, twice):
        session = self.at(place)
        if session.runs:
            self.change(f"{session.runs[-1 - which % len(session.runs)]}/cancel", {}, session.key, twice)

    @precondition(lambda self: any(session.runs for session in self.sessions))
    @rule(place=places, twice=st.booleans(), grams=st.sampled_from([{"grams": 3}, {"grams": 3}, {}, None, "three"]))
    def resume(self, place, twice, grams):
        """With what the newest run waits for, or with what it must refuse."""
        session = self.at(place)
        if not session.runs:
            return
        run = self.ask("GET", session.runs[-1], key=session.key)
        waiting = (run.json.get("waiting_for") or [{}])[0] if run.status == 200 else {}
        body = {"tool_call_id": waiting["tool_call_id"], "output": grams} if waiting.get("tool_call_id") else None
        self.change(f"{session.runs[-1]}/resume", body or {"input": "go on"}, session.key, twice)

    @precondition(lambda self: self.sessions)
    @rule(place=places, which=places)
    def reconnect(self, place, which):
        """A second client reads from any cursor on: everything behind it comes, once and in order."""
        session = self.at(place)
        known = session.events[: which % (len(session.events) + 1)]
        self.runner.run(self._read(session, known))

    async def _read(self, session, known):
        stream = await self.stage.stream(session.path, known[-1]["id"] if known else None, key=session.key)
        await self.stage.service.control.async_advance(QUIET_S)
        self._heard(session, known, await stream.quiet())
        stream.close()

    def _heard(self, session, known, events):
        whole = known + [event for event in events if "id" in event]
        assert whole[: len(session.events)] == session.events[: len(whole)]
        session.events = max(session.events, whole, key=len)
        assert [event["sequence"] for event in session.events] == list(range(1, len(session.events) + 1))

    @precondition(lambda self: any(session.live is None for session in self.sessions))
    @rule(place=places)
    def listen(self, place):
        """Open a stream, and leave it open while other things happen."""
        session = self.at(place)
        if session.live is None:
            cursor = session.events[-1]["id"] if session.events else None
            session.live = self.runner.run(self.stage.stream(session.path, cursor, key=session.key))

    @precondition(lambda self: any(session.live for session in self.sessions))
    @rule(place=places)
    def hear(self, place):
        session = self.at(place)
        if session.live is not None:
            cursor = session.live.cursor
            known = [event["id"] for event in session.events]
            before = session.events[: known.index(cursor) + 1] if cursor else []
            self.runner.run(self.stage.service.control.async_advance(QUIET_S))
            self._heard(session, before, self.runner.run(session.live.quiet()))
            session.live.close()
            session.live = None

    @precondition(lambda self: self.answered)
    @rule(place=places, otherwise=st.booleans())
    def repeat(self, place, otherwise):
        """The same request with the same key has the same answer for ever; another one with it is refused."""
        path, body, key, idem, answer = self.answered[place % len(self.answered)]
        reply = self.ask("POST", path, {**body, "other": 1} if otherwise else body, key=key, idem=idem)
        if reply.status != 429:
            assert (reply.code == "idempotency_conflict") if otherwise else (reply.body == answer)

    @precondition(lambda self: self.sessions)
    @rule(place=places, key=st.sampled_from([None, "nobody", "bob", "alice", "anna", "reader"]), post=st.booleans())
    def wrong_key(self, place, key, post):
        session = self.at(place)
        reply = self.ask("POST" if post else "GET", f"{session.path}/runs" if post else session.path, key=key)
        if key in {None, "nobody"}:
            assert reply.code == "authentication_required"
        elif TENANT.get(key, "acme") != TENANT[session.key]:
            assert reply.code in {"resource_not_found", "permission_denied", "RATE_LIMITED"}

    @precondition(lambda self: self.sessions)
    @rule(place=places, other=places)
    def wrong_cursor(self, place, other):
        """A cursor of another session is none here."""
        session, foreign = self.at(place), self.at(other)
        if foreign is not session and foreign.events:
            headers = {"Last-Event-ID": foreign.events[-1]["id"]}
            reply = self.ask("GET", f"{session.path}/events/stream", key=session.key, headers=headers)
            assert reply.code in {"invalid_cursor", "RATE_LIMITED"}

    @rule(seconds=st.sampled_from([0.1, 3, 30, 70]))
    def pass_time(self, seconds):
        self.runner.run(self.stage.service.control.async_advance(seconds))


def test_there_are_never_findings_against_the_service(stages):
    Clients.stages = stages
    run_state_machine_as_test(Clients, settings=settings(max_examples=5, stateful_step_count=50))
