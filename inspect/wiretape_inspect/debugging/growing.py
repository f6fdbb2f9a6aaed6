"""The rows of one stream while it is being recorded: which are new, and which are others than before."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wiretape.observations import BytesArrived, Side
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect import jsonlines
from wiretape_inspect.view.folder import Checkpoint
from wiretape_inspect.view.folding import StreamFold
from wiretape_inspect.view.rows import StreamRow

_ROWS, _CHARACTERS = 500, 64 * 1024
"""How many rows are told at once, at most about."""
_KNOWN = 0


@dataclass(frozen=True, slots=True)
class Change:
    """From number `first` on, these are the rows, as JSON; `sure` is how many of all do not grow any more."""

    first: int
    rows: tuple[str, ...]
    sure: int


class GrowingRows:
    """Folds a stream as far as it is recorded, and tells what is not as it was told.

    A finding comes later than the event that it is about: the rows from there on are made anew.
    """

    def __init__(self, number: int, known: int = 0) -> None:
        """`known` rows need not be told."""
        self._number = number
        self._findings: list[Finding] = []
        self._fold: StreamFold | None = None
        self._checkpoints: list[Checkpoint] = []
        self._made = 0
        self._read_to = 0
        self._finished = False
        self._told = array("q", [_KNOWN]) * known
        """What was told, as hashes."""

    def read(self, recording: Recording, exchange: Exchange, found: Sequence[Finding]) -> Iterator[Change]:
        """What has changed.  `exchange` is as it was before the bytes are read, `found` is what nobody told before."""
        if self._fold is None or found:
            self._begin(exchange, found)
        if exchange.is_stream and not self._finished:
            yield from self._changes(self._numbered(recording, exchange))

    def _begin(self, exchange: Exchange, found: Sequence[Finding]) -> None:
        """Go back to before the first of the findings."""
        self._findings += found
        at = min((self._before(finding) for finding in found), default=0)
        del self._checkpoints[at:]
        since = self._checkpoints[-1] if self._checkpoints else None
        self._fold = StreamFold(exchange, self._findings, None, since)
        self._made, self._read_to = (since.rows, since.place.start) if since else (0, 0)
        self._finished = False

    def _before(self, finding: Finding) -> int:
        """How many checkpoints stand before what a finding is about."""
        if finding.event is not None:
            return bisect_right(self._checkpoints, finding.event - 1, key=lambda mark: mark.place.events)
        if finding.byte_offset is not None:
            return bisect_right(self._checkpoints, finding.byte_offset, key=lambda mark: mark.place.start)
        return len(self._checkpoints)

    def _numbered(self, recording: Recording, exchange: Exchange) -> Iterator[tuple[int, StreamRow]]:
        """The rows by their numbers, those last that may still grow."""
        for row in self._rows(recording, exchange):
            self._made += 1
            yield self._made - 1, row
        if self._fold is not None and not self._finished:
            yield from enumerate(self._fold.growing(), self._made)

    def _rows(self, recording: Recording, exchange: Exchange) -> Iterator[StreamRow]:
        """The rows that do not grow any more."""
        if self._fold is None:
            return
        for part in recording.body(self._number, Side.RESPONSE, self._read_to):
            end = part.end if isinstance(part, BytesArrived) else part.start + part.count
            if end <= self._read_to:
                continue
            # What is stored of a run never grows: it is new, or holds the checkpoint, which the fold begins behind.
            self._read_to = end
            yield from self._fold.feed(part)
            self._checkpoints += self._fold.checkpoints
            self._fold.checkpoints.clear()
        if exchange.ended_ns is not None:
            self._finished = True
            yield from self._fold.finish(exchange)

    def _changes(self, rows: Iterator[tuple[int, StreamRow]]) -> Iterator[Change]:
        """From the first row on that is not as it was told, all of them."""
        begin: int | None = None
        held, size, end = list[str](), 0, self._made
        for number, row in rows:
            end = number + 1
            if begin is None and self._is_known(number):
                continue
            text = jsonlines.row_text(self._number, row)
            if begin is None and number < len(self._told) and self._told[number] == hash(text):
                continue
            begin = number if begin is None else begin
            del self._told[number:]
            self._told.append(hash(text))
            held.append(text)
            size += len(text)
            if len(held) >= _ROWS or size >= _CHARACTERS:
                yield Change(begin, tuple(held), min(self._made, end))
                begin, size = end, 0
                held.clear()
        if held or len(self._told) > end:
            del self._told[end:]
            yield Change(end if begin is None else begin, tuple(held), self._made)

    def _is_known(self, number: int) -> bool:
        return number < len(self._told) and self._told[number] == _KNOWN
