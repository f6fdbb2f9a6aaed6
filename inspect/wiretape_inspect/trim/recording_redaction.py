"""Find secrets in the heads and bodies of exchanges, and overwrite them; only compressed bodies change their length."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from secrets import token_bytes

from wiretape.content_encoding import Decoder, DecodingError, decoder, is_identity
from wiretape.frame_reader import read_frames
from wiretape.json_path import JsonPath
from wiretape.labels import count_of
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Headers,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import REDACTED_PATTERN, Exchange, Recording, Redactor
from wiretape.recording.json_redaction import (
    WHOLE,
    Offsets,
    begins_like_events,
    begins_like_json,
    find_selected,
    json_text,
)
from wiretape.safe_text import printable
from wiretape_inspect.trim.redaction_targets import Literals, RedactionTargets, excerpt

Head = RequestStarted | ResponseStarted
_REDACTED = re.compile(rf"(?:[A-Za-z]+ )?(?:{REDACTED_PATTERN})")
"""A header value that is redacted already, with the scheme of a credential before it."""
_FRAMING_HEADERS = {"content-encoding", "content-length"}
UNDECODABLE = "redacted: the body could not be decoded"
_FIELD = re.compile(rb"(?:data|event|id|retry):? ?")
_MAX_FIELD_LENGTH = len(b"event: ")


@dataclass(frozen=True, slots=True, order=True)
class Replacement:
    """Bytes that overwrite as many bytes of a decoded body."""

    start: int
    text: bytes

    @property
    def end(self) -> int:
        """Offset just after them."""
        return self.start + len(self.text)


@dataclass(slots=True)
class BodyRedaction:
    """The replacements in one body."""

    replacements: list[Replacement] = field(default_factory=list)
    """In order; they may overlap."""
    encoding: str | None = None
    """Its content encoding, if it has to be decoded."""
    unreadable: int = 0
    """How many JSON texts in it could not be read, so that no path matches in them."""
    undecodable: bool = False
    """Whether it cannot be decoded from some point on; it is removed from there."""
    longest: int = 0
    """Bytes of the longest replacement."""
    matched_paths: set[JsonPath] = field(default_factory=set)
    """The paths that match something in it."""


def find_secrets(
    recording: Recording, exchange: Exchange, side: Side, targets: RedactionTargets, literals: Literals
) -> BodyRedaction:
    """Find what to overwrite in a body.  Holds the body in memory."""
    encoding = exchange.encoding_of(side)
    encoding = None if is_identity(encoding) else encoding
    decoding = BodyDecoder(encoding)
    parts = [part for run in recording.body(exchange.number, side) for part in decoding.feed(run)]
    begin = next((part.data for part in parts if isinstance(part, BytesArrived)), b"")
    is_stream = (side is Side.RESPONSE and exchange.is_stream) or begins_like_events(begin)
    redaction = BodyRedaction(encoding=encoding)
    for start, data in _contiguous(parts):
        redaction.replacements += [
            Replacement(start + a, _asterisks(data[a:b]))
            for a, b in literals.spans(data)
            if not _is_in_field_name(data, a, is_stream)
        ]
    if targets.paths:
        for start, text, offsets in _json_texts(parts, is_stream):
            _redact_paths(redaction, text, offsets, start, targets)
    redaction.replacements.sort()
    redaction.longest = max((len(each.text) for each in redaction.replacements), default=0)
    redaction.undecodable = any(isinstance(part, BytesLost) and part.why == UNDECODABLE for part in parts)
    if redaction.replacements or redaction.undecodable:
        return redaction
    return BodyRedaction(unreadable=redaction.unreadable, matched_paths=redaction.matched_paths)


class BodyDecoder:
    """Decodes a body part by part, unless its encoding is None; bytes that cannot be decoded count as lost."""

    def __init__(self, encoding: str | None) -> None:
        self._is_identity = encoding is None
        self._at = 0
        self._decoder: Decoder | None
        try:
            self._decoder = decoder(encoding)
        except DecodingError:
            self._decoder = None

    def feed(self, part: BytesArrived | BytesLost) -> Iterator[BytesArrived | BytesLost]:
        """Decode one part."""
        if self._is_identity:
            yield part
            return
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


def overwrite(run: BytesArrived, body: BodyRedaction) -> BytesArrived:
    """A run of a body with the replacements applied."""
    data = bytearray(run.data)
    first = bisect_left(body.replacements, run.start - body.longest, key=attrgetter("start"))
    last = bisect_left(body.replacements, run.end, key=attrgetter("start"))
    for each in body.replacements[first:last]:
        begin, end = max(each.start, run.start), min(each.end, run.end)
        if begin < end:
            data[begin - run.start : end - run.start] = each.text[begin - each.start : end - each.start]
    return BytesArrived(run.exchange, run.side, run.start, bytes(data), run.ends, run.times)


def _contiguous(parts: Iterable[BytesArrived | BytesLost]) -> Iterator[tuple[int, bytes]]:
    """The stretches of a body without a gap, and their offsets."""
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
    """What replaces a text: digits for a number, which may be a JSON number, and asterisks for anything else."""
    return (b"1" if text.isdigit() else b"*") * len(text)


def _is_in_field_name(data: bytes, at: int, is_stream: bool) -> bool:
    """Whether an offset is in the field name of an event stream, which has to stay readable."""
    if not is_stream:
        return False
    near = max(0, at - _MAX_FIELD_LENGTH)
    end = max(data.rfind(b"\n", near, at), data.rfind(b"\r", near, at))
    if end < 0 < near:
        return False
    name = _FIELD.match(data, end + 1)
    return name is not None and at < name.end()


def _json_texts(parts: list[BytesArrived | BytesLost], is_stream: bool) -> Iterator[tuple[int, bytes, Offsets]]:
    """The JSON texts in a body: the data of each event, or the whole body."""
    if is_stream:
        for seen in read_frames(None, parts):
            if seen.event is not None and (seen.frame.data or begins_like_json(seen.frame.raw)):
                yield (seen.frame.start, *json_text(seen.frame.raw))
        return
    for start, data in _contiguous(parts):
        if begins_like_json(data):
            yield start, data, WHOLE


def _redact_paths(
    redaction: BodyRedaction, text: bytes, offsets: Offsets, start: int, targets: RedactionTargets
) -> None:
    """Add replacements for the values that the JSON paths select."""
    try:
        selected = list(find_selected(text, offsets, targets.paths))
    except (ValueError, RecursionError):
        redaction.unreadable += 1
        return
    for each in selected:
        redaction.matched_paths.update(each.paths)
        if each.blank != each.before:
            redaction.replacements.append(Replacement(start + each.start, each.blank))


@dataclass(slots=True)
class RecordingRedaction:
    """The replacements in a recording."""

    targets: RedactionTargets
    literals: Literals
    bodies: dict[tuple[int, Side], BodyRedaction] = field(default_factory=dict)
    header_count: int = 0
    """How many replacements there are in request lines, status lines and headers."""
    _header_names: set[str] = field(default_factory=set)
    """The names of all headers."""
    _redactor: Redactor = field(default_factory=lambda: Redactor(token_bytes(32)))

    @classmethod
    def of(cls, recording: Recording, exchanges: Iterable[Exchange], targets: RedactionTargets) -> "RecordingRedaction":
        """Find secrets in the exchanges.  Holds their bodies in memory, one at a time."""
        chosen = list(exchanges)
        redaction = cls(targets, targets.literals(_header_values(chosen, targets.headers)))
        for exchange in chosen:
            redaction.header_count += sum(redaction._redact_head(head)[1] for head in _heads(exchange))
            redaction._header_names.update(name.lower() for head in _heads(exchange) for name, _ in head.headers)
            for side in Side:
                redaction.bodies[exchange.number, side] = find_secrets(
                    recording, exchange, side, targets, redaction.literals
                )
        return redaction

    @property
    def count(self) -> int:
        """How many replacements there are."""
        return self.header_count + sum(len(body.replacements) for body in self.bodies.values())

    def summary(self) -> Iterator[str]:
        """What is redacted, one sentence each."""
        in_bodies = count_of(self.count - self.header_count, "replacement")
        yield f"{count_of(self.header_count, 'replacement')} in headers and {in_bodies} in bodies."
        for (number, side), body in self.bodies.items():
            if body.undecodable:
                yield (
                    f"Part of the {side} body of exchange {number} cannot be decoded and searched: "
                    "that part is removed and counts as lost."
                )
            elif body.encoding is not None:
                yield f"The {side} body of exchange {number} was compressed: it is stored decoded, with a new length."
        unreadable = sum(body.unreadable for body in self.bodies.values())
        if unreadable:
            yield f"{count_of(unreadable, 'JSON text')} could not be read: no JSON path matches there."

    def not_found(self) -> Iterator[str]:
        """The targets that were not found; of texts only the beginning.  Complete once `apply` is exhausted."""
        yield from (f"header:{name}" for name in sorted(self.targets.headers - self._header_names))
        matched = {path for body in self.bodies.values() for path in body.matched_paths}
        yield from (f"json:{printable(path.text)}" for path in self.targets.paths if path not in matched)
        yield from (f"text:{excerpt(text)}" for text in self.targets.texts if not self.literals.has_found(text))

    def apply(self, observations: Iterable[Observation]) -> Iterator[Observation]:
        """The observations without the secrets."""
        decoders = {body: BodyDecoder(redaction.encoding) for body, redaction in self.bodies.items()}
        for seen in observations:
            if isinstance(seen, RequestStarted | ResponseStarted):
                yield self._redact_head(seen)[0]
            elif isinstance(seen, BytesArrived | BytesLost):
                body = self.bodies[seen.exchange, seen.side]
                for part in decoders[seen.exchange, seen.side].feed(seen):
                    if isinstance(part, BytesArrived):
                        yield overwrite(part, body)
                    else:
                        yield replace(part, why=self.literals.mask(part.why, "utf-8")[0])
            elif isinstance(seen, ExchangeEnded):
                yield replace(seen, detail=self.literals.mask(seen.detail, "utf-8")[0])
            else:
                yield seen

    def _redact_head(self, seen: Head) -> tuple[Head, int]:
        """A head without secrets, and how many replacements were made."""
        names = self.targets.headers
        pairs = [(name, *self._redact_value(name.lower() in names, value)) for name, value in seen.headers]
        headers = self._adjust_framing(seen, tuple((name, value) for name, value, _ in pairs))
        count = sum(each for _, _, each in pairs)
        if isinstance(seen, ResponseStarted):
            reason, here = self.literals.mask(seen.reason, "latin-1")
            return replace(seen, headers=headers, reason=reason), count + here
        texts = [self.literals.mask(text, "latin-1") for text in (seen.target, seen.authority, seen.client)]
        target, authority, client = (text for text, _ in texts)
        made = replace(seen, headers=headers, target=target, authority=authority, client=client)
        return made, count + sum(here for _, here in texts)

    def _redact_value(self, whole: bool, value: str) -> tuple[str, int]:
        if not whole:
            return self.literals.mask(value, "latin-1")
        if not value or _REDACTED.fullmatch(value):
            return value, 0
        return self._redactor.fingerprint(value), 1

    def _adjust_framing(self, seen: Head, headers: Headers) -> Headers:
        """Remove the headers that do not fit a body which is stored decoded."""
        side = Side.REQUEST if isinstance(seen, RequestStarted) else Side.RESPONSE
        body = self.bodies.get((seen.exchange, side))
        if body is None or body.encoding is None:
            return headers
        return tuple((name, value) for name, value in headers if name.lower() not in _FRAMING_HEADERS)


def _heads(exchange: Exchange) -> list[Head]:
    return [exchange.request] if exchange.response is None else [exchange.request, exchange.response]


def _header_values(exchanges: Iterable[Exchange], names: frozenset[str]) -> Iterator[str]:
    """The values of the headers with these names."""
    for exchange in exchanges:
        for head in _heads(exchange):
            for name, value in head.headers:
                if name.lower() in names and not _REDACTED.search(value):
                    yield value
