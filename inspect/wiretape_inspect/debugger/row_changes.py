"""The rows of one stream while it is being recorded: which are new, and which have changed."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wiretape.observations import BytesArrived, Side
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect import timeline_json
from wiretape_inspect.view.stream_fold import Checkpoint, StreamFold
from wiretape_inspect.view.timeline_rows import StreamRow

_MOST_ROWS, _MOST_CHARACTERS = 500, 64 * 1024
"""About how much one change contains at most."""
_UNKNOWN_HASH = 0


@dataclass(frozen=True, slots=True)
class RowChange:
    """From number `first` on, the rows are these, as JSON.  The first `settled` of all rows no longer grow."""

    first: int
    rows: tuple[str, ...]
    settled: int


class ChangingRows:
    """Folds a stream as far as it is recorded, and reports the rows that differ from those reported before.

    A finding arrives later than its event, so the rows from that event on are made again.
    """

    def __init__(self, number: int, known: int = 0) -> None:
        """Report the rows of exchange `number`, without the first `known` rows."""
        self._number = number
        self._findings: list[Finding] = []
        self._fold: StreamFold | None = None
        self._checkpoints: list[Checkpoint] = []
        self._made = 0
        self._read_to = 0
        self._finished = False
        self._reported = array("q", [_UNKNOWN_HASH]) * known
        """The hashes of the rows that were reported."""

    def read(self, recording: Recording, exchange: Exchange, found: Sequence[Finding]) -> Iterator[RowChange]:
        """Yield what has changed; `exchange` was read before the bytes, and `found` are the new findings."""
        if self._fold is None or found:
            self._restart(exchange, found)
        if exchange.is_stream and not self._finished:
            yield from self._changes(self._numbered(recording, exchange))

    def _restart(self, exchange: Exchange, found: Sequence[Finding]) -> None:
        """Go back to the last checkpoint before the first of the findings."""
        self._findings += found
        del self._checkpoints[min((self._checkpoints_before(finding) for finding in found), default=0) :]
        since = self._checkpoints[-1] if self._checkpoints else None
        self._fold = StreamFold(exchange, self._findings, None, since)
        self._made, self._read_to = (since.rows, since.position.start) if since else (0, 0)
        self._finished = False

    def _checkpoints_before(self, finding: Finding) -> int:
        if finding.event is not None:
            return bisect_right(self._checkpoints, finding.event - 1, key=lambda mark: mark.position.events)
        if finding.byte_offset is not None:
            return bisect_right(self._checkpoints, finding.byte_offset, key=lambda mark: mark.position.start)
        return len(self._checkpoints)

    def _numbered(self, recording: Recording, exchange: Exchange) -> Iterator[tuple[int, StreamRow]]:
        """Yield the rows with their numbers; the last ones may still grow."""
        for row in self._settled_rows(recording, exchange):
            self._made += 1
            yield self._made - 1, row
        if self._fold is not None and not self._finished:
            yield from enumerate(self._fold.growing(), self._made)

    def _settled_rows(self, recording: Recording, exchange: Exchange) -> Iterator[StreamRow]:
        if self._fold is None:
            return
        for part in recording.body(self._number, Side.RESPONSE, self._read_to):
            end = part.end if isinstance(part, BytesArrived) else part.start + part.count
            if end <= self._read_to:
                continue
            # A stored run of bytes never grows: it is new, or contains the checkpoint at which the fold begins.
            self._read_to = end
            yield from self._fold.feed(part)
            self._checkpoints += self._fold.checkpoints
            self._fold.checkpoints.clear()
        if exchange.ended_ns is not None:
            self._finished = True
            yield from self._fold.finish(exchange)

    def _changes(self, rows: Iterator[tuple[int, StreamRow]]) -> Iterator[RowChange]:
        """Yield all rows from the first one on that differs from what was reported."""
        begin: int | None = None
        batch, size, end = list[str](), 0, self._made
        for number, row in rows:
            end = number + 1
            if begin is None and self._is_known(number):
                continue
            text = timeline_json.row_json(self._number, row)
            if begin is None and number < len(self._reported) and self._reported[number] == hash(text):
                continue
            begin = number if begin is None else begin
            del self._reported[number:]
            self._reported.append(hash(text))
            batch.append(text)
            size += len(text)
            if len(batch) >= _MOST_ROWS or size >= _MOST_CHARACTERS:
                yield RowChange(begin, tuple(batch), min(self._made, end))
                begin, size = end, 0
                batch.clear()
        if batch or len(self._reported) > end:
            del self._reported[end:]
            yield RowChange(end if begin is None else begin, tuple(batch), self._made)

    def _is_known(self, number: int) -> bool:
        return number < len(self._reported) and self._reported[number] == _UNKNOWN_HASH
