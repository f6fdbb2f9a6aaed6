"""The primitive framing: how the lines of a stream have to be.  "WHATWG" is the HTML standard, "Server-sent events"."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from msgspec.structs import replace

from wiretape.contract.contract_tables import Requirement
from wiretape.contract.primitive import Primitive
from wiretape.event import LONGEST_ID, Event, Shape, decode_id, is_header_safe
from wiretape.json_codec import UnreadableJson, find_repeated_keys
from wiretape.observations import header
from wiretape.rules.catalogue import (
    AFTER_COMMENT,
    ANY_SHAPE,
    COMPLEX_JSON,
    EVENT,
    HELD,
    LOST_EVENTS,
    STREAM_END,
    STREAM_RESPONSE,
    WITH_DATA,
    WITH_OBJECT,
    Check,
    Outcome,
    Trigger,
    mismatch,
)
from wiretape.rules.exchange import EventStream, Exchange, StreamEnd
from wiretape.rules.finding import Location, describe, quote, quote_bytes
from wiretape.sse import FrameKind, is_event_stream

_RETRY_LIMIT = 2**31
_KEEP_ALIVE_NAMES = frozenset({"ping", "keepalive", "heartbeat"})
_SEPARATORS = str.maketrans("", "", "-_. ")
_UNCODED = frozenset({"", "identity"})


_CHECKS: dict[Requirement, Check[Any]] = {}


class Framing(Primitive):
    """The lines of a stream, or of its events, fulfil a requirement."""

    def __init__(self, requirement: Requirement, types: Collection[str]) -> None:
        """`types` are those of the contract."""
        check = _CHECKS[requirement]
        self._about = (check.function.__doc__ or "").strip()
        if requirement is Requirement.COMMENT_KEEP_ALIVE:
            check = replace(check, function=partial(check.function, types))
        self._check = check

    def describe(self) -> str:
        """Return what breaks it."""
        return self._about

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its function."""
        return (self._check,)


def _declare(
    requirement: Requirement, on: Trigger[Any] = EVENT, *, shapes: Collection[Shape] = ANY_SHAPE
) -> Callable[[Callable[..., Outcome]], None]:
    """Let the decorated function check a requirement; its docstring says what breaks it.

    For events of all shapes, it has the same outcome if nothing about their lines is remarkable.
    """

    def add(function: Callable[..., Outcome]) -> None:
        is_event = on is EVENT
        _CHECKS[requirement] = Check(
            on, function, shapes, fast_path=is_event and shapes == ANY_SHAPE, reads_lines=is_event
        )

    return add


@_declare(Requirement.UTF8)
def _check_utf8(event: Event, _stream: EventStream) -> Outcome:
    """The bytes of an event are not UTF-8."""
    at = event.invalid_utf8_at
    if at is None:
        return HELD
    return [mismatch("UTF-8", f"the byte 0x{event.frame.raw[at]:02x} at byte {at} of the event")]


@_declare(Requirement.COMPLETE_EVENTS, STREAM_END)
def _check_end(end: StreamEnd[EventStream]) -> Outcome:
    """The service ends the response in the middle of an event."""
    if end.ended_by_service is None:
        return None
    if end.stream.has_unknown_end:
        return LOST_EVENTS
    if end.tail is None:
        return HELD
    got = f"{len(end.tail.raw)} bytes without one before {end.ended_by_service}"
    at = Location(end.stream.exchange, end.time_ns, byte_offset=end.tail.start)
    return [mismatch("a blank line at the end of the last event", got, at=at)]


@_declare(Requirement.KNOWN_FIELDS)
def _check_fields(event: Event, _stream: EventStream) -> Outcome:
    """An event has a field other than `event`, `id`, `data` and `retry`."""
    return [mismatch("only the fields event, id, data and retry", quote_bytes(name)) for name in event.unknown_fields]


@_declare(Requirement.NO_NUL_IN_ID)
def _check_nul(event: Event, _stream: EventStream) -> Outcome:
    """An `id` line contains U+0000, so clients ignore it."""
    if event.id_line is None:
        return None
    bad = [value for value in event.frame.values(b"id") if b"\0" in value] if b"\0" in event.frame.raw else []
    return [mismatch("an id without U+0000", quote_bytes(bad[0]))] if bad else HELD


@_declare(Requirement.NO_REPEATED_LINES)
def _check_repetition(event: Event, _stream: EventStream) -> Outcome:
    """An event has more than one `event`, `id` or `data` line."""
    return [
        mismatch(f"one `{name}` line", f"{len(event.frame.values(name.encode()))}") for name in event.repeated_fields
    ]


@_declare(Requirement.HAS_DATA)
def _check_data(event: Event, _stream: EventStream) -> Outcome:
    """A block of lines has no `data` line, so clients do not dispatch an event for it.

    Its `id` and `retry` lines still take effect.  A block with only a `retry` line does not break the rule.
    """
    if event.has_data:
        return HELD
    lines = {"event": event.event_line is not None, "id": event.id_line is not None, "retry": bool(event.retries)}
    present = [name for name, is_present in lines.items() if is_present]
    if present == ["retry"]:
        return HELD
    got = f"only {' and '.join(f'`{name}`' for name in present)}" if present else "none"
    return [mismatch("a `data` line", f"{got}: clients do not dispatch this event")]


@_declare(Requirement.NOT_COMPRESSED, STREAM_RESPONSE)
def _check_compression(exchange: Exchange) -> Outcome:
    """A stream has a Content-Encoding, which may delay events and which some clients do not decode."""
    if not is_event_stream(exchange.response_header("content-type")):
        return None
    coding = (exchange.response_header("content-encoding") or "").strip()
    if coding.lower() in _UNCODED:
        accepted = header(exchange.request.headers, "accept-encoding")
        # Without the header, every coding is accepted.
        return None if accepted is not None and accepted.strip().lower() in _UNCODED else HELD
    return [mismatch("a stream without Content-Encoding", quote(coding))]


@_declare(Requirement.USABLE_RETRY)
def _check_retry(event: Event, _stream: EventStream) -> Outcome:
    """A `retry` value is 0, is 2^31 or more, or does not consist of ASCII digits."""
    if not event.retries:
        return None
    bad = [value for value in event.retries if not _is_usable_retry(value)]
    if not bad:
        return HELD
    return [mismatch("a `retry` from 1 to 2^31 - 1 in ASCII digits", quote_bytes(bad[0]))]


def _is_usable_retry(value: bytes) -> bool:
    digits = value.lstrip(b"0")
    return value.isdigit() and 0 < len(digits) <= 10 and int(digits) < _RETRY_LIMIT


@_declare(Requirement.ID_FITS_HEADER)
def _check_id(event: Event, _stream: EventStream) -> Outcome:
    """An id may change when a client sends it in a `Last-Event-ID` header."""
    identity = decode_id(event.id_line)
    if identity is None:
        return None
    if is_header_safe(identity):
        return HELD
    return [mismatch("an id that survives a Last-Event-ID header unchanged", _describe_unsafe(identity))]


def _describe_unsafe(identity: str) -> str:
    if not (identity.isascii() and identity.replace("\t", " ").isprintable()):
        return f"one that is not printable ASCII: {quote(identity)}"
    if identity != identity.strip():
        return f"one with a leading or trailing space or tab: {quote(identity)}"
    if len(identity) > LONGEST_ID:
        return f"one of {len(identity)} bytes"
    return f"one with a tab: {quote(identity)}"


@_declare(Requirement.NO_BLANK_AFTER_COMMENT, AFTER_COMMENT)
def _check_after_comment(_stream: EventStream, following: FrameKind) -> Outcome:
    """A blank line follows a keep-alive comment, so some clients dispatch an empty event.

    Such clients include httpx-sse and the decoders of the OpenAI and Anthropic Python SDKs.  There is one finding per
    stream.
    """
    if following is not FrameKind.BLANK:
        return HELD
    return [mismatch("no blank line after a comment", "one, which makes some clients dispatch an event")]


@_declare(Requirement.COMMENT_KEEP_ALIVE, shapes=WITH_DATA)
def _check_keep_alive(types: Collection[str], event: Event, _stream: EventStream) -> Outcome:
    """A keep-alive is an event (`ping`, `keepalive`, `heartbeat`) instead of a comment."""
    if not event.has_data:
        return None
    names = {event.name, event.type}
    if not names.isdisjoint(types) or not any(map(_is_keep_alive_name, names)):
        return HELD
    return [mismatch("a comment as a keep-alive", f"the event {quote(event.name or event.type)}")]


def _is_keep_alive_name(name: str) -> bool:
    return len(name) < 20 and name.translate(_SEPARATORS).lower() in _KEEP_ALIVE_NAMES


@_declare(Requirement.JSON_OBJECT, shapes=WITH_DATA)
def _check_object(event: Event, _stream: EventStream) -> Outcome:
    """The data of an event is not exactly one JSON object."""
    value = event.value
    if type(value) is dict:
        return HELD
    if not event.has_data:
        return None
    if value is UnreadableJson.TOO_COMPLEX:
        return COMPLEX_JSON
    if value is UnreadableJson.NOT_AN_OBJECT:
        got = "text that does not begin with `{`"
    elif value is UnreadableJson.NOT_JSON:
        got = "text that is not JSON" if event.data else "an empty `data` line"
    else:
        got = describe(value)
    return [mismatch("one JSON object as data", got)]


@_declare(Requirement.LF_LINES, shapes=WITH_DATA)
def _check_line_ends(event: Event, _stream: EventStream) -> Outcome:
    """The lines of an event end with CR or CR LF instead of LF."""
    return [mismatch("lines that end with LF", "CR in the event")] if b"\r" in event.frame.raw else HELD


@_declare(Requirement.UNIQUE_KEYS, shapes=WITH_OBJECT)
def _check_keys(event: Event, _stream: EventStream) -> Outcome:
    """The JSON object repeats a key at its top level; parsers differ in which value they use."""
    if type(event.value) is not dict:
        return None
    keys = find_repeated_keys(event.data, event.document)
    if keys is None:
        return COMPLEX_JSON
    return [mismatch(f"the key {quote(key)} once", "it more than once", subject=key) for key in keys]
