"""From the frames of a stream to its rows: runs of deltas, pauses and messages over the limit are one each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from wiretape.content_encoding import is_identity
from wiretape.frame_reader import SeenFrame, StreamPosition
from wiretape.observations import BytesLost
from wiretape.recording import Exchange
from wiretape.sse import FrameKind
from wiretape_inspect.facts import Facts, begin, facts_of
from wiretape_inspect.view.filter_match import Match, message_subject, row_subject
from wiretape_inspect.view.making import Pause, delta_row, event_row, longer
from wiretape_inspect.view.rows import CutRow, DeltaRow, EndRow, FindingsOf, LostRow, OversizedRow, StreamRow
from wiretape_inspect.words import ending_label

EVERY_ROWS, EVERY_EVENTS = 256, 4096
"""How far apart checkpoints are, at least: so many rows, or so many messages."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A place in a stream from which on its rows can be made, without those before it."""

    rows: int
    """How many rows come before."""
    place: StreamPosition
    durable: int
    deltas: int
    ephemeral: int
    keep_alives: int


class Folder:
    """Holds the row that may still grow: a run of deltas, a message over the limit, a pause."""

    def __init__(self, exchange: Exchange, findings: FindingsOf, take: Match | None, since: Checkpoint | None) -> None:
        self._exchange = exchange
        self._findings = findings
        self._take = take
        began = exchange.response.time_ns if exchange.response else exchange.request.time_ns
        last_ns = since.place.time_ns if since else began
        self._pause = Pause(last_ns, last_ns)
        self._growing: DeltaRow | OversizedRow | None = None
        self._standings = {
            "durable": since.durable if since else 0,
            "delta": since.deltas if since else 0,
            "ephemeral": since.ephemeral if since else 0,
        }
        self._keep_alives = since.keep_alives if since else 0
        self._cut = False
        self._rows = since.rows if since else 0
        self._marked = (self._rows, since.place.events if since else 0)
        self._plain = is_identity(exchange.content_encoding)
        self.checkpoints: list[Checkpoint] = []

    def feed(self, frames: Iterable[SeenFrame]) -> Iterator[StreamRow]:
        """The rows that these frames complete."""
        return self._counted(self._fold(frames))

    def release(self) -> Iterator[StreamRow]:
        """The row that could still have grown, as it is."""
        return self._counted(self._release())

    def _counted(self, rows: Iterable[StreamRow]) -> Iterator[StreamRow]:
        for row in rows:
            self._rows += 1
            yield row

    def growing(self) -> Iterator[StreamRow]:
        """The rows that may still grow, as they are now."""
        pause = self._pause.row(self._pause.byte_ns)
        for row in (self._growing, pause):
            if isinstance(row, DeltaRow):
                yield row
            elif row is not None:
                yield from self._shown(row)

    def _fold(self, frames: Iterable[SeenFrame]) -> Iterator[StreamRow]:
        for seen in frames:
            self._pause.heard(seen.time_ns)
            match seen.frame.kind:
                case FrameKind.MESSAGE:
                    yield from self._message(seen)
                    self._mark(seen)
                case FrameKind.COMMENT:
                    self._comment(seen)
                case FrameKind.TAIL:
                    yield from self._tail(seen)
                case FrameKind.OVERSIZED:
                    yield from self._oversized(seen)
                case _:
                    pass

    def _mark(self, seen: SeenFrame) -> None:
        """Remember the place behind a message where nothing grows, and no line end is in doubt."""
        events, (rows, before) = seen.event or 0, self._marked
        if self._rows - rows < EVERY_ROWS and events - before < EVERY_EVENTS:
            return
        frame, held = seen.frame, self._standings
        if self._growing is not None or not self._plain or not frame.raw.endswith(b"\n"):
            return
        place = StreamPosition(frame.end, events, frame.last_event_id, seen.time_ns)
        counts = (held["durable"], held["delta"], held["ephemeral"], self._keep_alives)
        self.checkpoints.append(Checkpoint(self._rows, place, *counts))
        self._marked = (self._rows, events)

    def lose(self, lost: BytesLost) -> Iterator[StreamRow]:
        """The rows that a loss completes, and its own."""
        return self._counted(self._lose(lost))

    def _lose(self, lost: BytesLost) -> Iterator[StreamRow]:
        yield from self._break(lost.time_ns)
        self._cut = False
        end = lost.start + lost.count
        yield from self._shown(LostRow(lost.time_ns, lost.count, lost.start, lost.why, self._findings.of(None, end)))

    def finish(self, undecodable: str | None, exchange: Exchange | None) -> Iterator[StreamRow]:
        """The last rows; `exchange` where it is known better than in the beginning how it ended."""
        exchange, last_ns = exchange or self._exchange, self._pause.since_ns
        until_ns = exchange.ended_ns if exchange.ended_ns is not None else self._pause.byte_ns
        self._pause.heard(until_ns)
        yield from self._break(until_ns)
        end = EndRow(
            ending=exchange.ending,
            words=ending_label(exchange.ending, stream=True, in_event=self._cut),
            detail=exchange.detail,
            time_ns=exchange.ended_ns,
            gap_ns=until_ns - last_ns,
            durable=self._standings["durable"],
            deltas=self._standings["delta"],
            ephemeral=self._standings["ephemeral"],
            keep_alives=self._keep_alives,
            undecodable=undecodable,
            findings=self._findings.rest(),
        )
        yield from self._shown(end)

    def _shown(self, row: StreamRow) -> Iterator[StreamRow]:
        """The row, where it is one to be shown."""
        if self._take is None or self._take(row_subject(self._exchange, row)):
            yield row

    def _message(self, seen: SeenFrame) -> Iterator[StreamRow]:
        facts = facts_of(seen.frame)
        findings = self._findings.of(seen.event, seen.frame.end)
        self._standings[facts.standing] += 1
        self._cut = False
        gap_ns = seen.time_ns - self._pause.since_ns
        yield from self._rest(seen.time_ns)
        if self._take is not None and not self._take(message_subject(self._exchange, seen, facts, gap_ns, findings)):
            yield from self._release()
            return
        if facts.plain_delta and not findings:
            yield from self._delta(seen, facts, gap_ns)
            return
        yield from self._release()
        yield event_row(seen, facts, gap_ns, findings)

    def _delta(self, seen: SeenFrame, facts: Facts, gap_ns: int) -> Iterator[StreamRow]:
        row = self._growing
        if isinstance(row, DeltaRow) and (row.type, row.run_id) == (facts.type, facts.run_id):
            self._growing = longer(row, seen, facts)
            return
        yield from self._release()
        self._growing = delta_row(seen, facts, gap_ns)

    def _comment(self, seen: SeenFrame) -> None:
        pause = self._pause
        if not pause.keep_alives:
            pause.comment = begin(seen.frame.raw).lstrip(":").strip()
        pause.keep_alives += 1
        self._keep_alives += 1
        pause.findings += self._findings.of(None, seen.frame.end)

    def _tail(self, seen: SeenFrame) -> Iterator[StreamRow]:
        yield from self._break(seen.time_ns)
        frame = seen.frame
        self._cut = True
        findings = self._findings.of(None, frame.end)
        yield from self._shown(CutRow(seen.time_ns, begin(frame.raw), frame.start, frame.end, findings))

    def _oversized(self, seen: SeenFrame) -> Iterator[StreamRow]:
        frame, row = seen.frame, self._growing
        findings = self._findings.of(None, frame.end)
        if isinstance(row, OversizedRow) and row.end == frame.start:
            self._pause = Pause(seen.time_ns, seen.time_ns)
            self._growing = replace(row, end=frame.end, time_ns=seen.time_ns, findings=row.findings + findings)
            return
        yield from self._break(seen.time_ns)
        self._growing = OversizedRow(seen.time_ns, begin(frame.raw), frame.start, frame.end, findings)

    def _rest(self, until_ns: int) -> Iterator[StreamRow]:
        """End the pause, which ends what grows when it is worth a row."""
        row = self._pause.row(until_ns)
        self._pause = Pause(until_ns, until_ns)
        if row is not None:
            yield from self._release()
            yield from self._shown(row)

    def _release(self) -> Iterator[StreamRow]:
        row, self._growing = self._growing, None
        if isinstance(row, OversizedRow):
            yield from self._shown(row)
        elif row is not None:
            yield row

    def _break(self, time_ns: int) -> Iterator[StreamRow]:
        """Let nothing grow over this moment."""
        yield from self._rest(time_ns)
        yield from self._release()
