"""Interpret the script of one run: several tracks of steps side by side, each with the time of its next action."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any

from wiretape.contract import (
    AGENT_CUSTOM_TOOL_USE,
    EVENT_EXPIRED,
    RUN_CANCELLED,
    RUN_COMPLETED,
    RUN_FAILED,
    STATUS_IDLE,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_STARTED,
)
from wiretape.observations import Ending
from wiretape_replay.service.engine.event_emitter import Content, EventEmitter


class RunStatus(StrEnum):
    """The status of a run.  Only `waiting_for_input` is from the specification; the others are assumptions."""

    RUNNING = "running"
    WAITING = "waiting_for_input"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended."""
        return self in _TERMINAL


_TERMINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


class CallOutcome(Enum):
    """The outcome of a tool call."""

    OPEN = auto()
    RESOLVED = auto()
    """It completed or failed."""
    EXPIRED = auto()
    """Its deadline passed."""
    DROPPED = auto()
    """Its run ended first."""


@dataclass(slots=True)
class RunToolCall:
    """A tool call of a run."""

    id: str
    name: str
    input: Mapping[str, Any]
    is_of_application: bool = False
    outcome: CallOutcome = CallOutcome.OPEN

    @property
    def summary(self) -> dict[str, Any]:
        """What every event of the call contains."""
        return {"tool_call_id": self.id, "name": self.name}


@dataclass(slots=True)
class ResumePoint:
    """A point at which a run waits to be resumed."""

    call: RunToolCall | None
    """The call whose result it waits for; None if it waits for input."""
    deadline_ns: int | None
    """On the engine's clock; None: no deadline."""
    unavailable: int
    """How many more times resuming is refused because the runtime is unavailable."""
    result: Mapping[str, Any] | None = None
    """What it was resumed with."""

    @property
    def tool_call_id(self) -> str | None:
        """The id of the call; None for input."""
        return None if self.call is None else self.call.id


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run as it is at one moment."""

    id: str
    number: int
    """The run's number in its session, from 1."""
    status: RunStatus
    created_ns: int
    ended_ns: int | None = None
    waiting: tuple[ResumePoint, ...] = ()


_CONTINUE, _EXPIRE = 0, 1
"""What happens to a track at one time: tracks continue before deadlines expire."""
_ENDS = {RunStatus.COMPLETED: RUN_COMPLETED, RunStatus.FAILED: RUN_FAILED, RunStatus.CANCELLED: RUN_CANCELLED}


@dataclass(frozen=True, slots=True)
class Branches:
    """Actions that start now, side by side."""

    actions: "Sequence[Actions]"


Actions = Generator[int | ResumePoint | Branches, None, None]
"""The actions of a run or step.  Yields a delay in nanoseconds, a wait for a client, or branches to complete first."""


@dataclass(slots=True)
class _Track:
    """Actions in progress."""

    actions: Actions
    due_ns: int | None
    """When they continue; None: not by themselves."""
    parent: "_Track | None" = None
    wait: ResumePoint | None = None
    branches: int = 0
    """How many branches it waits for."""

    def next_time(self) -> tuple[int, int] | None:
        """When something happens to it, and what; None: nothing before a client resumes the run."""
        if self.due_ns is not None:
            return self.due_ns, _CONTINUE
        if self.wait is not None and self.wait.deadline_ns is not None:
            return self.wait.deadline_ns, _EXPIRE
        return None


class RunInterpreter:
    """A run in progress.  The caller never passes a time before an earlier one."""

    def __init__(self, emitter: EventEmitter, run_id: str, number: int, now_ns: int, *, has_sandbox: bool) -> None:
        self.emitter = emitter
        self.id = run_id
        self.number = number
        self.status = RunStatus.RUNNING
        self.has_sandbox = has_sandbox
        self.is_sandbox_missing = False
        self.calls: dict[str, RunToolCall] = {}
        """Every tool call by its id."""
        self._created_ns = self._now_ns = now_ns
        self._ended_ns: int | None = None
        self._tracks: list[_Track] = []
        self._id_counts: dict[str, int] = {}

    def start(self, actions: Actions) -> None:
        """Start the run with its actions."""
        self._tracks.append(_Track(actions, self._now_ns))

    # What the engine uses.

    def snapshot(self) -> RunSnapshot:
        """The run as it is now."""
        return RunSnapshot(self.id, self.number, self.status, self._created_ns, self._ended_ns, tuple(self.waits))

    @property
    def waits(self) -> list[ResumePoint]:
        """What it waits for, in the order in which the waits began."""
        return [track.wait for track in self._tracks if track.wait is not None]

    def due_ns(self) -> int | None:
        """When something happens without a client; None: nothing does."""
        track = self._next_track()
        time = track.next_time() if track is not None else None
        return None if time is None else time[0]

    def advance(self, now_ns: int) -> None:
        """Do everything that is due."""
        while (track := self._next_track()) is not None and (time := track.next_time()) is not None:
            if time[0] > now_ns:
                return
            self._now_ns = time[0]
            if time[1] == _EXPIRE:
                self._expire(track)
            else:
                self._continue(track)

    def resume(self, wait: ResumePoint, result: Mapping[str, Any], now_ns: int) -> None:
        """Resume the track that waits."""
        track = next(track for track in self._tracks if track.wait is wait)
        wait.result = result
        track.wait, track.due_ns = None, now_ns
        self._update_status()

    def cancel(self, now_ns: int) -> None:
        """Cancel the run."""
        self._now_ns = now_ns
        self.end(RunStatus.CANCELLED)

    # What the step handlers use.

    def emit(self, type_: str, content: Content, data: Mapping[str, Any]) -> None:
        """Emit an event of the run."""
        self.emitter.emit(type_, self.id, self._now_ns, content, data)

    def emit_delta(self, type_: str, text: str) -> None:
        """Emit a fragment of text."""
        self.emitter.emit_delta(type_, self.id, self._now_ns, text)

    def end_streams(self, ending: Ending) -> None:
        """End the connected streams."""
        self.emitter.end_streams(ending, self._now_ns)

    def new_id(self, prefix: str) -> str:
        """The id of something that belongs to this run."""
        self._id_counts[prefix] = number = self._id_counts.get(prefix, 0) + 1
        return self.emitter.generate_id(prefix, self.number, number)

    def start_call(self, name: str, input_: Mapping[str, Any], *, is_of_application: bool = False) -> RunToolCall:
        """Start a tool call."""
        call = RunToolCall(self.new_id("call"), name, input_, is_of_application)
        self.calls[call.id] = call
        self.emit(TOOL_STARTED, call.summary | {"input": input_}, call.summary)
        return call

    def ask(self, call: RunToolCall, timeout_ns: int | None, unavailable: int) -> ResumePoint:
        """Ask the application to execute a tool; it has `timeout_ns`."""
        wait = self.wait(call, timeout_ns, unavailable)
        content = call.summary | {"input": call.input}
        if wait.deadline_ns is not None:
            content["deadline"] = self.emitter.format_time(wait.deadline_ns)
        self.emit(AGENT_CUSTOM_TOOL_USE, content, call.summary)
        return wait

    def wait(self, call: RunToolCall | None, timeout_ns: int | None, unavailable: int) -> ResumePoint:
        """Return a wait that lasts until the run is resumed, or for `timeout_ns`."""
        return ResumePoint(call, None if timeout_ns is None else self._now_ns + timeout_ns, unavailable)

    def complete_call(self, call: RunToolCall, output: Mapping[str, Any]) -> None:
        """Complete a tool call."""
        call.outcome = CallOutcome.RESOLVED
        self.emit(TOOL_COMPLETED, call.summary | {"output": output}, call.summary)

    def fail_call(self, call: RunToolCall, message: str, outcome: CallOutcome = CallOutcome.RESOLVED) -> None:
        """Fail a tool call."""
        call.outcome = outcome
        self.emit(TOOL_FAILED, call.summary | {"error": {"message": message}}, call.summary)

    def fail(self, code: str, message: str) -> None:
        """End the run with an error."""
        self.end(RunStatus.FAILED, {"error": {"code": code, "message": message}})

    def end(self, status: RunStatus, content: Mapping[str, Any] | None = None) -> None:
        """End the run and its open calls; the session is idle again."""
        for call in self.calls.values():
            if call.outcome is CallOutcome.OPEN:
                self.fail_call(call, f"The run was {status} first.", CallOutcome.DROPPED)
        self.status, self._ended_ns = status, self._now_ns
        self._tracks.clear()
        self.emit(_ENDS[status], content or {}, {"status": status.value})
        self.emit(STATUS_IDLE, {"status": "idle"}, {"status": "idle"})

    # How tracks continue.

    def _next_track(self) -> _Track | None:
        """The track to which something happens first; of several at one time the first that began."""
        times = ((track.next_time(), track) for track in self._tracks)
        due = [(time, track) for time, track in times if time is not None]
        return min(due, key=lambda pair: pair[0])[1] if due else None

    def _continue(self, track: _Track) -> None:
        try:
            yielded = next(track.actions)
        except StopIteration:
            self._finish(track)
            return
        if self.status.is_terminal:
            return
        if isinstance(yielded, ResumePoint):
            track.wait, track.due_ns = yielded, None
        elif isinstance(yielded, Branches):
            track.due_ns, track.branches = None, len(yielded.actions)
            self._tracks += [_Track(actions, self._now_ns, track) for actions in yielded.actions]
        else:
            track.due_ns = self._now_ns + yielded
        self._update_status()

    def _finish(self, track: _Track) -> None:
        if self.status.is_terminal:
            return
        self._tracks.remove(track)
        parent = track.parent
        if parent is not None:
            parent.branches -= 1
            if parent.branches == 0:
                parent.due_ns = self._now_ns

    def _expire(self, track: _Track) -> None:
        call = track.wait.call if track.wait is not None else None
        if call is not None:
            self.fail_call(call, "The result did not arrive before the deadline.", CallOutcome.EXPIRED)
        what = f"The result of {call.name}" if call is not None else "The input"
        self.fail(EVENT_EXPIRED, f"{what} did not arrive before the deadline.")

    def _update_status(self) -> None:
        self.status = RunStatus.WAITING if self.waits else RunStatus.RUNNING
