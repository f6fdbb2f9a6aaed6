"""CLI: obligations of the client: keys, cursors, waiting, resyncs and idempotency keys.

`wiretape_contracts.agent_sessions.state.client_state` defines which requests are from one client.
"""

from collections.abc import Collection

from wiretape.event import Event, is_header_safe
from wiretape.http_headers import LAST_EVENT_ID
from wiretape.observations import Ending
from wiretape.rules.catalogue import (
    ERROR_RESPONSE,
    EVENT,
    EXCHANGE_END,
    HELD,
    NO_RECONNECT,
    NOT_DELTA,
    OTHER_CALL,
    OTHER_KEY,
    REQUEST,
    UNKNOWN_POSITION,
    Later,
    Outcome,
    check,
    problem,
)
from wiretape.rules.finding import quote, quote_or_none
from wiretape_contracts.agent_sessions import (
    AGENT_CUSTOM_TOOL_USE,
    EVENT_ALREADY_RESOLVED,
    INVALID_CURSOR,
    STREAM_RESYNC,
)
from wiretape_contracts.agent_sessions.state.client_state import (
    RECONNECT_NS,
    PendingResync,
    ReadPosition,
    SessionReader,
)
from wiretape_contracts.agent_sessions.state.event_log import KnownEvent
from wiretape_contracts.agent_sessions.state.exchange_state import ExchangeState
from wiretape_contracts.agent_sessions.state.service_body import ErrorBody
from wiretape_contracts.agent_sessions.state.session_state import SessionState
from wiretape_contracts.agent_sessions.state.stream_state import StreamState

_TOLERANCE_NS = 500_000_000
_MOST_NAMED = 3
"""Cursors that a message names; if there are more, it names the first and the last."""

client_check = check(REQUEST)


@check(ERROR_RESPONSE)
def find_refused_cursor(body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """Report a wrong cursor that the service refuses because no event has it."""
    session, reader, cursor = exchange.session, exchange.reader, exchange.cursor
    if session is None or reader is None or cursor is None or not exchange.must_resume:
        return None
    if body.code != INVALID_CURSOR or not body.is_whole or reader.open_requests > 1 or not reader.positions:
        return None
    if reader.cut_position(cursor) is not None:
        # That was decided when it was sent.
        return None
    if session.log.dropped or _is_known_cursor(exchange, session) or _is_unclear(reader, cursor):
        return None
    return _wrong_cursor(reader, cursor)


@client_check
def resumed_from_wrong_event(exchange: ExchangeState) -> Outcome:
    """A client of a session reconnects with a cursor other than the id of the last durable event that it received.

    The cursor is wrong if it is missing or older, if it belongs to a different session, or if it is unknown and the
    service refuses it.  It is also wrong if the stream was cut off within the cursor's event, because clients apply an
    id only after the blank line that ends the event.

    If the service or a proxy broke the connection, the client may not have read the events from the last second.  The
    ids of these events, and the last id before them, are then accepted, too.

    The rule does not apply after `invalid_cursor` or `stream.resync`, or while the client has another open stream.
    """
    reader = exchange.reader
    if reader is None or exchange.session is None or not exchange.is_stream_request:
        return None
    cursor = exchange.cursor
    if not reader.must_resume(cursor):
        return None
    if any(position.allows(cursor) for position in reader.positions):
        return HELD
    cut = reader.cut_position(cursor)
    if cut is not None and not _was_received_since(cut, exchange.session, reader):
        return _wrong_cursor(reader, cursor, "the client resumed after an event that was never received completely")
    if _may_be_right(exchange, exchange.session, reader):
        return UNKNOWN_POSITION
    return _wrong_cursor(reader, cursor)


def _wrong_cursor(reader: SessionReader, cursor: str | None, why: str = "") -> Outcome:
    last_positions = {position.last: position for position in reader.positions if position.last is not None}
    cursors = [cursor for position in list(last_positions.values())[-2:] for cursor in position.possible]
    expected = f"{_list_cursors(cursors, 'none')} as {LAST_EVENT_ID}" if cursors else f"no {LAST_EVENT_ID}"
    got = f"{quote_or_none(cursor)}: {why}" if why else quote_or_none(cursor)
    return problem(f"Expected {expected}, got {got}.")


def _list_cursors(cursors: Collection[str | None], none: str) -> str:
    ids = list(dict.fromkeys(cursor for cursor in cursors if cursor is not None))
    if len(ids) > _MOST_NAMED:
        named = [f"one of the {len(ids):,} ids from {quote(ids[0])} to {quote(ids[-1])}"]
    else:
        named = [quote(identity) for identity in ids]
    *others, last = [*named, none] if None in cursors else named
    return f"{', '.join(others)} or {last}" if others else last


def _was_received_since(cut: ReadPosition, session: SessionState, reader: SessionReader) -> bool:
    """Whether a client with another key or address may have read on, and received the whole event."""
    if any(stream.opened_ns > cut.ended_ns and cut.incomplete in stream.event_numbers for stream in session.streams):
        return True
    others = (other for other in session.readers.values() if other is not reader)
    return any(
        position.opened_ns > cut.ended_ns and position.may_be_at(cut.incomplete)
        for other in others
        for position in other.positions
    )


def _may_be_right(exchange: ExchangeState, session: SessionState, reader: SessionReader) -> bool:
    """Whether a cursor that is not the last id on any stream of the client may still be the last that it read."""
    cursor = exchange.cursor
    if _is_unclear(reader, cursor):
        return True
    if cursor is None:
        # The request may come from another program.
        return reader.may_be_several
    if not _is_known_cursor(exchange, session):
        # The client may have read it outside the recording.  The response shows whether such an event exists.
        return True
    if any(other.may_be_at(cursor) for other in session.readers.values()):
        # The client may have changed its key or its address.
        return True
    events = session.log.events
    known = events.get(cursor)
    return known is not None and any(
        _is_later(known, events.get(position.last or "")) for position in reader.current_positions
    )


def _is_unclear(reader: SessionReader, cursor: str | None) -> bool:
    """Whether it is too uncertain which event the client read last."""
    return any(
        # SSE011 reports an id that does not survive a header.
        position.is_unsure
        or position.may_be_other
        or cursor in position.possible
        or not is_header_safe(position.last or "")
        for position in reader.positions
    )


def _is_known_cursor(exchange: ExchangeState, session: SessionState) -> bool:
    """Whether the recording shows the event of the cursor, in this session or another."""
    cursor, sessions, authority = exchange.cursor or "", exchange.sessions, exchange.request.authority
    if cursor in session.log.events:
        return True
    return sessions.is_foreign_cursor(cursor, session, authority) and not sessions.may_repeat_ids(cursor, authority)


def _is_later(known: KnownEvent, last: KnownEvent | None) -> bool:
    """Whether an event is later than another, so that a client that knows it has read on elsewhere."""
    if last is None:
        return True
    if known.sequence is not None and last.sequence is not None:
        return known.sequence > last.sequence
    return known.first_ns > last.first_ns


@client_check
def refused_cursor_sent_again(exchange: ExchangeState) -> Outcome:
    """A client sends a cursor again after the service refused it as invalid."""
    reader = exchange.reader
    if reader is None or not exchange.is_stream_request or not reader.refused_cursors:
        return None
    cursor = exchange.cursor
    if cursor not in reader.refused_cursors:
        return HELD
    return problem(
        f"Expected a restart without {quote(cursor or '')} after {INVALID_CURSOR}, got the same cursor again."
    )


@client_check
def retried_too_soon(exchange: ExchangeState) -> Outcome:
    """A client repeats a request more than half a second before the time in `Retry-After` has passed."""
    wait = exchange.client.waits.get(exchange.key)
    if wait is None:
        return None
    early_ns = wait.until_ns - exchange.request.time_ns
    if early_ns <= _TOLERANCE_NS:
        return HELD
    waited = wait.seconds - early_ns / 1e9
    return problem(f"Expected a wait of {wait.seconds} s after exchange {wait.exchange}, got {waited:.1f} s.")


@check(EVENT, shapes=NOT_DELTA, types={STREAM_RESYNC})
def resync_ignored(event: Event, stream: StreamState) -> Outcome:
    """After `stream.resync`, the client fails to reconnect within 60 s, or to send the id of its last durable event."""
    if stream.resync is not None or not stream.arrival.is_current:
        return None
    due_ns = event.time_ns + RECONNECT_NS

    def decide(now_ns: int) -> Outcome:
        return None if stream.resync is None else _decide_resync(stream.resync, due_ns, now_ns)

    return Later(due_ns, decide)


def _decide_resync(resync: PendingResync, due_ns: int, now_ns: int) -> Outcome:
    if resync.followed_ns is None or resync.followed_ns > due_ns:
        is_open = resync.ending in {None, Ending.OPEN, Ending.PROXY_STOPPED}
        if resync.may_be_unread or (now_ns <= due_ns and is_open):
            return NO_RECONNECT
        if resync.tried_ns is None or resync.tried_ns > due_ns:
            return problem(f"Expected a reconnect after {STREAM_RESYNC}, got none.")
    if resync.has_right_cursor:
        return HELD
    if resync.is_unsure:
        return UNKNOWN_POSITION
    wanted, got = _list_cursors(resync.right_cursors, "no cursor"), quote_or_none(resync.cursor)
    return problem(f"Expected a reconnect with {wanted} after {STREAM_RESYNC}, got {got}.")


@client_check
def retry_with_new_idempotency_key(exchange: ExchangeState) -> Outcome:
    """A retry after `runtime_resume_unavailable` or `tool_result_invalid` has a different idempotency key, or none."""
    retry, run = exchange.client.retries.get(exchange.key), exchange.run
    if retry is None:
        return None
    if run is not None and (run.ended_ns is not None or run.custom_tool_uses > retry.custom_tool_uses):
        return None
    if retry.key == exchange.idempotency_key and retry.key is not None:
        return HELD
    if retry.key is None or (run is not None and run.waiting_calls > 1):
        return OTHER_KEY
    got = quote_or_none(exchange.idempotency_key)
    return problem(f"Expected the idempotency key {quote(retry.key)} again after {retry.code}, got {got}.")


@check(EXCHANGE_END)
def find_same_answer(exchange: ExchangeState, _ending: Ending) -> Outcome:
    """If a resume may be about another call, its body shows whether it is the same answer again."""
    resolved = exchange.other_call
    if resolved is None:
        return None
    if exchange.body_hash is None or exchange.body_hash != resolved.body:
        return OTHER_CALL
    return problem(
        f"Expected no further answer after {EVENT_ALREADY_RESOLVED} in exchange {resolved.exchange}, "
        "got the same request body again."
    )


@client_check
def resolved_tool_answered_again(exchange: ExchangeState) -> Outcome:
    """A client resumes a run again after `event_already_resolved`, without a new `agent.custom_tool_use` in between.

    If the run has requested several application tools, or the recording may lack such requests, only a repetition of
    the same request body breaks the rule, because a different body may belong to a different call.
    """
    resolved, run = exchange.resolved_call, exchange.run
    if resolved is None:
        return None
    if run is not None and run.custom_tool_uses > resolved.custom_tool_uses:
        return HELD
    if exchange.may_be_about_other_call(resolved):
        return None
    wanted = f"no further resume after {EVENT_ALREADY_RESOLVED} in exchange {resolved.exchange}"
    return problem(f"Expected {wanted} without a new {AGENT_CUSTOM_TOOL_USE}, got one.")


@client_check
def ended_run_cancelled(exchange: ExchangeState) -> Outcome:
    """A client cancels a run after it received the run's terminal event."""
    run = exchange.run
    if not exchange.is_cancel or run is None:
        return None
    if exchange.client.key not in run.end_delivered_to:
        return HELD
    name = quote(exchange.run_id or "")
    return problem(f"Expected no request to cancel run {name} after its {run.ended_type}, got one.")
