"""RES: what comes on a connection that was opened with a cursor."""

from wiretape.contract import CURSOR_HEADER, INVALID_CURSOR
from wiretape.rules.answer import Answer
from wiretape.rules.catalogue import (
    ERROR_ANSWER,
    HELD,
    MESSAGE,
    REPLAYED,
    RESPONSE,
    Basis,
    Outcome,
    Scope,
    also,
    problem,
    rule,
)
from wiretape.rules.conduct import is_stream_request
from wiretape.rules.doubts import ANY_SESSION, CUT, UNCLEAR_JSON, UNKNOWN_CURSOR, UNKNOWN_REPLAY, UNKNOWN_START
from wiretape.rules.log import fingerprint
from wiretape.rules.message import Message, Shape
from wiretape.rules.resumption import Resumption
from wiretape.rules.state import ExchangeState, Stream
from wiretape.rules.words import number, quoted

_DURABLE = frozenset({Shape.DURABLE})
_REPLAY = (
    f'Stream rule 1: "When `{CURSOR_HEADER}` is sent, persisted events after that id are replayed first, '
    'then live output resumes."'
)
_INVALID = 'Stream rule 2: "When the cursor is invalid, the error is `invalid_cursor` (HTTP 400)."'
_MOST_NAMED = 3


@rule(
    "RES001",
    "event-repeated-on-resume",
    at=MESSAGE,
    shapes=_DURABLE,
    scope=Scope.SESSION,
    clause=_REPLAY,
)
def event_repeated_on_resume(message: Message, stream: Stream) -> Outcome:
    """A connection that was opened with a cursor brings the event of the cursor, or one before it.

    One finding a stream.
    """
    resumption = stream.course.resumption
    if resumption is None or resumption.repeated or message.id in stream.events:
        return None
    if message.id == resumption.cursor:
        return problem(f"Expected events after the cursor {quoted(resumption.cursor)}, got that event itself.")
    if message.sequence is None or _is_out_of_order(message, stream):
        return None
    if resumption.sequence is None:
        return UNKNOWN_CURSOR
    if message.sequence > resumption.sequence:
        return HELD
    wanted = f"a sequence above {number(resumption.sequence)}, that of the cursor {quoted(resumption.cursor)}"
    return problem(f"Expected {wanted}, got {number(message.sequence)}.")


def _is_out_of_order(message: Message, stream: Stream) -> bool:
    """Whether that the sequence is wrong is found by SEQ001 or SEQ002."""
    sequence = message.sequence
    if sequence is None:
        return False
    owner = stream.session.past.log.owners.get(sequence, message.id)
    return (stream.sequence is not None and sequence <= stream.sequence) or owner != message.id


@rule("RES002", "event-lost-on-resume", at=REPLAYED, scope=Scope.SESSION, clause=_REPLAY)
def event_lost_on_resume(resumption: Resumption) -> Outcome:
    """A durable event behind the cursor, seen before this connection was asked for, is missing on it.

    Only what a later durable event has overtaken is missing; what comes out of order is SEQ001.
    """
    missing = list(resumption.missing)
    if resumption.lost or (resumption.partial and not missing):
        return UNKNOWN_REPLAY
    if not missing:
        return HELD if resumption.replayed else None
    named = " and ".join(quoted(identity) for identity in missing[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    return problem(f"Expected {named}{more} after the cursor {quoted(resumption.cursor)}, got a later event without.")


@rule(
    "RES003",
    "event-changed-on-resume",
    at=MESSAGE,
    shapes=_DURABLE,
    scope=Scope.SESSION,
    clause='What the service does: "Durable events are persisted, … and are replayed on reconnect."',
)
def event_changed_on_resume(message: Message, stream: Stream) -> Outcome:
    """A durable event comes again on another connection, and its JSON is another value."""
    known = stream.session.past.log.known(message)
    if known is None or message.id in stream.events:
        return None
    now = fingerprint(message)
    if now is None or known.fingerprint is None or message.bad_byte is not None:
        return UNCLEAR_JSON
    if now == known.fingerprint:
        return HELD
    return problem(f"Expected the same JSON for {quoted(message.id or '')} as when it came first, got another.")


@rule("RES004", "live-before-replay-ended", at=MESSAGE, shapes=_DURABLE, scope=Scope.SESSION, clause=_REPLAY)
def live_before_replay_ended(message: Message, stream: Stream) -> Outcome:
    """After a cursor, an ephemeral event comes before a durable one that was seen before the connection was asked for.

    One finding a stream.
    """
    resumption = stream.course.resumption
    if resumption is None or resumption.late or message.id in stream.events or _is_out_of_order(message, stream):
        return None
    known = stream.session.past.log.known(message)
    if not resumption.is_replay(known):
        return None
    if message.id == resumption.cursor or _is_not_after(message, resumption):
        # That is RES001.
        return None
    if not resumption.live:
        return HELD
    return problem(f"Expected {quoted(message.id or '')} before any live output, got an ephemeral event first.")


def _is_not_after(message: Message, resumption: Resumption) -> bool:
    sequence = message.sequence
    return sequence is not None and resumption.sequence is not None and sequence <= resumption.sequence


@rule("RES005", "issued-cursor-refused", at=ERROR_ANSWER, scope=Scope.SESSION, clause=_INVALID)
def issued_cursor_refused(answer: Answer, exchange: ExchangeState) -> Outcome:
    """The service calls a cursor invalid that it has itself issued as the id of a durable event of the session."""
    cursor, session = exchange.cursor, exchange.session
    if not is_stream_request(exchange) or cursor is None or session is None:
        return None
    if not answer.whole:
        return CUT
    if answer.code != INVALID_CURSOR:
        return None
    past = session.past
    if cursor in past.log.events:
        return problem(f"Expected a replay after {quoted(cursor)}, which the service has issued, got {INVALID_CURSOR}.")
    return HELD if past.from_start and past.clear and not past.log.forgotten else UNKNOWN_START


@also("RES005", at=RESPONSE)
def issued_cursor_accepted(exchange: ExchangeState) -> Outcome:
    """A cursor that the service has issued is accepted."""
    session = exchange.session
    return HELD if session is not None and exchange.cursor in session.past.log.events else None


@rule("RES006", "foreign-cursor-accepted", at=RESPONSE, scope=Scope.SESSION, basis=Basis.INFERRED, clause=_INVALID)
def foreign_cursor_accepted(exchange: ExchangeState) -> Outcome:
    """The service accepts a cursor that belongs to another session, and to that only."""
    cursor, session, authority = exchange.cursor, exchange.session, exchange.request.authority
    if cursor is None or session is None or not exchange.sessions.is_foreign(cursor, session, authority):
        return None
    forgotten = session.past.returned or session.past.log.forgotten
    if forgotten or exchange.sessions.count_anew(cursor, authority):
        return ANY_SESSION
    return problem(f"Expected {INVALID_CURSOR} for {quoted(cursor)}, an event of another session, got status 200.")


@also("RES006", at=ERROR_ANSWER)
def foreign_cursor_refused(answer: Answer, exchange: ExchangeState) -> Outcome:
    """A cursor of another session is refused."""
    cursor, session, authority = exchange.cursor, exchange.session, exchange.request.authority
    if not is_stream_request(exchange) or cursor is None or session is None or answer.code != INVALID_CURSOR:
        return None
    return HELD if exchange.sessions.is_foreign(cursor, session, authority) else None
