"""The event streams of a recording, event by event, and the single values in an event."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, Protocol

from wiretape.bounded_dict import cache_short
from wiretape.event import Event, TimedFrame
from wiretape.event_format import PLAIN, EventFormat
from wiretape.frame_reader import StreamReaders
from wiretape.json_codec import UnreadableJson
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    header,
)
from wiretape.patterns import LONGEST
from wiretape.sse import FrameKind, is_event_stream

Scalar = str | int | float | bool | None
_DEEPEST = 4
_MOST_LEAVES = 200
_UNREADABLE = (UnreadableJson.TOO_COMPLEX, UnreadableJson.NOT_AN_OBJECT)
_LONGEST_NAME = 200
MOST_NAMES = 100
"""Names in a list of a contract."""


class RecordedStream:
    """One response with an event stream."""

    def __init__(self, request: RequestStarted, *, is_from_start: bool) -> None:
        self.request = request
        self.is_from_start = is_from_start
        """Whether it begins with the first event of its channel, as far as that is known."""
        self.ending = Ending.OPEN
        """How it ended."""
        self.is_whole = not request.is_invented
        """Whether every event up to now was read."""
        self.events = 0
        """The number of its events that were read."""
        self.memory: dict[object, Any] = {}
        """What each collector remembers about it, until it ends."""

    @property
    def is_complete(self) -> bool:
        """Whether every event was read, and the response ended as it should."""
        return self.is_whole and self.ending is Ending.COMPLETE


class Collector(Protocol):
    """Collects something about events and streams."""

    def add(self, stream: RecordedStream, event: Event) -> None:
        """Add an event of a stream."""

    def end(self, stream: RecordedStream) -> None:
        """End a stream."""


def read_streams(
    observations: Iterable[Observation],
    collectors: Sequence[Collector],
    event_format: EventFormat = PLAIN,
    begins_at_start: Callable[[RequestStarted], bool] = lambda _: True,
) -> None:
    """Pass the events that can be read, and the ends of their streams, to the collectors."""
    readers = StreamReaders(lambda _: event_format)
    requests: dict[int, RequestStarted] = {}
    streams: dict[int, RecordedStream] = {}
    for seen in observations:
        read = readers.read(seen)
        if isinstance(seen, RequestStarted):
            requests[seen.exchange] = seen
        elif isinstance(seen, ResponseStarted):
            request = requests.get(seen.exchange)
            if request is not None and opens_stream(request, seen):
                streams[seen.exchange] = RecordedStream(request, is_from_start=begins_at_start(request))
        elif (stream := streams.get(seen.exchange)) is not None:
            _add_frames(stream, read.frames, collectors)
            if read.undecodable is not None or isinstance(seen, BytesLost):
                stream.is_whole = False
        if isinstance(seen, ExchangeEnded):
            requests.pop(seen.exchange, None)
            if (ended := streams.pop(seen.exchange, None)) is not None:
                ended.ending = seen.ending
                _end(ended, collectors)
    for stream in streams.values():
        _end(stream, collectors)


def _add_frames(stream: RecordedStream, frames: Sequence[TimedFrame], collectors: Sequence[Collector]) -> None:
    for timed in frames:
        if not isinstance(timed, Event):
            stream.is_whole = stream.is_whole and timed.frame.kind not in {FrameKind.OVERSIZED, FrameKind.TAIL}
        elif timed.has_data and (timed.value in _UNREADABLE or not timed.is_utf8 or not is_name(timed.type)):
            stream.is_whole = False
        elif timed.has_data:
            stream.events += 1
            for collector in collectors:
                collector.add(stream, timed)


def _end(stream: RecordedStream, collectors: Sequence[Collector]) -> None:
    for collector in collectors:
        collector.end(stream)
    stream.memory.clear()


def opens_stream(request: RequestStarted, response: ResponseStarted) -> bool:
    """Whether a response is an event stream."""
    is_success = 200 <= response.status < 300 and request.method != "HEAD"
    return is_success and is_event_stream(header(response.headers, "content-type"))


def digest_of(observations: Iterable[Observation]) -> bytes:
    """Return a hash of what was sent and received, apart from the times."""
    digest = blake2b(digest_size=16)
    for seen in observations:
        if isinstance(seen, BytesArrived):
            digest.update(f"{seen.exchange} {seen.side} {seen.start} ".encode() + seen.data)
        elif isinstance(seen, RequestStarted):
            digest.update(f"{seen.exchange} {seen.method} {seen.target} {seen.headers}".encode("utf-8", "replace"))
        else:
            digest.update(f"{seen.exchange} {type(seen).__name__} {getattr(seen, 'ending', '')}".encode())
    return digest.digest()


@cache_short
def is_name(text: str) -> bool:
    """Whether a contract can name a type or a key: it is no pattern, not too long, and valid Unicode."""
    is_plain = 0 < len(text) <= _LONGEST_NAME and "*" not in text
    return is_plain and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))


def leaves(value: Any) -> Iterator[tuple[str, Scalar]]:
    """Yield the pointers to single values in the data of an event, in order, and the values.

    Of lists, only the first item; nothing that is nested very deeply.
    """
    return islice(_leaves(value, "", 0), _MOST_LEAVES)


def _leaves(value: Any, pointer: str, depth: int) -> Iterator[tuple[str, Scalar]]:
    if type(value) is dict:
        for key, inner in value.items() if depth < _DEEPEST else ():
            if (inside := _pointer_to(pointer, key)) is not None:
                yield from _leaves(inner, inside, depth + 1)
    elif type(value) is list:
        if value and pointer and depth < _DEEPEST:
            yield from _leaves(value[0], f"{pointer}/0", depth + 1)
    elif pointer:
        yield pointer, value


@cache_short
def _pointer_to(pointer: str, key: str) -> str | None:
    """Return the pointer to a key of an object; None if no contract can have it."""
    inside = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
    return inside if is_name(key) and len(inside) <= LONGEST - 10 else None
