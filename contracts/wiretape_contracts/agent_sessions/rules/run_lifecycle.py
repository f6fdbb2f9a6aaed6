"""RUN: the runs of a session.

`wiretape_contracts.agent_sessions.state.runs` explains when it is proven that a run has not ended.
"""

from wiretape.event import Shape
from wiretape.rules.catalogue import (
    DROPPED_STATE,
    ERROR_RESPONSE,
    EVENT,
    HELD,
    UNKNOWN_ORDER,
    UNKNOWN_RUN,
    WITH_OBJECT,
    Later,
    Outcome,
    check,
    problem,
)
from wiretape.rules.finding import quote
from wiretape_contracts.agent_sessions import (
    RUN_NOT_CANCELLABLE,
    RUN_STARTED,
    SESSION_BUSY,
    STATUS_IDLE,
    TERMINAL_RUN_TYPES,
)
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.exchange_state import ExchangeState
from wiretape_contracts.agent_sessions.state.runs import RUN_EVENT_TYPES, Overlap, Run
from wiretape_contracts.agent_sessions.state.service_body import ErrorBody
from wiretape_contracts.agent_sessions.state.session_state import OVERLAP, SessionState
from wiretape_contracts.agent_sessions.state.stream_state import StreamState

GRACE_NS = 2_000_000_000
"""Two observations on different exchanges count as ordered only if they are at least this far apart."""


@check(OVERLAP)
def find_proven_start(overlap: Overlap, _session: SessionState) -> Outcome:
    """A later event shows that a run was active when another one started."""
    return None if overlap.started is None else _two_runs(overlap.active, overlap.started)


def _two_runs(active: str, started: str) -> Outcome:
    message = f"Expected the end of run {quote(active)} first, got the start of run {quote(started)}."
    return problem(message, subject=started)


@check(EVENT, shapes=WITH_OBJECT, types={RUN_STARTED})
def two_active_runs(event: SessionEvent, stream: StreamState) -> Outcome:
    """A run starts while another run of the session is active.

    If only a later event shows that the other run was still active, the finding is reported when that event arrives.
    """
    run_id = event.run_id
    if run_id is None or not stream.arrival.is_current:
        return None
    run = stream.session.runs.runs.get(run_id)
    if stream.arrival.overlapping is not None:
        return _two_runs(stream.arrival.overlapping, run_id)
    if not stream.arrival.is_new or (run is not None and run.started_ns is not None):
        return None
    return UNKNOWN_RUN if _may_have_active_run(stream) else HELD


def _may_have_active_run(stream: StreamState) -> bool:
    """Whether the end of some run of the session was not seen."""
    return any(run.is_active for run in stream.session.runs.runs.values())


@check(EVENT, shapes=WITH_OBJECT, steady=True, types=RUN_EVENT_TYPES - TERMINAL_RUN_TYPES)
def event_after_run_ended(event: SessionEvent, stream: StreamState) -> Outcome:
    """A new event of a run arrives after the run has ended.

    There is one finding per run.  The rule ignores events of the types `session.*`, `stream.*` and `sandbox.*`.  It
    also ignores the outcome of a tool call after `run.cancelled`, because tools that were running may still end.  On a
    connection on which the run did not start, it ignores deltas, because they can be repeated after a reconnect.
    """
    run_id = event.run_id
    if run_id is None:
        return None
    arrival, runs = stream.arrival, stream.runs
    if event.is_durable and not arrival.is_new and not (run_id in runs.ended and arrival.is_current):
        return None
    is_after_end = arrival.is_after_end if event.is_durable else runs.is_after_end(event, run_id)
    if not is_after_end:
        return UNKNOWN_RUN if is_after_end is None else HELD
    run = stream.session.runs.runs.get(run_id)
    if run is None:
        return None
    message = f"Expected no event of run {quote(run_id)} after its {run.ended_type}, got a `{event.type}` event."
    return problem(message, subject=run_id)


@check(EVENT, shapes={Shape.DURABLE}, types=TERMINAL_RUN_TYPES)
def run_ended_twice(event: SessionEvent, stream: StreamState) -> Outcome:
    """A run has a second terminal event with a different id."""
    run_id = event.run_id
    if run_id is None or event.cursor is None or not stream.arrival.is_new:
        return None
    run = stream.session.runs.runs.get(run_id)
    if run is None or run.ended_ns is None:
        return DROPPED_STATE if run is None and stream.session.runs.dropped_runs else HELD
    if run.ended_id is None:
        return None
    first = f"{run.ended_type} {quote(run.ended_id)}"
    return problem(f"Expected no end of run {quote(run_id)} after {first}, got {event.type} {quote(event.cursor)}.")


@check(OVERLAP)
def find_proven_idle(overlap: Overlap, _session: SessionState) -> Outcome:
    """A later event shows that a run was active when the session was announced as idle."""
    return _active_when_idle(overlap.active) if overlap.started is None else None


def _active_when_idle(active: str) -> Outcome:
    return problem(f"Expected the end of run {quote(active)} before {STATUS_IDLE}, got none.", subject=active)


@check(EVENT, shapes=WITH_OBJECT, types={STATUS_IDLE})
def idle_with_active_run(_event: SessionEvent, stream: StreamState) -> Outcome:
    """`session.status_idle` arrives while a run is active.

    There is one finding per run.  If only a later event shows that the run was still active, the finding is reported
    when that event arrives; its location is the `session.status_idle` event.
    """
    if not stream.arrival.is_current:
        return None
    if stream.runs.active:
        return _active_when_idle(next(iter(stream.runs.active)))
    if not stream.arrival.is_new:
        return None
    return UNKNOWN_RUN if _may_have_active_run(stream) else HELD


@check(EVENT, shapes=WITH_OBJECT, types={RUN_STARTED})
def event_before_run_started(event: SessionEvent, stream: StreamState) -> Outcome:
    """In a session that was recorded from its first event, an event of a run arrives before the run starts."""
    run_id, session = event.run_id, stream.session
    if run_id is None or not session.is_from_start or not stream.arrival.is_current:
        return None
    run = session.runs.runs.get(run_id)
    early = stream.runs.find_early_event(event, run_id, whole=stream.shows_whole_session)
    if run is not None and early is not None:
        wanted = f"{RUN_STARTED} as the first event of run {quote(run_id)}"
        return problem(f"Expected {wanted}, got a different event.", early, subject=run_id)
    if not stream.arrival.is_new or (run is not None and run.started_ns is not None):
        return None
    return HELD if run is None or run.early_location is None or stream.shows_whole_session else UNKNOWN_ORDER


def _is_cancel(_body: ErrorBody, exchange: ExchangeState) -> bool:
    return exchange.is_cancel


@check(ERROR_RESPONSE, when=_is_cancel, codes={RUN_NOT_CANCELLABLE})
def active_run_not_cancellable(_body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """The service refuses to cancel a run that started at least 2 s earlier and has not ended 2 s later."""
    run_id, session, run = exchange.run_id, exchange.session, exchange.run
    if run_id is None or session is None:
        return None
    if run is None or (run.started_ns is None and run.ended_ns is None):
        return UNKNOWN_RUN
    if run.ended_ns is not None:
        return HELD
    if run.started_ns is None or run.started_ns + GRACE_NS >= exchange.request.time_ns:
        return None
    streams = [stream for stream in session.streams if run_id in stream.runs.active]
    return _decide_after_grace(run, run_id, exchange.ended_ns + GRACE_NS, streams)


def _decide_after_grace(run: Run, run_id: str, due_ns: int, streams: list[StreamState]) -> Outcome:
    """Wait whether the run ends; that it does not is known only from the streams that show it as active."""

    def decide(now_ns: int) -> Outcome:
        if run.ended_ns is not None and run.ended_ns <= due_ns:
            return HELD
        is_watched = any(stream.gone_ns is None or stream.gone_ns > due_ns for stream in streams)
        if now_ns < due_ns or not is_watched:
            return UNKNOWN_RUN
        return problem(f"Expected run {quote(run_id)} to be cancellable while it is active, got {RUN_NOT_CANCELLABLE}.")

    return Later(due_ns, decide)


@check(ERROR_RESPONSE, codes={SESSION_BUSY})
def busy_with_ended_run(body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """The service reports `SESSION_BUSY` because of a run that ended more than 2 s before the request.

    The rule applies to every request that is refused with `SESSION_BUSY`, whatever its path.
    """
    run_id = (body.envelope or {}).get("active_run_id")
    if type(run_id) is not str:
        return None
    request = exchange.request
    session = exchange.sessions.find_by_run(run_id, request.authority, request.target)
    run = session.runs.runs.get(run_id) if session is not None else None
    if run is None:
        return UNKNOWN_RUN
    if run.ended_ns is None or run.ended_ns + GRACE_NS >= request.time_ns:
        return HELD
    seconds = (request.time_ns - run.ended_ns) / 1e9
    return problem(
        f"Expected run {quote(run_id)} not to be active after its {run.ended_type}, "
        f"got {SESSION_BUSY} {seconds:.1f} s later."
    )
