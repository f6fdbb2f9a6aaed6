"""Control of the playheads of a replay: one thread-safe handle with everything that can be done while it runs."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import asdict
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, Concatenate, ParamSpec, TypedDict, TypeVar, Unpack

from msgspec import Meta

from wiretape.control_protocol import DEFAULT_WAIT_S, LONGEST_WAIT_S, MOST_STEPS
from wiretape.errors import InputError
from wiretape.input_validation import Source
from wiretape.labels import join_first
from wiretape.observations import Ending
from wiretape.recording.formats.tape_schema import DEFAULT_FRAMING, piece_bytes
from wiretape.rules import Finding
from wiretape.safe_text import closest_match, shorten
from wiretape.units import parse_speed
from wiretape_replay.channel.channel_log import ChannelLog, LogEntry
from wiretape_replay.channel.channel_streams import ConnectedStream
from wiretape_replay.channel.playhead import Breakpoint, Playhead, StepTarget
from wiretape_replay.channel.playhead_clock import PlayheadClock, Playheads
from wiretape_replay.control.control_operations import OPERATIONS, CommandOption, operation
from wiretape_replay.control.control_state import (
    HeldState,
    PlayheadState,
    ReplayState,
    RequestSummary,
    describe_channel,
    describe_entry,
    describe_speed,
)
from wiretape_replay.faults.fault_actions import FaultActions
from wiretape_replay.replayed_contracts import ReplayedContracts

_MOST_LISTED = 10
_LONGEST_LOG_S = 1e9
_LONGEST_ADVANCE_S = 86_400

_P = ParamSpec("_P")
_T = TypeVar("_T")


class WaitCondition(StrEnum):
    """What can be waited for."""

    STOPPED = "stopped"
    """The playhead stays at its position until somebody moves it: paused, at a breakpoint, or at the end."""
    BREAKPOINT = "breakpoint"
    END = "end"
    CONNECTED = "connected"
    """A stream is connected."""
    HELD = "held"
    """A response is held."""


class Cut(StrEnum):
    """How a response that is held ends."""

    DROP = "drop"
    RESET = "reset"


_NOT_REACHED = {
    WaitCondition.STOPPED: "was still moving, or waiting for its first stream,",
    WaitCondition.BREAKPOINT: "was not at a breakpoint",
    WaitCondition.END: "was not at the end",
    WaitCondition.CONNECTED: "had no stream",
}


_CUTS = {Cut.DROP: Ending.SERVICE_CLOSED, Cut.RESET: Ending.SERVICE_RESET}
_Holding = Annotated[
    str | None, CommandOption("--fault", "Name of the fault that holds them.  [default: all that are held]", "NAME")
]


class UnknownChannelError(InputError):
    """No channel has this id."""


class BreakpointConditions(TypedDict, total=False):
    """The conditions of a breakpoint."""

    type: Annotated[str | None, CommandOption("--type", "Stop before events of this type; * matches anything.", "TYPE")]
    sequence: Annotated[
        int | None, CommandOption("--sequence", "Stop before the event with this sequence number.", "N")
    ]
    keys: Annotated[
        dict[str, str] | None, CommandOption("--key", "Stop before events of the entity with this key.", "NAME=KEY")
    ]
    finding: Annotated[
        str | None,
        CommandOption("--finding", "Stop before events with this finding; a code prefix is enough.", "CODE"),
    ]


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
        return wait_for(asyncio.run_coroutine_threadsafe(run(), self.loop))

    return call


_AsyncMethod = Callable[Concatenate["PlayheadControl", _P], Coroutine[Any, Any, _T]]


def _from_any_loop(method: _AsyncMethod[_P, _T]) -> _AsyncMethod[_P, _T]:
    """Let a coroutine method be called in any event loop: it runs in that of the replay."""

    @wraps(method)
    async def call(self: "PlayheadControl", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if self.is_in_loop:
            return await method(self, *args, **kwargs)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(method(self, *args, **kwargs), self.loop))

    return call


def _blocking(method: _AsyncMethod[_P, _T]) -> Callable[Concatenate["PlayheadControl", _P], _T]:
    """The form of a coroutine method that blocks the calling thread.  It raises RuntimeError in a coroutine."""

    @wraps(method)
    def call(self: "PlayheadControl", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if _is_in_coroutine():
            raise RuntimeError("This would block the event loop: in a coroutine, use async_wait or async_advance.")
        return wait_for(asyncio.run_coroutine_threadsafe(method(self, *args, **kwargs), self.loop))

    return call


def _describe_steps(control: "PlayheadControl", passed: Sequence[LogEntry | None]) -> Mapping[str, object]:
    """The last entry that was passed, None if the log ended first, and the number of steps."""
    last = passed[-1]
    if last is None:
        return {"stepped": None, "found": len(passed) - 1}
    return {"stepped": asdict(describe_entry(last, control.channel_state().position - 1)), "found": len(passed)}


def _describe_breakpoints(_: "PlayheadControl", found: Mapping[str, Sequence[Breakpoint]]) -> Mapping[str, object]:
    return {"breakpoints": {channel: [asdict(point) for point in points] for channel, points in found.items()}}


class PlayheadControl:
    """Moves the playheads of a replay and reports their state.  Use it from any thread.

    `control.channel("s1")` controls one channel.  Without a channel, `state`, `pause`, `resume`, `reset` and changes
    of breakpoints apply to all channels, and the other operations to the only one.
    With a playhead for each connection, `step`, `seek`, `state` and `wait` apply to the latest playhead of a channel,
    the other operations to all of them.

    Operations raise InputError if they cannot be done.
    """

    def __init__(
        self,
        playheads: Playheads,
        logs: Mapping[str, ChannelLog],
        contracts: ReplayedContracts,
        *,
        faults: FaultActions,
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
        self.name: str | None = None
        """The channel that it controls; None: all channels."""
        self._faults = faults
        self._playheads = playheads
        self._logs = logs
        self._contracts = contracts
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
    def channel(self, name: str | None = None) -> "PlayheadControl":
        """Control of one channel; without an id, of the only one."""
        control = copy(self)
        control.name = self._log(name).name
        return control

    @operation("state", "GET")
    @_in_loop
    def state(self) -> ReplayState:
        """Show where the playheads are, what is ahead, and who is connected."""
        logs = self._logs.values() if self.name is None else [self._log()]
        channels = tuple(self._describe(log) for log in logs)
        held = tuple(
            HeldState(each.fault.name, each.request.channel, each.request.connection)
            for each in self._faults.find_held(channel=self.name)
        )
        return ReplayState(describe_speed(self._playheads.speed), channels, self._requests(), held)

    @_in_loop
    def channel_state(self) -> PlayheadState:
        """The state of the channel."""
        return self._describe(self._log())

    @operation("pause")
    @_in_loop
    def pause(self) -> None:
        """Stop at the current position."""
        for clock in self._clocks():
            clock.move(Playhead.pause)

    @operation("resume")
    @_in_loop
    def resume(self) -> None:
        """Continue from the current position, even if a breakpoint stopped the playhead there."""
        for clock in self._clocks():
            clock.move(Playhead.resume)

    @operation("step", result=_describe_steps)
    @_in_loop
    def steps(
        self,
        to: Annotated[StepTarget | str, CommandOption(None, choices=StepTarget)] = StepTarget.EVENT,
        *,
        count: Annotated[
            int, Meta(ge=1, le=MOST_STEPS), CommandOption("--count", f"Number of steps, 1 to {MOST_STEPS:,}.", "N")
        ] = 1,
    ) -> list[LogEntry | None]:
        """Pause, then advance past the next event, durable event, or event with a finding.

        Return the entries that were stepped to, at most `count`, and then None if the log ends first.
        """
        clock = self._playheads.latest(self._log())
        passed: list[LogEntry | None] = []
        while len(passed) < count and passed[-1:] != [None]:
            passed.append(clock.move(Playhead.step, StepTarget(to)))
        return passed

    def step(self, to: StepTarget | str = StepTarget.EVENT, *, count: int = 1) -> LogEntry | None:
        """Pause, then advance past the next `event`, `durable` event or `finding`, `count` times.

        Return the last entry passed; None if the log ends first.
        """
        return self.steps(to, count=count)[-1]

    @operation("seek")
    @_in_loop
    def seek(
        self,
        *,
        sequence: Annotated[
            int | None, CommandOption("--sequence", "Go to just after the event with this sequence number.", "N")
        ] = None,
        event: Annotated[
            str | None, CommandOption("--event", "Go to just after the durable event with this id.", "ID")
        ] = None,
        time_s: Annotated[
            Annotated[float, Meta(ge=0, le=_LONGEST_LOG_S)] | None,
            CommandOption("--time", "Go to a time in the log.", "SECONDS"),
        ] = None,
        position: Annotated[
            int | None, CommandOption("--position", "Go to a position in the log, counted from 0.", "N")
        ] = None,
        end: Annotated[bool, CommandOption("--end", "Go to the end of the log.")] = False,
    ) -> None:
        """Go to a position in the log, forward or back.

        Give exactly one: just after the event with a sequence or id, at a time or position, or at the end.
        """
        if [sequence, event, time_s, position, end or None].count(None) != 4:
            raise InputError("seek: expected exactly one of sequence, event, time_s, position or end.")
        log = self._log()
        clock = self._playheads.latest(log)
        if time_s is not None:
            time_ns = round(time_s * 1e9)
            clock.move(Playhead.seek, log.position_after_time(time_ns), log_time_ns=time_ns)
        else:
            clock.move(Playhead.seek, _find_position(log, sequence, event, position))

    @property
    @_in_loop
    def breakpoints(self) -> list[Breakpoint]:
        """The breakpoints of the channel."""
        return list(self._playheads.latest(self._log()).playhead.breakpoints)

    @operation("breakpoints", "GET", result=_describe_breakpoints, has_state=False)
    def breakpoints_by_channel(self) -> Mapping[str, Sequence[Breakpoint]]:
        """List the breakpoints of each channel."""
        return {channel.channel: channel.breakpoints for channel in self.state().channels}

    @operation("breakpoints")
    @_in_loop
    def add_breakpoint(
        self,
        point: Breakpoint | None = None,
        /,
        **conditions: Unpack[BreakpointConditions],
    ) -> Breakpoint:
        """Stop before every event that matches all the given conditions.

        Return the breakpoint.
        """
        point = _breakpoint(point, Breakpoint(**conditions))
        if point is None:
            raise InputError("A breakpoint needs a condition: type, sequence, keys or finding.")
        entries = [entry for log in self._selected_logs() for entry in log.entries]
        _check_event_type(point.type, {entry.type for entry in entries if entry.type is not None}, self._contracts)
        for name in point.keys or ():
            if problem := self._contracts.describe_unknown_entity(name):
                raise InputError(f"{problem[0].upper()}{problem[1:]}.")
        _check_finding(
            point.finding, {code for entry in entries for code in entry.findings}, self._contracts.rule_codes
        )
        for clock in self._clocks():
            if point not in clock.playhead.breakpoints:
                clock.playhead.breakpoints = (*clock.playhead.breakpoints, point)
            clock.update()
        return point

    @operation("breakpoints", "DELETE")
    @_in_loop
    def remove_breakpoint(
        self,
        point: Breakpoint | None = None,
        /,
        **conditions: Unpack[BreakpointConditions],
    ) -> None:
        """Remove the breakpoint that is given, or that has these conditions; without any, remove all."""
        point = _breakpoint(point, Breakpoint(**conditions))
        latest = [self._playheads.latest(log).playhead for log in self._selected_logs()]
        if point is not None and not any(point in playhead.breakpoints for playhead in latest):
            raise InputError("There is no such breakpoint.")
        for clock in self._clocks():
            kept = [] if point is None else [other for other in clock.playhead.breakpoints if other != point]
            clock.playhead.breakpoints = tuple(kept)
            clock.update()

    @operation("speed")
    @_in_loop
    def set_speed(self, speed: Annotated[str | float, CommandOption(None)]) -> None:
        """Move the playheads of all channels at another speed: a multiple of the recorded one, or `max`."""
        self._playheads.set_speed(parse_speed(speed))

    @operation("reset")
    @_in_loop
    def reset(self) -> None:
        """Start over: return playheads and responses to the beginning, reset faults, and close connected streams.

        Faults that were added are removed, and breakpoints stay.  With a channel, only its playhead and its streams
        are reset.
        """
        if self.name is not None:
            self._faults.cut(self.name)
            for clock in self._clocks():
                clock.move(Playhead.reset)
            return
        for reset in self.on_reset:
            reset()
        self._faults.reset()
        self._playheads.reset()

    @operation("wait", result=lambda _, reached: {"reached": reached})
    @_from_any_loop
    async def is_reached_in_time(
        self,
        until: Annotated[WaitCondition | str, CommandOption(None, choices=WaitCondition)] = WaitCondition.STOPPED,
        *,
        timeout_s: Annotated[
            float,
            Meta(ge=0, le=LONGEST_WAIT_S),
            CommandOption("--timeout", f"Fail after this many seconds, {LONGEST_WAIT_S:g} at most.", "SECONDS"),
        ] = DEFAULT_WAIT_S,
        fault: Annotated[
            str | None, CommandOption("--fault", "Wait until this fault holds a response (with held).", "NAME")
        ] = None,
    ) -> bool:
        """Wait until the playhead stops, is at a breakpoint or at the end, a stream connects, or a response is held.

        Return whether that happened in time.
        """
        condition = WaitCondition(until)
        log = None if condition is WaitCondition.HELD else self._log()
        if fault is not None and log is not None:
            raise InputError(f"A fault holds responses, and is never {condition}: wait until held.")
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._is_reached(log, condition, fault) and not self.changes.is_closed:
                    await self.changes.wait(self.changes.count)
        return self._is_reached(log, condition, fault)

    @_from_any_loop
    async def async_wait_held(self, fault: str | None = None, *, timeout_s: float = DEFAULT_WAIT_S) -> None:
        """Wait until a response is held, by a certain fault if there is a name.

        Raises TimeoutError if that does not happen in time.
        """
        if not await self.is_reached_in_time(WaitCondition.HELD, fault=fault, timeout_s=timeout_s):
            raise TimeoutError(not_reached_message("", WaitCondition.HELD, timeout_s))

    wait_held = _blocking(async_wait_held)

    @_from_any_loop
    async def async_wait(
        self, until: WaitCondition | str = WaitCondition.STOPPED, *, timeout_s: float = DEFAULT_WAIT_S
    ) -> PlayheadState:
        """Wait until the playhead is `stopped`, at a `breakpoint` or at the `end`, or a stream is `connected`.

        Raises TimeoutError if that does not happen in time.
        """
        if not await self.is_reached_in_time(until, timeout_s=timeout_s):
            raise TimeoutError(not_reached_message(self._log().name, WaitCondition(until), timeout_s))
        return self.channel_state()

    wait = _blocking(async_wait)

    @operation("advance")
    @_from_any_loop
    async def async_advance(
        self,
        seconds: Annotated[float, Meta(ge=0, le=_LONGEST_ADVANCE_S), CommandOption(None, metavar="SECONDS")],
    ) -> None:
        """Let virtual time pass, a day at most, and everything happen that is due in it."""
        if self._advance is None:
            raise InputError("Only virtual time can be advanced: use a virtual clock (--clock virtual).")
        await self._advance(seconds)

    advance = _blocking(async_advance)

    @operation("fault", result=lambda _, name: {"fault": name})
    @_in_loop
    def add_fault(self, fault: Annotated[dict[str, Any], CommandOption(None, metavar="FAULT")]) -> str:
        """Add a fault, with the keys of a fault script, until the next reset.  It applies once, unless it has `times`.

        Return its name.
        """
        return self._faults.add(fault if self.name is None else {"channel": self.name} | fault)

    @operation("fault", "DELETE")
    @_in_loop
    def remove_fault(self, fault: str) -> None:
        """Remove a fault by its name; what it holds goes on."""
        self._faults.remove(fault)

    @contextmanager
    def hold(self, **fault: Any) -> "Iterator[StreamHold]":
        """Hold the response that a fault selects, `hold(after={"type": "message.*"})`, during the block."""
        if fault.get("do", "hold") != "hold":
            raise InputError("hold() only holds: add any other fault with control.add_fault().")
        name = self.add_fault({"do": "hold"} | fault)
        try:
            yield StreamHold(self, name)
        finally:
            with suppress(InputError):  # it was removed, or everything was reset
                self.remove_fault(name)

    @operation("release")
    @_in_loop
    def release(self, *, fault: _Holding = None) -> None:
        """Let responses go on that are held."""
        self._faults.proceed(None, fault, self.name)

    @operation("send")
    @_in_loop
    def send(
        self, event: Annotated[str | dict[str, Any], CommandOption(None, metavar="EVENT")], *, fault: _Holding = None
    ) -> None:
        """Send an event, as its lines or as the element of a tape, to the streams that are held."""
        self._faults.proceed(piece_bytes(tape_element(event), DEFAULT_FRAMING, Source("event"), ()), fault, self.name)

    @operation("cut")
    @_in_loop
    def cut(
        self, how: Annotated[Cut | str, CommandOption(None, choices=Cut)] = Cut.DROP, *, fault: _Holding = None
    ) -> None:
        """Close the connections of responses that are held, cleanly (drop) or not (reset)."""
        self._faults.proceed(_CUTS[Cut(how)], fault, self.name)

    def _is_reached(self, log: ChannelLog | None, until: WaitCondition, fault: str | None) -> bool:
        if log is None:
            return self._faults.is_held(fault, self.name)
        if until is WaitCondition.CONNECTED:
            return any(stream.clock.playhead.log is log for stream in self._connected)
        status = self._playheads.latest(log).playhead.status
        return status.is_stopped if until is WaitCondition.STOPPED else status.value == until.value

    def _describe(self, log: ChannelLog) -> PlayheadState:
        return describe_channel(self._playheads.of_channel(log), self._connected, time.monotonic_ns())

    def _clocks(self) -> list[PlayheadClock]:
        return [clock for log in self._selected_logs() for clock in self._playheads.of_channel(log)]

    def _selected_logs(self) -> list[ChannelLog]:
        if self.name is None and self._logs:
            return list(self._logs.values())
        return [self._log()]

    def _log(self, name: str | None = None) -> ChannelLog:
        """The log of a channel; without an id, of the channel that is controlled, or of the only one."""
        name = self.name if name is None else name
        if not self._logs:
            raise InputError(
                "There is no playhead to move: no channel has a stream, or the replay is in verbatim mode."
            )
        if name is None and len(self._logs) > 1:
            raise InputError(f"There are several channels: choose one ({self._list_channels()}).")
        if name is None:
            return next(iter(self._logs.values()))
        if name not in self._logs:
            hint = f"{'use' if len(self._logs) == 1 else 'choose one of'} {self._list_channels()}"
            raise UnknownChannelError(f"Unknown channel {shorten(name)}: {hint}.")
        return self._logs[name]

    def _list_channels(self) -> str:
        return join_first([shorten(name) for name in self._logs], _MOST_LISTED)


class StreamHold:
    """A fault that holds a response.

    What is done before it holds one happens as soon as it does.
    """

    def __init__(self, control: PlayheadControl, name: str) -> None:
        self.name = name
        """The name of the fault."""
        self._control = control

    def release(self) -> None:
        """Let the response go on."""
        self._control.release(fault=self.name)

    def send(self, event: str | dict[str, Any]) -> None:
        """Send an event, as its lines or as the element of a tape."""
        self._control.send(event, fault=self.name)

    def cut(self, how: Cut | str = Cut.DROP) -> None:
        """Close the connection, cleanly (drop) or not (reset)."""
        self._control.cut(how, fault=self.name)

    def wait(self, timeout_s: float = DEFAULT_WAIT_S) -> None:
        """Wait until the server holds a response.  Raises TimeoutError if that does not happen in time."""
        self._control.wait_held(self.name, timeout_s=timeout_s)

    async def async_wait(self, timeout_s: float = DEFAULT_WAIT_S) -> None:
        """Do the same as `wait`, in a coroutine."""
        await self._control.async_wait_held(self.name, timeout_s=timeout_s)


def tape_element(event: object) -> object:
    """Return an event as the element of a tape."""
    return {"lines": event.rstrip("\r\n")} if isinstance(event, str) else event


def not_reached_message(name: str, until: WaitCondition, timeout_s: float) -> str:
    """The message for a wait that took too long."""
    if until is WaitCondition.HELD:
        return f"No response was held after {timeout_s:g} s."
    return f"Channel {name} {_NOT_REACHED[until]} after {timeout_s:g} s."


def _find_position(log: ChannelLog, sequence: int | None, event: str | None, position: int | None) -> int:
    """The position after an event, or a position that is given; without any, the end."""
    channel = f"Channel {shorten(log.name)}"
    if sequence is not None:
        after = log.position_after_sequence(sequence)
        if after is None:
            raise InputError(f"{channel} has no event with the sequence number {sequence}.")
        return after
    if event is not None:
        found = log.position_of(event)
        if found is None:
            raise InputError(f"{channel} has no durable event with the id {shorten(event)}.")
        return found + 1
    if position is not None and not 0 <= position <= len(log):
        raise InputError(f"Invalid position {position}: expected a number from 0 to {len(log)}.")
    return len(log) if position is None else position


def _breakpoint(point: Breakpoint | None, conditions: Breakpoint) -> Breakpoint | None:
    """The breakpoint that is given as an object, or by its conditions; None if neither is given."""
    if point is None:
        return None if conditions == Breakpoint() else conditions
    if conditions != Breakpoint():
        raise InputError("Specify either a breakpoint object or its conditions, not both.")
    OPERATIONS["breakpoints"]["POST"].check(asdict(point))
    return point


def _check_event_type(pattern: str | None, recorded: Collection[str], contracts: ReplayedContracts) -> None:
    """Refuse a type that neither the contracts nor the log have; a pattern may match future events."""
    if pattern is None or "*" in pattern or pattern in recorded or contracts.has_other_types:
        return
    if pattern not in contracts.types:
        similar = closest_match(pattern, contracts.types)
        guess = f"; did you mean {similar}?" if similar else "."
        raise InputError(f"Unknown event type {shorten(repr(pattern))}{guess}")


def _check_finding(prefix: str | None, recorded: Collection[str], known: Collection[str]) -> None:
    """Refuse a prefix that no rule code has, nor any finding of the log."""
    if not prefix or any(code.startswith(prefix) for code in (*known, *recorded)):
        return
    upper = prefix.upper()
    similar = upper if any(code.startswith(upper) for code in known) else closest_match(upper, known)
    guess = f"; did you mean {similar}?" if similar else "."
    raise InputError(f"Unknown rule code {shorten(repr(prefix))}{guess}")


def wait_for(future: "Future[_T]") -> _T:
    """Wait for the result of a future; cancel it if that is interrupted."""
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
