"""Read one recorded stream connection: its durable events, and what arrived between them.  Pure: no I/O, no clock.

A durable event belongs into the log once, however often it was replayed.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wiretape.contract import CURSOR_HEADER, KEEP_ALIVE_SECONDS, cursor_in, deltas_requested
from wiretape.event import Event, Shape, TimedFrame
from wiretape.frame_reader import FrameReader
from wiretape.observations import BytesArrived, BytesLost, Ending, header
from wiretape.recording import Exchange
from wiretape.rules import json_hash
from wiretape.sse import Frame, FrameKind, Parser
from wiretape_replay.session.log_warnings import LogWarnings
from wiretape_replay.session.session_log import EntryKind, LogEntry


@dataclass(slots=True, eq=False)
class DraftEntry:
    """What an entry will hold.  Equal to itself only."""

    kind: EntryKind
    time_ns: int
    """Its time in the recording."""
    data: bytes
    exchange: int
    """The exchange that carried it; 0 if none did."""
    event: int | None = None
    id: str | None = None
    type: str | None = None
    sequence: int | None = None
    run_id: str | None = None
    tool_call_id: str | None = None
    ending: Ending | None = None
    findings: tuple[str, ...] = ()
    last_exchange: int = 0
    """The last exchange found to carry it."""
    index: int = -1
    """Its index among the durable events of its session, once they are in order."""

    @property
    def key(self) -> str | int | None:
        """What the copies of a durable event have in common: the id, or the sequence if it has no id."""
        return self.sequence if self.id is None else self.id

    def take_over(self, earlier: "DraftEntry") -> None:
        """Take the content of a copy of the same event that arrived earlier."""
        self.time_ns, self.data = earlier.time_ns, earlier.data
        self.exchange, self.event = earlier.exchange, earlier.event
        self.type, self.sequence = earlier.type, earlier.sequence
        self.run_id, self.tool_call_id = earlier.run_id, earlier.tool_call_id

    def finish(self, origin_ns: int) -> LogEntry:
        """The entry, in a log that begins at `origin_ns` of the recording."""
        return LogEntry(
            self.kind,
            self.time_ns - origin_ns,
            self.data,
            self.id,
            self.type,
            self.sequence,
            self.run_id,
            self.tool_call_id,
            self.ending,
            (self.exchange, self.event) if self.exchange else None,
            self.findings,
        )


def draft_of_message(message: Event, exchange: int) -> DraftEntry:
    """The draft for a message, read as the rules read it.

    A message with an id is durable, whatever else it contains, because clients may resume with that id.  So is an
    event with a sequence and no id, although no cursor names it.
    """
    event_id = _id_of(message)
    is_durable = event_id is not None or (message.shape is Shape.DURABLE and message.sequence is not None)
    calls = message.tool_call_ids
    return DraftEntry(
        EntryKind.DURABLE if is_durable else EntryKind.EPHEMERAL,
        message.time_ns,
        message.raw,
        exchange,
        message.number,
        event_id,
        _interned(message.type or None),
        message.sequence,
        _interned(message.run_id),
        _interned(calls[0]) if calls else None,
    )


def _id_of(message: Event) -> str | None:
    """The id as a client would send it back; bytes that are not UTF-8 become U+FFFD."""
    return message.id or None


def _interned(text: str | None) -> str | None:
    """The same text, held in memory once."""
    return None if text is None else sys.intern(text)


class DurableEvents:
    """Collects durable events as connections carried them, and recognises copies."""

    def __init__(self, warnings: LogWarnings) -> None:
        self._warnings = warnings
        self._first: dict[str | int | None, DraftEntry] = {}
        """The first event with each id."""
        self._reused: dict[str | int | None, list[DraftEntry]] = {}
        """Different events with the id of the first."""

    def find(self, event_id: str | None) -> DraftEntry | None:
        """The first event with this id."""
        return None if event_id is None else self._first.get(event_id)

    def add(self, draft: DraftEntry) -> DraftEntry | None:
        """Add an event.  Return the event that it is a copy of, or `draft` itself if it is new.

        Return None if the same connection carried it before.  Of all copies, the earliest one is kept.
        """
        first = self._first.setdefault(draft.key, draft)
        if first is draft:
            draft.last_exchange = draft.exchange
            return draft
        event = first if first.data == draft.data else self._find_original(first, draft)
        if draft.findings:
            event.findings = tuple(dict.fromkeys(event.findings + draft.findings))
        if draft.time_ns < event.time_ns:
            event.take_over(draft)
        if event.last_exchange == draft.exchange:
            self._warnings.repeated.append(str(draft.key))
            return None
        event.last_exchange = draft.exchange
        return event

    def _find_original(self, first: DraftEntry, draft: DraftEntry) -> DraftEntry:
        """The event of which `draft`, with other bytes than the first of its id, is a copy; or `draft` itself."""
        for other in self._reused.get(draft.key, ()):
            if other.data == draft.data:
                return other
        if _content(first.data) == _content(draft.data):
            self._warnings.respelled += 1
        elif first.last_exchange == draft.exchange:
            self._warnings.reused.append(str(draft.key))
            self._reused.setdefault(draft.key, []).append(draft)
            return draft
        else:
            self._warnings.changed.append(str(draft.key))
        return first


def _content(raw: bytes) -> object:
    """The content of a frame in a comparable form: JSON as values."""
    frames = Parser(limit=len(raw), start=1).feed(raw + _NEXT_FRAME)
    frame = next(frame for frame in [*frames, _NO_FRAME] if frame.kind is FrameKind.MESSAGE)
    message = Event(0, frame, 0, 1)
    value = json_hash(message) if message.document else None
    return message.event_line, message.data if value is None else value


_NEXT_FRAME = b":"
"""The beginning of another frame: only then is a frame that ends with CR known to be complete."""
_NO_FRAME = Frame(FrameKind.MESSAGE, 0, b"")


KEEP_ALIVE_NS = KEEP_ALIVE_SECONDS * 1_000_000_000

FindingCodes = Mapping[tuple[int, int], tuple[str, ...]]
"""The codes of the recorded findings about each event, by exchange and event number."""


@dataclass(slots=True, eq=False)
class Stretch:
    """What one connection carried between two durable events."""

    deltas: bool
    """Whether the connection requested deltas."""
    after: DraftEntry | None
    """The durable event before it; None at the beginning of the connection."""
    begin_ns: int
    end_ns: int = 0
    before: DraftEntry | None = None
    """The durable event after it; None at the end of the connection."""
    events: list[DraftEntry] = field(default_factory=list)
    """Events without an id."""
    comments: list[DraftEntry] = field(default_factory=list)
    last: list[DraftEntry] = field(default_factory=list)
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
    durable: list[DraftEntry] = field(default_factory=list)
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
        self, exchange: Exchange, events: DurableEvents, findings: FindingCodes, warnings: LogWarnings
    ) -> None:
        """`exchange` has a response."""
        begin_ns = exchange.began_ns
        cursor = cursor_in(header(exchange.request.headers, CURSOR_HEADER))
        self._connection = RecordedConnection(exchange, begin_ns, cursor, deltas_requested(exchange.request.target))
        self._number = exchange.number
        self._events = events
        self._findings = findings
        self._warnings = warnings
        self._stretch: Stretch | None = None
        self._durable_ns = begin_ns
        """When the last durable event arrived."""
        self._comment: DraftEntry | None = None
        """The comment that a following blank line belongs to."""
        self._oversized: DraftEntry | None = None
        """The event over the size limit that is arriving."""
        self._tail: DraftEntry | None = None

    def read(self, body: Iterable[BytesArrived | BytesLost]) -> RecordedConnection:
        """Read the whole body."""
        frames = FrameReader(self._connection.exchange.content_encoding, exchange=self._number)
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
                self._add_message(seen)
            elif kind is FrameKind.TAIL:
                self._tail = self._draft(seen)
            elif kind is not FrameKind.BOM:
                self._add_comment(seen)

    def _add_message(self, message: Event) -> None:
        draft = draft_of_message(message, self._number)
        if self._findings:
            draft.findings = self._findings.get((self._number, draft.event or 0), ())
        if draft.kind is EntryKind.DURABLE:
            if message.shape is not Shape.NO_DATA or self._events.find(draft.id) is None:
                self._add_durable(draft)
                return
            # It has nothing but the id of an earlier event.
            draft.kind, draft.id = EntryKind.EPHEMERAL, None
        self._current_stretch().events.append(draft)

    def _add_durable(self, draft: DraftEntry) -> None:
        event = self._events.add(draft)
        if event is None:
            return
        if self._stretch is not None:
            self._stretch.end_ns, self._stretch.before = draft.time_ns, event
            self._stretch = None
        self._connection.durable.append(event)
        self._durable_ns = draft.time_ns

    def _add_comment(self, seen: TimedFrame) -> None:
        """Add a comment, with the blank lines after it, because some clients take these for an event."""
        if self._comment is not None and seen.frame.kind is FrameKind.BLANK:
            self._comment.data += seen.frame.raw
            return
        self._comment = self._draft(seen)
        self._current_stretch().comments.append(self._comment)

    def _add_oversized(self, seen: TimedFrame) -> None:
        if self._oversized is None:
            self._oversized = self._draft(seen)
            self._current_stretch().events.append(self._oversized)
            self._warnings.oversized.append(0)
        else:
            self._oversized.data += seen.frame.raw
            self._oversized.time_ns = seen.time_ns
        self._warnings.oversized[-1] = len(self._oversized.data)

    def _draft(self, seen: TimedFrame) -> DraftEntry:
        return DraftEntry(EntryKind.EPHEMERAL, seen.time_ns, seen.frame.raw, self._number)

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
        connection.end_ns = last_ns + KEEP_ALIVE_NS if exchange.ended_ns is None else exchange.ended_ns
        tail = self._unfinished_message()
        ending = _ENDINGS_BY_SERVICE.get(exchange.ending)
        if ending is not None:
            last = DraftEntry(EntryKind.ENDING, connection.end_ns, b"", self._number, ending=ending)
            self._current_stretch().last = [last] if tail is None else [tail, last]
        elif tail is not None:
            self._warnings.tails.append(self._number)
        if self._stretch is not None:
            self._stretch.end_ns = connection.end_ns

    def _unfinished_message(self) -> DraftEntry | None:
        """The bytes of the message that the end of the connection cut off."""
        if (
            self._oversized is not None
            and not self._oversized.data.endswith(_BLANK_LINES)
            and self._stretch is not None
        ):
            self._stretch.events.remove(self._oversized)
            return self._oversized
        # After a gap, the tail may belong to a message whose beginning was lost.
        return None if self._warnings.lost[self._number] else self._tail


_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r", b"\n\r\n")
