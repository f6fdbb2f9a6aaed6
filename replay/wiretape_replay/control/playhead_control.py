"""Control of the playheads of a replay: one thread-safe handle with everything that can be done while it runs."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar, Unpack

from wiretape.contract import EVENT_TYPES
from wiretape.control_protocol import DEFAULT_WAIT_S
from wiretape.errors import InputError
from wiretape.rules import CATALOGUE, Finding
from wiretape.safe_text import closest_match, shorten
from wiretape_replay.control.control_requests import (
    AdvanceRequest,
    BreakpointRequest,
    SeekRequest,
    StepRequest,
    WaitCondition,
    WaitRequest,
    check_request,
)
from wiretape_replay.control.control_state import (
    PlayheadState,
    ReplayState,
    RequestSummary,
    describe_session,
    describe_speed,
)
from wiretape_replay.session.playhead import Breakpoint, Playhead, StepTarget
from wiretape_replay.session.playhead_clock import PlayheadClock, Playheads
from wiretape_replay.session.session_log import LogEntry, SessionLog
from wiretape_replay.session.session_streams import ConnectedStream

_MOST_LISTED = 10
_NOT_REACHED = {
    WaitCondition.STOPPED: "was still moving, or waiting for its first stream,",
    WaitCondition.BREAKPOINT: "was not at a breakpoint",
    WaitCondition.END: "was not at the end",
    WaitCondition.CONNECTED: "had no stream",
}

_P = ParamSpec("_P")
_T = TypeVar("_T")


class UnknownSessionError(InputError):
    """No session has this id."""


class BreakpointConditions(TypedDict, total=False):
    """The conditions of a breakpoint; see Breakpoint."""

    type: str
    sequence: int
    tool_call_id: str
    finding: str


def _in_loop(
    method: Callable[Concatenate["PlayheadControl", _P], _T],
) -> Callable[Concatenate["PlayheadControl", _P], _T]:
    """Let a method be called from any thread: it runs in the thread of the replay's event loop."""

    @wraps(method)
    def call(self: "PlayheadControl", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        async def run() -> _T:
            return method(self, *args, **kwargs)

        if self.is_in_loop or not self.loop.is_running():
            return method(self, *args, **kwargs)
        return _wait_for(asyncio.run_coroutine_threadsafe(run(), self.loop))

    return call


class PlayheadControl:
    """Moves the playheads of a replay and reports their state.  Use it from any thread.

    `control.session("s1")` controls one session.  Without a session, `state`, `pause`, `resume`, `reset` and changes
    of breakpoints apply to all sessions, and the other operations to the only one.
    With a playhead for each connection, `step`, `seek`, `state` and `wait` apply to the latest playhead of a session,
    the other operations to all of them.

    Operations raise InputError if they cannot be done.
    """

    def __init__(
        self,
        playheads: Playheads,
        logs: Mapping[str, SessionLog],
        *,
        connected: Collection[ConnectedStream] = (),
        requests: Callable[[], RequestSummary] = RequestSummary,
        on_reset: Collection[Callable[[], object]] = (),
        advance: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        """Create it in the event loop of the replay; `logs` and `connected` may change while the replay runs.

        `on_reset` are called by `reset`.  `advance` lets virtual time pass; None if there is none.
        """
        self.loop = asyncio.get_running_loop()
        self.changes = playheads.changes
        self.on_reset = list(on_reset)
        """What else `reset` resets; append to it."""
        self.client_findings: Sequence[Finding] = ()
        """The first findings about the client; a list that grows if the client is checked."""
        self._advance = advance
        self.session_id: str | None = None
        """The session that it controls; None: all sessions."""
        self._playheads = playheads
        self._logs = logs
        self._connected = connected
        self._requests = requests

    @property
    def is_in_loop(self) -> bool:
        """Whether the caller runs in the thread of the replay's event loop."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    @_in_loop
    def session(self, session_id: str | None = None) -> "PlayheadControl":
        """Control of one session; without an id, of the only one."""
        control = copy(self)
        control.session_id = self._log(session_id).session_id
        return control

    @_in_loop
    def state(self) -> ReplayState:
        """The state of the replay: its playheads, what is ahead of them, and who is connected."""
        logs = self._logs.values() if self.session_id is None else [self._log()]
        sessions = tuple(self._describe(log) for log in logs)
        return ReplayState(describe_speed(self._playheads.speed), sessions, self._requests())

    @_in_loop
    def session_state(self) -> PlayheadState:
        """The state of the session."""
        return self._describe(self._log())

    @_in_loop
    def pause(self) -> None:
        """Stop at the current position."""
        for clock in self._clocks():
            clock.move(Playhead.pause)

    @_in_loop
    def resume(self) -> None:
        """Continue, past the breakpoint that stopped the playhead."""
        for clock in self._clocks():
            clock.move(Playhead.resume)

    @_in_loop
    def step(self, to: StepTarget | str = StepTarget.EVENT, *, count: int = 1) -> LogEntry | None:
        """Pause, then advance past the next `event`, `durable` event or `finding`, `count` times.

        Return the last entry passed; None if the log ends first.
        """
        passed = self.steps(to, count=count)
        return passed[-1] if len(passed) == count else None

    @_in_loop
    def steps(self, to: StepTarget | str = StepTarget.EVENT, *, count: int = 1) -> list[LogEntry]:
        """The same; return all entries that were stepped to, fewer than `count` if the log ends first."""
        request = check_request("step", StepRequest, to=to, count=count)
        clock = self._playheads.latest(self._log())
        passed: list[LogEntry] = []
        while len(passed) < count and (entry := clock.move(Playhead.step, request.to)) is not None:
            passed.append(entry)
        return passed

    @_in_loop
    def seek(
        self,
        *,
        sequence: int | None = None,
        event: str | None = None,
        time_s: float | None = None,
        position: int | None = None,
        end: bool = False,
    ) -> None:
        """Go just after the event with a sequence or id, to a time or position of the log, or to its end.

        Give exactly one of these.
        """
        request = check_request(
            "seek", SeekRequest, sequence=sequence, event=event, time_s=time_s, position=position, end=end
        )
        log = self._log()
        clock = self._playheads.latest(log)
        if request.time_s is not None:
            time_ns = round(request.time_s * 1e9)
            clock.move(Playhead.seek, log.position_after_time(time_ns), log_time_ns=time_ns)
        else:
            clock.move(Playhead.seek, _find_position(log, request))

    @property
    @_in_loop
    def breakpoints(self) -> list[Breakpoint]:
        """The breakpoints of the session."""
        return list(self._playheads.latest(self._log()).playhead.breakpoints)

    @_in_loop
    def add_breakpoint(self, point: Breakpoint | None = None, **conditions: Unpack[BreakpointConditions]) -> Breakpoint:
        """Stop before every event that matches all conditions; return the breakpoint."""
        point = _breakpoint(point, conditions)
        if point is None:
            raise InputError("A breakpoint needs a condition: type, sequence, tool_call_id or finding.")
        entries = [entry for log in self._selected_logs() for entry in log.entries]
        _check_event_type(point.type, {entry.type for entry in entries if entry.type is not None})
        _check_finding(point.finding, {code for entry in entries for code in entry.findings})
        for clock in self._clocks():
            clock.playhead.breakpoints = tuple(dict.fromkeys([*clock.playhead.breakpoints, point]))
            clock.update()
        return point

    @_in_loop
    def remove_breakpoint(self, point: Breakpoint | None = None, **conditions: Unpack[BreakpointConditions]) -> None:
        """Remove the breakpoint that is given, or that has these conditions; without any, remove all."""
        point = _breakpoint(point, conditions)
        latest = [self._playheads.latest(log).playhead for log in self._selected_logs()]
        if point is not None and not any(point in playhead.breakpoints for playhead in latest):
            raise InputError("There is no such breakpoint.")
        for clock in self._clocks():
            kept = [] if point is None else [other for other in clock.playhead.breakpoints if other != point]
            clock.playhead.breakpoints = tuple(kept)
            clock.update()

    @_in_loop
    def reset(self) -> None:
        """Start over: reset the playheads and close their streams.  Breakpoints stay.

        Without a session, the recorded responses and the faults are reset, too.
        """
        if self.session_id is not None:
            for clock in self._clocks():
                clock.move(Playhead.reset)
            return
        for reset in self.on_reset:
            reset()
        self._playheads.reset()

    def wait(
        self, until: WaitCondition | str = WaitCondition.STOPPED, *, timeout_s: float = DEFAULT_WAIT_S
    ) -> PlayheadState:
        """Wait until the playhead is `stopped`, at a `breakpoint` or at the `end`, or a stream is `connected`.

        Raises TimeoutError if that does not happen in time, and RuntimeError in a coroutine: use `async_wait` there.
        """
        return self._block(lambda: self._wait(until, timeout_s))

    async def async_wait(
        self, until: WaitCondition | str = WaitCondition.STOPPED, *, timeout_s: float = DEFAULT_WAIT_S
    ) -> PlayheadState:
        """The same in a coroutine of asyncio."""
        return await self._dispatch(lambda: self._wait(until, timeout_s))

    @property
    def can_advance(self) -> bool:
        """Whether there is virtual time."""
        return self._advance is not None

    def advance(self, seconds: float) -> None:
        """Let virtual time pass, a day at most, and everything happen that is due in it.

        Raises RuntimeError in a coroutine: use `async_advance` there.
        """
        self._block(lambda: self._advance_time(seconds))

    async def async_advance(self, seconds: float) -> None:
        """The same in a coroutine of asyncio."""
        await self._dispatch(lambda: self._advance_time(seconds))

    def _block(self, work: "Callable[[], Coroutine[Any, Any, _T]]") -> _T:
        if _is_in_coroutine():
            raise RuntimeError("This would block the event loop: in a coroutine, use async_wait or async_advance.")
        return _wait_for(asyncio.run_coroutine_threadsafe(work(), self.loop))

    async def _dispatch(self, work: "Callable[[], Coroutine[Any, Any, _T]]") -> _T:
        if self.is_in_loop:
            return await work()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self.loop))

    async def _advance_time(self, seconds: float) -> None:
        request = check_request("advance", AdvanceRequest, seconds=seconds)
        if self._advance is None:
            raise InputError("Only virtual time can be advanced: use a virtual clock (--clock virtual).")
        await self._advance(request.seconds)

    async def _wait(self, until: WaitCondition | str, timeout_s: float) -> PlayheadState:
        request = check_request("wait", WaitRequest, until=until, timeout_s=timeout_s)
        log = self._log()
        with suppress(TimeoutError):
            async with asyncio.timeout(request.timeout_s):
                while not self._is_reached(log, request.until) and not self.changes.is_closed:
                    await self.changes.wait(self.changes.count)
        if not self._is_reached(log, request.until):
            raise TimeoutError(not_reached_message(log.session_id, request.until, request.timeout_s))
        return self._describe(log)

    def _is_reached(self, log: SessionLog, until: WaitCondition) -> bool:
        if until is WaitCondition.CONNECTED:
            return any(stream.clock.playhead.log is log for stream in self._connected)
        status = self._playheads.latest(log).playhead.status
        return status.is_stopped if until is WaitCondition.STOPPED else status.value == until.value

    def _describe(self, log: SessionLog) -> PlayheadState:
        return describe_session(self._playheads.of_session(log), self._connected, time.monotonic_ns())

    def _clocks(self) -> list[PlayheadClock]:
        return [clock for log in self._selected_logs() for clock in self._playheads.of_session(log)]

    def _selected_logs(self) -> list[SessionLog]:
        if self.session_id is None and self._logs:
            return list(self._logs.values())
        return [self._log()]

    def _log(self, session_id: str | None = None) -> SessionLog:
        """The log of a session; without an id, of the session that is controlled, or of the only one."""
        session_id = self.session_id if session_id is None else session_id
        if not self._logs:
            raise InputError(
                "There is no playhead to move: no session has a stream, or the replay is in verbatim mode."
            )
        if session_id is None and len(self._logs) > 1:
            raise InputError(f"There are several sessions: choose one ({self._list_sessions()}).")
        if session_id is None:
            return next(iter(self._logs.values()))
        if session_id not in self._logs:
            hint = f"{'use' if len(self._logs) == 1 else 'choose one of'} {self._list_sessions()}"
            raise UnknownSessionError(f"Unknown session {shorten(session_id)}: {hint}.")
        return self._logs[session_id]

    def _list_sessions(self) -> str:
        ids = [shorten(session_id) for session_id in self._logs]
        more = f" and {len(ids) - _MOST_LISTED} more" if len(ids) > _MOST_LISTED else ""
        return ", ".join(ids[:_MOST_LISTED]) + more


def not_reached_message(session_id: str, until: WaitCondition, timeout_s: float) -> str:
    """The message for a wait that took too long."""
    return f"Session {session_id} {_NOT_REACHED[until]} after {timeout_s:g} s."


def _find_position(log: SessionLog, request: SeekRequest) -> int:
    session = f"Session {shorten(log.session_id)}"
    if request.sequence is not None:
        after = log.position_after_sequence(request.sequence)
        if after is None:
            raise InputError(f"{session} has no event with the sequence number {request.sequence}.")
        return after
    if request.event is not None:
        position = log.position_of(request.event)
        if position is None:
            raise InputError(f"{session} has no durable event with the id {shorten(request.event)}.")
        return position + 1
    if request.position is None:
        return len(log)
    if not 0 <= request.position <= len(log):
        raise InputError(f"Invalid position {request.position}: expected a number from 0 to {len(log)}.")
    return request.position


def _breakpoint(point: Breakpoint | None, conditions: BreakpointConditions) -> Breakpoint | None:
    """The breakpoint that is given as an object, or by its conditions; None if neither is given."""
    if point is not None and conditions:
        raise InputError("Specify either a breakpoint object or its conditions, not both.")
    fields: Mapping[str, Any] = conditions
    if point is not None:
        fields = {name: getattr(point, name) for name in Breakpoint.__dataclass_fields__}
    return check_request("breakpoint", BreakpointRequest, **fields).breakpoint


def _check_event_type(pattern: str | None, recorded: Collection[str]) -> None:
    """Refuse a type that neither the specification nor the log has; a pattern may match future events."""
    if pattern is None or "*" in pattern or pattern in EVENT_TYPES or pattern in recorded:
        return
    similar = closest_match(pattern, EVENT_TYPES)
    raise InputError(f"Unknown event type {shorten(repr(pattern))}{f'; did you mean {similar}?' if similar else '.'}")


def _check_finding(prefix: str | None, recorded: Collection[str]) -> None:
    """Refuse a prefix that no rule code has, nor any finding of the log."""
    if not prefix or any(code.startswith(prefix) for code in (*CATALOGUE, *recorded)):
        return
    upper = prefix.upper()
    similar = upper if any(code.startswith(upper) for code in CATALOGUE) else closest_match(upper, CATALOGUE)
    guess = f"; did you mean {similar}?" if similar else "."
    raise InputError(f"Unknown rule code {shorten(repr(prefix))}{guess}")


def _wait_for(future: "Future[_T]") -> _T:
    try:
        return future.result()
    except BaseException:  # Ctrl-C, or the time limit of a test
        future.cancel()
        raise


def _is_in_coroutine() -> bool:
    """Whether a task of asyncio runs in this thread.

    A running loop alone does not matter: it may run on another stack, as with Playwright's synchronous interface.
    """
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False
