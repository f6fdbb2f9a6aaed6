"""From the bytes of a stream to its rows, one pass, flat memory.  Pure: no I/O."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wiretape.observe import BytesArrived, BytesLost
from wiretape.recording import Exchange
from wiretape.rules import Finding
from wiretape.sse import FrameKind
from wiretape.stream import FrameReader, SeenFrame
from wiretape_inspect.facts import PREVIEW, Facts, begin, facts_of, short
from wiretape_inspect.rows import (
    CutRow,
    DeltaRow,
    EndRow,
    EventRow,
    FindingsOf,
    LostRow,
    OversizedRow,
    PauseRow,
    StreamRow,
)
from wiretape_inspect.words import ending


def stream_rows(
    exchange: Exchange, body: Iterable[BytesArrived | BytesLost], findings: Sequence[Finding] = ()
) -> Iterator[StreamRow]:
    """The rows of the stream that `body` is, the `EndRow` last.  `findings` are those of this exchange."""
    reader = FrameReader(exchange.content_encoding)
    folder = _Folder(exchange, FindingsOf(findings))
    for part in body:
        if isinstance(part, BytesArrived):
            yield from folder.feed(reader.feed(part))
        else:
            yield from folder.feed(reader.skip(part))
            yield from folder.lose(part)
    yield from folder.feed(reader.close())
    yield from folder.finish(reader.undecodable)


@dataclass(slots=True)
class _Pause:
    """What came since the last message."""

    since_ns: int
    byte_ns: int
    keep_alives: int = 0
    comment: str = ""
    silence_ns: int = 0
    findings: tuple[Finding, ...] = ()

    def heard(self, time_ns: int) -> None:
        self.silence_ns = max(self.silence_ns, time_ns - self.byte_ns)
        self.byte_ns = time_ns

    def row(self, until_ns: int) -> PauseRow | None:
        """The row that it makes, if it is worth one."""
        row = PauseRow(self.since_ns, until_ns, self.keep_alives, self.comment, self.silence_ns, self.findings)
        return row if row.gap or self.keep_alives or self.findings else None


class _Folder:
    """Holds the row that may still grow: a run of deltas, a message over the limit, a pause."""

    def __init__(self, exchange: Exchange, findings: FindingsOf) -> None:
        self._exchange = exchange
        self._findings = findings
        began = exchange.response.time_ns if exchange.response else exchange.request.time_ns
        self._pause = _Pause(began, began)
        self._growing: DeltaRow | OversizedRow | None = None
        self._standings = {"durable": 0, "delta": 0, "ephemeral": 0}
        self._keep_alives = 0
        self._cut = False

    def feed(self, frames: Iterable[SeenFrame]) -> Iterator[StreamRow]:
        for seen in frames:
            self._pause.heard(seen.time_ns)
            match seen.frame.kind:
                case FrameKind.MESSAGE:
                    yield from self._message(seen)
                case FrameKind.COMMENT:
                    self._comment(seen)
                case FrameKind.TAIL:
                    yield from self._tail(seen)
                case FrameKind.OVERSIZED:
                    yield from self._oversized(seen)
                case _:
                    pass

    def lose(self, lost: BytesLost) -> Iterator[StreamRow]:
        yield from self._break(lost.time_ns)
        self._cut = False
        end = lost.start + lost.count
        yield LostRow(lost.time_ns, lost.count, lost.start, lost.why, self._findings.of(None, end))

    def finish(self, undecodable: str | None) -> Iterator[StreamRow]:
        exchange, last_ns = self._exchange, self._pause.since_ns
        until_ns = exchange.ended_ns if exchange.ended_ns is not None else self._pause.byte_ns
        self._pause.heard(until_ns)
        yield from self._break(until_ns)
        yield EndRow(
            ending=exchange.ending,
            words=ending(exchange.ending, stream=True, in_event=self._cut),
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

    def _message(self, seen: SeenFrame) -> Iterator[StreamRow]:
        facts = facts_of(seen.frame)
        findings = self._findings.of(seen.event, seen.frame.end)
        self._standings[facts.standing] += 1
        self._cut = False
        gap_ns = seen.time_ns - self._pause.since_ns
        yield from self._rest(seen.time_ns)
        if facts.plain_delta and not findings:
            yield from self._delta(seen, facts, gap_ns)
            return
        yield from self._release()
        yield _event_row(seen, facts, gap_ns, findings)

    def _delta(self, seen: SeenFrame, facts: Facts, gap_ns: int) -> Iterator[StreamRow]:
        row = self._growing
        if isinstance(row, DeltaRow) and (row.type, row.run_id) == (facts.type, facts.run_id):
            self._growing = _longer(row, seen, facts)
            return
        yield from self._release()
        self._growing = DeltaRow(
            event=seen.event or 0,
            last_event=seen.event or 0,
            time_ns=seen.time_ns,
            gap_ns=gap_ns,
            until_ns=seen.time_ns,
            type=facts.type,
            run_id=facts.run_id,
            count=1,
            characters=facts.characters,
            preview=facts.text[:PREVIEW],
            start=seen.frame.start,
            end=seen.frame.end,
        )

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
        yield CutRow(seen.time_ns, begin(frame.raw), frame.start, frame.end, self._findings.of(None, frame.end))

    def _oversized(self, seen: SeenFrame) -> Iterator[StreamRow]:
        frame, row = seen.frame, self._growing
        findings = self._findings.of(None, frame.end)
        if isinstance(row, OversizedRow) and row.end == frame.start:
            self._pause = _Pause(seen.time_ns, seen.time_ns)
            self._growing = replace(row, end=frame.end, time_ns=seen.time_ns, findings=row.findings + findings)
            return
        yield from self._break(seen.time_ns)
        self._growing = OversizedRow(seen.time_ns, begin(frame.raw), frame.start, frame.end, findings)

    def _rest(self, until_ns: int) -> Iterator[StreamRow]:
        """End the pause, which ends what grows when it is worth a row."""
        row = self._pause.row(until_ns)
        self._pause = _Pause(until_ns, until_ns)
        if row is not None:
            yield from self._release()
            yield row

    def _release(self) -> Iterator[StreamRow]:
        row, self._growing = self._growing, None
        if row is not None:
            yield row

    def _break(self, time_ns: int) -> Iterator[StreamRow]:
        """Let nothing grow over this moment."""
        yield from self._rest(time_ns)
        yield from self._release()


def _event_row(seen: SeenFrame, facts: Facts, gap_ns: int, findings: tuple[Finding, ...]) -> EventRow:
    return EventRow(
        event=seen.event or 0,
        time_ns=seen.time_ns,
        gap_ns=gap_ns,
        type=facts.type,
        standing=facts.standing,
        id=facts.id,
        sequence=facts.sequence,
        run_id=facts.run_id,
        tool_call_id=facts.tool_call_id,
        preview=short(facts.text),
        note=facts.note,
        start=seen.frame.start,
        end=seen.frame.end,
        findings=findings,
    )


def _longer(row: DeltaRow, seen: SeenFrame, facts: Facts) -> DeltaRow:
    room = PREVIEW - len(row.preview)
    return replace(
        row,
        last_event=seen.event or 0,
        until_ns=seen.time_ns,
        count=row.count + 1,
        characters=row.characters + facts.characters,
        preview=row.preview + facts.text[:room] if room else row.preview,
        end=seen.frame.end,
    )
