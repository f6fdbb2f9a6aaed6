"""Fold the bytes of a stream to rows, in one pass and with constant memory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from msgspec import Struct

from wiretape.content_encoding import is_identity
from wiretape.event import Event, TimedFrame
from wiretape.event_preview import preview_of
from wiretape.frame_reader import STREAM_START, StreamPosition
from wiretape.labels import ending_label
from wiretape.observations import BytesArrived, BytesLost
from wiretape.recording import Exchange
from wiretape.rules import Finding
from wiretape.sse import FrameKind
from wiretape_inspect.view.filters import (
    CompiledFilter,
    JoinedTextSearch,
    SearchedFrame,
    row_subject,
)
from wiretape_inspect.view.timeline_rows import (
    GAP_NS,
    CutRow,
    DeltaRow,
    EndRow,
    EventRow,
    LostRow,
    OversizedRow,
    PauseRow,
    StreamRow,
)

_KEEP_ALIVE = "keep-alive"
EVERY_ROWS, EVERY_EVENTS = 256, 4096
"""The least distance between checkpoints: this many rows or this many events."""


def stream_rows(
    exchange: Exchange,
    body: Iterable[BytesArrived | BytesLost],
    findings: Sequence[Finding] = (),
    take: CompiledFilter | None = None,
) -> Iterator[StreamRow]:
    """Yield the rows of a stream, the `EndRow` last.

    `findings` are the findings of this exchange; `take` decides which rows are shown.
    """
    fold = StreamFold(exchange, findings, take)
    for part in body:
        yield from fold.feed(part)
    yield from fold.finish()


class Checkpoint(Struct, frozen=True):
    """A position in a stream from which folding can start without the bytes before it."""

    rows: int
    """Number of rows before the position."""
    position: StreamPosition
    counts: Counter[str]
    """How many events of each kind and how many keep-alives are before the position."""


class StreamFold:
    """Fold a stream to rows while its bytes arrive.

    Events are filtered by `take` before deltas are folded, so a filter hides events but never changes the others.
    A row that may still grow is kept back: consecutive deltas, an event over the size limit, or a pause.  So are frames
    while a text of the filter may continue after them.
    """

    def __init__(
        self,
        exchange: Exchange,
        findings: Sequence[Finding] = (),
        take: CompiledFilter | None = None,
        since: Checkpoint | None = None,
    ) -> None:
        """Start at the beginning of the stream, or at the checkpoint `since`."""
        position = since.position if since else STREAM_START
        began_ns = exchange.began_ns
        last_ns = since.position.time_ns if since else began_ns
        self._exchange = exchange
        self._findings = _UnassignedFindings(findings, position)
        self._take = take
        self._search = JoinedTextSearch(take.wanted if take is not None else ())
        self._reader = exchange.make_reader(position, uses_all=True)
        self._pause = _Pause(last_ns, last_ns)
        self._growing: DeltaRow | OversizedRow | None = None
        self._counts = Counter(since.counts if since else ())
        self._in_event = False
        self._made: list[StreamRow] = []
        """Rows that are still to be returned."""
        self._row_count = since.rows if since else 0
        """The number of rows before them."""
        self._last_checkpoint = (self._row_count, position.events)
        self._has_checkpoints = is_identity(exchange.content_encoding) and take is None
        self.checkpoints: list[Checkpoint] = []
        """Checkpoints passed so far, about every `EVERY_ROWS` rows or `EVERY_EVENTS` events."""

    def feed(self, part: BytesArrived | BytesLost) -> list[StreamRow]:
        """Return the rows that these bytes complete."""
        if isinstance(part, BytesArrived):
            self._fold(self._reader.feed(part))
        else:
            self._fold(self._reader.skip(part))
            self._fold_searched(self._search.interrupt())
            self._fold_loss(part)
        return self._take_made()

    def release(self) -> list[StreamRow]:
        """Return the kept back deltas or oversized event, although it may still have grown."""
        self._fold_searched(self._search.release())
        self._release()
        return self._take_made()

    def growing(self) -> Iterator[StreamRow]:
        """Yield the rows that may still grow as they are now, and keep them back."""
        pause = self._pause.row(self._pause.last_byte_ns)
        for row in (self._growing, pause):
            if isinstance(row, DeltaRow):
                yield replace(row)  # a copy: the row still grows
            elif row is not None and self._takes(row):
                yield row

    def finish(self, exchange: Exchange | None = None) -> list[StreamRow]:
        """Return the last rows; `exchange` replaces the one given at the start if its ending was not yet known."""
        self._fold(self._reader.close())
        self._fold_searched(self._search.interrupt())
        exchange, last_ns = exchange or self._exchange, self._pause.since_ns
        until_ns = exchange.ended_ns if exchange.ended_ns is not None else self._pause.last_byte_ns
        self._pause.add_bytes(until_ns)
        self._interrupt(until_ns)
        end = EndRow(
            ending=exchange.ending,
            ending_label=ending_label(exchange.ending, stream=True, in_event=self._in_event),
            detail=exchange.detail,
            time_ns=exchange.ended_ns,
            gap_ns=until_ns - last_ns,
            durable=self._counts["durable"],
            deltas=self._counts["delta"],
            ephemeral=self._counts["ephemeral"],
            keep_alives=self._counts[_KEEP_ALIVE],
            undecodable=self._reader.undecodable,
            findings=self._findings.take_rest(),
        )
        self._show(end)
        return self._take_made()

    def _take_made(self) -> list[StreamRow]:
        """Return the rows that were made since the last call."""
        made, self._made = self._made, []
        self._row_count += len(made)
        return made

    def _fold(self, frames: Sequence[TimedFrame]) -> None:
        if self._search.wanted:
            self._fold_searched(self._search.feed(frames))
            return
        for seen in frames:
            self._fold_frame(seen)

    def _fold_searched(self, frames: Iterable[SearchedFrame]) -> None:
        for searched in frames:
            self._fold_frame(searched.seen, searched)

    def _fold_frame(self, seen: TimedFrame, searched: SearchedFrame | None = None) -> None:
        self._pause.add_bytes(seen.time_ns)
        if isinstance(seen, Event):
            self._fold_event(seen, searched)
            self._add_checkpoint(seen)
            return
        match seen.frame.kind:
            case FrameKind.COMMENT:
                self._count_keep_alive(seen)
            case FrameKind.TAIL:
                self._fold_cut(seen, searched)
            case FrameKind.OVERSIZED:
                self._fold_oversized(seen)
            case _:
                pass

    def _add_checkpoint(self, event: Event) -> None:
        """Add a checkpoint after an event, unless a row is growing or half a line end may follow."""
        events, count, (rows, before) = event.number, self._row_count + len(self._made), self._last_checkpoint
        if count - rows < EVERY_ROWS and events - before < EVERY_EVENTS:
            return
        frame = event.frame
        if self._growing is not None or not self._has_checkpoints or not frame.raw.endswith(b"\n"):
            return
        place = StreamPosition(frame.end, events, frame.last_event_id, event.time_ns)
        self.checkpoints.append(Checkpoint(count, place, self._counts.copy()))
        self._last_checkpoint = (count, events)

    def _fold_event(self, event: Event, searched: SearchedFrame | None) -> None:
        findings = self._findings.take(event.number, event.frame.end)
        self._counts[event.kind] += 1
        self._in_event = False
        gap_ns = event.time_ns - self._pause.since_ns
        self._end_pause(event.time_ns)
        is_folded = event.is_plain_delta and not findings
        # Most events are deltas, for which no row is made unless there is a filter.
        if is_folded and (self._take is None or self._takes(EventRow(event, gap_ns), searched)):
            self._fold_delta(event, gap_ns)
            return
        self._release()
        if not is_folded:
            self._show(EventRow(event, gap_ns, findings), searched)

    def _fold_delta(self, event: Event, gap_ns: int) -> None:
        row = self._growing
        if isinstance(row, DeltaRow) and row.type == event.type and row.keys == event.keys:
            row.add(event)
            return
        self._release()
        self._growing = DeltaRow.of(event, gap_ns)

    def _count_keep_alive(self, seen: TimedFrame) -> None:
        pause = self._pause
        if not pause.keep_alives:
            pause.comment = preview_of(seen.frame.raw).lstrip(":").strip()
        pause.keep_alives += 1
        self._counts[_KEEP_ALIVE] += 1
        pause.findings += self._findings.take(None, seen.frame.end)

    def _fold_cut(self, seen: TimedFrame, searched: SearchedFrame | None) -> None:
        self._interrupt(seen.time_ns)
        frame = seen.frame
        self._in_event = True
        findings = self._findings.take(None, frame.end)
        self._show(CutRow(seen.time_ns, preview_of(frame.raw), frame.start, frame.end, findings), searched)

    def _fold_oversized(self, seen: TimedFrame) -> None:
        frame, row = seen.frame, self._growing
        findings = self._findings.take(None, frame.end)
        if isinstance(row, OversizedRow) and row.end == frame.start:
            self._pause = _Pause(seen.time_ns, seen.time_ns)
            self._growing = replace(row, end=frame.end, time_ns=seen.time_ns, findings=row.findings + findings)
            return
        self._interrupt(seen.time_ns)
        self._growing = OversizedRow(seen.time_ns, preview_of(frame.raw), frame.start, frame.end, findings)

    def _fold_loss(self, lost: BytesLost) -> None:
        self._interrupt(lost.time_ns)
        self._in_event = False
        findings = self._findings.take(None, lost.start + lost.count)
        self._show(LostRow(lost.time_ns, lost.count, lost.start, lost.why, findings))

    def _end_pause(self, until_ns: int) -> None:
        """End the pause.  A pause that has a row also completes the growing row."""
        row = self._pause.row(until_ns)
        self._pause = _Pause(until_ns, until_ns)
        if row is not None:
            self._release()
            self._show(row)

    def _release(self) -> None:
        row, self._growing = self._growing, None
        if isinstance(row, OversizedRow):
            self._show(row)
        elif row is not None:
            self._made.append(row)

    def _interrupt(self, time_ns: int) -> None:
        """Complete the pause and the growing row."""
        self._end_pause(time_ns)
        self._release()

    def _show(self, row: StreamRow, searched: SearchedFrame | None = None) -> None:
        """Add the row if the filter takes it."""
        if self._takes(row, searched):
            self._made.append(row)

    def _takes(self, row: StreamRow, searched: SearchedFrame | None = None) -> bool:
        return self._take is None or self._take(row_subject(self._exchange, row, searched))


class _Pause(Struct):
    """What arrived since the last event."""

    since_ns: int
    last_byte_ns: int
    keep_alives: int = 0
    comment: str = ""
    silence_ns: int = 0
    findings: tuple[Finding, ...] = ()

    def add_bytes(self, time_ns: int) -> None:
        """Record that bytes arrived."""
        self.silence_ns = max(self.silence_ns, time_ns - self.last_byte_ns)
        self.last_byte_ns = time_ns

    def row(self, until_ns: int) -> PauseRow | None:
        """The row of the pause; None if it is short and empty."""
        if until_ns - self.since_ns < GAP_NS and not self.keep_alives and not self.findings:
            return None
        return PauseRow(self.since_ns, until_ns, self.keep_alives, self.comment, self.silence_ns, self.findings)


class _UnassignedFindings:
    """The findings of one exchange that no row has yet."""

    def __init__(self, findings: Sequence[Finding], position: StreamPosition) -> None:
        """Leave out findings before `position`: they belong to earlier rows."""
        self._by_event: dict[int, list[Finding]] = {}
        self._by_offset: list[tuple[int, Finding]] = []
        self._others: list[Finding] = []
        for finding in findings:
            if finding.event is not None:
                if not 0 < finding.event <= position.events:
                    self._by_event.setdefault(finding.event, []).append(finding)
            elif finding.byte_offset is not None:
                if finding.byte_offset >= position.start:
                    self._by_offset.append((finding.byte_offset, finding))
            else:
                self._others.append(finding)
        self._by_offset.sort(key=lambda item: item[0], reverse=True)

    def take(self, event: int | None, end: int) -> tuple[Finding, ...]:
        """Remove and return the findings about event number `event` and about bytes before offset `end`."""
        taken = self._by_event.pop(event, []) if event is not None else []
        while self._by_offset and self._by_offset[-1][0] < end:
            taken.append(self._by_offset.pop()[1])
        return tuple(taken)

    def take_rest(self) -> tuple[Finding, ...]:
        """Return all findings that are left."""
        left = [finding for findings in self._by_event.values() for finding in findings]
        return (*left, *(finding for _, finding in reversed(self._by_offset)), *self._others)
