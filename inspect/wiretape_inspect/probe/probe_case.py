"""Cases: what they state about themselves, and what they can do to a service."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, TypeVar

from wiretape.contract import (
    AGENT_CUSTOM_TOOL_USE,
    CURSOR_HEADER,
    ERROR_CODES,
    EVENT_STREAM,
    RATE_LIMITED,
    RETRY_AFTER,
    TERMINAL_RUN_TYPES,
)
from wiretape.observations import header
from wiretape.rules import Severity
from wiretape_inspect.probe.probe_client import HttpExchange, StreamEvent
from wiretape_inspect.probe.probe_file import ProbeFile
from wiretape_inspect.probe.probe_steps import Close, Read, Send, Step, StepRunner, Wait, pointers
from wiretape_inspect.report.case_results import CaseDescription

_SESSION = re.compile(r"<<[^<>]*session-[0-9]+>>")
_IDLE_SECONDS = 0.3
_LONGEST_LIMIT_SECONDS = 120
_MOST_LIMITED_SECONDS = 180
"""How long a request is repeated that a rate limit refuses; other cases wait for the same limit."""
_DEADLINE_SECONDS = 6
_MOST_POINTERS = 5

T = TypeVar("T")
RunKind = Literal["plain", "tool", "brief-tool", "unavailable-tool", "long", "failing", "many", "resync", "no-sandbox"]


class NotPossible(Exception):  # noqa: N818 - an outcome, not an error of the program
    """The case needs something that the service or the probe file does not have: the reason."""


class Unexpected(Exception):  # noqa: N818 - an outcome, not an error of the program
    """The service does not do what the clause of the case requires; the message is `Expected …, got ….`."""


def require(value: T | None, key: str) -> T:
    """Return what the probe file has under a key.  Raises NotPossible if it has nothing."""
    if value is None:
        raise NotPossible(f"probe.toml has no {key}")
    return value


@dataclass(frozen=True)
class Case(CaseDescription):
    """One situation, and how to bring it about."""

    function: "Callable[[Prober], Awaitable[None]]"
    needs_limits: bool = False
    is_long: bool = False
    """Whether it takes longer than others, so that it should begin first."""


CASES: dict[str, Case] = {}
"""Every case by its name."""


def case(
    name: str,
    clause: str,
    *,
    steps: str,
    rules: str = "",
    leaves: str = "a session",
    safe: bool = True,
    severity: Severity = Severity.ERROR,
    limits: bool = False,
    long: bool = False,
) -> "Callable[[Callable[[Prober], Awaitable[None]]], Callable[[Prober], Awaitable[None]]]":
    """Make the decorated function a case; its docstring states what has to be true."""

    def decorate(function: "Callable[[Prober], Awaitable[None]]") -> "Callable[[Prober], Awaitable[None]]":
        about = (function.__doc__ or "").strip()
        if name in CASES or not about:
            raise ValueError(f"Case {name} already exists, or has no docstring.")
        codes = tuple(rules.split())
        CASES[name] = Case(name, clause, steps, codes, leaves, safe, severity, about, function, limits, long)
        return function

    return decorate


@dataclass(slots=True)
class StreamReader:
    """A stream that a case reads."""

    name: str
    exchange: HttpExchange
    _prober: "Prober"

    @property
    def events(self) -> list[StreamEvent]:
        """All events so far."""
        return self.exchange.events

    @property
    def durable(self) -> list[StreamEvent]:
        """The durable events so far."""
        return [event for event in self.events if event.is_durable]

    def cursor(self, number: int = -1) -> str:
        """The name of the id of a durable event, by its index."""
        count = len(self.durable)
        index = number if number >= 0 else count + number
        if not 0 <= index < count:
            raise Unexpected(f"Expected more durable events on the stream, got {count}.")
        return f"<<{self.name}.id-{index + 1}>>"

    async def until(self, *types: str) -> list[StreamEvent]:
        """Read up to an event of one of these types.  Raises Unexpected if the stream ends first."""
        wanted = " or ".join(types)
        self._prober.waits_for = f"{wanted} on a stream"
        found = await self._prober.read(Read(self.name, types))
        if found is None:
            seen = self.events[-1].type if self.events else "no event"
            how = self.exchange.detail or "the service ended it"
            raise Unexpected(f"Expected {wanted}, got the end of the stream after {seen} ({how}).")
        return found

    async def until_run_ends(self) -> list[StreamEvent]:
        """Read up to the end of a run."""
        return await self.until(*sorted(TERMINAL_RUN_TYPES))

    async def has_ended_before_run(self) -> bool:
        """Read up to the end of a run; return whether the stream ended before."""
        return await self._prober.read(Read(self.name, tuple(sorted(TERMINAL_RUN_TYPES)))) is None

    async def until_comment(self) -> None:
        """Read up to a comment.  Raises Unexpected if the stream ends first."""
        self._prober.waits_for = "a keep-alive comment"
        if await self._prober.read(Read(self.name, comment=True)) is None:
            raise Unexpected(f"Expected a keep-alive comment, got the end of the stream ({self.exchange.detail}).")

    async def read_for(self, seconds: float) -> list[StreamEvent]:
        """Read for some time."""
        return await self._prober.read(Read(self.name, seconds=seconds)) or []

    async def until_event(self, cursor: str) -> list[StreamEvent]:
        """Read up to the event with an id.  Raises Unexpected if the stream ends first."""
        self._prober.waits_for = "an event on a stream"
        found = await self._prober.read(Read(self.name, until_id=cursor))
        if found is None:
            raise Unexpected(
                f"Expected all events after the cursor, got the end of the stream ({self.exchange.detail})."
            )
        return found

    async def close(self) -> None:
        """Close the connection."""
        await self._prober.close_stream(self.name)


@dataclass(frozen=True, slots=True)
class ReadySession:
    """A session with a run that has completed, which all cases may read."""

    session: str
    run: str
    events: tuple[StreamEvent, ...]
    """Its durable events."""
    stream: str
    runner: StepRunner
    steps: tuple[Step, ...]

    def cursor(self, index: int) -> str:
        """The name of the id of a durable event."""
        return f"<<{self.stream}.id-{index % len(self.events) + 1}>>"


@dataclass(slots=True)
class Prober:
    """What a case can do.  Every request and every wait becomes a step, so that the case can be repeated."""

    file: ProbeFile
    runner: StepRunner
    ready_session: ReadySession | None = None
    not_ready: str = ""
    """Why there is no ready session: a clause."""
    can_create: bool = True
    """Whether sessions and runs can be created: not if those of the ready session could not."""
    prefix: str = ""
    keeps_limits: bool = True
    """Whether to wait and repeat a request that is refused because of a limit."""
    steps: list[Step] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    """The session of each run that was created."""
    waits_for: str = "the service"
    extend: Callable[[float], None] = lambda _: None
    """Grants the case more time (s)."""
    refused_for_s: float | None = None
    """How long to wait before the case can be tried again, if a rate limit spoilt it."""
    _streams: int = 0

    @property
    def ready(self) -> ReadySession:
        """The shared session.  Raises NotPossible."""
        if self.ready_session is None:
            raise NotPossible(self.not_ready)
        return self.ready_session

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
        self.waits_for = f"the responses to {len(steps)} requests"
        exchanges = []
        for number, step in enumerate(steps, 1):
            started = replace(step, is_started_only=number < len(steps))
            self.steps.append(started)
            exchanges.append(await self.runner.send(started))
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
            raise NotPossible(f"probe.toml has no keys.{key}, or its environment variable is not set")
        text = body if isinstance(body, str) or body is None else json.dumps(body, ensure_ascii=False)
        more = () if text is None else (("Content-Type", "application/json"),)
        return Send(method, self.file.base_path + target, key, (*headers, *more), text)

    async def execute(self, step: Send) -> HttpExchange:
        """Execute a step that sends a request, and return the complete exchange."""
        self.steps.append(step)
        waited = 0.0
        while True:
            self.waits_for = f"a response to {step.method} {step.target}"
            exchange = await self.runner.send(step)
            seconds = _retry_after(exchange)
            if not (self.keeps_limits and exchange.error_code == RATE_LIMITED and seconds is not None):
                return exchange
            if waited > _MOST_LIMITED_SECONDS:
                return exchange
            waited += seconds + 1
            self.extend(seconds)
            await self.runner.log.clock.sleep(seconds)

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
        if not self.can_create:
            raise NotPossible(self.not_ready)
        create = require(self.file.create_run, "create-run")
        return create.body | dict(require(getattr(self.file.runs, kind.replace("-", "_")), f"runs.{kind}"))

    def run_step(self, session: str, kind: RunKind = "plain") -> Send:
        """The request that creates a run.  Raises NotPossible."""
        body, create = self.run_body(kind), require(self.file.create_run, "create-run")
        name = f"{self.prefix}run-{len(self.runs) + 1}"
        self.runs[f"<<{name}>>"] = session
        target, text = (
            each.replace("{session_id}", session) for each in (create.target, json.dumps(body, ensure_ascii=False))
        )
        return replace(self._step(create.method, target, body=text), id_name=name, id_pointer=create.id)

    async def create_session(self) -> str:
        """Create a session; return its name.  Raises NotPossible and Unexpected."""
        if not self.can_create:
            raise NotPossible(self.not_ready)
        return await self._create(self.session_step(), "session")

    async def create_run(self, session: str, kind: RunKind = "plain") -> str:
        """Create a run; return its name.  Raises NotPossible and Unexpected."""
        return await self._create(self.run_step(session, kind), "run")

    async def _create(self, step: Send, what: str) -> str:
        exchange = await self.execute(step)
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

    async def start_tool_call(self, kind: RunKind = "tool") -> tuple[str, str, StreamReader, str]:
        """Create a run that waits for a tool result: its names, the stream, and the name of the call."""
        self.result("")  # raises NotPossible before anything is created
        session, run, stream = await self.start(kind)
        await stream.until(AGENT_CUSTOM_TOOL_USE)
        return session, run, stream, f"<<{stream.name}.call-1>>"

    def command_step(
        self,
        run: str,
        name: Literal["cancel", "resume"],
        body: Mapping[str, Any] | None = None,
        *,
        key: str | None = "main",
        idempotency_key: str | None = None,
    ) -> Send:
        """The request that cancels or resumes a run.  Raises NotPossible."""
        session = self.runs[run] if run in self.runs else self.ready.session  # noqa: SIM401 - ready may be missing
        headers = [] if idempotency_key is None else [self.idempotency(idempotency_key)]
        return self._step("POST", f"/v1/sessions/{session}/runs/{run}/{name}", key, headers=headers, body=body or {})

    async def command(
        self,
        run: str,
        name: Literal["cancel", "resume"],
        body: Mapping[str, Any] | None = None,
        *,
        key: str | None = "main",
        idempotency_key: str | None = None,
    ) -> HttpExchange:
        """Cancel or resume a run of this case or of the ready session.  Raises NotPossible."""
        return await self.execute(self.command_step(run, name, body, key=key, idempotency_key=idempotency_key))

    def idempotency(self, key: str) -> tuple[str, str]:
        """The header with an idempotency key, unique to this case and session.  Raises NotPossible."""
        header_name = require(self.file.idempotency_header, "idempotency-header")
        session = self.sessions[0] if self.sessions else self.ready.session
        return header_name, f"{key}-{session}"

    def result(self, call: str, *, wrong: bool = False) -> dict[str, Any]:
        """The body that resumes a run with the result of a call.  Raises NotPossible."""
        given, name = self.file.tool_result, "wrong" if wrong else "correct"
        body = require(given and getattr(given, name), f"tool-result.{name}")
        return dict(json.loads(json.dumps(body).replace("{tool_call_id}", call)))

    async def read(self, step: Read) -> list[StreamEvent] | None:
        """Read a stream."""
        self.steps.append(step)
        return await self.runner.read(step)

    async def miss_deadline(self, stream: StreamReader) -> None:
        """Wait until the deadline of a tool call has passed.  Raises NotPossible if the run does not end."""
        for _ in range(_DEADLINE_SECONDS):
            if TERMINAL_RUN_TYPES & {event.type for event in stream.events}:
                return
            self.steps.append(Wait(1))
            await self.runner.log.clock.sleep(1)
        raise NotPossible(f"the deadline of runs.brief-tool did not pass within {_DEADLINE_SECONDS} s")

    # Streams.

    def stream_step(
        self, session: str, cursor: str | None = None, *, deltas: bool | None = True, key: str | None = "main"
    ) -> Send:
        """The request for a stream; `deltas` None leaves the parameter out."""
        query = "" if deltas is None else f"?event_deltas={str(deltas).lower()}"
        headers = [("Accept", EVENT_STREAM), *([] if cursor is None else [(CURSOR_HEADER, cursor)])]
        return self._step("GET", f"/v1/sessions/{session}/events/stream{query}", key, headers=headers)

    async def request_stream(
        self,
        session: str,
        cursor: str | None = None,
        *,
        deltas: bool | None = True,
        key: str | None = "main",
        slow: bool = False,
    ) -> StreamReader:
        """Request a stream, which may be refused."""
        self._streams += 1
        name = f"{self.prefix}stream-{self._streams}"
        step = replace(self.stream_step(session, cursor, deltas=deltas, key=key), stream=name, is_slow=slow)
        return StreamReader(name, await self.execute(step), self)

    async def open_stream(
        self, session: str, cursor: str | None = None, *, deltas: bool | None = True, slow: bool = False
    ) -> StreamReader:
        """Open a stream.  Raises Unexpected if it is refused."""
        stream = await self.request_stream(session, cursor, deltas=deltas, slow=slow)
        if not (stream.exchange.status == 200 and stream.exchange.is_stream):
            kind = header(stream.exchange.headers, "content-type") or "no Content-Type"
            raise Unexpected(f"Expected a stream (200 text/event-stream), got {stream.exchange.outcome}, {kind}.")
        return stream

    async def close_stream(self, name: str) -> None:
        """Close the connection of a stream."""
        self.steps.append(Close(name))
        await self.runner.stream(name).close()

    # Expectations.

    def expect_error(self, exchange: HttpExchange, *codes: str) -> None:
        """Raise Unexpected unless the service refused with one of these codes, and with its status."""
        expected = [f"{ERROR_CODES[code].status} {code}" for code in codes]
        if exchange.outcome not in expected:
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
        """Cancel runs, close streams, delete sessions; return how many sessions are left."""
        ended = {
            event.run_id
            for stream in self.runner.streams.values()
            for event in stream.events
            if event.type in TERMINAL_RUN_TYPES
        }
        for run in self.runs:
            run_id = self.runner.ids.get(run.strip("<>"))
            if run_id is not None and run_id not in ended:
                ended.add(run_id)
                await self.runner.send(self.command_step(run, "cancel"))
        await self.runner.close()
        made = [session for session in self.sessions if session.strip("<>") in self.runner.ids]
        if self.file.delete_session is None:
            return len(made)
        delete = self.file.delete_session
        for session in made:
            await self.runner.send(self._step(delete.method, delete.target.replace("{session_id}", session)))
        return 0


def _retry_after(exchange: HttpExchange) -> float | None:
    """The seconds that a response asks to wait, within bounds; None if it does not."""
    value = header(exchange.headers, RETRY_AFTER) or ""
    if not (value.isascii() and value.isdigit()):
        return None
    return min(int(value[:6]), _LONGEST_LIMIT_SECONDS) + 0.01


async def make_ready_session(prober: Prober) -> ReadySession:
    """Create a session with a completed run.  Raises NotPossible and Unexpected."""
    session, run, stream = await prober.start()
    await stream.until_run_ends()
    await prober.read(Read(stream.name, seconds=_IDLE_SECONDS))
    events = tuple(stream.durable)
    await stream.close()
    if not events:
        raise NotPossible("a run of kind runs.plain has no durable events")
    return ReadySession(session, run, events, stream.name, prober.runner, tuple(prober.steps))
