"""One session of a replay, from Python."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from wiretape.control_protocol import PATIENCE_S
from wiretape.errors import InputError
from wiretape_replay.control.checks import one_of
from wiretape_replay.control.control_state import SessionState
from wiretape_replay.control.playhead_control import PlayheadControl, Until
from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.playhead import Step
from wiretape_replay.session.session_log import LogEntry


class Where(TypedDict, total=False):
    """A place to seek: one of these; see Operations.seek."""

    sequence: int
    event: str
    time_s: float
    place: int
    end: bool


class What(TypedDict, total=False):
    """What a breakpoint stops before; see Breakpoint."""

    type: str
    sequence: int
    tool_call_id: str
    finding: str


@dataclass(frozen=True, slots=True)
class SessionHandle:
    """Moves the playhead of a session.  To be used in the event loop's thread.

    What cannot be done raises InputError.
    """

    operations: PlayheadControl
    session_id: str

    def state(self) -> SessionState:
        """Where the playhead is, what is ahead, and who is connected."""
        return self.operations.session_state(self.session_id)

    def pause(self) -> None:
        """Stop here."""
        self.operations.pause(self.session_id)

    def resume(self) -> None:
        """Move on, beyond the breakpoint that stopped it."""
        self.operations.resume(self.session_id)

    def step(self, to: Step | str = Step.EVENT, *, count: int = 1) -> LogEntry | None:
        """Pause, and go behind the `count`-th next `event`, `durable` event or `finding`.

        Returns it; None when the log ended before.
        """
        return self.operations.step(self.session_id, one_of(Step, to, "What to step to"), count)

    def seek(self, **where: Unpack[Where]) -> None:
        """Go to `sequence=`, `event=` (an id), `time_s=`, `place=` or `end=True`; see Operations.seek."""
        self.operations.seek(self.session_id, **where)

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """Where the playhead stops."""
        return self.operations.breakpoints(self.session_id)

    def add_breakpoint(self, point: Breakpoint | None = None, **what: Unpack[What]) -> Breakpoint:
        """Stop before every entry that fits `type=`, `sequence=`, `tool_call_id=` and `finding=`; see Breakpoint."""
        point = _point(point, what) or Breakpoint()
        self.operations.add_breakpoint(point, self.session_id)
        return point

    def remove_breakpoint(self, point: Breakpoint | None = None, **what: Unpack[What]) -> None:
        """Stop there no longer: at `point`, or at the one with these words; without any, nowhere."""
        self.operations.remove_breakpoint(_point(point, what), self.session_id)

    def reset(self) -> None:
        """Begin anew; streams that are connected end."""
        self.operations.reset(self.session_id)

    async def wait(self, until: Until | str = Until.STANDING, *, timeout_s: float = PATIENCE_S) -> SessionState:
        """Wait until it stands (or is at a `breakpoint`, at the `end`, or a stream is `connected`).

        Raises TimeoutError when that does not happen within `timeout_s`.
        """
        until = one_of(Until, until, "What to wait for")
        if not await self.operations.wait(self.session_id, until, timeout_s):
            raise TimeoutError(not_reached(self.session_id, until, timeout_s))
        return self.state()


class RunningSession:
    """The same, to be used from any other thread."""

    def __init__(self, handle: SessionHandle, call: Callable[[Callable[[], Any]], Any]) -> None:
        """`call` runs a function in the event loop's thread, awaits what it returns if it has to, and hands it back."""
        self._handle = handle
        self._call = call

    @property
    def session_id(self) -> str:
        """Which session it is."""
        return self._handle.session_id

    def state(self) -> SessionState:
        """See SessionHandle."""
        return self._do(self._handle.state)

    def pause(self) -> None:
        """See SessionHandle."""
        self._call(self._handle.pause)

    def resume(self) -> None:
        """See SessionHandle."""
        self._call(self._handle.resume)

    def step(self, to: Step | str = Step.EVENT, *, count: int = 1) -> LogEntry | None:
        """See SessionHandle."""
        entry: LogEntry | None = self._call(lambda: self._handle.step(to, count=count))
        return entry

    def seek(self, **where: Unpack[Where]) -> None:
        """See SessionHandle."""
        self._call(lambda: self._handle.seek(**where))

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """See SessionHandle."""
        points: list[Breakpoint] = self._call(lambda: self._handle.breakpoints)
        return points

    def add_breakpoint(self, point: Breakpoint | None = None, **what: Unpack[What]) -> Breakpoint:
        """See SessionHandle."""
        added: Breakpoint = self._call(lambda: self._handle.add_breakpoint(point, **what))
        return added

    def remove_breakpoint(self, point: Breakpoint | None = None, **what: Unpack[What]) -> None:
        """See SessionHandle."""
        self._call(lambda: self._handle.remove_breakpoint(point, **what))

    def reset(self) -> None:
        """See SessionHandle."""
        self._call(self._handle.reset)

    def wait(self, until: Until | str = Until.STANDING, *, timeout_s: float = PATIENCE_S) -> SessionState:
        """See SessionHandle.  Raises RuntimeError in a coroutine, which `async_wait` is for."""
        if _in_coroutine():
            raise RuntimeError("This would stop the event loop: in a coroutine, `await` what `async_wait` returns.")
        return self._do(lambda: self._handle.wait(until, timeout_s=timeout_s))

    async def async_wait(self, until: Until | str = Until.STANDING, *, timeout_s: float = PATIENCE_S) -> SessionState:
        """The same as `wait`, in a coroutine of asyncio."""
        return await asyncio.to_thread(self.wait, until, timeout_s=timeout_s)

    def _do(self, work: Callable[[], Any]) -> SessionState:
        state: SessionState = self._call(work)
        return state


def _point(point: Breakpoint | None, what: What) -> Breakpoint | None:
    """The breakpoint that is meant, if one is."""
    if point is not None and what:
        raise InputError("Give a breakpoint, or the words for one, but not both.")
    return Breakpoint(**what) if what else point


def _in_coroutine() -> bool:
    """Whether a task of asyncio runs in this thread.

    A loop alone may run on another stack, as with Playwright's synchronous interface, and does not mind.
    """
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def not_reached(session_id: str, until: Until, timeout_s: float) -> str:
    """What is said when something was waited for in vain."""
    what = {
        Until.STANDING: "still moves, or waits for its first stream",
        Until.BREAKPOINT: "is at no breakpoint",
        Until.END: "is not at the end",
        Until.CONNECTED: "has no stream",
    }[until]
    return f"Session {session_id} {what} after {timeout_s:g} s."
