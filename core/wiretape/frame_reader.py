"""From the bytes of one response to its frames, each with the time of its last byte and its event number."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from wiretape.content_encoding import DecodingError, Identity, decoder
from wiretape.contract import is_event_stream
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Observation,
    ResponseStarted,
    Side,
    header,
)
from wiretape.sse import Frame, FrameKind, Parser

# Python 3.11 takes 50 ns to look up the member of an enumeration.
_MESSAGE = FrameKind.MESSAGE


class SeenFrame(NamedTuple):
    """A frame at its place in an exchange."""

    frame: Frame
    time_ns: int
    """When its last byte arrived."""
    event: int | None
    """Which message of the connection it is, from 1; None for frames that are no message."""


class StreamPosition(NamedTuple):
    """A place between two frames of a stream, from which on it can be read."""

    start: int = 0
    """Offset in the body."""
    events: int = 0
    """How many messages stand before it."""
    last_event_id: bytes = b""
    """The last event ID string in force."""
    time_ns: int = 0
    """When what stands before it came."""


STREAM_START = StreamPosition()
"""Where every stream begins."""


class FrameReader:
    """Folds the observed bytes of one response into frames.  Pure: no I/O, no clock.

    An encoded body is decoded first; frame offsets then count decoded bytes.  A body
    that cannot be decoded gives no frames from there on, and `undecodable` says why.

    Reading may begin at a `place` in a body that is not encoded; what is fed of the bytes before it is passed over.
    """

    def __init__(self, content_encoding: str | None = None, place: StreamPosition = STREAM_START) -> None:
        self.undecodable: str | None = None
        self.events = place.events
        self._parser = Parser(start=place.start, last_event_id=place.last_event_id)
        self._begin = place.start
        self._last: tuple[int, int] = (place.start, place.time_ns)
        try:
            self._decoder = decoder(content_encoding)
        except DecodingError as error:
            self._decoder = Identity()
            self.undecodable = str(error)

    def feed(self, run: BytesArrived) -> list[SeenFrame]:
        """The frames that these bytes complete."""
        if self.undecodable is not None:
            return []
        if run.start < self._begin:
            run = run.behind(min(self._begin, run.end))
        if isinstance(self._decoder, Identity):
            return self._place(self._parser.feed(run.data), run.ends, run.times)
        return self._feed_encoded(run)

    def skip(self, lost: BytesLost) -> list[SeenFrame]:
        """The frames that a gap in the recorded bytes cuts off; reading goes on behind the gap."""
        if self.undecodable is None and not isinstance(self._decoder, Identity):
            self.undecodable = f"{lost.count} bytes of the encoded body were not recorded"
        cut = self.close()
        last_event_id = self._parser.last_event_id
        self._parser = Parser(start=lost.start + lost.count, last_event_id=last_event_id, midstream=True)
        return cut

    def close(self) -> list[SeenFrame]:
        """The frames that the end of the body completes or cuts off."""
        return self._place(self._parser.close(), (), ())

    def _feed_encoded(self, run: BytesArrived) -> list[SeenFrame]:
        seen: list[SeenFrame] = []
        for time_ns, data in run.chunks():
            try:
                for decoded in self._decoder.slices(data):
                    end = self._last[0] + len(decoded)
                    seen += self._place(self._parser.feed(decoded), (end,), (time_ns,))
            except DecodingError as error:
                self.undecodable = str(error)
                break
        return seen

    def _place(self, frames: Iterable[Frame], ends: Sequence[int], times: Sequence[int]) -> list[SeenFrame]:
        """Give each frame its number and the time of the chunk that holds its last byte."""
        seen = []
        before_end, before_ns = self._last
        events, chunk = self.events, 0
        for frame in frames:
            kind, start, raw, _, _ = frame
            end = start + len(raw)
            if end <= before_end:
                # The parser gave it out one byte late: it ends with the run before.
                time_ns = before_ns
            else:
                while ends[chunk] < end:
                    chunk += 1
                time_ns = times[chunk]
            number = None
            if kind is _MESSAGE:
                events += 1
                number = events
            seen.append(SeenFrame(frame, time_ns, number))
        self.events = events
        if ends and ends[-1] > before_end:
            # Empty chunks may stand at the end of the run.
            self._last = (ends[-1], times[bisect_left(ends, ends[-1])])
        return seen


class ReadObservation(NamedTuple):
    """An observation, read."""

    seen: Observation
    frames: Sequence[SeenFrame] = ()
    """What it completes, or cuts off, of the event stream that it belongs to."""
    undecodable: bool = False
    """Whether that stream cannot be decoded from here on."""


class StreamReaders:
    """Reads the event streams of a recording, each once, for everybody who looks at frames.

    Give it all observations, in order of time.
    """

    def __init__(self) -> None:
        self._readers: dict[int, FrameReader] = {}

    def read(self, seen: Observation) -> ReadObservation:
        """The observation and its frames."""
        if isinstance(seen, ResponseStarted):
            if is_event_stream(header(seen.headers, "content-type")):
                self._readers[seen.exchange] = FrameReader(header(seen.headers, "content-encoding"))
            return ReadObservation(seen)
        reader = self._readers.get(seen.exchange)
        if reader is None:
            return ReadObservation(seen)
        return ReadObservation(seen, self._frames(reader, seen), reader.undecodable is not None)

    def _frames(self, reader: FrameReader, seen: Observation) -> Sequence[SeenFrame]:
        if isinstance(seen, ExchangeEnded):
            del self._readers[seen.exchange]
            return reader.close()
        if isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE:
            return reader.feed(seen)
        if isinstance(seen, BytesLost) and seen.side is Side.RESPONSE:
            return reader.skip(seen)
        return ()


def read_frames(
    content_encoding: str | None, body: Iterable[BytesArrived | BytesLost], place: StreamPosition = STREAM_START
) -> Iterator[SeenFrame]:
    """The frames of a response body from `place` on, lazily."""
    reader = FrameReader(content_encoding, place)
    for part in body:
        yield from reader.feed(part) if isinstance(part, BytesArrived) else reader.skip(part)
    yield from reader.close()
