"""EVT: the JSON of events, their types and their fields."""

import re
from calendar import isleap
from datetime import date

from wiretape.agent_sessions import EVENT_TYPES
from wiretape.agent_sessions.schemas import EVENT_SCHEMAS, NO_SCHEMA_ERRORS, Violation
from wiretape.agent_sessions.session_event import SessionEvent as Event
from wiretape.event import Shape
from wiretape.json_codec import UnreadableJson, find_repeated_keys
from wiretape.rules.catalogue import (
    COMPLEX_JSON,
    EVENT,
    HELD,
    WITH_DATA,
    WITH_OBJECT,
    Outcome,
    Problem,
    check,
    problem,
)
from wiretape.rules.finding import describe, describe_violation, quote
from wiretape.rules.state.stream_state import StreamState

_SUMMARY = ("tool_call_id", "name")

_FRACTION = r"(?:[.,][0-9]+)?"
_HOUR, _MINUTE, _SECOND = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]", "(?:[0-5][0-9]|60)"
_TIME = (
    rf"(?:{_HOUR}(?::{_MINUTE}(?::{_SECOND})?|{_MINUTE}(?:{_SECOND})?)?{_FRACTION}"
    r"|24(?::00(?::00)?|00(?:00)?)?(?:[.,]0+)?)"
)
_DATE = r"[0-9]{4}-?(?:[0-9]{2}-?[0-9]{2}|W[0-9]{2}-?[1-7])"
_ORDINAL_DATE = r"([0-9]{4})-?([0-9]{3})"
_TIMESTAMP = re.compile(rf"(?:({_DATE})|{_ORDINAL_DATE})[Tt]{_TIME}(?:[Zz]|\+00(?::?00)?)")
_COMMON_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|\+00:00)")

object_check = check(EVENT, fast_path=True, shapes=WITH_OBJECT)
durable_check = check(EVENT, shapes={Shape.DURABLE})


@check(EVENT, fast_path=True, shapes=WITH_DATA)
def data_not_one_json_object(event: Event, _stream: StreamState) -> Outcome:
    """The data of an event is not exactly one JSON object."""
    if event.shape is not Shape.NO_OBJECT:
        return HELD
    if event.value is UnreadableJson.TOO_COMPLEX:
        return COMPLEX_JSON
    return problem(f"Expected one JSON object as data, got {_describe_data(event)}.")


def _describe_data(event: Event) -> str:
    if event.value is UnreadableJson.NOT_AN_OBJECT:
        return "text that does not begin with `{`"
    if event.value is not UnreadableJson.NOT_JSON:
        return describe(event.value)
    return "text that is not JSON" if event.data else "an empty `data` line"


@object_check
def unknown_event_type(event: Event, _stream: StreamState) -> Outcome:
    """The JSON `type` is not one of the event types."""
    name = event.type
    if name in EVENT_TYPES:
        return HELD
    if type(event.document.get("type")) is not str or event.is_damaged(name):
        return None
    return problem(f"Expected an event type of the specification, got {quote(name)}.")


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
def durable_field_malformed(event: Event, _stream: StreamState) -> Outcome:
    """A durable event lacks a field, or has one of the wrong JSON type.  One finding per field.

    A sequence with a fraction, even 1.0, is not an integer.
    """
    if event.find_schema_errors() is NO_SCHEMA_ERRORS and event.sequence is not None:
        return HELD
    found = {str(violation.path[0]): violation for violation in event.find_schema_errors().general}
    sequence = event.document.get("sequence", ...)
    if type(sequence) is float and event.sequence is None:
        found.setdefault("sequence", Violation(("sequence",), "an integer", sequence))
    return [Problem(describe_violation(violation), subject=name) for name, violation in found.items()]


@durable_check
def created_at_not_utc(event: Event, _stream: StreamState) -> Outcome:
    """The `created_at` of a durable event is not an ISO 8601 timestamp in UTC, with `Z` or `+00:00`."""
    created_at = event.document.get("created_at")
    if type(created_at) is not str:
        return None
    if (event.created_at is not None and _COMMON_TIMESTAMP.fullmatch(created_at)) or is_utc_timestamp(created_at):
        return HELD
    if event.is_damaged(created_at):
        return None
    return problem(f"Expected an ISO 8601 timestamp in UTC as `created_at`, got {quote(created_at)}.")


def is_utc_timestamp(text: str) -> bool:
    """Whether a text is an ISO 8601 timestamp in UTC.

    Accepts every form: basic ones, dates by week or by day of the year, fractions of any length, leap seconds,
    midnight as 24:00, and `t` and `z` as in RFC 3339; but not a space instead of the `T`.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return False
    day, year, day_of_year = found.groups()
    if day is None:
        return 1 <= int(day_of_year) <= 365 + isleap(int(year))
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True


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
def wrong_session(event: Event, stream: StreamState) -> Outcome:
    """The `session_id` of a durable event is not the session in the path of the request."""
    session = event.document.get("session_id")
    if type(session) is not str:
        return None
    if session == stream.session.id:
        return HELD
    if event.is_damaged(session):
        return None
    return problem(f"Expected {quote(stream.session.id)}, the session of the request, got {quote(session)}.")


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


@check(EVENT, fast_path=True, shapes={Shape.DELTA})
def ephemeral_malformed(event: Event, _stream: StreamState) -> Outcome:
    """A delta lacks a field or has one of the wrong type; a `message.delta` also needs `delta.text`.

    One finding per field.
    """
    errors = event.find_schema_errors()
    # DUR005 is about the sequence, and accepts null as none.
    return [
        Problem(describe_violation(violation), subject=violation.path[0])
        for violation in (*errors.general, *errors.specific)
        if violation.path[0] != "sequence"
    ]


@object_check
def duplicate_json_key(event: Event, _stream: StreamState) -> Outcome:
    """The JSON object repeats a key at its top level; parsers differ in which value they use."""
    keys = find_repeated_keys(event.data, event.document)
    if keys is None:
        return COMPLEX_JSON
    return [Problem(f"Expected the key {quote(key)} once, got it more than once.") for key in keys]
