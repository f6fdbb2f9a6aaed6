"""Properties: for any scenario and client, the service keeps the specification and is deterministic."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st
from service_contracts import SERVICE

from wiretape import TrafficBuilder, check
from wiretape.observations import Ending
from wiretape.rules import Party
from wiretape_contracts.agent_sessions import TERMINAL_RUN_TYPES
from wiretape_contracts.agent_sessions.stand_in.run_commands import Refusal
from wiretape_contracts.agent_sessions.stand_in.scenario_steps import (
    Ask,
    EndStream,
    Fail,
    Intermediate,
    Pause,
    RefusalCode,
    Refuse,
    Repeat,
    Resync,
    RunScript,
    Sandbox,
    Say,
    Scenario,
    SessionError,
    Think,
    Together,
    Tool,
    ToolSchemas,
    WaitForInput,
)
from wiretape_contracts.agent_sessions.stand_in.session_engine import CommandKind, SessionEngine
from wiretape_replay.channel.channel_log import ChannelLog, EntryKind, LogReader
from wiretape_replay.http_server.http_messages import HttpResponse

MS = 1_000_000
SECOND = 1000 * MS
SESSION = "ses_1"
PATH = f"/v1/sessions/{SESSION}/runs"
FREE_TYPES = [
    *("run.started", "run.completed", "run.failed", "run.cancelled", "message.started", "agent.custom_tool_use"),
    *("tool.completed", "tool.failed", "session.status_idle", "session.error", "sandbox.recreated"),
]

times = st.sampled_from([0, 0, 0.001, 0.05, 1, 20])
timed = st.fixed_dictionaries({"after": times, "pace": times})
deadlines = st.sampled_from([False, False, 1, 30])
texts = st.lists(st.text(max_size=5), min_size=1, max_size=3).map(tuple)


class Command(NamedTuple):
    kind: CommandKind
    time_ns: int
    run_id: str | None = None
    body: dict | None = None


def step(kind, **fields):
    return st.builds(lambda given, timing: kind(**given, **timing), st.fixed_dictionaries(fields), timed)


asking = step(Ask, name=st.sampled_from(["w", "other"]), deadline=deadlines, unavailable=st.sampled_from([0, 0, 1]))
leaves = st.one_of(
    asking,
    asking,
    asking,
    step(Say, text=texts),
    step(Think, text=texts),
    step(Intermediate, text=texts),
    step(Tool, name=st.sampled_from("ab"), error=st.sampled_from([None, "no"]), takes=times),
    step(WaitForInput, deadline=deadlines, unavailable=st.integers(0, 1)),
    st.builds(Pause, wait=times),
    step(Sandbox, change=st.sampled_from(["recreated", "missing", "quota"])),
    step(Resync),
    step(SessionError, message=st.just("no")),
    step(Fail, message=st.just("no")),
    step(EndStream, how=st.sampled_from(["close", "reset", "end"])),
)
steps = st.recursive(
    leaves,
    lambda inner: st.one_of(
        step(Repeat, times=st.integers(1, 3), steps=st.lists(inner, min_size=1, max_size=3)),
        step(Together, steps=st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)
refusals = st.builds(Refuse, code=st.sampled_from(RefusalCode), times=st.integers(1, 2))
scripts = st.builds(
    RunScript,
    steps=st.lists(steps, max_size=5),
    after=times,
    pace=times,
    refuse=st.one_of(st.none(), st.none(), st.none(), refusals),
)
TOOLS = (ToolSchemas(name="w", output={"type": "object", "required": ["n"]}),)


@st.composite
def scenarios(draw, *, free=True):
    """Any scenario; with `free`, some types for which the specification allows it are not stored."""
    unstored = draw(st.sets(st.sampled_from(FREE_TYPES), max_size=3)) if free else set()
    runs = draw(st.lists(scripts, min_size=1, max_size=3))
    return Scenario(title="Any", runs=tuple(runs), tools=TOOLS, ephemeral=tuple(sorted(unstored)))


@dataclass(frozen=True)
class Ask_:  # noqa: N801 - Ask is a step
    """What a client does, and how long it waits before."""

    gap_ns: int
    what: str
    which: int
    reconnects: bool


GIVEN = ["right", "right", "right", "right", "wrong", "error", "unknown", "again", "input", "malformed"]
asks = st.lists(
    st.builds(
        Ask_,
        st.sampled_from([MS, 60 * MS, SECOND, 10 * SECOND, 100 * SECOND]),
        st.sampled_from(["create", "create", "cancel", "nothing", *GIVEN]),
        st.integers(0, 3),
        st.booleans(),
    ),
    min_size=3,
    max_size=15,
)


def engine_of(scenario, seed=1):
    epoch = datetime(2026, 1, 1, tzinfo=UTC)
    return SessionEngine(session_id=SESSION, workspace_id="ws_1", scenario=scenario, seed=seed, epoch=epoch)


def command_of(ask, engine, now_ns, log):
    """The command of a client, which depends on the state of the session; None for nothing."""
    if ask.what == "nothing":
        return None
    if ask.what == "create":
        bodies = [
            {},
            {"sandbox": False},
            {"tools": [{"name": "w", "input_schema": {"maxProperties": 0}}]},
            {"tools": 1},
        ]
        return Command(CommandKind.CREATE, now_ns, None, bodies[ask.which])
    runs = list(engine.runs)
    run_id = runs[-1 - ask.which % 2 % len(runs)] if runs else "run_none"
    if ask.what == "cancel":
        return Command(CommandKind.CANCEL, now_ns, run_id)
    waiting = list(engine.runs[run_id].waits) if runs else []
    uses = (entry for entry in log.entries if entry.type == "agent.custom_tool_use" and entry.keys["run"] == run_id)
    earlier = [entry.keys["tool_call"] for entry in uses]
    calls = [one.tool_call_id for one in waiting if one.tool_call_id is not None]
    call_id = calls[ask.which % len(calls)] if calls else "call_none"
    body = {
        "right": {"tool_call_id": call_id, "output": {"n": 1}},
        "wrong": {"tool_call_id": call_id, "output": []},
        "error": {"tool_call_id": call_id, "error": "no"},
        "unknown": {"tool_call_id": "call_x", "output": {}},
        "again": {"tool_call_id": earlier[ask.which % len(earlier)] if earlier else "x", "output": {"n": 1}},
        "input": {"input": "x"},
        "malformed": {"tool_call_id": call_id},
    }[ask.what]
    if ask.what == "right" and not calls and waiting:
        body = {"input": "yes"}
    return Command(CommandKind.RESUME, now_ns, run_id, body)


class Wire(TrafficBuilder):
    """What a proxy sees between a client and the service."""

    def __init__(self, engine):
        super().__init__()
        self.engine = engine
        self.log = ChannelLog(SESSION)
        self.now_ns = self.at_ns = self.heard_ns = 0
        self.stream = self.reader = self.cursor = None
        self.resync = False

    def tick(self):
        """Observations have the time of what happens, or follow at once."""
        self.now_ns = max(self.now_ns + 1, self.at_ns)
        return self.now_ns

    @property
    def against_service(self):
        found = check(self.observations()).findings
        return [(finding.code, finding.message) for finding in found if finding.side is Party.SERVICE]

    def open(self, at_ns):
        """The client opens the stream, from its last event."""
        self.at_ns = self.heard_ns = at_ns
        headers = () if self.cursor is None else (("Last-Event-ID", self.cursor),)
        target = f"/v1/sessions/{SESSION}/events/stream?event_deltas=true"
        self.reader = LogReader(self.log, len(self.log), cursor=self.cursor, deltas=True)
        self.stream = self.request("GET", target, headers=headers).respond_stream()
        self.carry(at_ns)

    def close(self, ending, at_ns):
        self.at_ns = at_ns
        self.stream.end(ending)
        self.stream = None

    def carry(self, at_ns):
        """Send what is due on the stream."""
        for entry in self.reader.read(len(self.log)):
            if entry.kind is EntryKind.ENDING:
                self.close(entry.ending, at_ns)
                return
            self.send(entry.data, at_ns)
            self.cursor = entry.id or self.cursor
            self.resync |= entry.type == "stream.resync"

    def send(self, data, at_ns):
        self.at_ns = at_ns
        self.stream.send(data)
        self.heard_ns = self.now_ns

    def keep_alive(self, until_ns):
        while self.stream is not None and self.heard_ns + 15 * SECOND <= until_ns:
            self.send(b": keep-alive\n", self.heard_ns + 15 * SECOND)

    def advance(self, until_ns):
        """Let time pass; every event reaches an open stream when it happens."""
        for entry in self.engine.advance(until_ns):
            self.keep_alive(entry.time_ns)
            self.log.append(entry)
            if self.stream is not None:
                self.carry(entry.time_ns)
        self.keep_alive(until_ns)

    def execute(self, command):
        self.at_ns = command.time_ns
        what = {CommandKind.CREATE: "", CommandKind.CANCEL: "/{}/cancel", CommandKind.RESUME: "/{}/resume"}
        exchange = self.request("POST", PATH + what[command.kind].format(command.run_id))
        answer = answer_of(self.engine, command, f"req_{exchange.number}")
        headers = (("Content-Type", "application/json"), *answer.headers)
        exchange.respond(answer.status, headers=headers, body=answer.body)


def answer_of(engine, command, request_id):
    try:
        run = engine.execute(command.kind, command.run_id, lambda: command.body, command.time_ns)
    except Refusal as refusal:
        event(refusal.code)
        return refusal.respond(SERVICE.main.errors, request_id)
    return HttpResponse.from_json(200, {"id": run.id, "status": run.status})


_FIRST = Ask_(0, "create", 0, reconnects=True)


def play(scenario, asked):
    """A client does all of it, reconnecting at once or later.  Returns the wire and the commands."""
    wire, commands, now_ns = Wire(engine_of(scenario)), [], 0
    wire.open(0)
    for ask in [_FIRST, *asked]:
        now_ns += ask.gap_ns
        wire.advance(now_ns)
        if wire.stream is not None and wire.resync and ask.reconnects:
            wire.close(Ending.CLIENT_CLOSED, now_ns)
            wire.resync = False
        if wire.stream is None and ask.reconnects:
            wire.open(now_ns)
        command = command_of(ask, wire.engine, now_ns, wire.log)
        if command is not None:
            commands.append(command)
            wire.execute(command)
        wire.advance(now_ns)
    now_ns += 1000 * SECOND
    wire.advance(now_ns)
    if wire.stream is None:
        wire.open(now_ns)
    wire.close(Ending.CLIENT_CLOSED, now_ns)
    return wire, commands


@given(scenarios(), asks)
def test_the_checker_finds_nothing_against_the_service(scenario, asked):
    wire, _ = play(scenario, asked)
    assert wire.against_service == []


@given(scenarios(), asks)
def test_a_client_that_reconnects_gets_every_durable_event_once_and_in_order(scenario, asked):
    wire, _ = play(scenario, asked)
    stored = [entry for entry in wire.log.entries if entry.kind is EntryKind.DURABLE]
    assert [entry.sequence for entry in stored] == list(range(1, len(stored) + 1))
    assert wire.cursor == (stored[-1].id if stored else None)
    assert sorted(wire.log.entries, key=lambda entry: entry.time_ns) == wire.log.entries


@given(scenarios(), asks, st.data())
def test_the_same_commands_give_the_same_events_in_any_slices_of_time(scenario, asked, data):
    """So an engine can be rebuilt from its commands, including refused ones."""
    wire, commands = play(scenario, asked)
    end_ns = wire.now_ns + SECOND
    again, answers, entries = engine_of(scenario), [], []
    for command in commands:
        if data.draw(st.booleans()):
            before_ns = data.draw(st.integers(max(0, command.time_ns - 2 * SECOND), command.time_ns))
            entries += again.advance(before_ns)
        answers.append(answer_of(again, command, "req_1"))
    while (due_ns := again.due_ns()) is not None and due_ns <= end_ns:
        entries += again.advance(due_ns)

    entries = list(map(str, entries))
    assert entries == list(map(str, [*wire.log.entries, *wire.engine.advance(end_ns)]))
    assert states(again) == states(wire.engine)
    at_once = engine_of(scenario)
    assert [answer_of(at_once, command, "req_1") for command in commands] == answers
    assert list(map(str, at_once.advance(end_ns))) == entries


def states(engine):
    return [(run.id, run.status, run.created_ns, run.ended_ns, run.waits) for run in engine.runs.values()]


@given(scenarios(free=False), asks)
def test_a_run_ends_once_and_its_status_matches_its_events(scenario, asked):
    wire, _ = play(scenario, asked)
    ends = {}
    for entry in wire.log.entries:
        if entry.type in TERMINAL_RUN_TYPES:
            assert entry.keys["run"] not in ends
            ends[entry.keys["run"]] = entry.type.partition(".")[2]
    assert ends == {run.id: run.status for run in wire.engine.runs.values() if run.status.is_terminal}
    for run in wire.engine.runs.values():
        assert (run.status == "waiting_for_input") == bool(run.waits)


@given(scenarios(), st.integers(2, 9))
def test_another_seed_changes_only_ids(scenario, seed):
    found = []
    for engine in (engine_of(scenario), engine_of(scenario, seed)):
        for now_ns in range(3):
            answer_of(engine, Command(CommandKind.CREATE, now_ns, None, {}), "req_1")
        found.append(engine.advance(100 * SECOND))
    ids = [{entry.id for entry in each if entry.kind is EntryKind.DURABLE} for each in found]
    assert ids[0].isdisjoint(ids[1])
    one, other = ([str(without_ids(entry)) for entry in each] for each in found)
    assert one == other


def without_ids(entry):
    """An entry without its ids; all ids of a kind have the same length."""
    keys = {name: len(key) for name, key in entry.keys.items()}
    return replace(entry, data=b" " * len(entry.data), keys=keys, id=entry.id and len(entry.id))
