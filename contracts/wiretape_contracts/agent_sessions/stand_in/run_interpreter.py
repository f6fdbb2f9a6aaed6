"""Interpret the script of one run: several tracks of steps side by side, each with the time of its next action."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any

from wiretape.observations import Ending
from wiretape_contracts.agent_sessions import (
    AGENT_CUSTOM_TOOL_USE,
    EVENT_EXPIRED,
    INTERMEDIATE_DELTA,
    MESSAGE_COMPLETED,
    MESSAGE_DELTA,
    MESSAGE_STARTED,
    REASONING_DELTA,
    REASONING_MESSAGE,
    RUN_CANCELLED,
    RUN_COMPLETED,
    RUN_FAILED,
    RUN_STARTED,
    SANDBOX_PROVISION_FAILED,
    SANDBOX_RECREATED,
    SESSION_ERROR,
    STATUS_IDLE,
    STREAM_RESYNC,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_STARTED,
)
from wiretape_contracts.agent_sessions.stand_in.event_emitter import Content, EventEmitter, format_time
from wiretape_contracts.agent_sessions.stand_in.scenario_steps import (
    Ask,
    EndStream,
    Fail,
    Intermediate,
    Pause,
    Repeat,
    Resync,
    RunScript,
    Sandbox,
    Say,
    Scenario,
    SessionError,
    Step,
    TextStep,
    Think,
    TimedStep,
    Together,
    Tool,
    WaitForInput,
    to_ns,
)


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
        return self in _ENDS


_ENDS = {RunStatus.COMPLETED: RUN_COMPLETED, RunStatus.FAILED: RUN_FAILED, RunStatus.CANCELLED: RUN_CANCELLED}

_STREAM_ENDINGS = {"close": Ending.SERVICE_CLOSED, "reset": Ending.SERVICE_RESET, "end": Ending.COMPLETE}


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
    is_of_application: bool
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
    """When they continue, or the deadline of the wait; None: not before a client or a branch continues them."""
    parent: "_Track | None" = None
    wait: ResumePoint | None = None
    branches: int = 0
    """How many branches it waits for."""


class RunInterpreter:
    """A run.  The caller never passes a time before an earlier one."""

    def __init__(
        self,
        emitter: EventEmitter,
        scenario: Scenario,
        script: RunScript,
        number: int,
        now_ns: int,
        *,
        has_sandbox: bool,
    ) -> None:
        """`number` is that of the run in its session, from 1."""
        self.id = emitter.generate_id("run", number)
        self.status = RunStatus.RUNNING
        self.created_ns = self._now_ns = now_ns
        self.ended_ns: int | None = None
        self.calls: dict[str, RunToolCall] = {}
        """Every tool call by its id."""
        self._emitter = emitter
        self._pace_s = scenario.pace if script.pace is None else script.pace
        self._deadline_s = scenario.deadline
        self._number = number
        self._has_sandbox = has_sandbox
        self._is_sandbox_missing = False
        self._tracks = [_Track(self._play(script), now_ns)]
        self._id_counts: dict[str, int] = {}

    @property
    def waits(self) -> list[ResumePoint]:
        """What it waits for, in the order in which the waits began."""
        return [track.wait for track in self._tracks if track.wait is not None]

    @property
    def due_ns(self) -> int | None:
        """When something happens without a client; None: nothing does."""
        track = self._next_track()
        return None if track is None else track.due_ns

    def advance(self, now_ns: int) -> None:
        """Do everything that is due."""
        while (track := self._next_track()) is not None and track.due_ns is not None and track.due_ns <= now_ns:
            self._now_ns = track.due_ns
            if track.wait is None:
                self._continue(track)
            else:
                self._expire(track.wait)

    def resume(self, wait: ResumePoint, result: Mapping[str, Any], now_ns: int) -> None:
        """Resume the track that waits."""
        track = next(track for track in self._tracks if track.wait is wait)
        wait.result = result
        track.wait, track.due_ns = None, now_ns
        self._update_status()

    def cancel(self, now_ns: int) -> None:
        """Cancel the run."""
        self._now_ns = now_ns
        self._end(RunStatus.CANCELLED)

    # How tracks continue.

    def _next_track(self) -> _Track | None:
        """The track to which something happens first; of several at one time the first that began."""
        waiting = [track for track in self._tracks if track.due_ns is not None]
        # Tracks continue before deadlines expire.
        return min(waiting, key=lambda track: (track.due_ns, track.wait is not None), default=None)

    def _continue(self, track: _Track) -> None:
        yielded = next(track.actions, None)
        if self.status.is_terminal:
            return
        match yielded:
            case int():
                track.due_ns = self._now_ns + yielded
            case ResumePoint():
                track.wait, track.due_ns = yielded, yielded.deadline_ns
            case Branches():
                track.due_ns, track.branches = None, len(yielded.actions)
                self._tracks += [_Track(actions, self._now_ns, track) for actions in yielded.actions]
            case None:
                self._tracks.remove(track)
                if (parent := track.parent) is not None:
                    parent.branches -= 1
                    parent.due_ns = None if parent.branches else self._now_ns
        self._update_status()

    def _expire(self, wait: ResumePoint) -> None:
        if wait.call is not None:
            self._fail_call(wait.call, "The result did not arrive before the deadline.", CallOutcome.EXPIRED)
        what = "The input" if wait.call is None else f"The result of {wait.call.name}"
        self._fail(EVENT_EXPIRED, f"{what} did not arrive before the deadline.")

    def _update_status(self) -> None:
        self.status = RunStatus.WAITING if self.waits else RunStatus.RUNNING

    # Events.

    def _emit(self, type_: str, content: Content, data: Mapping[str, Any]) -> None:
        self._emitter.emit(type_, self.id, self._now_ns, content, data)

    def _emit_error(self, code: str, message: str) -> None:
        self._emit(SESSION_ERROR, {"error": {"code": code, "message": message}}, {"code": code})

    def _new_id(self, prefix: str) -> str:
        """The id of something that belongs to this run."""
        self._id_counts[prefix] = count = self._id_counts.get(prefix, 0) + 1
        return self._emitter.generate_id(prefix, self._number, count)

    def _start_call(self, step: Tool | Ask) -> RunToolCall:
        call = RunToolCall(self._new_id("call"), step.name, step.input, isinstance(step, Ask))
        self.calls[call.id] = call
        self._emit(TOOL_STARTED, call.summary | {"input": step.input}, call.summary)
        return call

    def _complete_call(self, call: RunToolCall, output: Mapping[str, Any]) -> None:
        call.outcome = CallOutcome.RESOLVED
        self._emit(TOOL_COMPLETED, call.summary | {"output": output}, call.summary)

    def _fail_call(self, call: RunToolCall, message: str, outcome: CallOutcome = CallOutcome.RESOLVED) -> None:
        call.outcome = outcome
        self._emit(TOOL_FAILED, call.summary | {"error": {"message": message}}, call.summary)

    def _fail(self, code: str, message: str) -> None:
        """End the run with an error."""
        self._end(RunStatus.FAILED, {"error": {"code": code, "message": message}})

    def _end(self, status: RunStatus, content: Mapping[str, Any] | None = None) -> None:
        """End the run and its open calls; the session is idle again."""
        for call in self.calls.values():
            if call.outcome is CallOutcome.OPEN:
                self._fail_call(call, f"The run was {status} first.", CallOutcome.DROPPED)
        self.status, self.ended_ns = status, self._now_ns
        self._tracks.clear()
        self._emit(_ENDS[status], content or {}, {"status": status.value})
        self._emit(STATUS_IDLE, {"status": "idle"}, {"status": "idle"})

    # The actions of steps.

    def _play(self, script: RunScript) -> Actions:
        """The actions of the run from its start to its end."""
        yield to_ns(self._pace_s if script.after is None else script.after)
        self._emit(RUN_STARTED, {"number": self._number}, {"status": RunStatus.RUNNING.value})
        yield from self._take(script.steps)
        yield to_ns(self._pace_s)
        self._end(RunStatus.COMPLETED)

    def _take(self, steps: Sequence[Step]) -> Actions:
        """The actions of steps, each of which begins with a delay; after the end of the run, none continues."""
        for step in steps:
            if isinstance(step, Pause):
                yield to_ns(step.wait)
                continue
            yield to_ns(self._pace_s if step.after is None else step.after)
            yield from self._ACTIONS[type(step)](self, step) or ()

    def _pace_ns(self, step: TimedStep) -> int:
        """Time between the events of a step."""
        return to_ns(self._pace_s if step.pace is None else step.pace)

    def _say(self, step: Say) -> Actions:
        message = {"message_id": self._new_id("msg")}
        self._emit(MESSAGE_STARTED, message, message)
        yield self._pace_ns(step)
        yield from self._send_pieces(step, MESSAGE_DELTA)
        yield self._pace_ns(step)
        self._emit(MESSAGE_COMPLETED, [{"type": "text", "text": "".join(step.pieces)}], message)

    def _think(self, step: Think) -> Actions:
        yield from self._send_pieces(step, REASONING_DELTA)
        yield self._pace_ns(step)
        self._emit(REASONING_MESSAGE, [{"type": "text", "text": "".join(step.pieces)}], {})

    def _send_pieces(self, step: TextStep, type_: str) -> Actions:
        for number, piece in enumerate(step.pieces):
            if number:
                yield self._pace_ns(step)
            self._emitter.emit(type_, self.id, self._now_ns, text=piece)

    def _use_tool(self, step: Tool) -> Actions:
        if self._is_sandbox_missing:
            self._recreate_sandbox()
            yield self._pace_ns(step)
        call = self._start_call(step)
        yield self._pace_ns(step) if step.takes is None else to_ns(step.takes)
        if step.error is None:
            self._complete_call(call, step.output or {})
        else:
            self._fail_call(call, step.error)

    def _ask(self, step: Ask) -> Actions:
        call = self._start_call(step)
        yield self._pace_ns(step)
        wait = self._wait(step, call)
        content = call.summary | {"input": call.input}
        if wait.deadline_ns is not None:
            content["deadline"] = format_time(self._emitter.epoch, wait.deadline_ns)
        self._emit(AGENT_CUSTOM_TOOL_USE, content, call.summary)
        yield wait
        result = wait.result or {}
        if "error" in result:
            self._fail_call(call, result["error"])
        else:
            self._complete_call(call, result["output"])

    def _wait(self, step: Ask | WaitForInput, call: RunToolCall | None = None) -> ResumePoint:
        """Return a wait that lasts until the run is resumed, or until the deadline of the step."""
        timeout_s = self._deadline_s if step.deadline is None and isinstance(step, Ask) else step.deadline
        if timeout_s is None or isinstance(timeout_s, bool):
            return ResumePoint(call, None, step.unavailable)
        return ResumePoint(call, self._now_ns + to_ns(timeout_s), step.unavailable)

    def _wait_for_input(self, step: WaitForInput) -> Actions:
        yield self._wait(step)

    def _change_sandbox(self, step: Sandbox) -> Actions:
        if not self._has_sandbox:
            return
        match step.change:
            case "missing":
                self._is_sandbox_missing = True
            case "recreated":
                self._recreate_sandbox()
            case "quota":
                message = "The sandbox is missing, and the provider's quota is exhausted."
                self._emit_error(SANDBOX_PROVISION_FAILED, message)
                yield self._pace_ns(step)
                self._fail(SANDBOX_PROVISION_FAILED, message)

    def _recreate_sandbox(self) -> None:
        self._is_sandbox_missing = False
        sandbox = {"sandbox_id": self._new_id("sbx")}
        self._emit(SANDBOX_RECREATED, sandbox, sandbox)

    def _repeat(self, step: Repeat) -> Actions:
        for _ in range(step.times):
            yield from self._take(step.steps)

    def _branch(self, step: Together) -> Actions:
        yield Branches([self._take([one]) for one in step.steps])

    _ACTIONS: Mapping[type[Step], "Callable[[RunInterpreter, Any], Actions | None]"] = {
        Say: _say,
        Think: _think,
        Intermediate: lambda self, step: self._send_pieces(step, INTERMEDIATE_DELTA),
        Tool: _use_tool,
        Ask: _ask,
        WaitForInput: _wait_for_input,
        Sandbox: _change_sandbox,
        Resync: lambda self, _step: self._emit(STREAM_RESYNC, {}, {}),
        SessionError: lambda self, step: self._emit_error(step.code, step.message),
        Fail: lambda self, step: self._fail(step.code, step.message),
        EndStream: lambda self, step: self._emitter.end_streams(_STREAM_ENDINGS[step.how], self._now_ns),
        Repeat: _repeat,
        Together: _branch,
    }
    """What each kind of step does."""
