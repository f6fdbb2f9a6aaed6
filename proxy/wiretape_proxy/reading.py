"""Reading a stream that somebody looks at: as late as can be, and no more of it than is shown."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from wiretape.content_encoding import Decoder, DecodingError, Identity, decoder
from wiretape.frame_reader import STREAM_START, StreamPosition
from wiretape.sse import Frame, FrameKind, Parser
from wiretape_proxy.rows import Row, row_of
from wiretape_proxy.tail import Tail

SHOWN = 200
"""How many rows there are: mitmproxy shows some 500 lines of a body at first, and findings take some."""
_AT_ONCE = 128 * 1024
"""How many bytes may be unread before some are left out; that many have as many events as are shown, mostly."""
_DECODED_BYTES = 4 * 1024 * 1024
_DECODED_FRAMES = 100_000
"""How much is read of an encoded stream, of which few bytes can stand for many."""
_STEP = 64 * 1024
_SKIPPED = frozenset({FrameKind.BLANK, FrameKind.BOM})

Find = Callable[[int], StreamPosition | None]
"""Tells the first place between two messages at or behind an offset in the body; None where it is not known."""


class _Fresh(NamedTuple):
    frame: Frame
    event: int | None
    gap_ns: int | None


class Reading:
    """The last events of a tail, as far as it went when they were last read."""

    def __init__(self, tail: Tail, *, timed: bool = True) -> None:
        """`timed`: whether the times of its chunks mean anything."""
        self.rows: deque[Row] = deque(maxlen=SHOWN)
        self.events: int | None = 0
        """How many messages the stream has had; None where that is not known."""
        self.trouble: str | None = None
        """Why nothing more is read."""
        self._tail = tail
        self._timed = timed
        self._read = 0
        self._decoder: Decoder = Identity()
        self._begin(STREAM_START, tail.began_ns)

    @property
    def whole(self) -> bool:
        """Whether the rows begin with the stream."""
        return self._begun == 0 and self._taken <= SHOWN

    @property
    def unfinished(self) -> int:
        """Bytes behind the last frame."""
        return self._fed - self._framed

    def catch_up(self, find: Find) -> None:
        """Read what came since.  Where that is much, or no longer there, `find` tells from where to go on."""
        if self.trouble is not None:
            return
        tail = self._tail
        if tail.identity and (self.events is None or tail.end - self._read > _AT_ONCE):
            self._go_on(max(tail.start, tail.end - _AT_ONCE), find)
        fresh: deque[_Fresh] = deque(maxlen=SHOWN)
        try:
            for time_ns, data in tail.chunks(self._read):
                for frame in self._frames(data):
                    seen = self._take(frame, time_ns)
                    if frame.kind not in _SKIPPED:
                        fresh.append(seen)
                        self._taken += 1
        except DecodingError as error:
            self.trouble = str(error)
        self._read = tail.end
        self.rows.extend(row_of(*seen) for seen in fresh)

    def _go_on(self, start: int, find: Find) -> None:
        """Begin anew near an offset.  Without a known place there, read all that is kept, or do without numbers."""
        place = find(start)
        if place is not None and place.start <= self._tail.end:
            self.rows.clear()
            self._begin(place, None)
        elif self.events is None or self._read < self._tail.start:
            self.rows.clear()
            self._begin(StreamPosition(start), None)
            self.events, self._parser = None, Parser(start=start, midstream=True)

    def _begin(self, place: StreamPosition, before_ns: int | None) -> None:
        self.events = place.events
        self._begun = self._read = self._fed = self._framed = place.start
        self._before_ns = before_ns
        self._seen = self._taken = 0
        self._parser = Parser(start=place.start, last_event_id=place.last_event_id)
        try:
            self._decoder = decoder(self._tail.encoding)
        except DecodingError as error:
            self.trouble = str(error)

    def _frames(self, data: bytes) -> Iterator[Frame]:
        for part in self._decoder.slices(data):
            for begin in range(0, len(part), _STEP):
                step = part[begin : begin + _STEP]
                frames = self._parser.feed(step)
                self._fed += len(step)
                self._seen += len(frames)
                yield from frames
                if not self._tail.identity and (self._fed > _DECODED_BYTES or self._seen > _DECODED_FRAMES):
                    raise DecodingError("it decodes to more than is read here")

    def _take(self, frame: Frame, time_ns: int) -> _Fresh:
        self._framed = frame.end
        gap_ns = time_ns - self._before_ns if self._timed and self._before_ns is not None else None
        if frame.kind is not FrameKind.MESSAGE:
            return _Fresh(frame, None, gap_ns)
        self._before_ns = time_ns
        if self.events is not None:
            self.events += 1
        return _Fresh(frame, self.events, gap_ns)
