"""The playhead: a moment on a session's log.  Pure: no I/O; the clock's time is handed in.

Times called `now_ns` are those of any one monotonic clock; positions are times of the log.
"""

import math
from enum import StrEnum

from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.session_log import EntryKind, LogEntry, SessionLog


class Step(StrEnum):
    """What a step goes to: it ends just behind the next such entry, or at the end of the log."""

    EVENT = "event"
    DURABLE = "durable"
    FINDING = "finding"

    def fits(self, entry: LogEntry) -> bool:
        """Whether a step ends behind `entry`."""
        if self is Step.DURABLE:
            return entry.kind is EntryKind.DURABLE
        if self is Step.FINDING:
            return bool(entry.findings)
        return entry.is_event or entry.kind is EntryKind.ENDING


class Playhead:
    """Moves over a log by its clock, at once (speed infinity), or by hand.

    It stands until `start`: the clock of a session begins when its first stream connects.
    """

    def __init__(self, log: SessionLog, *, speed: float = 1.0, paused: bool = False) -> None:
        """`speed`: so many times as fast as the log was recorded; infinity: at once."""
        self.log = log
        self.speed = speed
        self.place = 0
        """Of the first entry that is still ahead."""
        self.paused = paused
        self.started = False
        self.breakpoints: list[Breakpoint] = []
        self.stopped_by: Breakpoint | None = None
        """The breakpoint that paused it, until it moves on."""
        self._anchor = (0, 0)
        """A time of the clock, and the position then."""

    @property
    def at_end(self) -> bool:
        """Whether nothing is ahead."""
        return self.place >= len(self.log)

    @property
    def standing(self) -> bool:
        """Whether it does not move by itself."""
        return self.paused or not self.started or self.at_end

    def position_ns(self, now_ns: int) -> int:
        """Where it is on the log."""
        then_ns, position_ns = self._anchor
        if self.standing or self.speed == math.inf:
            return self._passed_ns if self.at_end else position_ns
        ahead_ns = self.log.entries[self.place].time_ns
        return max(position_ns, min(ahead_ns, position_ns + int((now_ns - then_ns) * self.speed)))

    def due_ns(self) -> int | None:
        """When the clock will pass the next entry; None when it stands."""
        if self.standing:
            return None
        then_ns, position_ns = self._anchor
        if self.speed == math.inf:
            return then_ns
        return then_ns + math.ceil((self.log.entries[self.place].time_ns - position_ns) / self.speed)

    def start(self, now_ns: int) -> None:
        """Begin to move, unless paused.  Starting again does nothing."""
        if not self.started:
            self.started = True
            self._anchor = (now_ns, self._anchor[1])

    def advance(self, now_ns: int) -> bool:
        """Pass every entry that is due, up to the first one with a breakpoint.  Returns whether any was passed."""
        before = self.place
        if self.speed == math.inf and not self.breakpoints and not self.standing:
            self.place = len(self.log)
        while (due_ns := self.due_ns()) is not None and due_ns <= now_ns:
            if self._stops():
                break
            self._pass()
        return self.place != before

    def pause(self, now_ns: int) -> None:
        """Stop here."""
        if not self.paused:
            self._anchor = (now_ns, self.position_ns(now_ns))
            self.paused = True

    def resume(self, now_ns: int) -> None:
        """Move on, beyond the breakpoint where it stopped if one did it."""
        if not self.paused:
            return
        self.paused = False
        self._anchor = (now_ns, self._anchor[1])
        if self.started and not self.at_end and self.stopped_by is not None:
            self._pass()

    def step(self, to: Step, now_ns: int) -> LogEntry | None:
        """Pause, and pass entries up to and with the next that `to` fits.  Returns it; None at the end of the log.

        Breakpoints do not hold a step up.
        """
        self.pause(now_ns)
        self.started = True
        while not self.at_end:
            entry = self._pass()
            if to.fits(entry):
                return entry
        return None

    def seek(self, place: int, now_ns: int, *, position_ns: int = 0) -> None:
        """Go to a place, forward (as if everything between came at once) or back.  Breakpoints are passed over.

        It moves on from there if it moved before; at once means that it would be gone again, so then it pauses.
        `position_ns` is a moment between what was passed there and what is ahead; the earliest by default.
        """
        self.place = max(0, min(place, len(self.log)))
        self.stopped_by = None
        if self.speed == math.inf and self.started and not self.at_end:
            self.paused = True
        ahead_ns = position_ns if self.at_end else self.log.entries[self.place].time_ns
        self._anchor = (now_ns, max(self._passed_ns, min(position_ns, ahead_ns)))

    def reset(self, now_ns: int, *, paused: bool) -> None:
        """As it was in the beginning; breakpoints stay."""
        self.seek(0, now_ns)
        self.started = False
        self.paused = paused

    @property
    def _passed_ns(self) -> int:
        """The time of the last entry that was passed."""
        return self.log.entries[self.place - 1].time_ns if self.place else 0

    def _stops(self) -> bool:
        """Pause if there is a breakpoint at the next entry."""
        entry = self.log.entries[self.place]
        self.stopped_by = next((point for point in self.breakpoints if point.fits(entry)), None)
        if self.stopped_by is not None:
            self.paused = True
            self._anchor = (self._anchor[0], entry.time_ns)
        return self.paused

    def _pass(self) -> LogEntry:
        entry = self.log.entries[self.place]
        then_ns, position_ns = self._anchor
        if self.paused:
            self._anchor = (then_ns, max(position_ns, entry.time_ns))
        self.place += 1
        self.stopped_by = None
        return entry
