"""TOOL: the lifecycle of a tool call, whose events share one `tool_call_id`."""

from wiretape.event import Shape
from wiretape.rules.catalogue import (
    DROPPED_STATE,
    EVENT,
    HELD,
    NOT_DELTA,
    UNKNOWN_CALL,
    Outcome,
    Problem,
    check,
    problem,
)
from wiretape.rules.finding import quote
from wiretape_contracts.agent_sessions import RUN_COMPLETED, TOOL_TYPES
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.runs import OUTCOME_TYPES
from wiretape_contracts.agent_sessions.state.stream_state import StreamState


@check(EVENT, shapes=NOT_DELTA, types=TOOL_TYPES)
def missing_tool_call_id(event: SessionEvent, _stream: StreamState) -> Outcome:
    """A tool lifecycle event has no string `tool_call_id` in `content` or `data`."""
    if event.tool_call_ids:
        return HELD
    message = f"Expected a string `tool_call_id` in `content` or `data` of the `{event.type}` event, got none."
    return problem(message, subject=event.type)


@check(EVENT, shapes=NOT_DELTA, types=OUTCOME_TYPES)
def end_without_start(event: SessionEvent, stream: StreamState) -> Outcome:
    """A tool call ends without having started, in a session or run that was recorded from its beginning."""
    session, runs, ids = stream.session, stream.runs, event.tool_call_ids
    if not ids or not stream.arrival.is_current:
        return None
    calls = [call for call in map(session.runs.calls.get, ids) if call is not None]
    if runs.may_lack_start(event) and (event.run_id in runs.complete or stream.shows_whole_session):
        message = f"Expected the start of tool call {quote(ids[0])} before its end, got only a `{event.type}` event."
        return problem(message, subject=ids[0])
    if not stream.arrival.is_new or not session.is_from_start:
        return None
    if any(call.started for call in calls):
        return HELD
    return None if any(call.ended for call in calls) else UNKNOWN_CALL


@check(EVENT, shapes={Shape.DURABLE}, types=OUTCOME_TYPES)
def ended_twice(event: SessionEvent, stream: StreamState) -> Outcome:
    """A tool call has two outcomes with different ids."""
    runs, ids = stream.session.runs, event.tool_call_ids
    if not ids or event.cursor is None or not stream.arrival.is_new:
        return None
    call = runs.calls.get(ids[0])
    if call is None or not call.ended:
        return DROPPED_STATE if call is None and runs.dropped_calls else HELD
    if call.outcome_id is None:
        return None
    wanted = f"{quote(call.outcome_id)} to be the only outcome of tool call {quote(ids[0])}"
    return problem(f"Expected {wanted}, got {event.type} {quote(event.cursor)}.")


@check(EVENT, shapes=NOT_DELTA, types=TOOL_TYPES)
def call_changed(event: SessionEvent, stream: StreamState) -> Outcome:
    """The events of one tool call name different tools or different runs.

    There is one finding per call.
    """
    ids = event.tool_call_ids
    call = stream.session.runs.calls.get(ids[0]) if ids else None
    if call is None or call.id != ids[0] or not stream.arrival.is_new:
        # If the call has another id, EVT008 has reported that.
        return None
    for noun, before, now in (("tool name", call.name, event.tool_name), ("run", call.run_id, event.run_id)):
        if before is not None and now is not None and before != now:
            message = f"Expected the {noun} {quote(before)} for tool call {quote(ids[0])}, got {quote(now)}."
            return problem(message, subject=ids[0])
    return HELD


@check(EVENT, shapes=NOT_DELTA, types={RUN_COMPLETED})
def call_left_open(event: SessionEvent, stream: StreamState) -> Outcome:
    """A run completes while one of its tool calls has no outcome."""
    run_id = event.run_id
    if run_id is None or not stream.arrival.is_current or run_id in stream.runs.ended:
        return None
    runs = stream.session.runs
    left_open = stream.runs.open_calls(run_id)
    if left_open:
        end = f"before {RUN_COMPLETED} of run {quote(run_id)}"
        return [
            Problem(f"Expected an outcome of tool call {quote(call_id)} {end}, got none.", subject=call_id)
            for call_id in left_open
        ]
    run = runs.runs.get(run_id)
    if run is None or not run.called_tools or run.ended_ns is not None or not stream.arrival.is_new:
        return None
    return UNKNOWN_CALL if run.open_calls else HELD
