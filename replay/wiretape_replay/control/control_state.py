"""What there is to know of a replay at one moment: plain values, ready for JSON."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.connected import Connected
from wiretape_replay.session.playhead import Playhead
from wiretape_replay.session.playhead_clock import PlayheadClock
from wiretape_replay.session.session_log import LogEntry

_MS = 1_000_000


class Status(StrEnum):
    """What a playhead does."""

    WAITING = "waiting"
    """Its clock begins when the first stream connects."""
    MOVING = "moving"
    PAUSED = "paused"
    BREAKPOINT = "breakpoint"
    """Paused by a breakpoint."""
    END = "end"
    """Nothing is ahead."""

    @classmethod
    def of(cls, playhead: Playhead) -> "Status":
        """The status of a playhead."""
        if playhead.at_end:
            return cls.END
        if playhead.paused:
            return cls.PAUSED if playhead.stopped_by is None else cls.BREAKPOINT
        return cls.MOVING if playhead.started else cls.WAITING

    @property
    def stands(self) -> bool:
        """Whether the playhead stays where it is until somebody moves it."""
        return self not in {Status.WAITING, Status.MOVING}


@dataclass(frozen=True, slots=True)
class EntryState:
    """An entry of a log, its bytes apart."""

    place: int
    kind: str
    time_ms: float
    type: str | None
    sequence: int | None
    id: str | None
    run_id: str | None
    tool_call_id: str | None
    ending: str | None
    source: str | None
    """`EXCHANGE:EVENT` in the recording, as `wiretape show --at` takes it."""
    findings: Sequence[str]


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream that is connected."""

    cursor: str | None
    """As the client sent it."""
    deltas: bool
    place: int
    """Of the entry that it is sent next."""


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session and its playhead; where clients have their own, the latest of them."""

    session: str
    status: Status
    place: int
    """Of the first entry that is still ahead."""
    length: int
    """Of the log."""
    position_ms: float
    paused: bool
    standing: bool
    at_end: bool
    next: EntryState | None
    breakpoints: Sequence[Breakpoint]
    stopped_by: Breakpoint | None
    streams: Sequence[StreamState]
    playheads: int


@dataclass(frozen=True, slots=True)
class Miss:
    """A request that had no match."""

    method: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Requests:
    """What was asked for so far."""

    streams: int = 0
    """Given by a playhead."""
    refused: int = 0
    """Streams that were answered with an error."""
    recorded: int | None = 0
    """Requests that were given a recorded answer; None where none is recorded, as by `wiretape serve`."""
    misses: Sequence[Miss] = ()


@dataclass(frozen=True, slots=True)
class State:
    """A replay."""

    speed: float | str
    """So many times as fast as recorded, or `max`."""
    sessions: Sequence[SessionState]
    requests: Requests


def speed_of(speed: float) -> float | str:
    """A speed as people write it."""
    return "max" if speed == math.inf else speed


def entry_state(entry: LogEntry, place: int) -> EntryState:
    """What there is to know of an entry at a place."""
    return EntryState(
        place=place,
        kind=entry.kind.value,
        time_ms=entry.time_ns / _MS,
        type=entry.type,
        sequence=entry.sequence,
        id=entry.id,
        run_id=entry.run_id,
        tool_call_id=entry.tool_call_id,
        ending=None if entry.ending is None else entry.ending.value,
        source=None if entry.source is None else ":".join(str(part) for part in entry.source if part is not None),
        findings=entry.findings,
    )


def session_state(drive: PlayheadClock, connected: Collection[Connected], playheads: int, now_ns: int) -> SessionState:
    """What there is to know of a session; `connected` may hold streams of others."""
    playhead = drive.playhead
    log, place, status = playhead.log, playhead.place, Status.of(playhead)
    return SessionState(
        session=log.session_id,
        status=status,
        place=place,
        length=len(log),
        position_ms=round(playhead.position_ns(now_ns) / _MS, 3),
        paused=playhead.paused,
        standing=status.stands,
        at_end=playhead.at_end,
        next=None if playhead.at_end else entry_state(log.entries[place], place),
        breakpoints=tuple(playhead.breakpoints),
        stopped_by=playhead.stopped_by,
        streams=tuple(
            StreamState(stream.cursor, stream.deltas, stream.follower.place)
            for stream in connected
            if stream.drive.playhead.log is log
        ),
        playheads=playheads,
    )
