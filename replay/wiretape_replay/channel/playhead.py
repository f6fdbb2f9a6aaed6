"""The playhead: a position on a channel's log that moves by its clock, at once, or by hand.

Pure: no I/O; callers pass in the time.  `now_ns` is the time of any one monotonic clock; a *log time* is a time since
the log began.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from wiretape_replay.channel.channel_log import ChannelLog, EntryKind, LogEntry


class StepTarget(StrEnum):
    """What a step moves to: it stops just after the next such entry, or at the end of the log."""

    EVENT = "event"
    DURABLE = "durable"
    FINDING = "finding"

    def matches(self, entry: LogEntry) -> bool:
        """Whether a step stops after `entry`."""
        if self is StepTarget.DURABLE:
            return entry.kind is EntryKind.DURABLE
        if self is StepTarget.FINDING:
            return bool(entry.findings)
        return entry.is_event or entry.kind is EntryKind.ENDING


class PlayheadStatus(StrEnum):
    """What a playhead is doing."""

    WAITING = "waiting"
    """Its clock starts when the first stream connects."""
    MOVING = "moving"
    PAUSED = "paused"
    BREAKPOINT = "breakpoint"
    """Paused by a breakpoint."""
    END = "end"
    """At the end of the log."""

    @property
    def is_stopped(self) -> bool:
        """Whether the playhead stays at its position until somebody moves it."""
        return self not in {PlayheadStatus.WAITING, PlayheadStatus.MOVING}


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Stops the playhead before every entry that matches all given conditions; None matches every entry."""

    type: str | None = None
    """An event type; `*` matches any characters: `tool.*`."""
    sequence: int | None = None
    keys: Mapping[str, str] | None = None
    """Keys of entities, by the names of the entities."""
    finding: str | None = None
    """The code of a finding about the event, or a prefix of it; empty: any finding."""

    def matches(self, entry: LogEntry) -> bool:
        """Whether the playhead stops before `entry`."""
        return (
            (self.type is None or (entry.type is not None and fnmatchcase(entry.type, self.type)))
            and (self.sequence is None or entry.sequence == self.sequence)
            and (self.keys is None or self.keys.items() <= entry.keys.items())
            and (self.finding is None or any(code.startswith(self.finding) for code in entry.findings))
        )


class Playhead:
    """A position on a log.  It does not move until `start`: a channel's clock starts when its first stream connects."""

    def __init__(self, log: ChannelLog, *, speed: float = 1.0, paused: bool = False) -> None:
        """`speed` is a multiple of the recorded speed; infinity: at once."""
        self.log = log
        self.speed = speed
        self.position = 0
        """The position of the first entry that is still ahead."""
        self.paused = paused
        self.started = False
        self.resets = 0
        """How often it was reset: streams from before a reset end."""
        self.breakpoints: tuple[Breakpoint, ...] = ()
        self.stopped_by: Breakpoint | None = None
        """The breakpoint that paused it, until it moves on."""
        self._paused_at_start = paused
        self._anchor = (0, 0)
        """A time of the clock, and the log time then."""

    @property
    def at_end(self) -> bool:
        """Whether nothing is ahead."""
        return self.position >= len(self.log)

    @property
    def is_moving(self) -> bool:
        """Whether the clock moves it."""
        return self.started and not self.paused and not self.at_end

    @property
    def status(self) -> PlayheadStatus:
        """What it is doing."""
        if self.at_end:
            return PlayheadStatus.END
        if self.paused:
            return PlayheadStatus.PAUSED if self.stopped_by is None else PlayheadStatus.BREAKPOINT
        return PlayheadStatus.MOVING if self.started else PlayheadStatus.WAITING

    def log_time_ns(self, now_ns: int) -> int:
        """The log time at the playhead."""
        then_ns, log_time_ns = self._anchor
        if not self.is_moving or self.speed == math.inf:
            return self._passed_ns if self.at_end else log_time_ns
        next_ns = self.log.entries[self.position].time_ns
        return max(log_time_ns, min(next_ns, log_time_ns + int((now_ns - then_ns) * self.speed)))

    def due_ns(self) -> int | None:
        """When the clock will pass the next entry; None while the clock does not move the playhead."""
        if not self.is_moving:
            return None
        then_ns, log_time_ns = self._anchor
        if self.speed == math.inf:
            return then_ns
        return then_ns + math.ceil((self.log.entries[self.position].time_ns - log_time_ns) / self.speed)

    def start(self, now_ns: int) -> None:
        """Start the clock.  Starting again does nothing."""
        if not self.started:
            self.started = True
            self._anchor = (now_ns, self._anchor[1])

    def advance(self, now_ns: int) -> bool:
        """Pass every entry that is due, up to the first one with a breakpoint.  Return whether any was passed."""
        before = self.position
        if self.speed == math.inf and not self.breakpoints and self.is_moving:
            self.position = len(self.log)
        while (due_ns := self.due_ns()) is not None and due_ns <= now_ns:
            if self._stops():
                break
            self._pass()
        return self.position != before

    def pause(self, now_ns: int) -> None:
        """Stop at the current position."""
        if not self.paused:
            self._anchor = (now_ns, self.log_time_ns(now_ns))
            self.paused = True

    def set_speed(self, now_ns: int, speed: float) -> None:
        """Move at another speed from now on."""
        self._anchor = (now_ns, self.log_time_ns(now_ns))
        self.speed = speed

    def resume(self, now_ns: int) -> None:
        """Continue, past the breakpoint that stopped it if one did."""
        if not self.paused:
            return
        self.paused = False
        self._anchor = (now_ns, self._anchor[1])
        if self.started and not self.at_end and self.stopped_by is not None:
            self._pass()

    def step(self, now_ns: int, to: StepTarget) -> LogEntry | None:
        """Pause, then pass entries up to and including the next that `to` matches.

        Return that entry; None if the log ends first.  Breakpoints do not stop a step.
        """
        self.pause(now_ns)
        self.started = True
        while not self.at_end:
            entry = self._pass()
            if to.matches(entry):
                return entry
        return None

    def seek(self, now_ns: int, position: int, *, log_time_ns: int = 0) -> None:
        """Go to a position, forward (as if everything in between arrived at once) or back, ignoring breakpoints.

        The playhead continues from there if it was moving; at infinite speed it pauses, because it would leave again
        at once.  `log_time_ns` is a time between the entries before and after; the earliest by default.
        """
        self.position = max(0, min(position, len(self.log)))
        self.stopped_by = None
        if self.speed == math.inf and self.started and not self.at_end:
            self.paused = True
        next_ns = log_time_ns if self.at_end else self.log.entries[self.position].time_ns
        self._anchor = (now_ns, max(self._passed_ns, min(log_time_ns, next_ns)))

    def reset(self, now_ns: int) -> None:
        """Return to the initial state, but keep the breakpoints."""
        self.resets += 1
        self.seek(now_ns, 0)
        self.started = False
        self.paused = self._paused_at_start

    @property
    def _passed_ns(self) -> int:
        """The log time of the last entry that was passed."""
        return self.log.entries[self.position - 1].time_ns if self.position else 0

    def _stops(self) -> bool:
        """Pause if there is a breakpoint at the next entry."""
        entry = self.log.entries[self.position]
        self.stopped_by = next((point for point in self.breakpoints if point.matches(entry)), None)
        if self.stopped_by is not None:
            self.paused = True
            self._anchor = (self._anchor[0], entry.time_ns)
        return self.paused

    def _pass(self) -> LogEntry:
        entry = self.log.entries[self.position]
        then_ns, log_time_ns = self._anchor
        if self.paused:
            self._anchor = (then_ns, max(log_time_ns, entry.time_ns))
        self.position += 1
        self.stopped_by = None
        return entry
