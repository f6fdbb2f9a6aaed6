"""What can be done to a replay while it runs: one implementation, for HTTP and for Python.

To be used in the event loop's thread.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import StrEnum

from wiretape.control_protocol import MOST_STEPS
from wiretape.errors import InputError
from wiretape.safe_text import shorten
from wiretape_replay.control import checks
from wiretape_replay.control.control_state import Requests, SessionState, State, Status, session_state, speed_of
from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.connected import Connected
from wiretape_replay.session.playhead import Step
from wiretape_replay.session.playheads import Playheads
from wiretape_replay.session.session_log import LogEntry, SessionLog

_LISTED = 10
"""How many sessions a message names."""


class UnknownSessionError(InputError):
    """There is no session of that name."""


class Until(StrEnum):
    """What can be waited for."""

    STANDING = "standing"
    """The playhead stays where it is until somebody moves it: paused, at a breakpoint, or at the end."""
    BREAKPOINT = "breakpoint"
    END = "end"
    CONNECTED = "connected"
    """A stream is connected."""


class PlayheadControl:
    """Moves the playheads of a replay, and says where they are.

    Where clients have playheads of their own, a session's operations are about all of them, apart from step,
    seek, state and wait, which are about the latest.
    """

    def __init__(
        self,
        drives: Playheads,
        logs: Mapping[str, SessionLog],
        *,
        connected: Collection[Connected] = (),
        requests: Callable[[], Requests] = Requests,
        on_reset: Collection[Callable[[], object]] = (),
        advance: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        """`logs` and `connected` may change while the replay runs.  `on_reset` is called when all begins anew.

        `advance` lets so many seconds pass, where a service is played, or raises InputError.
        """
        self.changes = drives.changes
        self.on_reset = list(on_reset)
        """What else has to begin anew: append to it."""
        self.advance = advance
        self._drives = drives
        self._logs = logs
        self._connected = connected
        self._requests = requests

    @property
    def session_ids(self) -> list[str]:
        """The sessions that have a playhead."""
        return list(self._logs)

    def state(self, session_id: str | None = None) -> State:
        """The session's, or that of all.  Raises UnknownSessionError."""
        logs = self._logs.values() if session_id is None else [self._log(session_id)]
        return State(speed_of(self._drives.speed), tuple(map(self._state, logs)), self._requests())

    def session_state(self, session_id: str | None = None) -> SessionState:
        """One session's; None: the only one's.  Raises InputError."""
        return self._state(self._log(session_id))

    def pause(self, session_id: str | None = None) -> None:
        """Stop here; None: all sessions.  Raises InputError."""
        for log in self._every(session_id):
            for drive in self._drives.all_of(log):
                drive.pause()

    def resume(self, session_id: str | None = None) -> None:
        """Move on, beyond the breakpoint that stopped it; None: all sessions.  Raises InputError."""
        for log in self._every(session_id):
            for drive in self._drives.all_of(log):
                drive.resume()

    def step(self, session_id: str | None = None, to: Step = Step.EVENT, count: int = 1) -> LogEntry | None:
        """Pause, and pass entries up to and with the `count`-th next that `to` fits.

        Returns that; None when the log ended before.  Raises InputError.
        """
        passed = self.steps(session_id, to, count)
        return passed[-1] if len(passed) == count else None

    def steps(self, session_id: str | None = None, to: Step = Step.EVENT, count: int = 1) -> list[LogEntry]:
        """The same; returns all that `to` fits, fewer than `count` when the log ended before.  Raises InputError."""
        checks.whole(count, "How many steps", 1, MOST_STEPS)
        drive = self._drives.of(self._log(session_id))
        passed: list[LogEntry] = []
        while len(passed) < count and (entry := drive.step(to)) is not None:
            passed.append(entry)
        return passed

    def seek(
        self,
        session_id: str | None = None,
        *,
        sequence: int | None = None,
        event: str | None = None,
        time_s: float | None = None,
        place: int | None = None,
        end: bool = False,
    ) -> None:
        """Go behind the event with a sequence or id, to a time or place of the log, or to its end: one of these.

        Raises InputError.
        """
        log = self._log(session_id)
        if [sequence, event, time_s, place, end or None].count(None) != 4:  # all but one
            raise InputError("Say one place to seek: a sequence, an event's id, a time, a place, or the end.")
        checks.whole(sequence, "A sequence to seek")
        checks.text(event, "An event to seek")
        checks.whole(place, "A place to seek")
        if time_s is not None:
            self._seek_time(log, time_s)
        else:
            self._drives.of(log).seek(_place(log, sequence, event, place))

    def breakpoints(self, session_id: str | None = None) -> list[Breakpoint]:
        """Those of one session; None: the only one's.  Raises InputError."""
        return list(self._drives.of(self._log(session_id)).playhead.breakpoints)

    def add_breakpoint(self, point: Breakpoint, session_id: str | None = None) -> None:
        """Stop before what `point` fits; None: in all sessions.  Raises InputError."""
        if point.is_empty:
            raise InputError("A breakpoint has to say a type, a sequence, a tool call or a finding.")
        checks.point(point)
        entries = [entry for log in self._every(session_id) for entry in log.entries]
        checks.event_type(point.type, {entry.type for entry in entries if entry.type is not None})
        checks.finding(point.finding, {code for entry in entries for code in entry.findings})
        self._change(session_id, lambda points: [*points, point] if point not in points else points)

    def remove_breakpoint(self, point: Breakpoint | None = None, session_id: str | None = None) -> None:
        """Stop there no longer; None: nowhere.  Raises InputError when there is no such breakpoint."""
        known = [found for log in self._every(session_id) for found in self._drives.of(log).playhead.breakpoints]
        if point is not None and point not in known:
            raise InputError("There is no such breakpoint.")
        self._change(session_id, lambda points: [kept for kept in points if kept != point and point is not None])

    def reset(self, session_id: str | None = None) -> None:
        """Begin anew, breakpoints kept; streams that are connected end.

        None: with all sessions, the tape and the faults.  Raises UnknownSessionError.
        """
        if session_id is not None:
            for drive in self._drives.all_of(self._log(session_id)):
                drive.reset()
            return
        for begin_anew in self.on_reset:
            begin_anew()
        self._drives.reset()

    async def wait(
        self, session_id: str | None = None, until: Until = Until.STANDING, timeout_s: float | None = None
    ) -> bool:
        """Wait; False when it did not happen within `timeout_s` seconds, or the replay ended.  Raises InputError."""
        checks.number(timeout_s, "The time to wait")
        log = self._log(session_id)
        try:
            async with asyncio.timeout(timeout_s):
                while not self._has_come(log, until):
                    if self.changes.closed:
                        return False
                    await self.changes.after(self.changes.count)
        except TimeoutError:
            return False
        return True

    def _has_come(self, log: SessionLog, until: Until) -> bool:
        if until is Until.CONNECTED:
            return any(stream.drive.playhead.log is log for stream in self._connected)
        status = Status.of(self._drives.of(log).playhead)
        return status.stands if until is Until.STANDING else status.value == until.value

    def _state(self, log: SessionLog) -> SessionState:
        drives = self._drives.all_of(log)
        return session_state(drives[-1], self._connected, len(drives), time.monotonic_ns())

    def _seek_time(self, log: SessionLog, time_s: float) -> None:
        checks.number(time_s, "A time to seek")
        if not 0 <= time_s < math.inf:
            raise InputError("A time to seek is a number of seconds from the beginning of the log.")
        time_ns = round(time_s * 1e9)
        self._drives.of(log).seek(log.after_time(time_ns), position_ns=time_ns)

    def _change(self, session_id: str | None, change: Callable[[list[Breakpoint]], list[Breakpoint]]) -> None:
        for log in self._every(session_id):
            for drive in self._drives.all_of(log):
                drive.set_breakpoints(change(drive.playhead.breakpoints))

    def _every(self, session_id: str | None) -> list[SessionLog]:
        if session_id is None and self._logs:
            return list(self._logs.values())
        return [self._log(session_id)]

    def _log(self, session_id: str | None) -> SessionLog:
        """The log of a session; None: of the only one."""
        if not self._logs:
            raise InputError("There is no playhead to move: this is verbatim mode, or no streams were recorded.")
        if session_id is None and len(self._logs) > 1:
            raise InputError(f"There are several sessions: say which one ({self._names()}).")
        if session_id is None:
            return next(iter(self._logs.values()))
        if session_id not in self._logs:
            raise UnknownSessionError(f"There is no session {shorten(session_id)}; there is {self._names()}.")
        return self._logs[session_id]

    def _names(self) -> str:
        names = [shorten(name) for name in self._logs]
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return ", ".join(names[:_LISTED]) + more


def _place(log: SessionLog, sequence: int | None, event: str | None, place: int | None) -> int:
    if sequence is not None:
        found = log.after_sequence(sequence)
        if found is None:
            raise InputError(f"Session {shorten(log.session_id)} has no event with sequence {sequence}.")
        return found
    if event is not None:
        at = log.place_of(event)
        if at is None:
            raise InputError(f"Session {shorten(log.session_id)} has no durable event with the id {shorten(event)}.")
        return at + 1
    if place is None:
        return len(log)
    if not 0 <= place <= len(log):
        raise InputError(f"Session {shorten(log.session_id)} has the places 0 to {len(log)}.")
    return place
