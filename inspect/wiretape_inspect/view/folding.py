"""From the bytes of a stream to its rows, one pass, flat memory.  Pure: no I/O."""

from collections.abc import Iterable, Iterator, Sequence

from wiretape.frame_reader import STREAM_START, FrameReader
from wiretape.observations import BytesArrived, BytesLost
from wiretape.recording import Exchange
from wiretape.rules import Finding
from wiretape_inspect.view.filter_match import Match
from wiretape_inspect.view.folder import Checkpoint, Folder
from wiretape_inspect.view.rows import FindingsOf, StreamRow


def stream_rows(
    exchange: Exchange,
    body: Iterable[BytesArrived | BytesLost],
    findings: Sequence[Finding] = (),
    take: Match | None = None,
) -> Iterator[StreamRow]:
    """The rows of the stream that `body` is, the `EndRow` last.

    `findings` are those of this exchange; `take` says what is to be shown.
    """
    return StreamFold(exchange, findings, take).rows(body)


class StreamFold:
    """Makes rows of a stream while its bytes come in.

    A message is shown where `take` takes it, before runs of deltas are folded, so that a filter changes which
    events there are and never what they say.  Other rows are taken or not as they are.
    """

    def __init__(
        self,
        exchange: Exchange,
        findings: Sequence[Finding] = (),
        take: Match | None = None,
        since: Checkpoint | None = None,
    ) -> None:
        place = since.place if since else STREAM_START
        self._reader = FrameReader(exchange.content_encoding, place)
        self._folder = Folder(exchange, FindingsOf(findings, place), take, since)

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The places that were passed, about every `EVERY_ROWS` rows or `EVERY_EVENTS` messages."""
        return self._folder.checkpoints

    def rows(self, body: Iterable[BytesArrived | BytesLost]) -> Iterator[StreamRow]:
        """All rows of `body`, the `EndRow` last."""
        for part in body:
            yield from self.feed(part)
        yield from self.finish()

    def feed(self, part: BytesArrived | BytesLost) -> Iterator[StreamRow]:
        """The rows that these bytes complete."""
        if isinstance(part, BytesArrived):
            yield from self._folder.feed(self._reader.feed(part))
        else:
            yield from self._folder.feed(self._reader.skip(part))
            yield from self._folder.lose(part)

    def release(self) -> Iterator[StreamRow]:
        """The row that could still have grown, as it is."""
        return self._folder.release()

    def growing(self) -> Iterator[StreamRow]:
        """The rows that may still grow, as they are now: a run of deltas, a pause.  They do grow on."""
        return self._folder.growing()

    def finish(self, exchange: Exchange | None = None) -> Iterator[StreamRow]:
        """The last rows; `exchange` where it is known better than in the beginning how it ended."""
        yield from self._folder.feed(self._reader.close())
        yield from self._folder.finish(self._reader.undecodable, exchange)
