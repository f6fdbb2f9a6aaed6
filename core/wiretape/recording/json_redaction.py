"""Overwrite what JSON paths select in bodies and in the data of events: same length, same type, no content."""

import json
import re
from bisect import bisect_right
from codecs import BOM_UTF16_LE
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, Protocol

import orjson

from wiretape.content_encoding import is_identity
from wiretape.contract import is_event_stream
from wiretape.json_path import JsonPath
from wiretape.observations import BytesArrived, BytesLost, Headers, RequestStarted, ResponseStarted, Side, header
from wiretape.recording.redactor import Redactor
from wiretape.sse import DEFAULT_LIMIT, Frame, FrameKind, Parser

_LINE = re.compile(rb"[^\r\n]+")
_DATA = re.compile(rb"data(?:: ?)?")
_JSON_TOKEN = re.compile(
    rb'[ \t\r\n]*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<other>-?[0-9][0-9.eE+-]*|true|false|null)|(?P<mark>[{}\[\],:]))',
    re.DOTALL,
)
_BEFORE_JSON = rb"\0{0,2}[\xef\xbb\xbf\xfe\xff]{0,3}(?:\0{0,3}[ \t\r\n])*\0{0,3}"
"""A byte order mark, white space and the zero bytes of UTF-16 and UTF-32."""
_BEGINS_LIKE_JSON = re.compile(_BEFORE_JSON + rb"[{\[]")
_HAS_MEMBERS = re.compile(_BEFORE_JSON + rb"(?:\{|\[(?:\0{0,3}[ \t\r\n])*\0{0,3}[\[{\"])")
"""The beginning of an object, or of a list with values that a path may select; `[DONE]` is not JSON."""
_MAY_BEGIN_MEMBERS = re.compile(_BEFORE_JSON + rb"(?:\[(?:\0{0,3}[ \t\r\n])*\0{0,3})?")
_BEGINS_LIKE_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:data|event|id|retry)?:")
_MAY_BE_EVENTS = re.compile(
    rb"\xef?\xbb?\xbf?[\r\n]*(?:d(?:a(?:ta?)?)?|e(?:v(?:e(?:nt?)?)?)?|id?|r(?:e(?:t(?:ry?)?)?)?)?"
)
_MAY_BEGIN = (_MAY_BEGIN_MEMBERS, _MAY_BE_EVENTS)
Offsets = list[tuple[int, int]]
"""For the pieces of a text, in order: the offset in the text and the offset in the frame."""
WHOLE: Offsets = [(0, 0)]
"""A text that is not in pieces."""


class Selected(NamedTuple):
    """A JSON string, number, boolean or null that paths select."""

    start: int
    """Offset in the frame or body."""
    before: bytes
    blank: bytes
    """What replaces it."""
    paths: Sequence[JsonPath]


def find_selected(text: bytes, offsets: Offsets, paths: Sequence[JsonPath]) -> Iterator[Selected]:
    """Yield what paths select in a JSON text.  Raises ValueError and RecursionError if it cannot be read."""
    codec, start = _codec(text)
    plain = _convert(text[start:], codec, "utf-8")
    scalars = list(find_scalars(plain))
    value = orjson.loads(plain)
    selected = {path: path.locations(value) for path in paths}
    at = 0
    for scalar in scalars:
        outer = {scalar.keys[:length] for length in range(len(scalar.keys) + 1)}
        if matched := [path for path, locations in selected.items() if not outer.isdisjoint(locations)]:
            start += len(_convert(plain[at : scalar.start], "utf-8", codec))
            at = scalar.start
            before = _convert(plain[at : scalar.end], "utf-8", codec)
            blank = blank_scalar(plain[at : scalar.end], len(before) // len("*".encode(codec)))
            begin, offset = offsets[bisect_right(offsets, start, key=itemgetter(0)) - 1]
            yield Selected(offset + start - begin, before, _convert(blank, "utf-8", codec), matched)


def begins_like_json(text: bytes | bytearray) -> bool:
    """Whether a text may be a JSON object or list, in one of the encodings of JSON."""
    return bool(_BEGINS_LIKE_JSON.match(text))


def begins_like_events(text: bytes | bytearray) -> bool:
    """Whether a text may be an event stream."""
    return bool(_BEGINS_LIKE_EVENTS.match(text))


def _codec(text: bytes) -> tuple[str, int]:
    """Return the encoding of a JSON text, and the length of its byte order mark."""
    encoding = json.detect_encoding(text)
    if encoding == "utf-8-sig":
        return "utf-8", 3
    if encoding in {"utf-16", "utf-32"}:
        return f"{encoding}-{'le' if text.startswith(BOM_UTF16_LE) else 'be'}", 2 if encoding == "utf-16" else 4
    return encoding, 0


def _convert(text: bytes, codec: str, other: str) -> bytes:
    return text if codec == other else text.decode(codec).encode(other)


def event_data(raw: bytes) -> tuple[bytes, Offsets]:
    """The data of an event, and the offsets of its lines."""
    values, offsets, at = [], [], 0
    for line in _LINE.finditer(raw):
        name = _DATA.match(line.group())
        if name is None or (name.end() == 4 and len(line.group()) > 4):
            continue
        values.append(line.group()[name.end() :])
        offsets.append((at, line.start() + name.end()))
        at += len(values[-1]) + 1
    return b"\n".join(values), offsets


def json_text(raw: bytes) -> tuple[bytes, Offsets]:
    """The data of an event, or all of its bytes if it has none: JSON may be served as an event stream."""
    data, offsets = event_data(raw)
    return (data, offsets) if data else (raw, WHOLE)


class Scalar(NamedTuple):
    """A JSON string, number, boolean or null in a text."""

    keys: tuple[str | int, ...]
    """Member names and indexes that lead to it, from the outside in."""
    start: int
    """Offset in the text."""
    end: int


def find_scalars(text: bytes) -> Iterator[Scalar]:
    """The scalars of a JSON text, in order.  Raises ValueError if it is not readable JSON."""
    orjson.loads(text)
    keys: list[str | int] = []
    expects_name = False
    at = 0
    while match := _JSON_TOKEN.match(text, at):
        at = match.end()
        mark = match["mark"]
        if mark is None:
            string = match["string"]
            if expects_name and string is not None:
                keys[-1], expects_name = orjson.loads(string), False
            else:
                yield Scalar(tuple(keys), match.end() - len(string or match["other"]), match.end())
        elif mark in b"{[":
            keys.append("" if mark == b"{" else 0)
            expects_name = mark == b"{"
        elif mark in b"}]":
            keys.pop()
            expects_name = False
        elif mark == b",":
            last = keys[-1]
            expects_name = isinstance(last, str)
            keys[-1] = last if isinstance(last, str) else last + 1


def blank_scalar(scalar: bytes, length: int) -> bytes:
    """A scalar of the same type without content."""
    if scalar[:1] == b'"':
        return b'"' + b"*" * (length - 2) + b'"'
    return (b"null" if scalar[:1] in b"tfn" else b"0").ljust(length)


class JsonRedactor:
    """Redacts bodies while they are recorded.

    It holds back the bytes of an event, or of a JSON body, until all of it has arrived.  They then count as part of the
    chunk that completed it.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._paths = [JsonPath.of(path) for path in redactor.policy.body_paths]
        self._bodies: dict[tuple[int, Side], _Body] = {}

    @property
    def bodies(self) -> list[tuple[int, Side]]:
        """The bodies that have not ended."""
        return list(self._bodies)

    def begin(self, seen: RequestStarted | ResponseStarted) -> None:
        """Begin a body."""
        if self._paths:
            side = Side.REQUEST if isinstance(seen, RequestStarted) else Side.RESPONSE
            self._bodies[seen.exchange, side] = _Body(_new_search(seen.headers, side, self._redact_text))

    def redact(self, run: BytesArrived) -> BytesArrived | None:
        """Return the redacted bytes up to those that are held back."""
        body = self._bodies.get((run.exchange, run.side))
        if body is None:
            return run
        start, data = body.start, body.search.feed(run.data)
        if not data:
            return None
        body.start = end = start + len(data)
        ends = [*(before for before in run.ends if before < end), end]
        return BytesArrived(run.exchange, run.side, start, data, ends, run.times[: len(ends)])

    def end(self, exchange: int, side: Side, time_ns: int) -> BytesArrived | None:
        """Return the held bytes of a body that ends, as a chunk with this time."""
        run = self.flush(exchange, side, time_ns)
        self._bodies.pop((exchange, side), None)
        return run

    def flush(self, exchange: int, side: Side, time_ns: int) -> BytesArrived | None:
        """Return the held bytes of a body before lost bytes, as a chunk with this time."""
        body = self._bodies.get((exchange, side))
        data = body.search.close() if body is not None else b""
        if body is None or not data:
            return None
        return BytesArrived(exchange, side, body.start, data, (body.start + len(data),), (time_ns,))

    def skip(self, lost: BytesLost) -> None:
        """Continue a body after lost bytes."""
        body = self._bodies.get((lost.exchange, lost.side))
        if body is not None:
            body.start = lost.start + lost.count
            body.search = body.search.after_loss()

    def _redact_text(self, data: bytes, text: bytes, offsets: Offsets) -> bytes:
        """Redact a JSON text in `data`; overwrite all of it if it cannot be read."""
        redacted = bytearray(data)
        try:
            for each in find_selected(text, offsets, self._paths):
                redacted[each.start : each.start + len(each.blank)] = each.blank
                self._redactor.count += 1
        except (ValueError, RecursionError):
            if _HAS_MEMBERS.match(text):
                self._redactor.count += 1
                ends = [*(begin - 1 for begin, _ in offsets[1:]), len(text)]
                for (begin, offset), end in zip(offsets, ends, strict=True):
                    redacted[offset : offset + end - begin] = b"*" * (end - begin)
        return bytes(redacted)


_RedactText = Callable[[bytes, bytes, Offsets], bytes]
"""`JsonRedactor._redact_text`."""


class _Search(Protocol):
    def feed(self, data: bytes) -> bytes: ...
    def close(self) -> bytes: ...
    def after_loss(self) -> "_Search": ...


@dataclass(slots=True)
class _Body:
    search: _Search
    start: int = 0
    """Offset of the next byte to return."""


class _Unsearched:
    """Keeps a body, or overwrites one that cannot be searched."""

    def __init__(self, *, is_kept: bool) -> None:
        self._is_kept = is_kept

    def feed(self, data: bytes) -> bytes:
        return data if self._is_kept else b"*" * len(data)

    def close(self) -> bytes:
        return b""

    def after_loss(self) -> _Search:
        return self


class _EventSearch:
    """Redacts events, and overwrites an event that is incomplete or too long."""

    def __init__(self, redact_text: _RedactText, *, midstream: bool = False) -> None:
        self._redact_text = redact_text
        self._parser = Parser(midstream=midstream)

    def feed(self, data: bytes) -> bytes:
        return b"".join(map(self._redact, self._parser.feed(data)))

    def close(self) -> bytes:
        return b"".join(map(self._redact, self._parser.close()))

    def after_loss(self) -> _Search:
        return _EventSearch(self._redact_text, midstream=True)

    def _redact(self, frame: Frame) -> bytes:
        if frame.kind is FrameKind.MESSAGE:
            return self._redact_text(frame.raw, *json_text(frame.raw))
        is_unreadable = frame.kind in {FrameKind.TAIL, FrameKind.OVERSIZED}
        return b"*" * len(frame.raw) if is_unreadable else frame.raw


class _TextSearch:
    """Redacts a body if it begins like JSON or events, whatever its type; overwrites JSON that is too long."""

    def __init__(self, redact_text: _RedactText) -> None:
        self._redact_text = redact_text
        self._held = bytearray()
        self._other: _Search | None = None
        """What searches a body that is not one JSON text."""

    def feed(self, data: bytes) -> bytes:
        if self._other is not None:
            return self._other.feed(data)
        self._held += data
        if begins_like_events(self._held):
            self._other = _EventSearch(self._redact_text)
        elif not (_HAS_MEMBERS.match(self._held) or any(each.fullmatch(self._held) for each in _MAY_BEGIN)):
            self._other = _Unsearched(is_kept=True)
        elif len(self._held) > DEFAULT_LIMIT:
            self._other = _Unsearched(is_kept=False)
        return self._other.feed(self._take()) if self._other else b""

    def close(self) -> bytes:
        if self._other is not None:
            return self._other.close()
        text = self._take()
        return self._redact_text(text, text, WHOLE)

    def after_loss(self) -> _Search:
        return self._other.after_loss() if self._other else _Unsearched(is_kept=False)

    def _take(self) -> bytes:
        taken = bytes(self._held)
        self._held.clear()
        return taken


def _new_search(headers: Headers, side: Side, redact_text: _RedactText) -> _Search:
    if not is_identity(header(headers, "content-encoding")):
        return _Unsearched(is_kept=False)
    if side is Side.RESPONSE and is_event_stream(header(headers, "content-type")):
        return _EventSearch(redact_text)
    return _TextSearch(redact_text)
