"""What a case can do to a service, and read of its streams."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from wiretape.event import Event
from wiretape.http_headers import LAST_EVENT_ID, RETRY_AFTER
from wiretape.labels import count_of
from wiretape.observations import Ending, header
from wiretape.rules import Severity
from wiretape.sse import EVENT_STREAM
from wiretape_contracts.agent_sessions import (
    AGENT_CUSTOM_TOOL_USE,
    AUTHENTICATION_REQUIRED,
    ERROR_CODES,
    KEEP_ALIVE_SECONDS,
    PERMISSION_DENIED,
    RATE_LIMITED,
    SESSION_BUSY,
    STATUS_IDLE,
    TERMINAL_RUN_TYPES,
    TOOL_RESULT_INVALID,
)
from wiretape_contracts.agent_sessions.probe.probe_file import ProbeFile
from wiretape_inspect.probe.probe_case import (
    LONG_ENOUGH,
    LOST,
    Case,
    CaseRegistry,
    NotPossible,
    RefusedKey,
    SharedSetup,
    TimedOut,
    Unexpected,
)
from wiretape_inspect.probe.probe_client import HttpExchange
from wiretape_inspect.probe.probe_steps import Close, Read, Send, Step, StepRunner, is_replayed, pointers
from wiretape_inspect.report.case_results import SETUP, CaseVerdict

_SESSION = re.compile(r"<<[^<>]*session-[0-9]+>>")
_LONGEST_LIMIT_SECONDS = 120
_MOST_LIMITED_SECONDS = 180
"""How long a request is repeated that a rate limit refuses; other cases wait for the same limit."""
KEEP_ALIVE_LIMIT_SECONDS = KEEP_ALIVE_SECONDS + 2.2
"""How long a silent stream is read for a comment at least: the interval and the tolerance of KAL001."""
_MOST_WAITS = 10
"""How often to wait for `--timeout` while other events arrive."""
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
"""How long to wait before a stream is opened again that had no event."""
ENDS_TOO_SOON = "a run of kind runs.long ends too soon"
ENDED_BEFORE_COMMENT = "the service ends streams before a keep-alive comment is due"
_MOST_POINTERS = 5
_TOO_FEW = "the run has too few durable events for a replay ({})"
_HOOKED_KINDS: "dict[str, tuple[str, RunKind]]" = {"resync": ("resync", "plain"), "brief-tool": ("deadline", "tool")}
"""The hooks that replace a kind of run, each with the kind that it needs."""
_RUN_ENDS = tuple(sorted(TERMINAL_RUN_TYPES))

CASES = CaseRegistry()
"""Every case; the modules of cases fill it."""
case = CASES.case
T = TypeVar("T")
RunKind = Literal["plain", "tool", "brief-tool", "unavailable-tool", "long", "failing", "many", "resync", "no-sandbox"]


class CommandOptions(TypedDict, total=False):
    """How to send a command."""

    key: str | None
    """The name of the key, `main` by default; None for none."""
    idempotency_key: str


class StreamOptions(TypedDict, total=False):
    """How to request a stream."""

    deltas: bool | None
    """True by default; None leaves the parameter out."""
    key: str | None
    """The name of the key, `main` by default; None for none."""
    slow: bool
    codings: str
    """Its Accept-Encoding."""


@dataclass(slots=True)
class Pace:
    """How fast the service was so far: the longest times of things that it did."""

    response_s: float | None = None
    run_s: float | None = None


def require(value: T | None, key: str) -> T:
    """Return what the probe file has under a key.  Raises NotPossible if it has nothing."""
    if value is None:
        raise NotPossible(f"probe.toml has no {key}")
    return value


@dataclass(slots=True)
class StreamReader:
    """A stream that a case reads: if the service ends a connection, another one with the cursor continues it."""

    name: str
    """The name of the last connection in the steps."""
    exchange: HttpExchange
    _prober: "Prober"
    _open: "Callable[[str | None], Awaitable[StreamReader]]"
    """Opens another connection with a cursor.  Raises Unexpected if it is refused."""
    _cursor: str | None = None
    """The cursor of the first connection."""
    has_gap: bool = False
    """Whether durable events may be missing, because the next connection was opened without a cursor."""
    _ended: list[str] = field(default_factory=list)
    """The connections before the last one."""
    _empty: int = 0
    """How many of the last connections had no event."""

    @property
    def _connections(self) -> dict[str, list[Event]]:
        """The events that were read of each connection."""
        runner = self._prober.runner
        return {name: runner.stream(name).events[: runner.positions[name]] for name in (*self._ended, self.name)}

    @property
    def events(self) -> list[Event]:
        """The events that were read, without those that have only arrived."""
        return [event for events in self._connections.values() for event in events]

    @property
    def durable(self) -> list[Event]:
        """The durable events that were read."""
        return [event for event in self.events if is_replayed(event)]

    def cursor(self, number: int = -1) -> str:
        """The name of the id of a durable event, by its index.  Raises NotPossible if it was not read."""
        names: list[str] = []
        for name, events in self._connections.items():
            ids = (event for event in events if event.id)
            names += (f"<<{name}.id-{index}>>" for index, event in enumerate(ids, 1) if is_replayed(event))
        if not -len(names) <= number < len(names):
            raise self.lacks(_TOO_FEW.format(len(names)))
        return names[number]

    @property
    def calls(self) -> dict[str, str]:
        """The names of the calls that the application has to answer, by their ids."""
        found: dict[str, str] = {}
        for name, events in self._connections.items():
            found = {call: f"<<{name}.call-{index}>>" for index, call in enumerate(find_calls(events), 1)} | found
        return found

    @property
    def first_call(self) -> str:
        """The name of the first of these calls; without one, it stands for nothing."""
        return next(iter(self.calls.values()), f"<<{self.name}.call-1>>")

    def lacks(self, reason: str) -> NotPossible:
        """Return why a case is not possible if the stream lacks something: `reason`, unless it may have been lost."""
        return NotPossible(LOST if self._ended else reason)

    async def until(self, *types: str, run: str | None = None) -> list[Event]:
        """Read up to an event of one of these types, of `run` if it is given.  Raises Unexpected and TimedOut."""
        return await self._until(Read(self.name, types, run), " or ".join(types))

    async def until_run_begins(self, run: str) -> list[Event]:
        """Read up to the first event of a run, whatever its type."""
        return await self._until(Read(self.name, run=run), "an event of the run")

    async def until_run_ends(self, run: str) -> list[Event]:
        """Read up to the end of a run."""
        return await self.until(*_RUN_ENDS, run=run)

    async def until_idle(self, run: str) -> list[Event]:
        """Read up to the end of a run, and then until the session is idle."""
        return [*await self.until_run_ends(run), *await self.until(STATUS_IDLE)]

    async def until_durable(self, run: str) -> list[Event]:
        """Read up to the next durable event.  Raises NotPossible if the run ends before."""
        found = await self._until(Read(self.name, _RUN_ENDS, run, durable=True), "a durable event")
        if not is_replayed(found[-1]):
            raise self.lacks("the run has no durable event before its end")
        return found

    async def until_comment(self) -> None:
        """Read up to a comment.  Raises NotPossible or Unexpected if the stream ends before one is due."""
        awaited = "a keep-alive comment"
        while await self._prober.read(Read(self.name, comment=True), awaited) is None:
            if not self.has_ended:
                raise self._broken_off(awaited)
            if not self.exchange.events:
                raise NotPossible(ENDED_BEFORE_COMMENT)
            await self._reconnect()

    async def until_event(self, cursor: str) -> list[Event]:
        """Read up to the event with an id.  Raises Unexpected if the stream ends first."""
        return await self._until(Read(self.name, until_id=cursor), "the last event of the replay")

    async def until_closed(self) -> None:
        """Read up to the end of the stream."""
        await self._prober.read(Read(self.name), "the end of the stream")

    async def read_for(self, seconds: float) -> list[Event]:
        """Read for some time."""
        start = len(self.events)
        if self.has_ended:
            await self._reconnect()
        await self._prober.read(Read(self.name, seconds=seconds))
        return self.events[start:]

    async def expect_replay(self, source: "StreamReader", index: int) -> list[Event]:
        """Read all durable events that `source` has after one of them, and expect these, in this order, and no others.

        Returns what was read.  Raises NotPossible if there are none, and Unexpected.
        """
        expected = [event.id for event in source.durable][index + 1 :]
        if not expected:
            raise source.lacks(_TOO_FEW.format(len(source.durable)))
        return await self.expect_ids(expected, source.cursor(-1))

    async def expect_ids(self, expected: Sequence[str | None], last: str) -> list[Event]:
        """Read up to an event, and expect durable events with these ids, in this order; return what was read."""
        events = await self.until_event(last)
        read = [event.id for event in self.durable]
        got = "another order" if sorted(map(str, read)) == sorted(map(str, expected)) else count_of(len(read), "event")
        self._prober.expect(
            read == expected,
            f"Expected exactly {count_of(len(expected), 'durable event')} after the cursor in order, got {got}.",
        )
        return events

    async def _until(self, step: Read, awaited: str) -> list[Event]:
        """Read up to what is awaited.  Raises Unexpected and TimedOut."""
        start, clock = len(self.events), self._prober.runner.log.clock
        silent_since_ns = clock.now_ns()
        # What is replayed is not lost.
        while True:
            is_lossy = bool(self._ended) and step.until_id is None
            if await self._prober.read(replace(step, stream=self.name), awaited, is_lossy=is_lossy) is not None:
                return self.events[start:]
            if not self.has_ended:
                raise self._broken_off(awaited)
            if self.exchange.events:
                silent_since_ns = clock.now_ns()
            silent_s = (clock.now_ns() - silent_since_ns) / 1e9
            if silent_s > self._prober.timeout_s:
                raise TimedOut(awaited, self._prober.timeout_s, self.exchange.received, None, is_lossy=True)
            await self._reconnect()

    def _broken_off(self, awaited: str) -> Unexpected:
        return Unexpected(
            f"Expected {awaited}, got the end of the stream after {self.exchange.received} ({self.exchange.detail})."
        )

    @property
    def has_ended(self) -> bool:
        """Whether the service ended the last connection, as it may, and all its events were read."""
        read = self._prober.runner.positions[self.name]
        return self.exchange.ending is Ending.COMPLETE and read == len(self.exchange.events)

    async def _reconnect(self) -> None:
        """Open another connection, as a client does whose stream ends."""
        self._empty = 0 if self.exchange.events else self._empty + 1
        if self._empty:
            await self._prober.runner.log.clock.sleep(min(_SHORTEST_PAUSE_S * 2**self._empty, _LONGEST_PAUSE_S))
        cursor = self.cursor() if self.durable else self._cursor
        again = await self._open(cursor)
        self._ended.append(self.name)
        self.name, self.exchange = again.name, again.exchange
        self.has_gap |= cursor is None

    async def close(self) -> None:
        """Close the connection."""
        await self._prober.close_stream(self.name)


@dataclass(frozen=True, slots=True)
class ReadySession:
    """A session with a run that has completed, which all cases may read."""

    session: str
    run: str
    stream: StreamReader
    """What was read of it."""


@dataclass(slots=True)
class Prober:
    """What a case can do.  Every request and every wait becomes a step, so that the case can be repeated."""

    file: ProbeFile
    runner: StepRunner
    shared: SharedSetup | None = None
    timeout_s: float = 30.0
    """How long to wait for a response or an event."""
    keeps_limits: bool = True
    """Whether to wait and repeat a request that is refused because of a limit."""
    prefix: str = ""
    ready_session: ReadySession | None = None
    """What the setup made."""
    steps: list[Step] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    """The session of each run that was created."""
    refused_for_s: float | None = None
    """How long to wait before the case can be tried again, if a rate limit spoilt it."""
    pace: Pace = field(init=False)
    _streams: int = 0

    def __post_init__(self) -> None:
        self.pace = Pace() if self.shared is None else self.shared.prober.pace

    @property
    def ready(self) -> ReadySession:
        """The session of the setup.  Raises NotPossible."""
        if self.shared is None or self.shared.prober.ready_session is None:
            raise NotPossible("" if self.shared is None else self.shared.problem)
        ready: ReadySession = self.shared.prober.ready_session
        return ready

    def check_creation(self) -> None:
        """Raise NotPossible if the setup could not create a session and a run, or if its run did not end in time."""
        if self.shared is None or self.shared.is_ready:
            return
        setup: Prober = self.shared.prober
        requested = [*setup.sessions, *setup.runs]
        is_created = bool(requested) and all(name.strip("<>") in setup.runner.ids for name in requested)
        # Other runs would take as long.
        if not is_created or self.shared.result.outcome is CaseVerdict.INCONCLUSIVE:
            raise NotPossible(self.shared.problem)

    # Requests.

    async def send(
        self,
        method: str,
        target: str,
        *,
        key: str | None = "main",
        headers: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | str | None = None,
    ) -> HttpExchange:
        """Send a request, and return the complete exchange.  `target` begins after the base path."""
        return await self.execute(self._step(method, target, key, headers=headers, body=body))

    async def read_records(self, key: str = "main") -> AsyncIterator[HttpExchange]:
        """Read the shared session, then its run.  Raises NotPossible."""
        for name in ("read-session", "read-run"):
            operation = require(getattr(self.file, name.replace("-", "_")), name)
            target = operation.target.replace("{session_id}", self.ready.session).replace("{run_id}", self.ready.run)
            yield await self.send(operation.method, target, key=key)

    async def together(self, *steps: Send) -> list[HttpExchange]:
        """Send requests at the same time, and return the complete exchanges."""
        exchanges = []
        for number, step in enumerate(steps, 1):
            started = replace(step, is_started_only=number < len(steps))
            self.steps.append(started)
            exchanges.append(await self._send(started))
        limited = next((exchange for exchange in exchanges if exchange.error_code == RATE_LIMITED), None)
        if limited is not None:
            self.refused_for_s = _retry_after(limited) or 0
            raise NotPossible("a rate limit refused one of several simultaneous requests")
        return exchanges

    def _step(
        self,
        method: str,
        target: str,
        key: str | None = "main",
        *,
        headers: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | str | None = None,
    ) -> Send:
        if key is not None and key not in self.runner.keys:
            variable = require(self.file.key_variable(key), f"keys.{key}")
            raise NotPossible(f"the environment variable {variable} (keys.{key} in probe.toml) is not set")
        text = body if isinstance(body, str) or body is None else json.dumps(body, ensure_ascii=False)
        more = () if text is None else (("Content-Type", "application/json"),)
        return Send(method, self.file.base_path + target, key, (*headers, *more), text)

    async def execute(self, step: Send) -> HttpExchange:
        """Execute a step that sends a request, and return the complete exchange.

        Raises TimedOut, and Unexpected if its key is refused.
        """
        self.steps.append(step)
        waited = 0.0
        while True:
            exchange = await self._send(step)
            if exchange.error_code == AUTHENTICATION_REQUIRED and step.key is not None:
                raise self.refused_key(step.key, exchange)
            seconds = _retry_after(exchange)
            if not (self.keeps_limits and exchange.error_code == RATE_LIMITED and seconds is not None):
                return exchange
            if waited > _MOST_LIMITED_SECONDS:
                return exchange
            waited += seconds + 1
            await self.runner.log.clock.sleep(seconds)

    def refused_key(self, key: str | None, exchange: HttpExchange) -> RefusedKey:
        """Return the error about a key that the service does not accept."""
        variable = self.file.key_variable(key or "main")
        return RefusedKey(
            f"Expected the key in the environment variable {variable} to be accepted for {exchange.method} "
            f"{exchange.target}, got {exchange.outcome}."
        )

    async def _send(self, step: Send) -> HttpExchange:
        """Send a request, and wait for its response and those of earlier ones.  Raises TimedOut."""
        clock = self.runner.log.clock
        began_ns = clock.now_ns()
        try:
            async with asyncio.timeout(self.timeout_s):
                exchange = await self.runner.send(step)
        except TimeoutError:
            late = next((each for each in self.runner.exchanges if each.is_incomplete), self.runner.exchanges[-1])
            awaited = f"a response to {late.method} {late.target}"
            raise TimedOut(awaited, self.timeout_s, late.received, self.pace.response_s) from None
        if not step.is_started_only:
            self.pace.response_s = max(self.pace.response_s or 0.0, (clock.now_ns() - began_ns) / 1e9)
        return exchange

    # Sessions and runs.

    def session_step(self, key: str | None = "main") -> Send:
        """The request that creates a session.  Raises NotPossible."""
        create = require(self.file.create_session, "create-session")
        name = f"{self.prefix}session-{len(self.sessions) + 1}"
        self.sessions.append(f"<<{name}>>")
        return replace(
            self._step(create.method, create.target, key, body=create.body), id_name=name, id_pointer=create.id
        )

    def run_body(self, kind: RunKind) -> dict[str, Any]:
        """The body that creates a run of a kind.  Raises NotPossible."""
        self.check_creation()
        create = require(self.file.create_run, "create-run")
        hook, needed = _HOOKED_KINDS.get(kind, ("", kind))
        if hook and getattr(self.file.hooks, hook) is not None:
            kind = needed
        return create.body | dict(require(getattr(self.file.runs, kind.replace("-", "_")), f"runs.{kind}"))

    def run_step(self, session: str, kind: RunKind = "plain", *, idempotency_key: str | None = None) -> Send:
        """The request that creates a run.  Raises NotPossible."""
        headers = self._idempotency(idempotency_key)
        body, create = self.run_body(kind), require(self.file.create_run, "create-run")
        name = f"{self.prefix}run-{len(self.runs) + 1}"
        self.runs[f"<<{name}>>"] = session
        target, text = (
            each.replace("{session_id}", session) for each in (create.target, json.dumps(body, ensure_ascii=False))
        )
        return replace(
            self._step(create.method, target, headers=headers, body=text),
            id_name=name,
            id_pointer=create.id,
            causes_events=True,
        )

    async def create_session(self) -> str:
        """Create a session; return its name.  Raises NotPossible and Unexpected."""
        self.check_creation()
        return await self._create(self.session_step(), "session")

    async def create_run(self, session: str, kind: RunKind = "plain") -> str:
        """Create a run; return its name.  Raises NotPossible and Unexpected."""
        return await self._create(self.run_step(session, kind), "run")

    async def _create(self, step: Send, what: str) -> str:
        exchange = await self.execute(step)
        if exchange.error_code == PERMISSION_DENIED:
            raise self.refused_key(step.key, exchange)
        self.expect_success(exchange, f"a new {what}")
        if step.id_name not in self.runner.ids:
            found = ", ".join(islice(pointers(exchange.json), _MOST_POINTERS))
            raise Unexpected(
                f"Expected the id of the {what} at {step.id_pointer} (create-{what}.id in probe.toml) in the response "
                f"to {exchange.method} {exchange.target}, got {f'values at {found}' if found else 'no JSON object'}."
            )
        return f"<<{step.id_name}>>"

    async def start(self, kind: RunKind = "plain", *, deltas: bool = True) -> tuple[str, str, StreamReader]:
        """Create a session, open its stream, and create a run: its names, and the stream."""
        self.run_body(kind)  # raises NotPossible before anything is created
        session = await self.create_session()
        stream = await self.open_stream(session, deltas=deltas)
        return session, await self.create_run(session, kind), stream

    async def provoke(self, name: Literal["resync", "deadline", "closing"], session: str, run: str) -> bool:
        """Send the request of a hook if there is one; return whether there is.  Raises NotPossible."""
        hook = getattr(self.file.hooks, name)
        if hook is None:
            return False
        target, body = (
            text.replace("{session_id}", session).replace("{run_id}", run)
            for text in (hook.target, json.dumps(hook.body, ensure_ascii=False))
        )
        exchange = await self.send(hook.method, target, body=body)
        if not exchange.is_success:
            raise NotPossible(f"the request of hooks.{name} got {exchange.outcome}")
        return True

    async def start_tool_call(self, kind: RunKind = "tool") -> tuple[str, str, StreamReader, str]:
        """Create a run that waits for a tool result: its names, the stream, and the name of the call."""
        self.result("")  # raises NotPossible before anything is created
        session, run, stream = await self.start(kind)
        await self.await_call(run, stream, kind)
        return session, run, stream, stream.first_call

    async def await_call(self, run: str, stream: StreamReader, kind: RunKind) -> None:
        """Read up to an open call of an application tool.  Raises NotPossible if the run ends before."""
        found = await stream.until(AGENT_CUSTOM_TOOL_USE, *_RUN_ENDS, run=run)
        if found[-1].type != AGENT_CUSTOM_TOOL_USE:
            raise stream.lacks(f"a run of kind runs.{kind} ends without {AGENT_CUSTOM_TOOL_USE}")

    async def answer_calls(self, run: str, stream: StreamReader, answered: str) -> Event:
        """Answer each open call of a run except the `answered` one, until the run ends; return its last event.

        Raises NotPossible if the correct result of the probe file does not fit another call, and Unexpected.
        """
        done = {self.runner.fill(answered)}
        while True:
            for call, name in stream.calls.items():
                if call not in done:
                    done.add(call)
                    response = await self.command(run, "resume", self.result(name))
                    if response.error_code == TOOL_RESULT_INVALID:
                        raise NotPossible(
                            "the run opens several calls, and tool-result.correct of probe.toml does not fit all"
                        )
                    self.expect_success(response, "a resumed run")
            last = (await stream.until(AGENT_CUSTOM_TOOL_USE, *_RUN_ENDS, run=run))[-1]
            if last.type in TERMINAL_RUN_TYPES:
                return last

    async def read_to_end(self, session: str, cursor: str) -> tuple[list[str | None], str]:
        """Read a session after a cursor until its run has ended.

        Returns the ids of the durable events, and the name of the last one (the cursor if there are none).  The run may
        have ended before, and its end may be ephemeral: if the session is not busy any more, the end of a second run is
        waited for.
        """
        stream = await self.open_stream(session, cursor)
        step = self.run_step(session)
        response = await self.execute(step)
        if response.error_code == SESSION_BUSY:
            # A run is still active, or its end has just been sent, and the session then becomes idle.
            await stream.until(*_RUN_ENDS, STATUS_IDLE)
        else:
            self.expect_success(response, "a new run")
            await stream.until_run_ends(f"<<{step.id_name}>>")
        await stream.close()
        return [event.id for event in stream.durable], stream.cursor() if stream.durable else cursor

    async def expect_same_replay(self, session: str, cursor: str) -> None:
        """Read a session after a cursor until its run has ended, and expect the same events from a replay."""
        ids, last = await self.read_to_end(session, cursor)
        if ids:
            replay = await self.open_stream(session, cursor)
            await replay.expect_ids(ids, last)
            await replay.close()

    def command_step(
        self,
        run: str,
        name: Literal["cancel", "resume"],
        body: Mapping[str, Any] | None = None,
        **options: Unpack[CommandOptions],
    ) -> Send:
        """The request that cancels or resumes a run of this case or of the ready session.  Raises NotPossible."""
        session = self.runs[run] if run in self.runs else self.ready.session  # noqa: SIM401 - ready may be missing
        headers = self._idempotency(options.get("idempotency_key"))
        target = f"/v1/sessions/{session}/runs/{run}/{name}"
        return self._step("POST", target, options.get("key", "main"), headers=headers, body=body or {})

    async def command(
        self,
        run: str,
        name: Literal["cancel", "resume"],
        body: Mapping[str, Any] | None = None,
        **options: Unpack[CommandOptions],
    ) -> HttpExchange:
        """Cancel or resume a run.  Raises NotPossible."""
        return await self.execute(self.command_step(run, name, body, **options))

    def _idempotency(self, key: str | None) -> list[tuple[str, str]]:
        """The header with an idempotency key, unique to this case and session.  Raises NotPossible."""
        if key is None:
            return []
        header_name = require(self.file.idempotency_header, "idempotency-header")
        session = self.sessions[0] if self.sessions else self.ready.session
        return [(header_name, f"{key}-{session}")]

    def result(self, call: str, *, wrong: bool = False) -> dict[str, Any]:
        """The body that resumes a run with the result of a call.  Raises NotPossible."""
        given, name = self.file.tool_result, "wrong" if wrong else "correct"
        body = require(given and getattr(given, name), f"tool-result.{name}")
        return dict(json.loads(json.dumps(body).replace("{tool_call_id}", call)))

    async def read(self, step: Read, awaited: str = "", *, is_lossy: bool = False) -> list[Event] | None:
        """Read a stream; return None if it ended before.

        Raises TimedOut, with what was `awaited`, if no event arrives for too long; for `is_lossy` see there.
        """
        self.steps.append(step)
        if step.seconds is not None:
            return await self.runner.read(step)
        stream = self.runner.stream(step.stream)
        # What is replayed has already happened, so it takes as long as a response.
        limit_s, known_s = self.timeout_s, self.pace.run_s if step.until_id is None else self.pace.response_s
        if step.comment:
            limit_s = max(limit_s, KEEP_ALIVE_LIMIT_SECONDS)
            known_s = limit_s / LONG_ENOUGH
        for _ in range(_MOST_WAITS):
            before = len(stream.events)
            try:
                async with asyncio.timeout(limit_s):
                    return await self.runner.read(step)
            except TimeoutError:
                if len(stream.events) == before:
                    raise TimedOut(awaited, limit_s, stream.received, known_s, is_lossy=is_lossy) from None
        raise TimedOut(awaited, _MOST_WAITS * limit_s, stream.received, None, is_lossy=is_lossy)

    # Streams.

    async def request_stream(
        self, session: str, cursor: str | None = None, **options: Unpack[StreamOptions]
    ) -> StreamReader:
        """Request a stream, which may be refused."""
        deltas, codings = options.get("deltas", True), options.get("codings")
        query = "" if deltas is None else f"?event_deltas={str(deltas).lower()}"
        headers = [("Accept", EVENT_STREAM)]
        headers += [] if cursor is None else [(LAST_EVENT_ID, cursor)]
        headers += [] if codings is None else [("Accept-Encoding", codings)]
        target = f"/v1/sessions/{session}/events/stream{query}"
        step = self._step("GET", target, options.get("key", "main"), headers=headers)
        self._streams += 1
        name = f"{self.prefix}stream-{self._streams}"
        exchange = await self.execute(replace(step, stream=name, is_slow=options.get("slow", False)))
        return StreamReader(name, exchange, self, partial(self.open_stream, session, **options), cursor)

    async def open_stream(
        self, session: str, cursor: str | None = None, **options: Unpack[StreamOptions]
    ) -> StreamReader:
        """Open a stream.  Raises Unexpected if it is refused."""
        stream = await self.request_stream(session, cursor, **options)
        if not (stream.exchange.status == 200 and stream.exchange.is_stream):
            kind = header(stream.exchange.headers, "content-type") or "no Content-Type"
            raise Unexpected(f"Expected a stream (200 text/event-stream), got {stream.exchange.outcome}, {kind}.")
        return stream

    async def close_stream(self, name: str) -> None:
        """Close the connection of a stream."""
        self.steps.append(Close(name))
        await self.runner.stream(name).close()

    # Expectations.

    def expect_error(self, exchange: HttpExchange, *codes: str, masked_by: Sequence[str] = ()) -> None:
        """Raise Unexpected unless the service refused with one of these codes, and with its status.

        Raises NotPossible if it refused with one of the codes in `masked_by`: it may check that first.
        """
        expected = [f"{ERROR_CODES[code]} {code}" for code in codes]
        if exchange.outcome in expected:
            return
        if exchange.outcome in {f"{ERROR_CODES[code]} {code}" for code in masked_by}:
            raise NotPossible(f"the service refuses the request for another reason first: {exchange.outcome}")
        raise Unexpected(
            f"Expected {' or '.join(expected)} for {exchange.method} {exchange.target}, got {exchange.outcome}."
        )

    def expect_success(self, exchange: HttpExchange, what: str) -> None:
        """Raise Unexpected unless the service responded with 2xx."""
        if not exchange.is_success:
            raise Unexpected(f"Expected {what} for {exchange.method} {exchange.target}, got {exchange.outcome}.")

    def expect_refused(self, exchange: HttpExchange) -> None:
        """Raise Unexpected unless the service refused the request itself, with any code."""
        if exchange.status is None or exchange.status // 100 != 4:
            raise Unexpected(f"Expected an error for {exchange.method} {exchange.target}, got {exchange.outcome}.")

    def expect(self, condition: bool, sentence: str) -> None:
        """Raise Unexpected with a sentence unless something is the case."""
        if not condition:
            raise Unexpected(sentence)

    # Afterwards.

    def adopt(self, steps: Sequence[Step]) -> None:
        """Take over the sessions and runs that the steps of a case create, so that they are cleaned up."""
        for step in steps:
            if isinstance(step, Send) and step.id_name is not None:
                name, session = f"<<{step.id_name}>>", _SESSION.search(step.target)
                if session is None:
                    self.sessions.append(name)
                else:
                    self.runs[name] = session[0]

    async def clean_up(self) -> int:
        """Cancel runs, close streams, delete sessions; return how many sessions are left.  Raises TimedOut."""
        ended = {
            event.keys.get("run")
            for stream in self.runner.streams.values()
            for event in stream.events
            if event.type in TERMINAL_RUN_TYPES
        }
        for run in self.runs:
            run_id = self.runner.ids.get(run.strip("<>"))
            if run_id is not None and run_id not in ended:
                ended.add(run_id)
                await self._send(self.command_step(run, "cancel"))
        await self.runner.close()
        made = self.made_sessions
        if self.file.delete_session is None:
            return len(made)
        delete = self.file.delete_session
        for session in made:
            await self._send(self._step(delete.method, delete.target.replace("{session_id}", session)))
        return 0

    @property
    def made_sessions(self) -> list[str]:
        """The names of the sessions that were created."""
        return [session for session in self.sessions if session.strip("<>") in self.runner.ids]


def _retry_after(exchange: HttpExchange) -> float | None:
    """The seconds that a response asks to wait, within bounds; None if it does not."""
    value = header(exchange.headers, RETRY_AFTER) or ""
    if not (value.isascii() and value.isdigit()):
        return None
    return min(int(value[:6]), _LONGEST_LIMIT_SECONDS) + 0.01


async def make_ready_session(prober: Prober) -> None:
    """Create the ready session, with a completed run.  Raises NotPossible, Unexpected and TimedOut."""
    began_ns = prober.runner.log.clock.now_ns()
    session, run, stream = await prober.start()
    await stream.until_run_ends(run)
    prober.pace.run_s = (prober.runner.log.clock.now_ns() - began_ns) / 1e9
    await stream.close()
    prober.ready_session = ReadySession(session, run, stream)


SETUP_CASE = Case(
    name=SETUP,
    clause='Event types, run.completed: "The run finished successfully."',
    steps="Create a session and a run, and read to its end.",
    rules=(),
    leaves="a session",
    is_safe=True,
    severity=Severity.ERROR,
    about="A run completes.",
    function=make_ready_session,
)


def find_calls(events: Sequence[Event]) -> list[str]:
    """Return the ids of the calls that the application has to answer."""
    calls = (event.keys.get("tool_call") for event in events if event.type == AGENT_CUSTOM_TOOL_USE)
    return list(dict.fromkeys(filter(None, calls)))


def make_smaller_runs(file: ProbeFile, step: Send) -> Iterator[Send]:
    """Yield the request that creates a run with bodies of kinds that do less."""
    if step.causes_events and file.create_run is not None:
        for body in (file.runs.failing, file.runs.plain):
            if body is not None:
                yield replace(step, body=json.dumps(file.create_run.body | body, ensure_ascii=False))
