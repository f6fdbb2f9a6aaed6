"""EVT: the JSON of events, their types and their fields."""

import re
from calendar import isleap
from datetime import date
from functools import partial

from wiretape.agent_sessions import EVENT_TYPES
from wiretape.agent_sessions.schemas import EVENT_SCHEMAS, NO_SCHEMA_ERRORS, Violation
from wiretape.event import Event, Shape
from wiretape.json_codec import UnreadableJson, find_repeated_keys
from wiretape.rules.catalogue import (
    COMPLEX_JSON,
    EVENT,
    HELD,
    WITH_DATA,
    WITH_OBJECT,
    Basis,
    Outcome,
    Problem,
    Scope,
    problem,
    rule,
)
from wiretape.rules.finding import Severity, describe, describe_violation, quote
from wiretape.rules.state.stream_state import StreamState

_IDENTITY = ("DUR001", "DUR002", "DUR003")
"""Rules that report an id and a sequence that do not belong together."""
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

object_rule = partial(rule, on=EVENT, fast_path=True, shapes=WITH_OBJECT)
durable_rule = partial(rule, on=EVENT, shapes={Shape.DURABLE})


@object_rule(
    "EVT001",
    "data-not-one-json-object",
    shapes=WITH_DATA,
    unless=["SSE001", "KAL002"],
    clause='Endpoints, stream response: "a `data:` line holding one JSON object"',
)
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


@object_rule(
    "EVT002",
    "unknown-event-type",
    unless=["KAL002"],
    clause='Durable event, type: "One of the event types in the Events part."',
)
def unknown_event_type(event: Event, _stream: StreamState) -> Outcome:
    """The JSON `type` is not one of the event types."""
    name = event.type
    if name in EVENT_TYPES:
        return HELD
    if type(event.document.get("type")) is not str or event.is_damaged(name):
        return None
    return problem(f"Expected an event type of the specification, got {quote(name)}.")


@object_rule(
    "EVT003",
    "event-name-disagrees",
    unless=["KAL002"],
    clause='Endpoints, stream response: "each message has an `event:` line naming the type"',
)
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


@object_rule(
    "EVT004",
    "durable-field-malformed",
    shapes={Shape.DURABLE},
    unless={"id": _IDENTITY, "sequence": _IDENTITY, "type": ["EVT003"], "content": ["EVT006"]},
    clause='Durable event: the table with the columns "Field", "Type", "Notes"',
)
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


@durable_rule("EVT005", "created-at-not-utc", clause='Durable event, created_at: "ISO 8601 UTC timestamp."')
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


@object_rule(
    "EVT006",
    "content-malformed",
    shapes={Shape.DURABLE},
    clause='Events 4: "Text event `content` is a list of blocks; structured event `content` is a JSON object."',
)
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


@object_rule(
    "EVT007",
    "tool-started-malformed",
    shapes={Shape.DURABLE},
    clause='tool.started: "content.tool_call_id | string", "content.input | object", "data.name | string"',
)
def tool_started_malformed(event: Event, _stream: StreamState) -> Outcome:
    """A `tool.started` event lacks a field of `content` or `data`, or has one of the wrong type.

    One finding per field.
    """
    if event.type not in EVENT_SCHEMAS:
        return None
    return [Problem(describe_violation(violation)) for violation in event.find_schema_errors().specific]


@durable_rule(
    "EVT008",
    "tool-summary-disagrees",
    types=EVENT_SCHEMAS,
    severity=Severity.WARNING,
    basis=Basis.INFERRED,
    clause='Durable event, data: "Short summary of the event."',
)
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


@durable_rule(
    "EVT009",
    "wrong-session",
    scope=Scope.STREAM,
    basis=Basis.INFERRED,
    clause='Endpoints: "Opens an SSE stream of the session\'s events."',
)
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


@durable_rule(
    "EVT010",
    "workspace-changed",
    scope=Scope.SESSION,
    once_per=Scope.SESSION,
    basis=Basis.INFERRED,
    clause='What the service does: "All data is scoped to a tenant and a workspace."',
)
def workspace_changed(event: Event, stream: StreamState) -> Outcome:
    """Durable events of one session have different `workspace_id`s.  One finding for each new workspace."""
    first, workspace = stream.session.workspace, event.workspace_of(stream.session.id)
    if workspace is None or first is None or event.is_damaged(workspace):
        return None
    if workspace == first:
        return HELD
    message = f"Expected {quote(first)}, the workspace of the earlier events, got {quote(workspace)}."
    return problem(message, subject=workspace)


@object_rule(
    "EVT011",
    "ephemeral-malformed",
    shapes={Shape.DELTA},
    unless={"type": ["EVT003"]},
    clause='Ephemeral event: "run_id | string", "delta | object | For `message.delta`: `delta.text`, …"',
)
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


@object_rule(
    "EVT012",
    "duplicate-json-key",
    severity=Severity.NOTE,
    basis=Basis.INFERRED,
    noun="keys",
    clause='Endpoints, stream response: "a `data:` line holding one JSON object"',
)
def duplicate_json_key(event: Event, _stream: StreamState) -> Outcome:
    """The JSON object repeats a key at its top level; parsers differ in which value they use."""
    keys = find_repeated_keys(event.data, event.document)
    if keys is None:
        return COMPLEX_JSON
    return [Problem(f"Expected the key {quote(key)} once, got it more than once.") for key in keys]
