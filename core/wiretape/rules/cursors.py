"""CLI: what the client owes with its cursor.  Who is one client is said in `wiretape.rules.clients`."""

from wiretape.contract import CURSOR_HEADER, INVALID_CURSOR, STREAM_RESYNC
from wiretape.observations import Ending
from wiretape.rules.answer import Answer
from wiretape.rules.catalogue import (
    ERROR_ANSWER,
    HELD,
    MESSAGE,
    REQUEST,
    Later,
    Outcome,
    Scope,
    also,
    problem,
    rule,
)
from wiretape.rules.conduct import is_stream_request
from wiretape.rules.doubts import NO_CHANCE, UNREAD
from wiretape.rules.finding import Party, Severity
from wiretape.rules.log import Known
from wiretape.rules.message import Message, Shape
from wiretape.rules.plain import is_fit_for_header
from wiretape.rules.readers import RECONNECT_NS, Reader, Resync
from wiretape.rules.sessions import Session
from wiretape.rules.state import ExchangeState, Stream
from wiretape.rules.words import or_none, quoted


@rule(
    "CLI002",
    "resumed-from-wrong-event",
    at=REQUEST,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    clause='Events 1: "The client saves the latest durable SSE `id` as its replay cursor."',
)
def resumed_from_wrong_event(exchange: ExchangeState) -> Outcome:
    """A client that has read a session reconnects with another cursor than the last durable id delivered to it.

    That is an older one, none, one of another session, or one that no event had and that the service refuses.  Not
    after `invalid_cursor` or `stream.resync`, and not while another stream of it is open.
    """
    reader, cursor = exchange.reader, exchange.cursor
    if reader is None or exchange.session is None or not is_stream_request(exchange) or not reader.owes(cursor):
        return None
    if any(cursor == place.last and not place.unsure for place in reader.positions):
        return HELD
    if _may_be_right(exchange, exchange.session, reader):
        return UNREAD
    return _wrong_cursor(reader, cursor)


@also("CLI002", at=ERROR_ANSWER)
def resumed_from_no_event(answer: Answer, exchange: ExchangeState) -> Outcome:
    """The service refuses a cursor that no event had."""
    session, reader, cursor = exchange.session, exchange.reader, exchange.cursor
    if session is None or reader is None or cursor is None or not exchange.owes_cursor:
        return None
    if answer.code != INVALID_CURSOR or not answer.whole or reader.streams > 1 or not reader.positions:
        return None
    if session.past.log.forgotten or _is_settled(exchange, session) or _is_unclear(reader, cursor):
        return None
    return _wrong_cursor(reader, cursor)


def _wrong_cursor(reader: Reader, cursor: str | None) -> Outcome:
    lasts = list(dict.fromkeys(place.last for place in reader.positions if place.last is not None))
    wanted = " or ".join(quoted(identity) for identity in lasts[-2:])
    return problem(f"Expected {wanted} as {CURSOR_HEADER}, got {or_none(cursor)}.")


def _may_be_right(exchange: ExchangeState, session: Session, reader: Reader) -> bool:
    """Whether a cursor that is not the last id on any stream of the client may be what it has read last."""
    cursor = exchange.cursor
    if _is_unclear(reader, cursor):
        return True
    if cursor is None:
        # It may be one more program.
        return reader.several
    if not _is_settled(exchange, session):
        # It may have been read where nobody looked.  Whether there is such an event, the service will tell.
        return True
    if any(other.may_stand_at(cursor) for other in session.readers.values()):
        # It may be one client that has changed its key or its address.
        return True
    events = session.past.log.events
    known = events.get(cursor)
    return known is not None and any(_is_later(known, events.get(place.last or "")) for place in reader.current)


def _is_unclear(reader: Reader, cursor: str | None) -> bool:
    """Whether it is not known well enough where a client stands."""
    return any(
        # An id that does not come back as it was is SSE011.
        place.unsure or cursor in place.perhaps or not is_fit_for_header(place.last or "")
        for place in reader.positions
    )


def _is_settled(exchange: ExchangeState, session: Session) -> bool:
    """Whether the recording shows of which event the cursor is, be it of another session."""
    cursor, sessions, authority = exchange.cursor or "", exchange.sessions, exchange.request.authority
    if cursor in session.past.log.events:
        return True
    return sessions.is_foreign(cursor, session, authority) and not sessions.count_anew(cursor, authority)


def _is_later(known: Known, last: Known | None) -> bool:
    """Whether an event comes behind another one, so that a client that knows it has read on elsewhere."""
    if last is None:
        return True
    if known.sequence is not None and last.sequence is not None:
        return known.sequence > last.sequence
    return known.first_ns > last.first_ns


@rule(
    "CLI003",
    "refused-cursor-sent-again",
    at=REQUEST,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    clause=f'Stream rule 2: "the error is `{INVALID_CURSOR}` …; the client restarts replay without the cursor."',
)
def refused_cursor_sent_again(exchange: ExchangeState) -> Outcome:
    """A client sends a cursor again after it was told that it is invalid."""
    reader, cursor = exchange.reader, exchange.cursor
    if reader is None or not is_stream_request(exchange) or not reader.refused:
        return None
    if cursor not in reader.refused:
        return HELD
    return problem(f"Expected a restart without {quoted(cursor or '')} after {INVALID_CURSOR}, got it again.")


@rule(
    "CLI005",
    "resync-ignored",
    at=MESSAGE,
    shapes=frozenset({Shape.EPHEMERAL, Shape.DURABLE}),
    types=frozenset({STREAM_RESYNC}),
    severity=Severity.WARNING,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    clause=f'Events 6: "On `{STREAM_RESYNC}` the client: (1) keeps the last durable SSE id; (2) reconnects …"',
)
def resync_ignored(message: Message, stream: Stream) -> Outcome:
    """After `stream.resync` the client does not reconnect within 60 s, or not with the last durable id."""
    course = stream.course
    if course.resync is not None or not course.is_fresh(message):
        return None
    due_ns = message.time_ns + RECONNECT_NS

    def decide(now_ns: int) -> Outcome:
        return None if course.resync is None else _followed(course.resync, due_ns, now_ns)

    return Later(due_ns, decide)


def _followed(resync: Resync, due_ns: int, now_ns: int) -> Outcome:
    if resync.answered_ns is None or resync.answered_ns > due_ns:
        if resync.unread or (now_ns <= due_ns and resync.ending in {None, Ending.OPEN, Ending.PROXY_STOPPED}):
            # The client had no chance to, or does not know.
            return NO_CHANCE
        if resync.tried_ns is None or resync.tried_ns > due_ns:
            return problem(f"Expected a reconnect after {STREAM_RESYNC}, got none.")
    if resync.is_right:
        return HELD
    if resync.unsure:
        return UNREAD
    wanted = " or ".join(sorted(quoted(identity) for identity in resync.right if identity is not None))
    return problem(
        f"Expected a reconnect with {wanted or 'no cursor'} after {STREAM_RESYNC}, got {or_none(resync.cursor)}."
    )
