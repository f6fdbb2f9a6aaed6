"""RUN: the runs of a session, one after the other.

What is decided here only where it is proven is said in `wiretape.rules.progress`.
"""

from wiretape.contract import CANCEL, RUN_NOT_CANCELLABLE, RUN_STARTED, SESSION_BUSY, STATUS_IDLE, TERMINAL_RUN_TYPES
from wiretape.rules.answer import Answer
from wiretape.rules.catalogue import (
    ERROR_ANSWER,
    HELD,
    MESSAGE,
    Basis,
    Later,
    Outcome,
    Scope,
    problem,
    rule,
)
from wiretape.rules.course import Course
from wiretape.rules.doubts import CUT, FORGOTTEN, UNORDERED, UNSEEN_RUN
from wiretape.rules.facts import OF_A_RUN, run_of
from wiretape.rules.finding import Severity
from wiretape.rules.message import Message, Shape
from wiretape.rules.state import ExchangeState, Stream
from wiretape.rules.words import quoted
from wiretape.rules.work import Run

GRACE_NS = 2_000_000_000
"""How far apart in time two things have to be seen, at least, to be in order."""

_EVENT = frozenset({Shape.EPHEMERAL, Shape.DELTA, Shape.DURABLE})
_ONE_RUN = 'What the service does: "Only one run per session may be active at a time."'


@rule(
    "RUN001",
    "two-active-runs",
    at=MESSAGE,
    shapes=_EVENT,
    types=frozenset({RUN_STARTED}),
    scope=Scope.SESSION,
    clause=_ONE_RUN,
)
def two_active_runs(message: Message, stream: Stream) -> Outcome:
    """A run starts while another one of the session has started and not ended."""
    course, run_id = stream.course, run_of(message)
    runs = course.past.work.runs
    if run_id is None or not course.is_new(message) or ((run := runs.get(run_id)) and run.started_ns is not None):
        return None
    active = [other for other, run in course.runs.active.items() if run.ended_ns is None]
    if active:
        return problem(f"Expected the end of run {quoted(active[0])} first, got the start of {quoted(run_id)}.")
    return UNSEEN_RUN if _any_active(course) else HELD


def _any_active(course: Course) -> bool:
    """Whether a run may be active, for it was not seen to end."""
    return any(run.is_active for run in course.past.work.runs.values())


@rule(
    "RUN002",
    "event-after-run-ended",
    at=MESSAGE,
    shapes=_EVENT,
    types=OF_A_RUN - TERMINAL_RUN_TYPES,
    severity=Severity.WARNING,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause='States: "Run | terminal | The run has ended (completed, failed or cancelled)."',
)
def event_after_run_ended(message: Message, stream: Stream) -> Outcome:
    """An event of a run comes after the run's end, and is not a replay.  One finding a run.

    Not the outcome of a tool call after `run.cancelled`, and not `sandbox.*`, `session.*` and `stream.*`.  A delta only
    on the connection on which the run began, for deltas can repeat after a reconnect.
    """
    course = stream.course
    run_id = message.document.get("run_id")
    if type(run_id) is not str:
        return None
    if message.shape is not Shape.DURABLE:
        if run_id not in course.runs.ended:
            return HELD
    elif not course.is_new(message):
        return None
    stray = course.runs.is_stray(message, run_id)
    if not stray:
        return UNSEEN_RUN if stray is None else HELD
    run = course.past.work.runs.get(run_id)
    if run is None or run.stray:
        return None
    return problem(f"Expected no event of run {quoted(run_id)} after its {run.ended_type}, got a {message.type}.")


@rule(
    "RUN003",
    "run-ended-twice",
    at=MESSAGE,
    shapes=frozenset({Shape.DURABLE}),
    types=TERMINAL_RUN_TYPES,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause='States: "Run | terminal | The run has ended (completed, failed or cancelled)."',
)
def run_ended_twice(message: Message, stream: Stream) -> Outcome:
    """A run gets a second terminal event, with another id."""
    course, run_id = stream.course, run_of(message)
    if run_id is None or message.id is None or not course.is_new(message):
        return None
    run = course.past.work.runs.get(run_id)
    if run is None or run.ended_ns is None:
        return FORGOTTEN if run is None and course.past.work.runs_forgotten else HELD
    if run.ended_id is None:
        return None
    first = f"{run.ended_type} {quoted(run.ended_id)}"
    return problem(f"Expected {first} to be the end of run {quoted(run_id)}, got {message.type} {quoted(message.id)}.")


@rule(
    "RUN004",
    "idle-with-active-run",
    at=MESSAGE,
    shapes=_EVENT,
    types=frozenset({STATUS_IDLE}),
    scope=Scope.SESSION,
    clause='States: "Session | idle | No active run; announced by event `session.status_idle`."',
)
def idle_with_active_run(message: Message, stream: Stream) -> Outcome:
    """The session is called idle while a run that was seen to start has not ended."""
    course = stream.course
    if not course.is_new(message):
        return None
    active = [run_id for run_id, run in course.runs.active.items() if run.ended_ns is None and not run.idled]
    if active:
        return problem(f"Expected the end of run {quoted(active[0])} before {STATUS_IDLE}, got none.")
    return UNSEEN_RUN if _any_active(course) else HELD


@rule(
    "RUN005",
    "event-before-run-started",
    at=MESSAGE,
    shapes=_EVENT,
    types=frozenset({RUN_STARTED}),
    severity=Severity.NOTE,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause='Event types: "run.started | A worker started the run."',
)
def event_before_run_started(message: Message, stream: Stream) -> Outcome:
    """An event of a run comes before its `run.started`, in a session recorded from its first event."""
    course, run_id = stream.course, run_of(message)
    if run_id is None or not course.past.from_start or not course.is_new(message):
        return None
    run = course.past.work.runs.get(run_id)
    if run is None or run.early is None:
        return HELD if run is None or run.started_ns is None else None
    if run.started_ns is not None:
        return None
    if not _is_before(run, message, course):
        return UNORDERED
    return problem(f"Expected {RUN_STARTED} as the first event of run {quoted(run_id)}, got this one.", run.early)


def _is_before(run: Run, message: Message, course: Course) -> bool:
    """Whether the early event of a run is certain to stand before this message."""
    if run.early_sequence is not None and message.sequence is not None:
        return run.early_sequence < message.sequence
    return run.early is not None and run.early.exchange == course.exchange


@rule(
    "RUN006",
    "active-run-not-cancellable",
    at=ERROR_ANSWER,
    severity=Severity.WARNING,
    scope=Scope.SESSION,
    clause='States 2: "Cancelling a run that is already terminal fails with `RUN_NOT_CANCELLABLE`."',
)
def active_run_not_cancellable(answer: Answer, exchange: ExchangeState) -> Outcome:
    """The service refuses to cancel a run that started 2 s before, or earlier, and has not ended 2 s after."""
    match, session = exchange.match, exchange.session
    if match is None or match.operation is not CANCEL or session is None or match.run_id is None:
        return None
    if not answer.whole:
        return CUT
    if answer.code != RUN_NOT_CANCELLABLE:
        return None
    run = session.past.work.runs.get(match.run_id)
    if run is None or (run.started_ns is None and run.ended_ns is None):
        return UNSEEN_RUN
    if run.ended_ns is not None:
        return HELD
    if run.started_ns is None or run.started_ns + GRACE_NS >= exchange.request.time_ns:
        return None
    return _wait_for_end(run, match.run_id, exchange)


def _wait_for_end(run: Run, run_id: str, exchange: ExchangeState) -> Outcome:
    """Whether the run ends within the grace; that it does not is known only where a stream shows it as active."""
    courses = (
        [course for course in exchange.session.courses if run_id in course.runs.active] if exchange.session else []
    )
    due_ns = exchange.last_ns + GRACE_NS

    def decide(now_ns: int) -> Outcome:
        if run.ended_ns is not None and run.ended_ns <= due_ns:
            return HELD
        watched = any(course.gone_ns is None or course.gone_ns > due_ns for course in courses)
        if now_ns < due_ns or not watched:
            return UNSEEN_RUN
        return problem(
            f"Expected run {quoted(run_id)} to be cancellable while it is active, got {RUN_NOT_CANCELLABLE}."
        )

    return Later(due_ns, decide)


@rule(
    "RUN007",
    "busy-with-ended-run",
    at=ERROR_ANSWER,
    severity=Severity.WARNING,
    scope=Scope.SESSION,
    clause=f'States 1: "A session with an active run … refuses a new run with HTTP 409 `{SESSION_BUSY}`."',
)
def busy_with_ended_run(answer: Answer, exchange: ExchangeState) -> Outcome:
    """The service calls a run active whose end was seen more than 2 s before the request.  Whatever its path."""
    if not answer.whole:
        return CUT
    run_id = (answer.envelope or {}).get("active_run_id")
    if answer.code != SESSION_BUSY or type(run_id) is not str:
        return None
    request = exchange.request
    session = exchange.sessions.of_run(run_id, request.authority, request.target)
    run = session.past.work.runs.get(run_id) if session is not None else None
    if run is None:
        return UNSEEN_RUN
    if run.ended_ns is None:
        return HELD
    seconds = (request.time_ns - run.ended_ns) / 1e9
    if run.ended_ns + GRACE_NS >= request.time_ns:
        return HELD
    return problem(f"Expected run {quoted(run_id)} to block nothing {seconds:.1f} s after its {run.ended_type}.")
