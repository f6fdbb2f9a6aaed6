"""Redact bodies: overwrite secrets and what JSON paths select, however the bytes are cut.  Lengths stay the same."""

import re
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Protocol

from wiretape.content_encoding import is_identity
from wiretape.contract import is_event_stream
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
from wiretape.recording.json_redaction import WHOLE, Offsets, find_selected, json_text
from wiretape.recording.redactor import Redactor, overwrite
from wiretape.recording.secret_finder import SHORTEST, Span, count_characters
from wiretape.sse import DEFAULT_LIMIT, Frame, FrameKind, Parser

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


_BodyKey = tuple[int, Side]


class BodyRedaction:
    """Redacts one body, or the parts of it between lost bytes: what JSON paths select, then secrets."""

    def __init__(self, redactor: Redactor, headers: Headers = (), side: Side = Side.RESPONSE) -> None:
        self._redactor = redactor
        self._is_stream = side is Side.RESPONSE and is_event_stream(header(headers, "content-type"))
        self._search = _new_search(redactor, headers, is_stream=self._is_stream)
        self._held = self._masked = b""
        """Bytes that may be the beginning of a secret, and the same with asterisks for the end of another one."""
        self._before = b"\n"
        """The last bytes before them."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes without secrets, up to those that are held back."""
        return self._mask(self._search.feed(data))

    def close(self) -> bytes:
        """Return the bytes that are held back, as the body ends or breaks off."""
        data = self._mask(self._search.close())
        is_cut = count_characters(self._held) >= _CUT_LENGTH
        data += b"*" * len(self._held) if is_cut else self._masked
        self._held = self._masked = self._before = b""
        self._search = self._search.after_loss()
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


def _redact_text(redactor: Redactor, data: bytes, text: bytes, offsets: Offsets) -> bytes:
    """Redact a JSON text in `data`; overwrite all of it if it cannot be read."""
    redacted = bytearray(data)
    try:
        for each in find_selected(text, offsets, redactor.paths):
            redactor.matched.update(f"json:{path.text}" for path in each.paths)
            if each.blank != each.before:
                redacted[each.start : each.start + len(each.blank)] = each.blank
                redactor.count += 1
    except (ValueError, RecursionError):
        if _HAS_MEMBERS.match(text):
            redactor.count += 1
            redactor.unreadable += 1
            ends = [*(begin - 1 for begin, _ in offsets[1:]), len(text)]
            for (begin, offset), end in zip(offsets, ends, strict=True):
                redacted[offset : offset + end - begin] = b"*" * (end - begin)
    return bytes(redacted)


_RedactText = Callable[[bytes, bytes, Offsets], bytes]


class _Search(Protocol):
    def feed(self, data: bytes) -> bytes: ...
    def close(self) -> bytes: ...
    def after_loss(self) -> "_Search": ...


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


def _new_search(redactor: Redactor, headers: Headers, *, is_stream: bool) -> _Search:
    if not redactor.paths:
        return _Unsearched(is_kept=True)
    if not is_identity(header(headers, "content-encoding")):
        return _Unsearched(is_kept=False)
    return (_EventSearch if is_stream else _TextSearch)(partial(_redact_text, redactor))
