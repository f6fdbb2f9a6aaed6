"""Redact a recording with the redaction of the recorder; only compressed bodies change their length."""

import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from secrets import token_bytes

from wiretape.content_encoding import Decoder, DecodingError, decoder, is_identity
from wiretape.errors import InputError
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
from wiretape.recording import (
    SHORTEST_WORD,
    BodyRedaction,
    Exchange,
    Recording,
    RedactionPolicy,
    Redactor,
)
from wiretape.safe_text import printable

Head = RequestStarted | ResponseStarted
_FRAMING_HEADERS = {"content-encoding", "content-length"}
UNDECODABLE = "redacted: the body could not be decoded"
_EXCERPT_LENGTH = 3
"""How many characters of a secret may be printed."""
_DIFFERENT = re.compile(rb"[^\0]+")


def parse_targets(options: Sequence[str]) -> RedactionPolicy:
    """Parse `header:NAME`, `query:NAME`, `json:$.path` and `text:LITERAL`.  Raises InputError."""
    found: dict[str, list[str]] = {"header": [], "query": [], "json": [], "text": []}
    for option in options:
        kind, _, value = option.partition(":")
        if kind == "text":
            value = _checked_text(value)
        elif kind == "json" and value:
            value = JsonPath.of(value).text
        elif kind not in found or not (value := value.strip()):
            # The value may be a secret: it is not printed.
            raise InputError("Invalid --redact value: expected header:NAME, query:NAME, json:$.path or text:LITERAL.")
        found[kind].append(value.lower() if kind == "header" else value)
    return RedactionPolicy(*(tuple(dict.fromkeys(values)) for values in found.values()))


def _checked_text(text: str) -> str:
    if len(text) < SHORTEST_WORD:
        raise InputError(f"The text to redact is too short: it needs at least {SHORTEST_WORD} characters.")
    if "\n" in text or "\r" in text:
        raise InputError(f"The text to redact contains a line break: specify each line separately ({_excerpt(text)}).")
    return text


def _excerpt(text: str) -> str:
    """Return the beginning of a secret, which may be printed."""
    return f"{printable(text[:_EXCERPT_LENGTH])}…"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Bytes that overwrite as many bytes of a decoded body."""

    start: int
    text: bytes

    @property
    def end(self) -> int:
        """Offset just after them."""
        return self.start + len(self.text)


@dataclass(slots=True)
class RedactedBody:
    """The replacements in one body."""

    replacements: list[Replacement] = field(default_factory=list)
    """In order."""
    encoding: str | None = None
    """Its content encoding, if it has to be decoded."""
    undecodable: bool = False
    """Whether it cannot be decoded from some point on; it is removed from there."""

    def overwrite(self, run: BytesArrived) -> BytesArrived:
        """Return a run of the body with the replacements applied."""
        data = bytearray(run.data)
        first = bisect_left(self.replacements, run.start, key=attrgetter("end"))
        last = bisect_left(self.replacements, run.end, key=attrgetter("start"))
        for each in self.replacements[first:last]:
            begin, end = max(each.start, run.start), min(each.end, run.end)
            data[begin - run.start : end - run.start] = each.text[begin - each.start : end - each.start]
        return replace(run, data=bytes(data))


def _redact_body(recording: Recording, exchange: Exchange, side: Side, redactor: Redactor) -> RedactedBody:
    """Find what to overwrite in a body.  Holds the body in memory."""
    head = exchange.request if side is Side.REQUEST else exchange.response
    encoding = exchange.encoding_of(side)
    encoding = None if is_identity(encoding) else encoding
    decoding = BodyDecoder(encoding)
    parts = [part for run in recording.body(exchange.number, side) for part in decoding.feed(run)]
    redaction = BodyRedaction(redactor, _without_framing(head.headers) if head else (), side)
    body = RedactedBody(encoding=encoding)
    for start, data in _contiguous(parts):
        body.replacements += _differences(start, data, redaction.feed(data) + redaction.close())
    body.undecodable = any(isinstance(part, BytesLost) and part.why == UNDECODABLE for part in parts)
    return body if body.replacements or body.undecodable else RedactedBody()


def _differences(start: int, data: bytes, redacted: bytes) -> Iterator[Replacement]:
    different = int.from_bytes(data) ^ int.from_bytes(redacted)
    for match in _DIFFERENT.finditer(different.to_bytes(len(data))) if different else ():
        yield Replacement(start + match.start(), redacted[match.start() : match.end()])


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


class RecordingRedaction:
    """The replacements in a recording."""

    def __init__(self, recording: Recording, exchanges: Iterable[Exchange], targets: RedactionPolicy) -> None:
        """Find secrets in the exchanges.  Holds their bodies in memory, one at a time."""
        self._targets = targets
        self._redactor = Redactor(token_bytes(32), targets, kept=sys.maxsize)
        self._bodies: dict[tuple[int, Side], RedactedBody] = {}
        chosen = list(exchanges)
        for exchange in chosen:  # a body may repeat what a later head contains
            self._redact_heads(exchange)
        self._redactor.count = 0
        for exchange in chosen:
            self._redact_heads(exchange)
        self.in_heads = self._redactor.count
        """How many replacements there are in request lines, status lines and headers."""
        for exchange in chosen:
            for side in Side:
                self._bodies[exchange.number, side] = _redact_body(recording, exchange, side, self._redactor)
        self.count = self._redactor.count
        """How many replacements there are."""

    def redact_text(self, text: str) -> str:
        """Return a text that is not about an exchange, without secrets."""
        return self._redactor.overwrite_text(text, 0)

    def summary(self) -> Iterator[str]:
        """What is redacted, one sentence each."""
        in_bodies = count_of(self.count - self.in_heads, "replacement")
        yield f"{count_of(self.in_heads, 'replacement')} in headers and {in_bodies} in bodies."
        for (number, side), body in self._bodies.items():
            if body.undecodable:
                yield (
                    f"Part of the {side} body of exchange {number} cannot be decoded and searched: "
                    "that part is removed and counts as lost."
                )
            elif body.encoding is not None:
                yield f"The {side} body of exchange {number} was compressed: it is stored decoded, with a new length."
        if self._redactor.unreadable:
            yield f"{count_of(self._redactor.unreadable, 'JSON text')} could not be read, and all of it is overwritten."

    def not_found(self) -> Iterator[str]:
        """Yield the targets that were not found, of texts only the beginning.  Complete once `apply` is exhausted."""
        targets, matched = self._targets, self._redactor.matched
        yield from (f"header:{name}" for name in sorted(targets.headers) if f"header:{name}" not in matched)
        yield from (f"query:{printable(name)}" for name in targets.parameters if f"query:{name}" not in matched)
        yield from (f"json:{printable(path)}" for path in targets.paths if f"json:{path}" not in matched)
        yield from (f"text:{_excerpt(text)}" for text in targets.texts if f"text:{text}" not in matched)

    def apply(self, observations: Iterable[Observation]) -> Iterator[Observation]:
        """The observations without the secrets."""
        decoders = {key: BodyDecoder(body.encoding) for key, body in self._bodies.items()}
        for seen in observations:
            if isinstance(seen, RequestStarted | ResponseStarted):
                yield self._redact_head(seen)
            elif isinstance(seen, BytesArrived | BytesLost):
                for part in decoders[seen.exchange, seen.side].feed(seen):
                    if isinstance(part, BytesArrived):
                        yield self._bodies[seen.exchange, seen.side].overwrite(part)
                    else:
                        yield replace(part, why=self._redactor.mask_text(part.why, seen.exchange))
            elif isinstance(seen, ExchangeEnded):
                yield replace(seen, detail=self._redactor.mask_text(seen.detail, seen.exchange))
            else:
                yield seen

    def _redact_heads(self, exchange: Exchange) -> None:
        for head in (exchange.request, exchange.response):
            if head is not None:
                self._redact_head(head)

    def _redact_head(self, seen: Head) -> Head:
        redacted: Head
        if isinstance(seen, RequestStarted):
            client = self.redact_text(seen.client)
            redacted, side = replace(self._redactor.redact_request(seen), client=client), Side.REQUEST
        else:
            redacted, side = self._redactor.redact_response(seen), Side.RESPONSE
        body = self._bodies.get((seen.exchange, side))
        if body is None or body.encoding is None:
            return redacted
        return replace(redacted, headers=_without_framing(redacted.headers))


def _without_framing(headers: Headers) -> Headers:
    """Remove the headers that do not fit a body which is decoded."""
    return tuple((name, value) for name, value in headers if name.lower() not in _FRAMING_HEADERS)
