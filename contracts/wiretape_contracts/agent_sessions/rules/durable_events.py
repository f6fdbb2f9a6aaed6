"""DUR and SEQ: which events are durable, and the order of those that are.

Deltas and sequences of the wrong type do not take part in the order.
"""

from wiretape.event import Shape
from wiretape.rules.catalogue import (
    DROPPED_STATE,
    EVENT,
    HELD,
    LOST_EVENTS,
    Outcome,
    check,
    problem,
)
from wiretape.rules.finding import format_number, quote
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.stream_state import StreamState

order_check = check(EVENT, shapes={Shape.DURABLE})


@order_check
def sequence_not_increasing(event: SessionEvent, stream: StreamState) -> Outcome:
    """The sequence of a durable event is not greater than the previous sequence on the same connection.

    If the first event after a cursor is new to the recording, its sequence is compared with the sequence of the
    cursor's event.
    """
    before, sequence = stream.sequence, event.sequence
    if before is None and stream.arrival.is_out_of_order and stream.resume is not None:
        before = stream.resume.sequence
    if before is None or sequence is None:
        return None
    if sequence > before:
        return LOST_EVENTS if stream.has_gap else HELD
    return problem(f"Expected a sequence above {format_number(before)}, got {format_number(sequence)}.")


@order_check
def sequence_reused(event: SessionEvent, stream: StreamState) -> Outcome:
    """Two events of one session have different ids, but the same sequence."""
    sequence, identity = event.sequence, event.cursor
    if sequence is None or identity is None:
        return None
    log = stream.session.log
    if not stream.arrival.has_used_number:
        return HELD if log.dropped_up_to is None or sequence > log.dropped_up_to else DROPPED_STATE
    wanted = f"sequence {format_number(sequence)} only for {quote(log.first_ids[sequence])}"
    return problem(f"Expected {wanted}, got it for {quote(identity)} too.", subject=(sequence, identity))


@order_check
def id_reused(event: SessionEvent, stream: StreamState) -> Outcome:
    """An id occurs twice on one connection, or belongs to different events on two connections."""
    identity = event.cursor
    if identity is None:
        return None
    if identity in stream.event_numbers:
        number = stream.event_numbers[identity]
        return problem(f"Expected a new id, got {quote(identity)}, which event {number} already has.")
    log = stream.session.log
    if identity in log.events and log.has_other_event(event) and stream.arrival.is_new:
        return problem(f"Expected a new id, got {quote(identity)}, which an event on another connection already has.")
    if not stream.event_numbers:
        return None
    return DROPPED_STATE if stream.dropped_ids else HELD


@order_check
def sequence_gap(event: SessionEvent, stream: StreamState) -> Outcome:
    """The sequence increases by more than one.

    There is one finding per session, at the first gap.
    """
    before, sequence = stream.sequence, event.sequence
    if before is None or sequence is None or stream.is_out_of_step:
        # After an unreadable sequence, or one out of order, a gap is only a consequence.
        return None
    if sequence <= before + 1:
        return HELD
    if stream.resume is not None and stream.resume.skips(sequence):
        # RES002 reports what was not replayed.
        return None
    if stream.has_gap:
        return LOST_EVENTS
    wanted = f"the sequence {format_number(before + 1)} after {format_number(before)}"
    return problem(f"Expected {wanted} if the service numbers events consecutively, got {format_number(sequence)}.")


@order_check
def created_at_going_back(event: SessionEvent, stream: StreamState) -> Outcome:
    """A durable event has an earlier `created_at` than the previous durable event on the same connection."""
    before, created_at = stream.created_at, event.created_at
    if before is None or created_at is None:
        return None
    if created_at >= before:
        return LOST_EVENTS if stream.has_gap else HELD
    wanted = f"a `created_at` that is not earlier than that of the previous event, {before.isoformat()}"
    return problem(f"Expected {wanted}, got {created_at.isoformat()}.")


@check(EVENT, shapes={Shape.DURABLE})
def capture_began_mid_session(event: SessionEvent, stream: StreamState) -> Outcome:
    """The recording does not contain the beginning of a session.

    The first recorded durable event is not the session's first event, or its connection was opened with a cursor.
    """
    session = stream.session
    if session.first_event is not event or session.was_dropped:
        return None
    wanted = "the session to be recorded from its first event"
    if stream.cursor is not None:
        return problem(f"Expected {wanted}, got a connection opened with a cursor.")
    if session.began_earlier:
        return problem(f"Expected {wanted}, got sequence {format_number(event.sequence or 0)} first.")
    return HELD
