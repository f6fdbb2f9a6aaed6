"""The state of a replay at one moment, as plain values that can be written as JSON."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from wiretape_replay.channel.channel_log import LogEntry
from wiretape_replay.channel.channel_streams import ConnectedStream
from wiretape_replay.channel.playhead import Breakpoint, PlayheadStatus
from wiretape_replay.channel.playhead_clock import PlayheadClock

_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class EntryState:
    """An entry of a log, without its bytes."""

    position: int
    kind: str
    time_ms: float
    type: str | None
    sequence: int | None
    id: str | None
    keys: Mapping[str, str]
    """The keys of the entities that it belongs to."""
    ending: str | None
    source: str | None
    """Its location in the recording, `EXCHANGE:EVENT`, as `wiretape show --at` takes it."""
    findings: Sequence[str]


@dataclass(frozen=True, slots=True)
class ConnectedStreamState:
    """A connected stream."""

    cursor: str | None
    """As the client sent it."""
    deltas: bool
    position: int
    """The position of the entry that it gets next."""


@dataclass(frozen=True, slots=True)
class PlayheadState:
    """A channel and its playhead; if clients have their own playheads, the latest."""

    channel: str
    status: PlayheadStatus
    position: int
    """The position of the first entry that is still ahead."""
    length: int
    """The number of entries of the log."""
    time_ms: float
    """The time of the log at the playhead."""
    paused: bool
    stopped: bool
    at_end: bool
    next: EntryState | None
    breakpoints: Sequence[Breakpoint]
    stopped_by: Breakpoint | None
    streams: Sequence[ConnectedStreamState]
    playheads: int


@dataclass(frozen=True, slots=True)
class MissState:
    """A request that matched no recorded one."""

    method: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """The requests so far."""

    streams: int = 0
    """Streams that were served."""
    refused: int = 0
    """Streams that were refused with an error."""
    recorded: int | None = 0
    """Requests that got a recorded response; None for `wiretape serve`, which has none."""
    misses: Sequence[MissState] = ()


@dataclass(frozen=True, slots=True)
class HeldState:
    """A response that a fault holds."""

    fault: str
    channel: str | None
    connection: int | None


@dataclass(frozen=True, slots=True)
class ReplayState:
    """The state of a replay."""

    speed: float | str
    """A multiple of the recorded speed, or `max`."""
    channels: Sequence[PlayheadState]
    requests: RequestSummary
    held: Sequence[HeldState]


def describe_speed(speed: float) -> float | str:
    """A speed as people write it."""
    return "max" if speed == math.inf else speed


def describe_entry(entry: LogEntry, position: int) -> EntryState:
    """The state of the entry at a position."""
    return EntryState(
        position=position,
        kind=entry.kind.value,
        time_ms=entry.time_ns / _MS,
        type=entry.type,
        sequence=entry.sequence,
        id=entry.id,
        keys=entry.keys,
        ending=None if entry.ending is None else entry.ending.value,
        source=None if entry.source is None else ":".join(str(part) for part in entry.source if part is not None),
        findings=entry.findings,
    )


def describe_channel(
    clocks: Sequence[PlayheadClock], connected: Collection[ConnectedStream], now_ns: int
) -> PlayheadState:
    """The state of a channel with these playheads, the latest last; `connected` may contain streams of others."""
    playhead = clocks[-1].playhead
    log, position, status = playhead.log, playhead.position, playhead.status
    return PlayheadState(
        channel=log.name,
        status=status,
        position=position,
        length=len(log),
        time_ms=round(playhead.log_time_ns(now_ns) / _MS, 3),
        paused=playhead.paused,
        stopped=status.is_stopped,
        at_end=playhead.at_end,
        next=None if playhead.at_end else describe_entry(log.entries[position], position),
        breakpoints=playhead.breakpoints,
        stopped_by=playhead.stopped_by,
        streams=tuple(
            ConnectedStreamState(stream.cursor, stream.deltas, stream.reader.position)
            for stream in connected
            if stream.clock.playhead.log is log
        ),
        playheads=len(clocks),
    )
