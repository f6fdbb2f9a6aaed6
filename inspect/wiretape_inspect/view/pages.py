"""Rows N to M of a stream, however long it is: made when they are asked for, and forgotten again."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from wiretape.observations import Side
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect.view.folder import Checkpoint
from wiretape_inspect.view.folding import StreamFold
from wiretape_inspect.view.matching import Take
from wiretape_inspect.view.rows import DeltaRow, EventRow, StreamRow


class Pages:
    """The rows of one stream of a recording that is not written any more, as a filter leaves them, by number from 0.

    A page is made from the last checkpoint before it; of what was read only the checkpoints are kept, some 100 bytes
    for every 256 rows.  A body that is encoded can be read from its beginning only.
    """

    def __init__(
        self, recording: Recording, exchange: Exchange, findings: Sequence[Finding] = (), take: Take | None = None
    ) -> None:
        self._recording = recording
        self._exchange = exchange
        self._findings = findings
        self._take = take
        self._checkpoints: list[Checkpoint] = []
        self._count: int | None = None

    def rows(self, first: int, count: int) -> list[StreamRow]:
        """Up to `count` rows from number `first` on; fewer, or none, where the stream ends before."""
        at = bisect_right(self._checkpoints, first, key=lambda mark: mark.rows) - 1
        since = self._checkpoints[at] if at >= 0 else None
        skipped = first - (since.rows if since else 0)
        return list(islice(self._made(since), skipped, skipped + count))

    def count(self) -> int:
        """How many rows there are.  Reads the stream through, once."""
        if self._count is None:
            since = self._checkpoints[-1] if self._checkpoints else None
            self._count = (since.rows if since else 0) + sum(1 for _ in self._made(since))
        return self._count

    def find(self, event: int) -> int | None:
        """The number of the row that a message is in, or, where a filter hides it, of the next; None behind the last.

        Reads the stream as far as the message.
        """
        at = bisect_right(self._checkpoints, event - 1, key=lambda mark: mark.place.events) - 1
        since = self._checkpoints[at] if at >= 0 else None
        begin = since.rows if since else 0
        for number, row in enumerate(self._made(since), begin):
            if isinstance(row, EventRow | DeltaRow) and last_event(row) >= event:
                return number
        return None

    def _made(self, since: Checkpoint | None) -> Iterator[StreamRow]:
        fold = StreamFold(self._exchange, self._findings, self._take, since)
        body = self._recording.body(self._exchange.number, Side.RESPONSE, since.place.start if since else 0)
        for row in fold.rows(body):
            self._keep(fold.checkpoints)
            yield row
        self._keep(fold.checkpoints)

    def _keep(self, passed: list[Checkpoint]) -> None:
        """Keep the checkpoints that lie behind those that are kept."""
        for mark in passed:
            if not self._checkpoints or mark.place.start > self._checkpoints[-1].place.start:
                self._checkpoints.append(mark)
        passed.clear()


def last_event(row: EventRow | DeltaRow) -> int:
    """The number of the last message in a row."""
    return row.last_event if isinstance(row, DeltaRow) else row.event
