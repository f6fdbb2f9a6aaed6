"""EVT: the JSON of events, their types and their fields."""

from wiretape.contract.json_types import RequiredFields
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
from wiretape.rules.finding import describe, quote
from wiretape_contracts.agent_sessions import EVENT_TYPES, TOOL_STARTED
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.stream_state import StreamState

_SUMMARY = ("tool_call_id", "name")
_TOOL_STARTED = RequiredFields(
    {
        "/content": "object",
        "/content/tool_call_id": "string",
        "/content/name": "string",
        "/content/input": "object",
        "/data": "object",
        "/data/tool_call_id": "string",
        "/data/name": "string",
    }
)

object_check = check(EVENT, fast_path=True, shapes=WITH_OBJECT)


@object_check
def event_name_disagrees(event: SessionEvent, _stream: StreamState) -> Outcome:
    """The `event` line differs from the JSON `type`, or the JSON has no `type`."""
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
def content_malformed(event: SessionEvent, _stream: StreamState) -> Outcome:
    """The `content` of a durable event is neither an object nor an array of objects."""
    content = event.document.get("content", ...)
    if content is ...:
        return None
    blocks = content if type(content) is list else []
    at = next((index for index, block in enumerate(blocks) if type(block) is not dict), None)
    if at is not None:
        got = f"an array with {describe(blocks[at])} at index {at}"
    elif type(content) in {dict, list}:
        return HELD
    else:
        got = describe(content)
    return problem(f"Expected an object or an array of objects as `content`, got {got}.")


@check(EVENT, fast_path=True, shapes={Shape.DURABLE}, types={TOOL_STARTED})
def tool_started_malformed(event: SessionEvent, stream: StreamState) -> Outcome:
    """A field in the `content` or `data` of a `tool.started` event is missing or has the wrong type.

    There is one finding per field.
    """
    has_content = content_malformed.function(event, stream) is HELD
    return [
        Problem(f"Expected {wanted} as `{name}`, got {describe(value)}.")
        for name, wanted, value in _TOOL_STARTED.find_unfit(event.document)
        # EVT004 and EVT006 report the others.
        if "." in name or (name == "content" and has_content)
    ]


@check(EVENT, shapes={Shape.DURABLE}, types={TOOL_STARTED})
def tool_summary_disagrees(event: SessionEvent, _stream: StreamState) -> Outcome:
    """In a `tool.started` event, `data` and `content` name different tool calls or different tools.

    There is one finding per field.
    """
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
