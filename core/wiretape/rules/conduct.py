"""What changes in what is known of a client, after the rules have seen what changes it."""

from wiretape.contract import (
    ERROR_CODES,
    EVENT_ALREADY_RESOLVED,
    INVALID_CURSOR,
    RATE_LIMITED,
    RETRY_AFTER,
    SAME_KEY_CODES,
    STREAM,
    is_event_stream,
)
from wiretape.observations import BytesLost, Ending
from wiretape.rules.answer import Answer
from wiretape.rules.clients import Refusal, Wait
from wiretape.rules.course import Course
from wiretape.rules.state import ExchangeState

_SECOND = 1_000_000_000
_TOO_MANY = ERROR_CODES[RATE_LIMITED].status


def asked(exchange: ExchangeState) -> None:
    """A request was sent."""
    if is_stream_request(exchange) and exchange.reader is not None:
        exchange.owes_cursor = exchange.reader.owes(exchange.cursor)
        exchange.reader.ask(exchange.cursor, exchange.request.time_ns)
    wait = exchange.client.waits.get(exchange.key)
    if wait is not None and wait.until_ns <= exchange.request.time_ns:
        del exchange.client.waits[exchange.key]
    exchange.client.refusals.pop(exchange.key, None)


def answered(exchange: ExchangeState) -> None:
    """The head of an answer came."""
    response = exchange.response
    if response is None:
        return
    if response.status == _TOO_MANY:
        seconds = (exchange.response_header(RETRY_AFTER) or "").strip()
        if seconds.isascii() and seconds.isdigit() and len(seconds) < 8:
            wait = Wait(response.time_ns + int(seconds) * _SECOND, exchange.number, int(seconds))
            exchange.client.wait(exchange.key, wait, response.time_ns)


def opened(exchange: ExchangeState) -> bool:
    """Whether the answer opens a stream, which is then noted."""
    session, reader = exchange.session, exchange.reader
    if session is None or reader is None or not is_event_stream(exchange.response_header("content-type")):
        return False
    session.past.open(exchange.cursor, exchange.number)
    reader.open(exchange.cursor, beside=any(_is_beside(exchange, course) for course in session.courses))
    return True


def _is_beside(exchange: ExchangeState, course: Course) -> bool:
    """Whether the same client reads on a stream from which the new one does not go on."""
    last = course.delivery.last or course.cursor
    return course.reader is exchange.reader and (last is None or exchange.cursor != last)


def refused(exchange: ExchangeState, answer: Answer) -> None:
    """An answer with an error came to its end."""
    if not answer.whole:
        return
    code, cursor = answer.code, exchange.cursor
    if code in SAME_KEY_CODES:
        refusal = Refusal(exchange.number, code or "", exchange.idempotency_key, custom_uses(exchange))
        exchange.client.refuse(exchange.key, refusal)
    if exchange.reader is None or exchange.match is None:
        return
    if code == INVALID_CURSOR and cursor is not None and is_stream_request(exchange):
        exchange.reader.refuse(cursor)
    elif code == EVENT_ALREADY_RESOLVED and exchange.match.run_id is not None:
        told = exchange.number, custom_uses(exchange), exchange.reader.losses
        exchange.reader.resolve(exchange.match.run_id, told)


def ended(exchange: ExchangeState, ending: Ending, time_ns: int) -> None:
    """An exchange ended."""
    if exchange.stream is not None:
        exchange.stream.course.end(ending, time_ns)
        exchange.stream.session.courses.remove(exchange.stream.course)
    if is_stream_request(exchange) and exchange.reader is not None:
        exchange.reader.streams -= 1
    if exchange.session is not None:
        exchange.session.exchanges -= 1
    wait = exchange.client.waits.get(exchange.key)
    if ending is not Ending.COMPLETE and wait is not None and wait.exchange == exchange.number:
        # Nobody knows whether the client has read it.
        del exchange.client.waits[exchange.key]


def lost(exchange: ExchangeState, lost: BytesLost) -> None:
    """Bytes of a body passed without being recorded."""
    first = exchange.lost.get(lost.side)
    count = lost.count + (first.count if first is not None else 0)
    at = first or lost
    exchange.lost[lost.side] = BytesLost(at.exchange, at.time_ns, at.side, at.start, count, at.why)


def is_stream_request(exchange: ExchangeState) -> bool:
    """Whether the request asks for a stream of events."""
    return exchange.match is not None and exchange.match.operation is STREAM


def custom_uses(exchange: ExchangeState) -> int:
    """How many application tools the run that is asked about wanted executed."""
    if exchange.match is None or exchange.session is None:
        return 0
    run = exchange.session.past.work.runs.get(exchange.match.run_id or "")
    return 0 if run is None else run.custom_uses
