"""The log of a channel: everything its streams carry, in order.  Pure: no I/O, no clock.

A log may grow while it is read.  The log of a recorded channel is complete from the start; the log of a channel that
a scenario plays gets longer.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from wiretape.observations import Ending
from wiretape_replay.http_server.http_messages import ResponseHead

KEEP_ALIVE = b": keep-alive\n\n"
_NO_KEYS: Mapping[str, str] = {}
_WHITESPACE = " \t"


class EntryKind(StrEnum):
    """What an entry is to the stream that carries it."""

    DURABLE = "durable"
    """An event with an id.  Behind the playhead it is persisted: replayed to every client that resumes before it."""
    EPHEMERAL = "ephemeral"
    """An event without an id, or a comment.  Only streams that are connected when the playhead passes it carry it."""
    ENDING = "ending"
    """The service ended the streams that were connected here."""


@dataclass(slots=True, eq=False)
class LogEntry:
    """One frame, or one ending, at one position of the log.  Equal to itself only; fixed once it is in a log.

    Of an event, it keeps what streams, breakpoints and faults need, without the JSON, which takes most memory.
    """

    kind: EntryKind
    time_ns: int
    """Time since the log began (while it is built, since the recording began); ascending."""
    data: bytes = b""
    """The frame, exactly as it is sent; empty for an ending."""
    id: str | None = None
    """The cursor of a durable event."""
    type: str | None = None
    """The event's type; None for comments and for events without data."""
    sequence: int | None = None
    keys: Mapping[str, str] = field(default_factory=lambda: _NO_KEYS)
    """The keys of the entities that it belongs to, by the names of the entities."""
    is_optional: bool = False
    """Whether it is a delta that only clients that ask for deltas get."""
    ending: Ending | None = None
    """For an ending: how the streams ended."""
    source: tuple[int, int | None] | None = None
    """Exchange number and event number in the recording."""
    findings: tuple[str, ...] = ()
    """Codes of the recorded findings about this event."""

    @property
    def is_event(self) -> bool:
        """Whether it is an event rather than a comment or an ending."""
        return self.type is not None or self.kind is EntryKind.DURABLE


class ChannelLog:
    """The entries of one channel.  A *position* is an index into them; `len(log)` is the position after the last."""

    def __init__(self, name: str, entries: Sequence[LogEntry] = (), noun: str = "channel") -> None:
        self.name = name
        self.noun = noun
        """What messages call the channel."""
        self.restarts = False
        """Whether each of its streams begins at its start, with a playhead of its own: no cursor names its events."""
        self.is_finite = False
        """Whether streams that begin at its end are ended as it ends."""
        self.opened_by: tuple[str, str] | None = None
        """Method and target of the first request for one of its streams, if it was recorded."""
        self.entries: list[LogEntry] = []
        self._positions: dict[str, int] = {}
        self._stripped: dict[str, str | None] = {}
        """For ids with whitespace at either end: the id by its stripped form, or None if several share that form."""
        for entry in entries:
            self.append(entry)

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, entry: LogEntry) -> None:
        """Add an entry at the end.  If an id occurs twice, a cursor names the first event."""
        if entry.kind is EntryKind.DURABLE and entry.id is not None:
            self.add_cursor(entry.id, len(self.entries))
        self.entries.append(entry)

    def add_cursor(self, cursor: str, position: int) -> None:
        """Let `cursor` name `position`; -1 is before the first entry.

        This lets a client resume with a cursor that the service issued before the log begins.
        """
        self._positions.setdefault(cursor, position)
        stripped = cursor.strip(_WHITESPACE)
        if stripped != cursor and self._stripped.setdefault(stripped, cursor) != cursor:
            self._stripped[stripped] = None

    def position_of(self, cursor: str) -> int | None:
        """The position of the durable event that `cursor` names; None if there is none.

        HTTP strips the whitespace around a header value (RFC 9110, 5.5).  An id with whitespace at either end is
        therefore also found by its stripped form, unless that is the id of another event.
        """
        if cursor in self._positions:
            return self._positions[cursor]
        original = self._stripped.get(cursor.strip(_WHITESPACE))
        return None if original is None else self._positions[original]

    def position_after_time(self, time_ns: int) -> int:
        """The position after all entries up to `time_ns`."""
        return bisect_right(self.entries, time_ns, key=lambda entry: entry.time_ns)

    def position_after_sequence(self, sequence: int) -> int | None:
        """The position after the event with this sequence; None if the log has none."""
        positions = (position for position, entry in enumerate(self.entries, 1) if entry.sequence == sequence)
        return next(positions, None)


class UnknownCursorError(LookupError):
    """The cursor names no persisted event."""


class LogReader:
    """Selects what one stream carries from a log.

    One rule decides everything: durable events behind the playhead are persisted, and a stream begins with those
    after its cursor; all entries ahead of the playhead are live, and are sent when the playhead passes them.
    """

    def __init__(
        self, log: ChannelLog, playhead: int, *, cursor: str | None, deltas: bool, begins_at_start: bool = True
    ) -> None:
        """`playhead` is its position when the client connects.

        A stream without a cursor begins at the start, or at the playhead.
        Raises UnknownCursorError if the cursor names no event behind the playhead: the service cannot have issued it.
        """
        self._log = log
        self._live_from = playhead
        self._deltas = deltas
        self.position = 0 if begins_at_start else min(playhead, len(log) - log.is_finite)
        """The position of the next entry to read."""
        if cursor is not None:
            position = log.position_of(cursor)
            if position is None or position >= playhead:
                raise UnknownCursorError(cursor)
            self.position = position + 1

    def read(self, playhead: int) -> Iterator[LogEntry]:
        """The entries that the stream carries, from the current position to the playhead; each entry once."""
        while self.position < min(playhead, len(self._log)):
            entry = self._log.entries[self.position]
            self.position += 1
            if self._carries(entry):
                yield entry

    def _carries(self, entry: LogEntry) -> bool:
        if self.position <= self._live_from:
            is_end = self._log.is_finite and self.position == len(self._log)
            return entry.kind is EntryKind.DURABLE or is_end
        return self._deltas or not entry.is_optional


@dataclass(frozen=True, slots=True)
class PlayableChannel:
    """A channel's log, and what its streams have in common."""

    log: ChannelLog
    head: ResponseHead
    """Status line and headers of every stream; chunked."""
    keep_alive: bytes = KEEP_ALIVE
    """The comment that is sent while the playhead is stopped."""


@dataclass(slots=True)
class RecordedChannels:
    """The channels of a recording."""

    by_name: dict[str, PlayableChannel] = field(default_factory=dict)
    by_path: dict[tuple[str, str], PlayableChannel] = field(default_factory=dict)
    """Those that paths of requests name, by the name of the contract and that name."""
    by_exchange: dict[int, PlayableChannel] = field(default_factory=dict)
    """Those that are found by comparing requests, by the exchanges that stand for them."""
    left_out: set[int] = field(default_factory=set)
    """The exchanges whose responses are part of a channel, so that they need not be requested."""


def event_frame(name: str, data: bytes, event_id: str | None = None) -> bytes:
    """The bytes of an event: its name and its id, if any, and one `data:` line.  No value may have line ends."""
    first = b"event: %b\n" % name.encode() if name else b""
    second = b"" if event_id is None else b"id: %b\n" % event_id.encode()
    return b"%b%bdata: %b\n\n" % (first, second, data)
