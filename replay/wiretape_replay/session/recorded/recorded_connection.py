"""Reads one recorded stream connection: its durable events, and what came between them.  Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wiretape.contract import CURSOR_HEADER, KEEP_ALIVE_SECONDS, cursor_in, deltas_requested
from wiretape.frame_reader import FrameReader, SeenFrame
from wiretape.observations import BytesArrived, BytesLost, Ending, header
from wiretape.recording import Exchange
from wiretape.rules import ParsedEvent, Shape
from wiretape.sse import FrameKind
from wiretape_replay.session.recorded.draft_entry import DraftEntry, draft_of_message
from wiretape_replay.session.recorded.durable_events import DurableEvents
from wiretape_replay.session.recorded.log_warnings import LogWarnings
from wiretape_replay.session.session_log import EntryKind

KEEP_ALIVE_NS = KEEP_ALIVE_SECONDS * 1_000_000_000

Findings = Mapping[tuple[int, int], tuple[str, ...]]
"""The codes of the recorded findings about an event, by exchange and event number."""


@dataclass(slots=True, eq=False)
class Stretch:
    """What came on one connection between two durable events, if anything did."""

    deltas: bool
    """Whether the connection asked for deltas."""
    after: DraftEntry | None
    """The durable event that came before; None at the beginning of the connection."""
    begin_ns: int
    end_ns: int = 0
    before: DraftEntry | None = None
    """The durable event that came next; None at the end of the connection."""
    pieces: list[DraftEntry] = field(default_factory=list)
    """Events without an id."""
    comments: list[DraftEntry] = field(default_factory=list)
    last: list[DraftEntry] = field(default_factory=list)
    """How the service ended the connection here: bytes of an unfinished message, and the ending."""

    def __bool__(self) -> bool:
        return bool(self.pieces or self.comments or self.last)


@dataclass(slots=True, eq=False)
class RecordedConnection:
    """A stream that the service gave."""

    exchange: Exchange
    begin_ns: int
    """When its head came."""
    cursor: str | None
    deltas: bool
    durable: list[DraftEntry] = field(default_factory=list)
    """The durable events that it carried, in order, each once."""
    stretches: list[Stretch] = field(default_factory=list)
    end_ns: int = 0
    """When it ended, as far as can be told."""

    @property
    def ended_by_service(self) -> bool:
        """Whether the service ended it, in whatever way."""
        return self.exchange.ending in _BY_SERVICE


_BY_SERVICE = {
    Ending.COMPLETE: Ending.COMPLETE,
    Ending.SERVICE_CLOSED: Ending.SERVICE_CLOSED,
    Ending.SERVICE_RESET: Ending.SERVICE_RESET,
    # What is no HTTP any more cannot be given again, but that it ends there can.
    Ending.SERVICE_INVALID: Ending.SERVICE_CLOSED,
}


class ConnectionReader:
    """Reads the body of one connection.  `read` is called once."""

    def __init__(self, exchange: Exchange, join: DurableEvents, findings: Findings, odd: LogWarnings) -> None:
        """`exchange` has a response."""
        begin_ns = exchange.response.time_ns if exchange.response else exchange.request.time_ns
        cursor = cursor_in(header(exchange.request.headers, CURSOR_HEADER))
        self._connection = RecordedConnection(exchange, begin_ns, cursor, deltas_requested(exchange.request.target))
        self._number = exchange.number
        self._join = join
        self._findings = findings
        self._odd = odd
        self._stretch: Stretch | None = None
        self._comment: DraftEntry | None = None
        """The comment that a blank line would belong to."""
        self._oversized: DraftEntry | None = None
        """The event over the size limit of which pieces are coming."""
        self._tail: DraftEntry | None = None

    def read(self, body: Iterable[BytesArrived | BytesLost]) -> RecordedConnection:
        """Everything of it, once."""
        frames = FrameReader(self._connection.exchange.content_encoding)
        heard_ns = self._connection.begin_ns
        for part in body:
            if isinstance(part, BytesArrived):
                heard_ns = max(heard_ns, part.times[-1])
                self._take(frames.feed(part))
            else:
                self._odd.lost[self._number] += part.count
                self._take(frames.skip(part))
        self._take(frames.close())
        if frames.undecodable is not None:
            self._odd.undecodable.append((self._number, frames.undecodable))
        self._end(heard_ns)
        return self._connection

    def _take(self, seen: Iterable[SeenFrame]) -> None:
        for one in seen:
            kind = one.frame.kind
            if kind is FrameKind.OVERSIZED:
                self._take_oversized(one)
                continue
            self._comment = self._comment if kind is FrameKind.BLANK else None
            self._oversized = self._tail = None
            if kind is FrameKind.MESSAGE:
                self._take_message(ParsedEvent(one))
            elif kind is FrameKind.TAIL:
                self._tail = self._bare(one)
            elif kind is not FrameKind.BOM:
                self._take_comment(one)

    def _take_message(self, message: ParsedEvent) -> None:
        piece = draft_of_message(message, self._number)
        if self._findings:
            piece.findings = self._findings.get((self._number, piece.event or 0), ())
        if piece.kind is EntryKind.DURABLE:
            if message.shape is not Shape.NO_DATA or self._join.find(piece.id) is None:
                self._take_durable(piece)
                return
            # Nothing but the id of an event that was there before.
            piece.kind, piece.id = EntryKind.EPHEMERAL, None
        self._between().pieces.append(piece)

    def _take_durable(self, piece: DraftEntry) -> None:
        event = self._join.take(piece)
        if event is None:
            return
        if self._stretch is not None:
            self._stretch.end_ns, self._stretch.before = piece.time_ns, event
            self._stretch = None
        self._connection.durable.append(event)
        self._durable_ns = piece.time_ns

    def _take_comment(self, seen: SeenFrame) -> None:
        """A comment; with it the blank lines behind it, which some clients take for an event."""
        if self._comment is not None and seen.frame.kind is FrameKind.BLANK:
            self._comment.data += seen.frame.raw
            return
        self._comment = self._bare(seen)
        self._between().comments.append(self._comment)

    def _take_oversized(self, seen: SeenFrame) -> None:
        if self._oversized is None:
            self._oversized = self._bare(seen)
            self._between().pieces.append(self._oversized)
            self._odd.oversized.append(0)
        else:
            self._oversized.data += seen.frame.raw
            self._oversized.time_ns = seen.time_ns
        self._odd.oversized[-1] = len(self._oversized.data)

    def _bare(self, seen: SeenFrame) -> DraftEntry:
        return DraftEntry(EntryKind.EPHEMERAL, seen.time_ns, seen.frame.raw, self._number)

    def _between(self) -> Stretch:
        """The stretch that goes on since the last durable event."""
        if self._stretch is None:
            connection = self._connection
            after = connection.durable[-1] if connection.durable else None
            begin_ns = self._durable_ns if after is not None else connection.begin_ns
            self._stretch = Stretch(connection.deltas, after, begin_ns)
            connection.stretches.append(self._stretch)
        return self._stretch

    def _end(self, heard_ns: int) -> None:
        """The end of the connection; of one that nobody saw end, it is when the next keep-alive would have come."""
        connection, exchange = self._connection, self._connection.exchange
        connection.end_ns = heard_ns + KEEP_ALIVE_NS if exchange.ended_ns is None else exchange.ended_ns
        tail = self._unfinished()
        ending = _BY_SERVICE.get(exchange.ending)
        if ending is not None:
            last = DraftEntry(EntryKind.ENDING, connection.end_ns, b"", self._number, ending=ending)
            self._between().last = [last] if tail is None else [tail, last]
        elif tail is not None:
            self._odd.tails.append(self._number)
        if self._stretch is not None:
            self._stretch.end_ns = connection.end_ns

    def _unfinished(self) -> DraftEntry | None:
        """The bytes of the message that the end of the connection cut off."""
        if (
            self._oversized is not None
            and not self._oversized.data.endswith(_BLANK_LINES)
            and self._stretch is not None
        ):
            self._stretch.pieces.remove(self._oversized)
            return self._oversized
        # After a gap it may be the rest of a message that was lost.
        return None if self._odd.lost[self._number] else self._tail


_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r", b"\n\r\n")
