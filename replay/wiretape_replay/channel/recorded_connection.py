"""Read one recorded stream connection: its durable events, and what arrived between them.  Pure: no I/O, no clock.

A durable event belongs into the log once, however often it was replayed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wiretape.event import Event, Shape, TimedFrame, make_event
from wiretape.event_format import PLAIN, EventFormat
from wiretape.json_equality import json_hash
from wiretape.observations import BytesArrived, BytesLost, Ending
from wiretape.recording import Exchange
from wiretape.sse import Frame, FrameKind, Parser
from wiretape_replay.channel.channel_log import EntryKind, LogEntry
from wiretape_replay.channel.log_warnings import LogWarnings
from wiretape_replay.channel.stream_facts import StreamFacts, StreamOpening


class DurableEvents:
    """Collects durable events as connections carried them, and recognises copies."""

    def __init__(self, warnings: LogWarnings) -> None:
        self._warnings = warnings
        self._first: dict[str | int | None, LogEntry] = {}
        """The first event with each id (or sequence, if it has no id)."""
        self._reused: dict[str | int | None, list[LogEntry]] = {}
        """Different events with the id of the first."""
        self._carried_by: dict[LogEntry, int] = {}
        """The last exchange found to carry each event."""

    def find(self, event_id: str | None) -> LogEntry | None:
        """The first event with this id."""
        return None if event_id is None else self._first.get(event_id)

    def add(self, copy: LogEntry, exchange: int) -> LogEntry | None:
        """Add an event.  Return the event that it is a copy of, or `copy` itself if it is new.

        Return None if the same connection carried it before.  Of all copies, the earliest one is kept.
        """
        key = copy.sequence if copy.id is None else copy.id
        first = self._first.setdefault(key, copy)
        event = first if first.data == copy.data else self._find_original(first, copy, key, exchange)
        if event is not copy:
            event.findings = tuple(dict.fromkeys(event.findings + copy.findings))
            if copy.time_ns < event.time_ns:
                for name in _OF_COPY:
                    setattr(event, name, getattr(copy, name))
            if self._carried_by[event] == exchange:
                self._warnings.repeated.append(str(key))
                return None
        self._carried_by[event] = exchange
        return event

    def _find_original(self, first: LogEntry, copy: LogEntry, key: str | int | None, exchange: int) -> LogEntry:
        """The event of which `copy`, with other bytes than the first of its id, is a copy; or `copy` itself."""
        for other in self._reused.get(key, ()):
            if other.data == copy.data:
                return other
        if _content(first.data) == _content(copy.data):
            self._warnings.respelled += 1
        elif self._carried_by[first] == exchange:
            self._warnings.reused.append(str(key))
            self._reused.setdefault(key, []).append(copy)
            return copy
        else:
            self._warnings.changed.append(str(key))
        return first


_OF_COPY = ("time_ns", "data", "source", "type", "sequence", "keys", "is_optional")
"""What the event takes over from a copy that arrived earlier."""


def other_entry(seen: TimedFrame) -> LogEntry:
    """The entry of a frame that is not an event."""
    return LogEntry(EntryKind.EPHEMERAL, seen.time_ns, seen.frame.raw, source=(seen.exchange, None))


def _content(raw: bytes) -> object:
    """The content of a frame in a comparable form: JSON as values."""
    event = read_event(raw)
    value = json_hash(event) if event.document else None
    return event.event_line, event.data if value is None else value


def read_event(raw: bytes, event_format: EventFormat = PLAIN) -> Event:
    """The event of a frame; without fields, if the frame has none."""
    frames = Parser(limit=len(raw), start=1).feed(raw + _NEXT_FRAME)
    frame = next((frame for frame in frames if frame.kind is FrameKind.MESSAGE), _NO_FRAME)
    return make_event(0, frame, 0, 1, event_format)


_NEXT_FRAME = b":"
"""The beginning of another frame: only then is a frame that ends with CR known to be complete."""
_NO_FRAME = Frame(FrameKind.MESSAGE, 0, b"")


FindingCodes = Mapping[tuple[int, int], tuple[str, ...]]
"""The codes of the recorded findings about each event, by exchange and event number."""


@dataclass(slots=True, eq=False)
class Stretch:
    """What one connection carried between two durable events."""

    deltas: bool
    """Whether the connection requested deltas."""
    after: LogEntry | None
    """The durable event before it; None at the beginning of the connection."""
    begin_ns: int
    end_ns: int = 0
    before: LogEntry | None = None
    """The durable event after it; None at the end of the connection."""
    events: list[LogEntry] = field(default_factory=list)
    """Events without an id."""
    comments: list[LogEntry] = field(default_factory=list)
    last: list[LogEntry] = field(default_factory=list)
    """How the service ended the connection here: the bytes of an unfinished message, and the ending."""

    @property
    def is_empty(self) -> bool:
        """Whether it carried nothing."""
        return not (self.events or self.comments or self.last)


@dataclass(slots=True, eq=False)
class RecordedConnection:
    """A stream that the service served."""

    exchange: Exchange
    begin_ns: int
    """When the response started."""
    cursor: str | None
    deltas: bool
    durable: list[LogEntry] = field(default_factory=list)
    """The durable events that it carried, in order, each once."""
    stretches: list[Stretch] = field(default_factory=list)
    end_ns: int = 0
    """When it ended, as far as is known."""

    @property
    def ended_by_service(self) -> bool:
        """Whether the service ended it, in whatever way."""
        return self.exchange.ending in _ENDINGS_BY_SERVICE


_ENDINGS_BY_SERVICE = {
    Ending.COMPLETE: Ending.COMPLETE,
    Ending.SERVICE_CLOSED: Ending.SERVICE_CLOSED,
    Ending.SERVICE_RESET: Ending.SERVICE_RESET,
    # Invalid HTTP cannot be replayed, but the end of the stream can.
    Ending.SERVICE_INVALID: Ending.SERVICE_CLOSED,
}


class ConnectionReader:
    """Reads the body of one connection.  Call `read` once."""

    def __init__(
        self,
        exchange: Exchange,
        facts: StreamFacts,
        events: DurableEvents,
        findings: FindingCodes,
        warnings: LogWarnings,
    ) -> None:
        """`exchange` has a response."""
        begin_ns = exchange.began_ns
        opening = facts.read_opening(exchange.request) or StreamOpening(facts, exchange.request.target)
        self._connection = RecordedConnection(exchange, begin_ns, opening.cursor or None, opening.deltas)
        self._facts = facts
        self._number = exchange.number
        self._events = events
        self._findings = findings
        self._warnings = warnings
        self._stretch: Stretch | None = None
        self._durable_ns = begin_ns
        """When the last durable event arrived."""
        self._comment: LogEntry | None = None
        """The comment that a following blank line belongs to."""
        self._oversized: LogEntry | None = None
        """The event over the size limit that is arriving."""
        self._tail: LogEntry | None = None

    def read(self, body: Iterable[BytesArrived | BytesLost]) -> RecordedConnection:
        """Read the whole body."""
        frames = self._connection.exchange.make_reader()
        last_ns = self._connection.begin_ns
        for part in body:
            if isinstance(part, BytesArrived):
                last_ns = max(last_ns, part.times[-1])
                self._add_frames(frames.feed(part))
            else:
                self._warnings.lost[self._number] += part.count
                self._add_frames(frames.skip(part))
        self._add_frames(frames.close())
        if frames.undecodable is not None:
            self._warnings.undecodable.append((self._number, frames.undecodable))
        self._finish(last_ns)
        return self._connection

    def _add_frames(self, seen_frames: Iterable[TimedFrame]) -> None:
        for seen in seen_frames:
            kind = seen.frame.kind
            if kind is FrameKind.OVERSIZED:
                self._add_oversized(seen)
                continue
            self._comment = self._comment if kind is FrameKind.BLANK else None
            self._oversized = self._tail = None
            if isinstance(seen, Event):
                self._add_event(seen)
            elif kind is FrameKind.TAIL:
                self._tail = other_entry(seen)
            elif kind is not FrameKind.BOM:
                self._add_comment(seen)

    def _add_event(self, event: Event) -> None:
        entry = self._facts.make_entry(event, self._findings.get((self._number, event.number), ()))
        if entry.kind is EntryKind.DURABLE:
            if event.shape is not Shape.NO_DATA or self._events.find(entry.id) is None:
                self._add_durable(entry)
                return
            # It has nothing but the id of an earlier event.
            entry.kind, entry.id = EntryKind.EPHEMERAL, None
        self._current_stretch().events.append(entry)

    def _add_durable(self, copy: LogEntry) -> None:
        event = self._events.add(copy, self._number)
        if event is None:
            return
        if self._stretch is not None:
            self._stretch.end_ns, self._stretch.before = copy.time_ns, event
            self._stretch = None
        self._connection.durable.append(event)
        self._durable_ns = copy.time_ns

    def _add_comment(self, seen: TimedFrame) -> None:
        """Add a comment, with the blank lines after it, because some clients take these for an event."""
        if self._comment is not None and seen.frame.kind is FrameKind.BLANK:
            self._comment.data += seen.frame.raw
            return
        self._comment = other_entry(seen)
        self._current_stretch().comments.append(self._comment)

    def _add_oversized(self, seen: TimedFrame) -> None:
        if self._oversized is None:
            self._oversized = other_entry(seen)
            self._current_stretch().events.append(self._oversized)
            self._warnings.oversized.append(0)
        else:
            self._oversized.data += seen.frame.raw
            self._oversized.time_ns = seen.time_ns
        self._warnings.oversized[-1] = len(self._oversized.data)

    def _current_stretch(self) -> Stretch:
        """The stretch since the last durable event."""
        if self._stretch is None:
            connection = self._connection
            after = connection.durable[-1] if connection.durable else None
            self._stretch = Stretch(connection.deltas, after, self._durable_ns)
            connection.stretches.append(self._stretch)
        return self._stretch

    def _finish(self, last_ns: int) -> None:
        """Set the end of the connection; if none was recorded, the time at which the next keep-alive was due."""
        connection, exchange = self._connection, self._connection.exchange
        connection.end_ns = last_ns + self._facts.keep_alive_ns if exchange.ended_ns is None else exchange.ended_ns
        tail = self._unfinished_message()
        ending = _ENDINGS_BY_SERVICE.get(exchange.ending)
        if ending is not None:
            last = LogEntry(EntryKind.ENDING, connection.end_ns, ending=ending, source=(self._number, None))
            self._current_stretch().last = [last] if tail is None else [tail, last]
        elif tail is not None:
            self._warnings.tails.append(self._number)
        if self._stretch is not None:
            self._stretch.end_ns = connection.end_ns

    def _unfinished_message(self) -> LogEntry | None:
        """The bytes of the message that the end of the connection cut off."""
        if self._oversized is not None and not self._oversized.data.endswith(BLANK_LINES) and self._stretch is not None:
            self._stretch.events.remove(self._oversized)
            return self._oversized
        # After a gap, the tail may belong to a message whose beginning was lost.
        return None if self._warnings.lost[self._number] else self._tail


BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r", b"\n\r\n")
