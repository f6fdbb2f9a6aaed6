"""SSE: the framing of the stream.  "WHATWG" is the HTML standard, part "Server-sent events"."""

from wiretape.contract import EVENT_STREAM, is_event_stream
from wiretape.observations import Ending
from wiretape.rules.catalogue import (
    HELD,
    MESSAGE,
    RESPONSE,
    STREAM_END,
    Basis,
    Outcome,
    Problem,
    Scope,
    problem,
    rule,
)
from wiretape.rules.doubts import UNSEEN
from wiretape.rules.finding import Severity
from wiretape.rules.message import Message, Shape
from wiretape.rules.plain import LONGEST_ID, is_fit_for_header
from wiretape.rules.state import ExchangeState, Stream, StreamEnd
from wiretape.rules.words import quoted, quoted_bytes

_STREAM_RESPONSE = "Endpoints, stream response"
_WITH_DATA = frozenset(Shape) - {Shape.BARE}
_ENDED_BY_SERVICE = {
    Ending.SERVICE_CLOSED: "the service closed the connection",
    Ending.SERVICE_RESET: "the service reset the connection",
    Ending.COMPLETE: "the response ended",
}
_MOST_UNKNOWN = 20
_RETRY_LIMIT = 2**31


@rule(
    "SSE001",
    "invalid-utf8",
    at=MESSAGE,
    plain=True,
    clause='WHATWG: "Event streams in this format must always be encoded as UTF-8."',
)
def invalid_utf8(message: Message, _stream: Stream) -> Outcome:
    """The bytes of a message are not UTF-8."""
    at = message.bad_byte
    if at is None:
        return HELD
    return problem(f"Expected UTF-8, got the byte 0x{message.frame.raw[at]:02x} at byte {at} of the message.")


@rule(
    "SSE002",
    "message-cut-off",
    at=STREAM_END,
    severity=Severity.WARNING,
    scope=Scope.STREAM,
    basis=Basis.INFERRED,
    clause='WHATWG: "If the file ends in the middle of an event, before the final empty line, the incomplete '
    'event is not dispatched."',
)
def message_cut_off(end: StreamEnd) -> Outcome:
    """The service ended the response in the middle of a message."""
    how = _ENDED_BY_SERVICE.get(end.ending)
    if how is None:
        return None
    if end.stream.unknown_end:
        return UNSEEN
    if end.tail is None:
        return HELD
    return problem(
        f"Expected a blank line to end the last message, but {how} after {len(end.tail.raw)} bytes of it.",
        end.place_of(end.tail),
    )


@rule(
    "SSE003",
    "unknown-field",
    at=MESSAGE,
    plain=True,
    severity=Severity.NOTE,
    clause=f'{_STREAM_RESPONSE}: "an `event:` line …, an `id:` line …, and a `data:` line"',
)
def unknown_field(message: Message, _stream: Stream) -> Outcome:
    """A field is none of `event`, `id`, `data` and `retry`."""
    if not message.unknown:
        return HELD
    shown, more = message.unknown[:_MOST_UNKNOWN], len(message.unknown) - _MOST_UNKNOWN
    problems = [
        Problem(f"Expected the fields event, id, data and retry only, got {quoted_bytes(name)}.") for name in shown
    ]
    if more > 0:
        problems.append(Problem(f"Expected the fields event, id, data and retry only, got {more} more besides."))
    return problems


@rule(
    "SSE004",
    "nul-in-id",
    at=MESSAGE,
    plain=True,
    clause='WHATWG: "If the field value does not contain U+0000 NULL, then set the last event ID buffer to the '
    'field value. Otherwise, ignore the field."',
)
def nul_in_id(message: Message, _stream: Stream) -> Outcome:
    """An `id` line holds U+0000, so that clients ignore it."""
    if message.id_line is None:
        return None
    if b"\0" not in message.frame.raw:
        return HELD
    bad = [value for value in message.frame.values(b"id") if b"\0" in value]
    return problem(f"Expected an id without U+0000, got {quoted_bytes(bad[0])}.") if bad else HELD


@rule(
    "SSE005",
    "repeated-field",
    at=MESSAGE,
    plain=True,
    severity=Severity.WARNING,
    clause=f'{_STREAM_RESPONSE}: "an `event:` line …, an `id:` line …, and a `data:` line"',
)
def repeated_field(message: Message, _stream: Stream) -> Outcome:
    """A message has more than one `event`, `id` or `data` line."""
    if not message.repeated:
        return HELD
    return [
        Problem(f"Expected one `{name}` line, got {len(message.frame.values(name.encode()))} of them.")
        for name in message.repeated
    ]


@rule(
    "SSE006",
    "missing-event-line",
    at=MESSAGE,
    plain=True,
    shapes=_WITH_DATA,
    clause=f'{_STREAM_RESPONSE}: "each message has an `event:` line naming the type"',
)
def missing_event_line(message: Message, _stream: Stream) -> Outcome:
    """A message with data has no `event` line."""
    if message.event_line is not None:
        return HELD
    wanted = f"the line {quoted(f'event: {message.type}')}" if message.type else "an `event` line"
    return problem(f"Expected {wanted}, got none.")


@rule(
    "SSE007",
    "wrong-content-type",
    at=RESPONSE,
    scope=Scope.EXCHANGE,
    clause='Endpoints: "Opens an SSE stream of the session\'s events."',
)
def wrong_content_type(exchange: ExchangeState) -> Outcome:
    """A stream request is answered with 200, but not with an event stream."""
    content_type = exchange.response_header("content-type")
    if is_event_stream(content_type):
        return HELD
    got = "none" if content_type is None else quoted(content_type)
    return problem(f"Expected the Content-Type `{EVENT_STREAM}`, got {got}.")


@rule(
    "SSE008",
    "message-without-data",
    at=MESSAGE,
    plain=True,
    severity=Severity.NOTE,
    basis=Basis.INFERRED,
    clause='WHATWG: "If the data buffer is an empty string, set the data buffer and the event type buffer to the '
    'empty string and return."',
)
def message_without_data(message: Message, _stream: Stream) -> Outcome:
    """A block of lines has no `data` line, and so dispatches no event: clients hand nothing to the application.

    What it says in `id` and `retry` lines counts all the same.
    """
    if message.data is not None:
        return HELD
    lines = {"event": message.event_line is not None, "id": message.id_line is not None, "retry": message.retries}
    there = " and ".join(f"`{name}`" for name, present in lines.items() if present)
    got = f"{there} only" if there else "none"
    return problem(f"Expected a `data` line, got {got}: this block dispatches no event.")


@rule(
    "SSE009",
    "compressed-stream",
    at=RESPONSE,
    severity=Severity.NOTE,
    scope=Scope.EXCHANGE,
    basis=Basis.INFERRED,
    clause='Endpoints: "Opens an SSE stream of the session\'s events."',
)
def compressed_stream(exchange: ExchangeState) -> Outcome:
    """A stream carries a Content-Encoding, which not every client undoes and which may hold events back."""
    if not is_event_stream(exchange.response_header("content-type")):
        return None
    coding = (exchange.response_header("content-encoding") or "").strip()
    if coding.lower() in {"", "identity"}:
        return HELD
    return problem(f"Expected a stream without Content-Encoding, got {quoted(coding)}.")


@rule(
    "SSE010",
    "unusable-retry",
    at=MESSAGE,
    plain=True,
    severity=Severity.WARNING,
    basis=Basis.INFERRED,
    clause='WHATWG: "If the field value consists of only ASCII digits, then interpret the field value as an '
    'integer in base ten"',
)
def unusable_retry(message: Message, _stream: Stream) -> Outcome:
    """A `retry` value is not ASCII digits, is 0, or is 2^31 or more, which makes clients reconnect in a hot loop."""
    if not message.retries:
        return None
    bad = [value for value in message.retries if not _usable_retry(value)]
    if not bad:
        return HELD
    return problem(f"Expected ASCII digits for a number from 1 to 2^31 - 1 as retry, got {quoted_bytes(bad[0])}.")


def _usable_retry(value: bytes) -> bool:
    digits = value.lstrip(b"0")
    return value.isdigit() and 0 < len(digits) <= 10 and int(digits) < _RETRY_LIMIT


@rule(
    "SSE011",
    "id-unfit-for-header",
    at=MESSAGE,
    plain=True,
    severity=Severity.WARNING,
    basis=Basis.INFERRED,
    clause='Events 1: "The client saves the latest durable SSE `id` as its replay cursor."',
)
def id_unfit_for_header(message: Message, _stream: Stream) -> Outcome:
    """An id cannot come back unharmed in a `Last-Event-ID` header."""
    identity = message.id
    if identity is None:
        return None
    if is_fit_for_header(identity):
        return HELD
    return problem(f"Expected an id that comes back unharmed in a Last-Event-ID header, got {_unfit(identity)}.")


def _unfit(identity: str) -> str:
    if not (identity.isascii() and identity.replace("\t", " ").isprintable()):
        return f"one that is not printable ASCII: {quoted(identity)}"
    if identity != identity.strip():
        return f"one with space or tab at its end or beginning: {quoted(identity)}"
    if len(identity) > LONGEST_ID:
        return f"one of {len(identity)} bytes"
    return f"one with a tab in it: {quoted(identity)}"
