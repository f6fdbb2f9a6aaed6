"""EVT: the JSON of events, their types and their fields."""

from wiretape.agent_sessions import EVENT_TYPES
from wiretape.agent_sessions.schemas import EVENT_SCHEMAS
from wiretape.agent_sessions.session_event import SessionEvent as Event
from wiretape.event import Shape
from wiretape.rules.catalogue import (
    EVENT,
    HELD,
    WITH_OBJECT,
    Outcome,
    Problem,
    check,
    problem,
)
from wiretape.rules.finding import describe, describe_violation, quote
from wiretape.rules.state.stream_state import StreamState

_SUMMARY = ("tool_call_id", "name")

object_check = check(EVENT, fast_path=True, shapes=WITH_OBJECT)
durable_check = check(EVENT, shapes={Shape.DURABLE})


@object_check
def event_name_disagrees(event: Event, _stream: StreamState) -> Outcome:
    """The `event` line does not name the JSON `type`, or there is no JSON `type`."""
    if event.event_line is None:
        return None
    name, in_json = event.name, event.document.get("type", ...)
    if name == in_json:
        return HELD
    if event.is_damaged(name) or event.is_damaged(event.type):
        return None
    if event.type in EVENT_TYPES and name not in EVENT_TYPES:
        return problem(f"Expected the JSON `type` {quote(event.type)} on the `event` line, got {quote(name)}.")
    got = describe(in_json)
    return problem(f"Expected {quote(name)}, the name on the `event` line, as JSON `type`, got {got}.")


@check(EVENT, fast_path=True, shapes={Shape.DURABLE})
def content_malformed(event: Event, _stream: StreamState) -> Outcome:
    """The `content` of a durable event is neither an object nor an array of objects."""
    if "content" not in event.document:
        return None
    wrong = [violation for violation in event.find_schema_errors().general if violation.path[0] == "content"]
    if not wrong:
        return HELD
    got = describe(wrong[0].got)
    if len(wrong[0].path) > 1:
        got = f"an array with {got} at index {wrong[0].path[1]}"
    return problem(f"Expected an object or an array of objects as `content`, got {got}.")


@check(EVENT, fast_path=True, shapes={Shape.DURABLE})
def tool_started_malformed(event: Event, _stream: StreamState) -> Outcome:
    """A `tool.started` event lacks a field of `content` or `data`, or has one of the wrong type.

    One finding per field.
    """
    if event.type not in EVENT_SCHEMAS:
        return None
    return [Problem(describe_violation(violation)) for violation in event.find_schema_errors().specific]


@check(EVENT, shapes={Shape.DURABLE}, types=EVENT_SCHEMAS)
def tool_summary_disagrees(event: Event, _stream: StreamState) -> Outcome:
    """`data` of a `tool.started` event names another tool call or tool than `content`.  One finding per field."""
    content, data = event.document.get("content"), event.document.get("data")
    if type(content) is not dict or type(data) is not dict:
        return None
    problems, compared = [], False
    for name in _SUMMARY:
        full, summary = content.get(name), data.get(name)
        if type(full) is str and type(summary) is str:
            compared = True
            if full != summary:
                message = f"Expected {quote(full)}, the value in `content`, as `data.{name}`, got {quote(summary)}."
                problems.append(Problem(message))
    return problems if compared else None


@durable_check
def workspace_changed(event: Event, stream: StreamState) -> Outcome:
    """Durable events of one session have different `workspace_id`s.  One finding for each new workspace."""
    first, workspace = stream.session.workspace, event.workspace_of(stream.session.id)
    if workspace is None or first is None or event.is_damaged(workspace):
        return None
    if workspace == first:
        return HELD
    message = f"Expected {quote(first)}, the workspace of the earlier events, got {quote(workspace)}."
    return problem(message, subject=workspace)
