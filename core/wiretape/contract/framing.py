"""The primitive framing: how the lines of a stream have to be.  "WHATWG" is the HTML standard, "Server-sent events"."""

from collections.abc import Callable
from typing import Any

from wiretape.contract.contract_tables import Requirement
from wiretape.contract.primitive import Primitive
from wiretape.event import LONGEST_ID, Event, is_header_safe
from wiretape.observations import header
from wiretape.rules.catalogue import (
    AFTER_COMMENT,
    EVENT,
    HELD,
    LOST_EVENTS,
    STREAM_END,
    STREAM_RESPONSE,
    Check,
    Outcome,
    Trigger,
    mismatch,
)
from wiretape.rules.exchange import EventStream, Exchange, StreamEnd
from wiretape.rules.finding import Location, quote, quote_bytes
from wiretape.sse import FrameKind, is_event_stream

_RETRY_LIMIT = 2**31
_UNCODED = frozenset({"", "identity"})


_CHECKS: dict[Requirement, Check[Any]] = {}


class Framing(Primitive):
    """The lines of a stream fulfil a requirement."""

    def __init__(self, requirement: Requirement) -> None:
        self._check = _CHECKS[requirement]

    def describe(self) -> str:
        """Return what breaks it."""
        return (self._check.function.__doc__ or "").strip()

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its function."""
        return (self._check,)


def _declare(requirement: Requirement, on: Trigger[Any] = EVENT) -> Callable[[Callable[..., Outcome]], None]:
    """Let the decorated function check a requirement; its docstring says what breaks it."""

    def add(function: Callable[..., Outcome]) -> None:
        _CHECKS[requirement] = Check(on, function, fast_path=on is EVENT, reads_lines=on is EVENT)

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
    """The service ended the response in the middle of an event."""
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

    Its `id` and `retry` lines take effect nevertheless.  A block with only `retry` is meant as one, and does not
    break the rule.
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
    """A `retry` value is not ASCII digits, is 0, or is 2^31 or more, which makes clients reconnect in a hot loop."""
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
    """An id does not survive a `Last-Event-ID` header unchanged."""
    identity = event.cursor
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
    """A blank line follows a keep-alive comment; some clients dispatch an empty event for it.

    Those clients include httpx-sse and the decoders of the OpenAI and Anthropic Python SDKs.  One finding per stream.
    """
    if following is not FrameKind.BLANK:
        return HELD
    return [mismatch("no blank line after a comment", "one, which makes some clients dispatch an event")]
