"""One run as it is played: several lines of action, each with the time at which it goes on."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
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
from wiretape_replay.service.engine.call import Call, Outcome, Wait
from wiretape_replay.service.engine.journal import Content, Journal
from wiretape_replay.service.engine.model import Run, RunStatus

_FIRST, _LAST = 0, 1
_ENDS = {RunStatus.COMPLETED: RUN_COMPLETED, RunStatus.FAILED: RUN_FAILED, RunStatus.CANCELLED: RUN_CANCELLED}


@dataclass(frozen=True, slots=True)
class Branches:
    """Lines of action that begin now, beside each other."""

    lines: "Sequence[Line]"


Line = Generator[int | Wait | Branches, None, None]
"""A line of action.  It yields how long to wait (ns), what has to be given before it goes on, or what has to be
done first."""


@dataclass(slots=True)
class _Track:
    """A line, where it is."""

    line: Line
    due_ns: int | None
    """When it goes on; None: it waits for something else."""
    parent: "_Track | None" = None
    wait: Wait | None = None
    branches: int = 0
    """How many it waits for."""


class Play:
    """A run.  Times only go forward; the caller sees to that."""

    def __init__(self, journal: Journal, run_id: str, number: int, now_ns: int, *, has_sandbox: bool) -> None:
        self.journal = journal
        self.id = run_id
        self.number = number
        self.status = RunStatus.RUNNING
        self.has_sandbox = has_sandbox
        self.sandbox_missing = False
        self.calls: dict[str, Call] = {}
        """Every call by its id."""
        self._created_ns = self._now_ns = now_ns
        self._ended_ns: int | None = None
        self._tracks: list[_Track] = []
        self._made: dict[str, int] = {}

    def begin(self, line: Line) -> None:
        """What the run does."""
        self._tracks.append(_Track(line, self._now_ns))

    # What is asked of it.

    @property
    def shown(self) -> Run:
        """As it is now."""
        waiting = tuple(wait.shown for wait in self.waits)
        return Run(self.id, self.number, self.status, self._created_ns, self._ended_ns, waiting)

    @property
    def waits(self) -> list[Wait]:
        """What it waits for, in the order in which it began to."""
        return [track.wait for track in self._tracks if track.wait is not None]

    def due_ns(self) -> int | None:
        """When something happens by itself."""
        moments = self._moments()
        return min(moments, key=_when).when_ns if moments else None

    def advance(self, now_ns: int) -> None:
        """Do everything that is due."""
        while (moments := self._moments()) and (first := min(moments, key=_when)).when_ns <= now_ns:
            self._now_ns = first.when_ns
            if first.order == _LAST:
                self._expire(first.track)
            else:
                self._go_on(first.track)

    def give(self, wait: Wait, given: Mapping[str, Any], now_ns: int) -> None:
        """Resume it: the line that waits goes on."""
        track = next(track for track in self._tracks if track.wait is wait)
        wait.given = given
        track.wait, track.due_ns = None, now_ns
        self._settle_status()

    def cancel(self, now_ns: int) -> None:
        """A client cancels it."""
        self._now_ns = now_ns
        self.end(RunStatus.CANCELLED)

    # What its lines do.

    def event(self, kind: str, content: Content, data: Mapping[str, Any]) -> None:
        """Something happens now."""
        self.journal.event(kind, self.id, self._now_ns, content, data)

    def delta(self, kind: str, text: str) -> None:
        """A fragment comes now."""
        self.journal.delta(kind, self.id, self._now_ns, text)

    def end_streams(self, ending: Ending) -> None:
        """The streams end now."""
        self.journal.end_streams(ending, self._now_ns)

    def new_id(self, kind: str) -> str:
        """The id of something of this run."""
        self._made[kind] = number = self._made.get(kind, 0) + 1
        return self.journal.made_id(kind, self.number, number)

    def start_call(self, name: str, given: Mapping[str, Any], *, of_application: bool = False) -> Call:
        """A tool is called."""
        call = Call(self.new_id("call"), name, given, of_application)
        self.calls[call.id] = call
        self.event(TOOL_STARTED, call.summary | {"input": given}, call.summary)
        return call

    def ask(self, call: Call, deadline_ns: int | None, unavailable: int) -> Wait:
        """The application is told to execute a tool; `deadline_ns` is how long it has."""
        wait = self.wait(call, deadline_ns, unavailable)
        deadline = None if wait.deadline_ns is None else self.journal.instant(wait.deadline_ns)
        told = {"input": call.input} | ({} if deadline is None else {"deadline": deadline})
        self.event(AGENT_CUSTOM_TOOL_USE, call.summary | told, call.summary)
        return wait

    def wait(self, call: Call | None, deadline_ns: int | None, unavailable: int) -> Wait:
        """What a line yields to wait to be resumed; `deadline_ns` is how long."""
        return Wait(call, None if deadline_ns is None else self._now_ns + deadline_ns, unavailable)

    def complete_call(self, call: Call, output: Mapping[str, Any]) -> None:
        """A call ends well."""
        call.outcome = Outcome.RESOLVED
        self.event(TOOL_COMPLETED, call.summary | {"output": output}, call.summary)

    def fail_call(self, call: Call, message: str, outcome: Outcome = Outcome.RESOLVED) -> None:
        """A call fails."""
        call.outcome = outcome
        self.event(TOOL_FAILED, call.summary | {"error": {"message": message}}, call.summary)

    def fail(self, code: str, message: str) -> None:
        """The run stops with an error."""
        self.end(RunStatus.FAILED, {"error": {"code": code, "message": message}})

    def end(self, status: RunStatus, content: Mapping[str, Any] | None = None) -> None:
        """The run ends, and with it everything of it that is under way; the session is idle again."""
        for call in self.calls.values():
            if call.outcome is Outcome.OPEN:
                self.fail_call(call, f"The run was {status} first.", Outcome.DROPPED)
        self.status, self._ended_ns = status, self._now_ns
        self._tracks.clear()
        self.event(_ENDS[status], content or {}, {"status": status.value})
        self.event(STATUS_IDLE, {"status": "idle"}, {"status": "idle"})

    # How lines go on.

    def _moments(self) -> "list[_Moment]":
        found = []
        for track in self._tracks:
            if track.due_ns is not None:
                found.append(_Moment(track.due_ns, _FIRST, track))
            elif track.wait is not None and track.wait.deadline_ns is not None:
                found.append(_Moment(track.wait.deadline_ns, _LAST, track))
        return found

    def _go_on(self, track: _Track) -> None:
        try:
            yielded = next(track.line)
        except StopIteration:
            self._finish(track)
            return
        if self.status.is_terminal:
            return
        if isinstance(yielded, Wait):
            track.wait, track.due_ns = yielded, None
        elif isinstance(yielded, Branches):
            track.due_ns, track.branches = None, len(yielded.lines)
            self._tracks += [_Track(line, self._now_ns, track) for line in yielded.lines]
        else:
            track.due_ns = self._now_ns + yielded
        self._settle_status()

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
            self.fail_call(call, "No result came before the deadline.", Outcome.EXPIRED)
        what = f"The result of {call.name}" if call is not None else "The input"
        self.fail(EVENT_EXPIRED, f"{what} did not come before the deadline.")

    def _settle_status(self) -> None:
        self.status = RunStatus.WAITING if self.waits else RunStatus.RUNNING


@dataclass(frozen=True, slots=True)
class _Moment:
    """When a track goes on by itself, or (last) its deadline passes."""

    when_ns: int
    order: int
    track: _Track = field(repr=False)


_when: Callable[[_Moment], tuple[int, int]] = lambda moment: (moment.when_ns, moment.order)  # noqa: E731
