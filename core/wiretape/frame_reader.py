"""Frames of a response body with their arrival times, and its events."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from wiretape.content_encoding import DecodingError, Identity, decoder
from wiretape.event import Event, TimedFrame, unread_class
from wiretape.event_format import PLAIN, EventFormat
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.sse import Frame, FrameKind, Parser, is_event_stream

# Python 3.11 takes 50 ns to look up a member of an enumeration.
_MESSAGE = FrameKind.MESSAGE
# Calling `ReadObservation` takes three times as long.
_new_tuple = tuple.__new__
FindFormat = Callable[[RequestStarted], EventFormat]
"""Returns the format of the events in the response to a request."""
_FRAME_BYTES = 100
"""A frame of a decoded body counts as at least this many decoded bytes: it takes as much in the index."""


class StreamPosition(NamedTuple):
    """A position between two frames of a stream, from which it can be read."""

    start: int = 0
    """Offset in the body."""
    events: int = 0
    """The number of events before it."""
    last_event_id: bytes = b""
    """The last event ID string at this position."""
    time_ns: int = 0
    """When the bytes before it arrived."""


STREAM_START = StreamPosition()
"""The beginning of a stream."""


class FrameReader:
    """Reads the frames of one response from its observed bytes.  Pure: no I/O, no clock.

    An encoded body is decoded first; frame offsets then count decoded bytes.  After an error in the encoding there are
    no more frames, and `undecodable` is the reason.

    Reading may begin at a `position` in a body that is not encoded; bytes before it are skipped.
    """

    def __init__(
        self,
        content_encoding: str | None = None,
        position: StreamPosition = STREAM_START,
        *,
        exchange: int = 0,
        event_format: EventFormat = PLAIN,
        uses_all: bool = False,
    ) -> None:
        """`event_format` is how the facts of events are read.  If all events are used, `uses_all` takes less time."""
        self._exchange = exchange
        self._format = event_format
        event_class = event_format.event_class or Event
        self._event_class = event_class if uses_all else unread_class(event_class)
        self.undecodable: str | None = None
        self.undecodable_ns: int | None = None
        """When the first bytes arrived that could not be decoded."""
        self.events = position.events
        self._parser = Parser(start=position.start, last_event_id=position.last_event_id)
        self._begin = position.start
        self._last: tuple[int, int] = (position.start, position.time_ns)
        try:
            self._decoder = decoder(content_encoding)
        except DecodingError as error:
            self._decoder = Identity()
            self.undecodable = str(error)

    def feed(self, span: BytesArrived) -> list[TimedFrame]:
        """Return the frames that these bytes complete."""
        if self.undecodable is not None:
            if self.undecodable_ns is None:
                self.undecodable_ns = span.time_ns
            return []
        if span.start < self._begin:
            span = span.after(min(self._begin, span.end))
        if isinstance(self._decoder, Identity):
            return self._add_times(self._parser.feed(span.data), span.ends, span.times)
        return self._feed_encoded(span)

    def skip(self, lost: BytesLost) -> list[TimedFrame]:
        """Return the frames that lost bytes cut off; reading continues after them."""
        if self.undecodable is None and not isinstance(self._decoder, Identity):
            self.undecodable = f"{lost.count} bytes of the encoded body were not recorded"
            self.undecodable_ns = lost.time_ns
        cut = self.close()
        last_event_id = self._parser.last_event_id
        self._parser = Parser(start=lost.end, last_event_id=last_event_id, midstream=True)
        return cut

    def close(self) -> list[TimedFrame]:
        """Return the frames that the end of the body completes or cuts off."""
        return self._add_times(self._parser.close(), (), ())

    def read(self, body: Iterable[BytesArrived | BytesLost]) -> Iterator[TimedFrame]:
        """Yield the frames of a body to its end."""
        for part in body:
            yield from self.feed(part) if isinstance(part, BytesArrived) else self.skip(part)
        yield from self.close()

    def _feed_encoded(self, span: BytesArrived) -> list[TimedFrame]:
        seen: list[TimedFrame] = []
        for time_ns, data in span.chunks():
            try:
                for decoded in self._decoder.slices(data):
                    end = self._last[0] + len(decoded)
                    frames = self._parser.feed(decoded)
                    seen += self._add_times(frames, (end,), (time_ns,))
                    small = sum(_FRAME_BYTES - len(frame.raw) for frame in frames if len(frame.raw) < _FRAME_BYTES)
                    self._decoder.spend(small)
            except DecodingError as error:
                self.undecodable, self.undecodable_ns = str(error), time_ns
                break
        return seen

    def _add_times(self, frames: Iterable[Frame], ends: Sequence[int], times: Sequence[int]) -> list[TimedFrame]:
        """Add to each frame the time of the chunk with its last byte, and make events of messages."""
        seen: list[TimedFrame] = []
        exchange, event_class, event_format = self._exchange, self._event_class, self._format
        before_end, before_ns = self._last
        events, chunk = self.events, 0
        for frame in frames:
            kind, start, raw, _, _ = frame
            end = start + len(raw)
            if end <= before_end:
                # The parser returned it one byte late: it ends with the previous span.
                time_ns = before_ns
            else:
                while ends[chunk] < end:
                    chunk += 1
                time_ns = times[chunk]
            if kind is _MESSAGE:
                events += 1
                seen.append(event_class(exchange, frame, time_ns, events, event_format))
            else:
                seen.append(TimedFrame(exchange, frame, time_ns))
        self.events = events
        if ends and ends[-1] > before_end:
            # The span may end with empty chunks.
            self._last = (ends[-1], times[bisect_left(ends, ends[-1])])
        return seen


class Undecodable(NamedTuple):
    """Why and from when on a stream cannot be decoded."""

    reason: str
    time_ns: int


class ReadObservation(NamedTuple):
    """An observation with the frames that it completes."""

    observation: Observation
    frames: Sequence[TimedFrame] = ()
    """The frames of its event stream that it completes or cuts off."""
    undecodable: Undecodable | None = None
    """If that stream can no longer be decoded."""


class StreamReaders:
    """Reads the frames of all event streams of a recording, once for all users of frames.

    Feed it all observations in order of time.
    """

    def __init__(self, format_of: FindFormat | None = None, *, uses_all: bool = True) -> None:
        """`format_of` returns the format of the events of a request; without it, their lines have the facts.

        `uses_all` is that of the readers of frames.
        """
        self._format_of, self._uses_all = format_of, uses_all
        self._requests: dict[int, RequestStarted] = {}
        """Those without a response."""
        self._readers: dict[int, FrameReader] = {}

    def read(self, seen: Observation) -> ReadObservation:
        """Return the observation with its frames."""
        if isinstance(seen, RequestStarted):
            self._requests[seen.exchange] = seen
            return _new_tuple(ReadObservation, (seen, (), None))
        if isinstance(seen, ResponseStarted):
            request = self._requests.pop(seen.exchange, None)
            if is_event_stream(header(seen.headers, "content-type")):
                self._readers[seen.exchange] = FrameReader(
                    header(seen.headers, "content-encoding"),
                    exchange=seen.exchange,
                    event_format=PLAIN if request is None or self._format_of is None else self._format_of(request),
                    uses_all=self._uses_all,
                )
            return _new_tuple(ReadObservation, (seen, (), None))
        reader = self._readers.get(seen.exchange)
        if reader is None:
            if isinstance(seen, ExchangeEnded):
                self._requests.pop(seen.exchange, None)
            return _new_tuple(ReadObservation, (seen, (), None))
        frames = self._frames(reader, seen)
        if reader.undecodable is None or reader.undecodable_ns is None:
            return ReadObservation(seen, frames)
        return ReadObservation(seen, frames, Undecodable(reader.undecodable, reader.undecodable_ns))

    def _frames(self, reader: FrameReader, seen: Observation) -> Sequence[TimedFrame]:
        if isinstance(seen, ExchangeEnded):
            del self._readers[seen.exchange]
            return reader.close()
        if isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE:
            return reader.feed(seen)
        if isinstance(seen, BytesLost) and seen.side is Side.RESPONSE:
            return reader.skip(seen)
        return ()
