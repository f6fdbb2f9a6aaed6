"""Where in the bodies of an exchange secrets stand."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter

import orjson

from wiretape.content_encoding import Decoder, DecodingError, decoder, is_identity
from wiretape.frame_reader import read_frames
from wiretape.json_path import JsonPath
from wiretape.observations import BytesArrived, BytesLost, Side, header
from wiretape.recording import Exchange, Recording
from wiretape_inspect.trimming.scalars import blanked, scalars
from wiretape_inspect.trimming.secrets import Literals, Secrets

UNDECODABLE = "redacted: it could not be decoded"
_LINE = re.compile(rb"[^\r\n]+")
_DATA = re.compile(rb"data(?:: ?)?")
_FIELD = re.compile(rb"(?:data|event|id|retry):? ?")
_LONGEST_FIELD = len(b"event: ")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Bytes of a decoded body that are overwritten with as many others."""

    start: int
    text: bytes

    @property
    def end(self) -> int:
        """Offset just after them."""
        return self.start + len(self.text)


@dataclass(slots=True)
class Found:
    """What is done to one body."""

    spans: list[Span] = field(default_factory=list)
    """In order; they may overlap."""
    encoding: str | None = None
    """Its encoding where it has to be decoded for that."""
    unread: int = 0
    """How many JSON texts in it could not be read, so that no path leads into them."""
    undecodable: bool = False
    """Whether it cannot be decoded, from some place on at least, and is left out from there."""
    longest: int = 0
    """Bytes of the longest span."""
    meant: set[JsonPath] = field(default_factory=set)
    """The paths that lead somewhere in it."""


def found(recording: Recording, exchange: Exchange, side: Side, secrets: Secrets, literals: Literals) -> Found:
    """What is to be overwritten in a body, which is held in memory for it."""
    encoding = _encoding(exchange, side)
    parts = list(decoded(encoding, recording.body(exchange.number, side)))
    is_stream = side is Side.RESPONSE and exchange.is_stream
    made = Found(encoding=encoding)
    for start, data in _stretches(parts):
        made.spans += [
            Span(start + a, _asterisks(data[a:b])) for a, b in literals.spans(data) if not _in_name(data, a, is_stream)
        ]
    if secrets.paths:
        for start, text, places in _texts(parts, exchange, side):
            _look(made, text, places, start, secrets)
    made.spans.sort()
    made.longest = max((len(span.text) for span in made.spans), default=0)
    made.undecodable = any(isinstance(part, BytesLost) and part.why == UNDECODABLE for part in parts)
    return made if made.spans or made.undecodable else Found(unread=made.unread, meant=made.meant)


def decoded(encoding: str | None, body: Iterable[BytesArrived | BytesLost]) -> Iterator[BytesArrived | BytesLost]:
    """A body without its encoding; from where it cannot be decoded on, it counts as lost."""
    if encoding is None:
        yield from body
        return
    reader = Decoding(encoding)
    for part in body:
        yield from reader.feed(part)


class Decoding:
    """Decodes a body as it comes; what cannot be decoded counts as lost."""

    def __init__(self, encoding: str) -> None:
        self._at = 0
        self._decoder: Decoder | None
        try:
            self._decoder = decoder(encoding)
        except DecodingError:
            self._decoder = None

    def feed(self, part: BytesArrived | BytesLost) -> Iterator[BytesArrived | BytesLost]:
        """The same part, decoded."""
        if isinstance(part, BytesLost):
            self._decoder = None
            yield self._lost(part, part.time_ns, part.count, part.why)
            return
        for time_ns, data in part.chunks():
            yield self._chunk(part, time_ns, data)

    def _chunk(self, part: BytesArrived, time_ns: int, data: bytes) -> BytesArrived | BytesLost:
        if self._decoder is not None:
            try:
                text = self._decoder.feed(data)
            except DecodingError:
                self._decoder = None
            else:
                start, self._at = self._at, self._at + len(text)
                return BytesArrived(part.exchange, part.side, start, text, (self._at,), (time_ns,))
        return self._lost(part, time_ns, len(data), UNDECODABLE)

    def _lost(self, part: BytesArrived | BytesLost, time_ns: int, count: int, why: str) -> BytesLost:
        start, self._at = self._at, self._at + count
        return BytesLost(part.exchange, time_ns, part.side, start, count, why)


def overwritten(run: BytesArrived, body: Found) -> BytesArrived:
    """A run of a body with what is found in it overwritten."""
    data = bytearray(run.data)
    first = bisect_left(body.spans, run.start - body.longest, key=attrgetter("start"))
    last = bisect_left(body.spans, run.end, key=attrgetter("start"))
    for span in body.spans[first:last]:
        begin, end = max(span.start, run.start), min(span.end, run.end)
        if begin < end:
            data[begin - run.start : end - run.start] = span.text[begin - span.start : end - span.start]
    return BytesArrived(run.exchange, run.side, run.start, bytes(data), run.ends, run.times)


def _encoding(exchange: Exchange, side: Side) -> str | None:
    """The encoding of a body; None where it crosses the wire as it is."""
    name = exchange.content_encoding if side is Side.RESPONSE else header(exchange.request.headers, "content-encoding")
    return None if is_identity(name) else name


def _stretches(parts: Iterable[BytesArrived | BytesLost]) -> Iterator[tuple[int, bytes]]:
    """What there is of a body without a gap in it, and where it begins."""
    start, pieces = 0, [b""]
    end = 0
    for part in parts:
        if isinstance(part, BytesLost):
            continue
        if part.start != end:
            yield start, b"".join(pieces)
            start, pieces = part.start, []
        pieces.append(part.data)
        end = part.end
    yield start, b"".join(pieces)


def _asterisks(text: bytes) -> bytes:
    """What stands for a text; for a number another number, since it may stand in JSON."""
    return (b"1" if text.isdigit() else b"*") * len(text)


def _in_name(data: bytes, at: int, is_stream: bool) -> bool:
    """Whether a place is in the name of a field of an event stream, without which it could not be read."""
    if not is_stream:
        return False
    near = max(0, at - _LONGEST_FIELD)
    end = max(data.rfind(b"\n", near, at), data.rfind(b"\r", near, at))
    if end < 0 < near:
        return False
    name = _FIELD.match(data, end + 1)
    return name is not None and at < name.end()


Places = list[tuple[int, int]]
"""For pieces of a text, in order: where in it each begins, and how far into the frame that is."""


def _texts(
    parts: list[BytesArrived | BytesLost], exchange: Exchange, side: Side
) -> Iterator[tuple[int, bytes, Places]]:
    """The JSON texts in a body: that of each event, or the whole."""
    if side is Side.RESPONSE and exchange.is_stream:
        for seen in read_frames(None, parts):
            if seen.event is not None and seen.frame.data:
                yield (seen.frame.start, *_data(seen.frame.raw))
        return
    for start, data in _stretches(parts):
        if data[:64].lstrip()[:1] in {b"{", b"["}:
            yield start, data, [(0, 0)]


def _data(raw: bytes) -> tuple[bytes, Places]:
    """The data of an event, and where in the frame each line of it stands."""
    values, places, at = [], [], 0
    for line in _LINE.finditer(raw):
        name = _DATA.match(line.group())
        if name is None or (name.end() == 4 and len(line.group()) > 4):
            continue
        values.append(line.group()[name.end() :])
        places.append((at, line.start() + name.end()))
        at += len(values[-1]) + 1
    return b"\n".join(values), places


def _look(made: Found, text: bytes, places: Places, start: int, secrets: Secrets) -> None:
    """Note the spans of what paths lead to."""
    try:
        every = list(scalars(text))
        value = orjson.loads(text)
        selected = {path: path.locations(value) for path in secrets.paths}
    except (ValueError, RecursionError):
        made.unread += 1
        return
    for scalar in every:
        outer = {scalar.keys[:length] for length in range(len(scalar.keys) + 1)}
        if meant := [path for path, locations in selected.items() if not outer.isdisjoint(locations)]:
            made.meant.update(meant)
            before = text[scalar.start : scalar.end]
            begin, there = places[bisect_right(places, scalar.start, key=itemgetter(0)) - 1]
            if blanked(before) != before:
                made.spans.append(Span(start + there + scalar.start - begin, blanked(before)))
