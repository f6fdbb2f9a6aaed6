"""RES: streams that were opened with a cursor."""

from wiretape.event import Shape
from wiretape.json_equality import json_hash
from wiretape.labels import join_first
from wiretape.rules.catalogue import (
    ERROR_RESPONSE,
    EVENT,
    HELD,
    INCOMPARABLE_JSON,
    SHARED_IDS,
    STREAM_RESPONSE,
    UNKNOWN_CURSOR,
    UNKNOWN_REPLAY,
    UNKNOWN_START,
    Outcome,
    check,
    problem,
)
from wiretape.rules.finding import format_number, quote
from wiretape.sse import is_event_stream
from wiretape_contracts.agent_sessions import INVALID_CURSOR
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.exchange_state import ExchangeState
from wiretape_contracts.agent_sessions.state.service_body import ErrorBody
from wiretape_contracts.agent_sessions.state.stream_state import REPLAY_END, ResumeState, StreamState

_MOST_NAMED = 3

replay_check = check(EVENT, shapes={Shape.DURABLE})


@replay_check
def event_repeated_on_resume(event: SessionEvent, stream: StreamState) -> Outcome:
    """A connection that was opened with a cursor carries the cursor's event or an earlier event.

    There is one finding per connection, at the first repeated event.
    """
    resume, log = stream.resume, stream.session.log
    if resume is None:
        return None
    if event.cursor == resume.cursor:
        if log.has_other_event(event) or log.is_ambiguous(resume.cursor):
            # It may be another event with that id, which follows.
            return None
        return problem(f"Expected events after the cursor {quote(resume.cursor)}, got the cursor's own event.")
    if event.sequence is None:
        return None
    if resume.sequence is None:
        return UNKNOWN_CURSOR
    if event.sequence > resume.sequence:
        return HELD
    if log.has_other_number(event) or not resume.precedes_cursor(stream.arrival.known):
        return None
    wanted = f"a sequence above {format_number(resume.sequence)}, that of the cursor {quote(resume.cursor)}"
    return problem(f"Expected {wanted}, got {format_number(event.sequence)}.")


@check(REPLAY_END)
def event_lost_on_resume(resume: ResumeState) -> Outcome:
    """A resumed stream skips a durable event that follows the cursor and arrived before the client opened the stream.

    An event counts as missing if a later durable event arrives on the stream and this event has not.  SEQ001 reports
    events out of order.
    """
    missing = list(resume.missing)
    if resume.has_losses or (resume.is_partly_known and not missing):
        return UNKNOWN_REPLAY
    if not missing:
        return HELD if resume.has_replayed else None
    named = join_first(list(map(quote, missing)), _MOST_NAMED, " and ")
    got = "a later event without it" if len(missing) == 1 else "a later event without them"
    return problem(f"Expected {named} after the cursor {quote(resume.cursor)}, got {got}.")


@replay_check
def event_changed_on_resume(event: SessionEvent, stream: StreamState) -> Outcome:
    """A durable event is repeated on another connection, but its JSON value has changed."""
    known = stream.arrival.known
    if known is None or event.cursor not in stream.session.log.events or event.cursor in stream.event_numbers:
        return None
    now = json_hash(event)
    if now is None or known.json_hash is None:
        return INCOMPARABLE_JSON
    if now == known.json_hash:
        return HELD
    return problem(f"Expected the same JSON for {quote(event.cursor or '')} as the first time, got different JSON.")


@replay_check
def live_before_replay_ended(event: SessionEvent, stream: StreamState) -> Outcome:
    """On a stream with a cursor, an ephemeral event arrives before a durable event that has to be replayed.

    A durable event has to be replayed if it follows the cursor and arrived before the client opened the stream.  There
    is one finding per stream.
    """
    resume = stream.resume
    if resume is None or event.cursor == resume.cursor or resume.is_up_to_cursor(event):
        return None
    if not resume.is_replay(stream.arrival.known):
        return None
    if not resume.has_live_output:
        return HELD
    return problem(f"Expected {quote(event.cursor or '')} before any live output, got an ephemeral event first.")


@check(STREAM_RESPONSE)
def hold_for_accepted_cursor(exchange: ExchangeState) -> Outcome:
    """Hold if the service accepts a cursor that it issued."""
    session = exchange.session
    is_known = session is not None and exchange.cursor in session.log.events
    return HELD if is_known and is_event_stream(exchange.response_header("content-type")) else None


def _is_resume(_body: ErrorBody, exchange: ExchangeState) -> bool:
    return exchange.is_stream_request and exchange.cursor is not None


@check(ERROR_RESPONSE, when=_is_resume, codes={INVALID_CURSOR})
def issued_cursor_refused(_body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """The service refuses a cursor that is the id of a durable event that it sent in the session."""
    cursor, session = exchange.cursor, exchange.session
    if cursor is None or session is None:
        return None
    if cursor in session.log.events:
        return problem(f"Expected a replay after {quote(cursor)}, an id that the service issued, got {INVALID_CURSOR}.")
    return HELD if session.is_from_start and session.is_understood and not session.log.dropped else UNKNOWN_START


@check(ERROR_RESPONSE)
def hold_for_refused_cursor(body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """Hold if the service refuses a cursor of another session."""
    cursor, session, authority = exchange.cursor, exchange.session, exchange.request.authority
    if not exchange.is_stream_request or cursor is None or session is None or body.code != INVALID_CURSOR:
        return None
    return HELD if exchange.sessions.is_foreign_cursor(cursor, session, authority) else None


@check(STREAM_RESPONSE)
def foreign_cursor_accepted(exchange: ExchangeState) -> Outcome:
    """The service accepts a cursor that belongs to a different session."""
    if not is_event_stream(exchange.response_header("content-type")):
        # SSE007 or ERR010 reports it.
        return None
    cursor, session, authority = exchange.cursor, exchange.session, exchange.request.authority
    if cursor is None or session is None or not exchange.sessions.is_foreign_cursor(cursor, session, authority):
        return None
    is_incomplete = session.was_dropped or session.log.dropped
    if is_incomplete or exchange.sessions.may_repeat_ids(cursor, authority):
        return SHARED_IDS
    return problem(f"Expected {INVALID_CURSOR} for {quote(cursor)}, an event of another session, got status 200.")
