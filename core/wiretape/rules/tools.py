"""TOOL: the life of one tool call, whose events share one `tool_call_id`."""

from wiretape.contract import TERMINAL_RUN_TYPES, TOOL_TYPES
from wiretape.rules.catalogue import HELD, MESSAGE, Basis, Outcome, Problem, Scope, limited, problem, rule
from wiretape.rules.doubts import FORGOTTEN, UNSEEN_CALL
from wiretape.rules.facts import OUTCOME_TYPES, TOOL_STARTED, call_ids, run_of
from wiretape.rules.finding import Severity
from wiretape.rules.message import Message, Shape
from wiretape.rules.state import Stream
from wiretape.rules.words import quoted
from wiretape.rules.work import disagreement

_STORED_OR_NOT = frozenset({Shape.EPHEMERAL, Shape.DURABLE})
_LIFE = frozenset(TOOL_TYPES)
_RUN_COMPLETED = next(name for name in TERMINAL_RUN_TYPES if name.endswith("completed"))
_SHARED_ID = 'Events 5: "Tool lifecycle events … of one call share one `tool_call_id`."'


@rule("TOOL001", "missing-tool-call-id", at=MESSAGE, shapes=_STORED_OR_NOT, types=_LIFE, clause=_SHARED_ID)
def missing_tool_call_id(message: Message, _stream: Stream) -> Outcome:
    """A tool lifecycle event has a string `tool_call_id` neither in `content` nor in `data`."""
    if call_ids(message):
        return HELD
    if message.type == TOOL_STARTED:
        # That is EVT007.
        return None
    return problem(f"Expected a string `tool_call_id` in `content` or `data` of a {message.type}, got none.")


@rule(
    "TOOL002",
    "end-without-start",
    at=MESSAGE,
    shapes=_STORED_OR_NOT,
    types=OUTCOME_TYPES,
    severity=Severity.WARNING,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause=_SHARED_ID,
)
def end_without_start(message: Message, stream: Stream) -> Outcome:
    """A tool call ends that never started, in a session recorded from its first event."""
    course, ids = stream.course, call_ids(message)
    if not ids or not course.is_new(message) or not course.past.from_start:
        return None
    work = course.past.work
    calls = [call for call in map(work.calls.get, ids) if call is not None]
    if any(call.started for call in calls):
        return HELD
    if any(call.ended for call in calls):
        return None
    run = work.runs.get(run_of(message) or "")
    if not course.is_whole or work.calls_forgotten or (run is not None and run.unclear):
        return UNSEEN_CALL
    return problem(f"Expected the start of call {quoted(ids[0])} before its end, got a {message.type} only.")


@rule(
    "TOOL003",
    "ended-twice",
    at=MESSAGE,
    shapes=frozenset({Shape.DURABLE}),
    types=OUTCOME_TYPES,
    severity=Severity.WARNING,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause=_SHARED_ID,
)
def ended_twice(message: Message, stream: Stream) -> Outcome:
    """A tool call has two outcomes, with different ids."""
    course, ids = stream.course, call_ids(message)
    if not ids or message.id is None or not course.is_new(message):
        return None
    call = course.past.work.calls.get(ids[0])
    if call is None or not call.ended:
        return FORGOTTEN if call is None and course.past.work.calls_forgotten else HELD
    if call.outcome_id is None:
        return None
    first = f"Expected {quoted(call.outcome_id)} to be the only outcome of call {quoted(ids[0])}"
    return problem(f"{first}, got {message.type} {quoted(message.id)}.")


@rule(
    "TOOL004",
    "call-changed",
    at=MESSAGE,
    shapes=_STORED_OR_NOT,
    types=_LIFE,
    severity=Severity.WARNING,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause=_SHARED_ID,
)
def call_changed(message: Message, stream: Stream) -> Outcome:
    """Events of one tool call disagree on the name of the tool or on the run.  One finding a call."""
    course, ids = stream.course, call_ids(message)
    call = course.past.work.calls.get(ids[0]) if ids else None
    if call is None or call.changed or not course.is_new(message):
        return None
    changed = disagreement(call, message)
    if changed is None:
        return HELD
    what, before, now = changed
    return problem(f"Expected the {what} {quoted(before)} for call {quoted(ids[0])}, got {quoted(now)}.")


@rule(
    "TOOL005",
    "call-left-open",
    at=MESSAGE,
    shapes=_STORED_OR_NOT,
    types=frozenset({_RUN_COMPLETED}),
    severity=Severity.NOTE,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause='Event types: "tool.completed | A tool call completed.", "tool.failed | A tool call failed."',
)
def call_left_open(message: Message, stream: Stream) -> Outcome:
    """A run completes, and a tool call of it has no outcome."""
    course, run_id = stream.course, run_of(message)
    run = course.past.work.runs.get(run_id or "")
    if run is None or not run.called or run.ended_ns is not None or not course.is_new(message):
        return None
    if not run.calls:
        return HELD
    seen = all(call.exchange == course.exchange for call in run.calls.values())
    if run.unclear or not seen or not course.runs.live or not course.is_clear:
        return UNSEEN_CALL
    left = f"before {_RUN_COMPLETED} of run {quoted(run_id or '')}, got none"
    return limited([Problem(f"Expected an outcome of call {quoted(call)} {left}.") for call in run.calls], "calls")
