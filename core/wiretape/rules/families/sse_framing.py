"""SSE: framing of event streams.  "WHATWG" is the HTML standard, part "Server-sent events".

The rules that follow from that standard, or hold for any client of it, apply to every event stream.  Those that only
the specification states apply to streams of the service: one `event:` line and one `data:` line per event (SSE005,
SSE006), and the media type (SSE007).
"""

from http import HTTPStatus

from wiretape.event import LONGEST_ID, Event, is_header_safe
from wiretape.observations import Ending, header
from wiretape.rules.catalogue import (
    EVENT,
    HELD,
    INCOMPLETE_BODY,
    LOST_EVENTS,
    STREAM_END,
    STREAM_RESPONSE,
    SUCCESS_RESPONSE,
    WITH_DATA,
    Outcome,
    Problem,
    check,
    problem,
)
from wiretape.rules.exchange import EventStream, Exchange, StreamEnd
from wiretape.rules.finding import Location, quote, quote_bytes, quote_or_none
from wiretape.rules.state.exchange_state import ExchangeState
from wiretape.rules.state.response_body import SuccessBody
from wiretape.rules.state.stream_state import StreamState
from wiretape.sse import EVENT_STREAM, is_event_stream

_ENDED_BY_SERVICE = {
    Ending.SERVICE_CLOSED: "the service closed the connection",
    Ending.SERVICE_RESET: "the service reset the connection",
    Ending.COMPLETE: "the response ended",
}
_RETRY_LIMIT = 2**31
_UNCODED = frozenset({"", "identity"})

framing_check = check(EVENT, fast_path=True)


@framing_check
def invalid_utf8(event: Event, _stream: EventStream) -> Outcome:
    """The bytes of an event are not UTF-8."""
    at = event.invalid_utf8_at
    if at is None:
        return HELD
    return problem(f"Expected UTF-8, got the byte 0x{event.frame.raw[at]:02x} at byte {at} of the event.")


@check(STREAM_END)
def message_cut_off(end: StreamEnd[EventStream]) -> Outcome:
    """The service ended the response in the middle of an event."""
    how = _ENDED_BY_SERVICE.get(end.ending)
    if how is None:
        return None
    if end.stream.has_unknown_end:
        return LOST_EVENTS
    if end.tail is None:
        return HELD
    return problem(
        f"Expected a blank line at the end of the last event, got {len(end.tail.raw)} bytes without one before {how}.",
        Location(end.stream.exchange, end.time_ns, byte_offset=end.tail.start),
    )


@framing_check
def unknown_field(event: Event, _stream: EventStream) -> Outcome:
    """An event has a field other than `event`, `id`, `data` and `retry`."""
    return [
        Problem(f"Expected only the fields event, id, data and retry, got {quote_bytes(name)}.")
        for name in event.unknown_fields
    ]


@framing_check
def nul_in_id(event: Event, _stream: EventStream) -> Outcome:
    """An `id` line contains U+0000, so clients ignore it."""
    if event.id_line is None:
        return None
    if b"\0" not in event.frame.raw:
        return HELD
    bad = [value for value in event.frame.values(b"id") if b"\0" in value]
    return problem(f"Expected an id without U+0000, got {quote_bytes(bad[0])}.") if bad else HELD


@check(EVENT, fast_path=True)
def repeated_field(event: Event, _stream: StreamState) -> Outcome:
    """An event has more than one `event`, `id` or `data` line."""
    return [
        Problem(f"Expected one `{name}` line, got {len(event.frame.values(name.encode()))}.")
        for name in event.repeated_fields
    ]


@check(EVENT, fast_path=True, shapes=WITH_DATA)
def missing_event_line(event: Event, _stream: StreamState) -> Outcome:
    """An event with data has no `event` line."""
    if event.event_line is not None:
        return HELD
    wanted = f"the line {quote(f'event: {event.type}')}" if event.type else "an `event` line"
    return problem(f"Expected {wanted}, got none.")


@check(STREAM_RESPONSE)
def hold_for_event_stream(exchange: ExchangeState) -> Outcome:
    """Hold if the response to a stream request is an event stream."""
    return HELD if is_event_stream(exchange.response_header("content-type")) else None


@check(SUCCESS_RESPONSE)
def wrong_content_type(body: SuccessBody, exchange: ExchangeState) -> Outcome:
    """The response to a stream request has status 200, but is not an event stream."""
    if not exchange.is_stream_request or body.response.status != HTTPStatus.OK:
        return None
    if body.may_be_error and not body.is_whole:
        return INCOMPLETE_BODY
    content_type = exchange.response_header("content-type")
    return problem(f"Expected the Content-Type `{EVENT_STREAM}`, got {quote_or_none(content_type)}.")


@framing_check
def message_without_data(event: Event, _stream: EventStream) -> Outcome:
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
    return problem(f"Expected a `data` line, got {got}: clients do not dispatch this event.")


@check(STREAM_RESPONSE)
def compressed_stream(exchange: Exchange) -> Outcome:
    """A stream has a Content-Encoding, which may delay events and which some clients do not decode."""
    if not is_event_stream(exchange.response_header("content-type")):
        return None
    coding = (exchange.response_header("content-encoding") or "").strip()
    if coding.lower() in _UNCODED:
        accepted = header(exchange.request.headers, "accept-encoding")
        # Without the header, every coding is accepted.
        return None if accepted is not None and accepted.strip().lower() in _UNCODED else HELD
    return problem(f"Expected a stream without Content-Encoding, got {quote(coding)}.")


@framing_check
def unusable_retry(event: Event, _stream: EventStream) -> Outcome:
    """A `retry` value is not ASCII digits, is 0, or is 2^31 or more, which makes clients reconnect in a hot loop."""
    if not event.retries:
        return None
    bad = [value for value in event.retries if not _is_usable_retry(value)]
    if not bad:
        return HELD
    return problem(f"Expected a `retry` from 1 to 2^31 - 1 in ASCII digits, got {quote_bytes(bad[0])}.")


def _is_usable_retry(value: bytes) -> bool:
    digits = value.lstrip(b"0")
    return value.isdigit() and 0 < len(digits) <= 10 and int(digits) < _RETRY_LIMIT


@framing_check
def id_unfit_for_header(event: Event, _stream: EventStream) -> Outcome:
    """An id does not survive a `Last-Event-ID` header unchanged."""
    identity = event.cursor
    if identity is None:
        return None
    if is_header_safe(identity):
        return HELD
    return problem(f"Expected an id that survives a Last-Event-ID header unchanged, got {_describe_unsafe(identity)}.")


def _describe_unsafe(identity: str) -> str:
    if not (identity.isascii() and identity.replace("\t", " ").isprintable()):
        return f"one that is not printable ASCII: {quote(identity)}"
    if identity != identity.strip():
        return f"one with a leading or trailing space or tab: {quote(identity)}"
    if len(identity) > LONGEST_ID:
        return f"one of {len(identity)} bytes"
    return f"one with a tab: {quote(identity)}"
