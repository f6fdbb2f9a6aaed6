"""Redact bodies: overwrite secrets and what JSON paths select, however the bytes are cut.  Lengths stay the same."""

import json
import re
import sys
from codecs import BOM_UTF16_LE
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import orjson

from wiretape.content_encoding import is_identity
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Headers,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.recording.redactor import Redactor, overwrite
from wiretape.recording.secret_finder import SHORTEST, Span, count_characters
from wiretape.sse import DEFAULT_LIMIT, Frame, FrameKind, Parser, is_event_stream

_CUT_LENGTH = SHORTEST // 2
"""If a body ends within a secret, this many characters of it are overwritten."""
_BEFORE_JSON = rb"\0{0,2}[\xef\xbb\xbf\xfe\xff]{0,3}(?:\0{0,3}[ \t\r\n])*\0{0,3}"
"""A byte order mark, white space and the zero bytes of UTF-16 and UTF-32."""
_HAS_MEMBERS = re.compile(_BEFORE_JSON + rb"(?:\{|\[(?:\0{0,3}[ \t\r\n])*\0{0,3}[\[{\"])")
"""The beginning of an object, or of a list with values that a path may select; `[DONE]` is not JSON."""
_MAY_BEGIN_MEMBERS = re.compile(_BEFORE_JSON + rb"(?:\[(?:\0{0,3}[ \t\r\n])*\0{0,3})?")
_BEGINS_LIKE_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:data|event|id|retry)?:")
_MAY_BE_EVENTS = re.compile(
    rb"\xef?\xbb?\xbf?[\r\n]*(?:d(?:a(?:ta?)?)?|e(?:v(?:e(?:nt?)?)?)?|id?|r(?:e(?:t(?:ry?)?)?)?)?"
)
_MAY_BEGIN = (_MAY_BEGIN_MEMBERS, _MAY_BE_EVENTS)
_FIELD_NAME = re.compile(rb"(?:data|event|id|retry)(?:: ?|(?=[\r\n]|\Z))")
_LONGEST_FIELD_NAME = len(b"event: ")

_DATA = re.compile(rb"(?<![^\r\n])data: ?+([^\r\n]+)")
"""A line of an event with data that is not empty."""
_JSON_TOKEN = re.compile(
    r'[ \t\r\n]*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<other>-?[0-9][0-9.eE+-]*|true|false|null)|(?P<mark>[{}\[\],:]))',
    re.DOTALL,
)
_BOM = "\ufeff"
_WHOLE: Span = (0, sys.maxsize)
"""All of a text."""
_BodyKey = tuple[int, Side]


class BodyRedaction:
    """Redacts one body, or the parts of it between lost bytes: what JSON paths select, then secrets."""

    def __init__(self, redactor: Redactor, headers: Headers = (), side: Side = Side.RESPONSE) -> None:
        self._redactor = redactor
        self._is_stream = side is Side.RESPONSE and is_event_stream(header(headers, "content-type"))
        self._search = _PathRedaction(redactor, headers, is_stream=self._is_stream) if redactor.paths else None
        self._held = self._masked = b""
        """Bytes that may be the beginning of a secret, and the same with asterisks for the end of another one."""
        self._before = b"\n"
        """The last bytes before them."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes without secrets, up to those that are held back."""
        return self._mask(data if self._search is None else self._search.feed(data))

    def close(self) -> bytes:
        """Return the bytes that are held back, as the body ends or breaks off."""
        data = b"" if self._search is None else self._mask(self._search.close())
        if not self._held:
            self._before = b""
            return data
        is_cut = count_characters(self._held) >= _CUT_LENGTH
        data += b"*" * len(self._held) if is_cut else self._masked
        self._held = self._masked = self._before = b""
        return data

    def _mask(self, data: bytes) -> bytes:
        if not data or not self._redactor.has_secrets:
            return data
        masked, data = self._masked + data, self._held + data
        if spans := self._redactor.find_secrets(data):
            masked = overwrite(masked, self._spare_field_names(data, spans))
        end = len(data) - self._redactor.partial_secret(data)
        self._held, self._masked = data[end:], masked[end:]
        self._before = (self._before + data[max(0, end - _LONGEST_FIELD_NAME) : end])[-_LONGEST_FIELD_NAME:]
        return masked[:end]

    def _spare_field_names(self, data: bytes, spans: list[Span]) -> list[Span]:
        """Return the spans without the field names of an event stream, which has to stay readable."""
        if not (self._is_stream or begins_like_events(data)):
            return spans
        count = len(self._before)
        data = self._before + data
        return [(max(start, min(end, _field_name_end(data, start + count) - count)), end) for start, end in spans]


class BodyRedactor:
    """Redacts the bodies of exchanges while they arrive.

    Bytes that may be the beginning of a secret are held back until more arrive; with JSON paths, those of an event or
    a JSON body until all of it has arrived.  They then count as part of the chunk that completed them.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._bodies: dict[_BodyKey, BodyRedaction] = {}
        self._ends: dict[_BodyKey, int] = {}
        """Where the held bytes begin."""

    @property
    def held(self) -> Collection[_BodyKey]:
        """The bodies of which bytes are held back."""
        return self._ends.keys()

    def begin(self, seen: RequestStarted | ResponseStarted) -> None:
        """Begin a body."""
        side = Side.REQUEST if isinstance(seen, RequestStarted) else Side.RESPONSE
        self._bodies[seen.exchange, side] = BodyRedaction(self._redactor, seen.headers, side)

    def redact(self, run: BytesArrived) -> BytesArrived | None:
        """Return the run without secrets, up to the bytes that are held back."""
        key = (run.exchange, run.side)
        body = self._bodies.get(key)
        if body is None:  # its exchange began before the recorder failed
            body = self._bodies[key] = BodyRedaction(self._redactor)
            body.close()
        data = body.feed(run.data)
        if data is run.data and key not in self._ends:
            return run
        start = self._ends.pop(key, run.start)
        end = start + len(data)
        if end < run.end:
            self._ends[key] = end
        ends = [*(before for before in run.ends if before < end), end]
        return BytesArrived(*key, start, data, ends, run.times[: len(ends)]) if data else None

    def end(self, seen: RequestEnded | ExchangeEnded | BytesLost, after_ns: int) -> list[BytesArrived]:
        """Return the held bytes of bodies that end, or are interrupted, with times just after `after_ns`."""
        if isinstance(seen, RequestEnded):
            return self._release([(seen.exchange, Side.REQUEST)] if self._redactor.paths else [], after_ns)
        if isinstance(seen, BytesLost):
            return self._release([(seen.exchange, seen.side)], after_ns)
        keys = [(seen.exchange, side) for side in Side]
        released = self._release(keys, after_ns)
        for key in keys:
            self._bodies.pop(key, None)
        return released

    def close(self, after_ns: int) -> list[BytesArrived]:
        """Return the held bytes of all bodies."""
        return self._release([*self._ends], after_ns)

    def _release(self, keys: Iterable[_BodyKey], after_ns: int) -> list[BytesArrived]:
        released: list[BytesArrived] = []
        for key in keys:
            data = self._bodies[key].close() if key in self._bodies else b""
            if data:
                start = self._ends.pop(key)
                times = (after_ns + len(released) + 1,)
                released.append(BytesArrived(*key, start, data, (start + len(data),), times))
        return released


def begins_like_events(text: bytes | bytearray) -> bool:
    """Whether a text may be an event stream."""
    return bool(_BEGINS_LIKE_EVENTS.match(text))


def _field_name_end(data: bytes, at: int) -> int:
    """Return the end of the field name of an event stream that contains the byte at an offset; else 0."""
    near = max(0, at - _LONGEST_FIELD_NAME)
    line = max(data.rfind(b"\n", near, at), data.rfind(b"\r", near, at)) + 1
    name = _FIELD_NAME.match(data, line) if line else None
    return name.end() if name else 0


class _BodyKind(Enum):
    """How JSON paths are searched for in a body."""

    KEPT = "kept"
    OVERWRITTEN = "overwritten"
    """It cannot be searched."""
    EVENTS = "events"
    UNKNOWN = "unknown"
    """It may be a JSON text; its bytes are held."""


class _PathRedaction:
    """Overwrites what JSON paths select in events, and in a body that is JSON or events whatever its type.

    Also events that are incomplete or unreadable, and JSON and events that are too long.
    """

    def __init__(self, redactor: Redactor, headers: Headers, *, is_stream: bool) -> None:
        self._redactor = redactor
        self._parser = Parser()
        self._held = bytearray()
        if not is_identity(header(headers, "content-encoding")):
            self._kind = _BodyKind.OVERWRITTEN
        else:
            self._kind = _BodyKind.EVENTS if is_stream else _BodyKind.UNKNOWN

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that are complete, redacted."""
        if self._kind is _BodyKind.UNKNOWN:
            self._held += data
            if begins_like_events(self._held):
                self._kind = _BodyKind.EVENTS
            elif not (_HAS_MEMBERS.match(self._held) or any(each.fullmatch(self._held) for each in _MAY_BEGIN)):
                self._kind = _BodyKind.KEPT
            elif len(self._held) > DEFAULT_LIMIT:
                self._kind = _BodyKind.OVERWRITTEN
            else:
                return b""
            data = self._take()
        if self._kind is _BodyKind.EVENTS:
            return b"".join(map(self._redact_frame, self._parser.feed(data)))
        return data if self._kind is _BodyKind.KEPT else b"*" * len(data)

    def close(self) -> bytes:
        """Return the rest, redacted; what follows is after lost bytes."""
        if self._kind is _BodyKind.UNKNOWN:
            self._kind = _BodyKind.OVERWRITTEN
            return self._redact_json(self._take(), [_WHOLE])
        rest = b"".join(map(self._redact_frame, self._parser.close()))
        self._parser = Parser(midstream=True)
        return rest

    def _take(self) -> bytes:
        taken = bytes(self._held)
        self._held.clear()
        return taken

    def _redact_frame(self, frame: Frame) -> bytes:
        if frame.kind is FrameKind.MESSAGE:
            # Without data, all of it: JSON may be served as an event stream.
            return self._redact_json(frame.raw, [line.span(1) for line in _DATA.finditer(frame.raw)] or [_WHOLE])
        is_unreadable = frame.kind in {FrameKind.TAIL, FrameKind.OVERSIZED}
        return b"*" * len(frame.raw) if is_unreadable else frame.raw

    def _redact_json(self, data: bytes, spans: Sequence[Span]) -> bytes:
        """Redact the JSON text in some spans of `data`; overwrite all of it if it cannot be read."""
        # Line ends in place of the rest: they mean nothing in JSON, and are not allowed within strings.
        text = bytearray(b"\n" * len(data))
        for span in spans:
            text[slice(*span)] = data[slice(*span)]
        begin, end = spans[0][0], spans[-1][1]
        try:
            text[begin:end] = self._overwrite_selected(bytes(text[begin:end]))
        except (ValueError, RecursionError):
            if not _HAS_MEMBERS.match(text, begin):
                return data
            self._redactor.count += 1
            self._redactor.unreadable += 1
            text = bytearray(b"*" * len(data))
        redacted = bytearray(data)
        for span in spans:
            redacted[slice(*span)] = text[slice(*span)]
        return bytes(redacted)

    def _overwrite_selected(self, text: bytes) -> bytes:
        """Overwrite what paths select.  Raises ValueError and RecursionError if the text cannot be read."""
        codec = _codec(text)
        string = text.decode(codec)
        value = orjson.loads(string.removeprefix(_BOM))
        selected = {path: path.locations(value) for path in self._redactor.paths}
        parts, at = list[str](), 0
        for scalar in _find_scalars(string):
            outer = {scalar.keys[:length] for length in range(len(scalar.keys) + 1)}
            if matched := [path.text for path, locations in selected.items() if not outer.isdisjoint(locations)]:
                self._redactor.matched.update(f"json:{path}" for path in matched)
                before = string[scalar.start : scalar.end]
                blank = _blank_scalar(before, len(before.encode(codec)) // len("*".encode(codec)))
                self._redactor.count += blank != before
                parts += string[at : scalar.start], blank
                at = scalar.end
        return "".join((*parts, string[at:])).encode(codec)


def _codec(text: bytes) -> str:
    """Return the encoding of a JSON text, in which a byte order mark is a character."""
    encoding = json.detect_encoding(text).removesuffix("-sig")
    if encoding in {"utf-16", "utf-32"}:
        encoding += "-le" if text.startswith(BOM_UTF16_LE) else "-be"
    return encoding


class _Scalar(NamedTuple):
    """A JSON string, number, boolean or null in a text."""

    keys: tuple[str | int, ...]
    """Member names and indexes that lead to it, from the outside in."""
    start: int
    """Offset in the text."""
    end: int


def _find_scalars(text: str) -> Iterator[_Scalar]:
    """The scalars of a valid JSON text, in order."""
    keys: list[str | int] = []
    expects_name = False
    at = int(text.startswith(_BOM))
    while match := _JSON_TOKEN.match(text, at):
        at = match.end()
        mark = match["mark"]
        if mark is None:
            string = match["string"]
            if expects_name and string is not None:
                keys[-1], expects_name = orjson.loads(string), False
            else:
                yield _Scalar(tuple(keys), match.end() - len(string or match["other"]), match.end())
        elif mark in "{[":
            keys.append("" if mark == "{" else 0)
            expects_name = mark == "{"
        elif mark in "}]":
            keys.pop()
            expects_name = False
        elif mark == ",":
            last = keys[-1]
            expects_name = isinstance(last, str)
            keys[-1] = last if isinstance(last, str) else last + 1


def _blank_scalar(scalar: str, length: int) -> str:
    """A scalar of the same type without content."""
    if scalar[0] == '"':
        return '"' + "*" * (length - 2) + '"'
    return ("null" if scalar[0] in "tfn" else "0").ljust(length)
