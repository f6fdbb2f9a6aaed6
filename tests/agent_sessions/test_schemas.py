"""The schema files and the two validators that read them."""

import copy

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wiretape.agent_sessions import ENVELOPE_FIELDS, ERROR_CODES, EVENT_TYPES
from wiretape.agent_sessions.schemas import (
    DURABLE_EVENT,
    ERROR_SCHEMAS,
    EVENT_SCHEMAS,
    SCHEMAS,
    Violation,
    error_fields,
    has_own_details,
    is_closed,
)

DURABLE = {
    "id": "evt_1",
    "sequence": 1,
    "type": "tool.started",
    "workspace_id": "ws_1",
    "session_id": "ses_1",
    "run_id": "run_1",
    "created_at": "2025-01-01T00:00:00Z",
    "content": {"tool_call_id": "call_1", "name": "search", "input": {"query": "x"}},
    "data": {"tool_call_id": "call_1", "name": "search"},
}
BUSY = {"active_run_id": "run_1", "active_run_status": "waiting_for_input", "recovery": ["a", "b"]}
LIMITS = {"limit": 60, "window_seconds": 60, "retry_after": 7}


def envelope(code, **more):
    return {"error": {"code": code, "message": "It did not work.", "request_id": "req_1", **more}}


VALID = {
    "durable-event": DURABLE | {"content": [{"type": "text", "text": "Hi"}]},
    "tool-started": DURABLE,
    "ephemeral-event": {"type": "reasoning.delta", "run_id": "run_1", "delta": {}},
    "message-delta": {"type": "message.delta", "run_id": "run_1", "delta": {"text": "Hi"}},
    "error-envelope": envelope("invalid_request", details=[{"path": "input", "reason": "is missing"}]),
    "validation-details": [{"path": "input", "reason": "is missing"}, {"path": "", "reason": ""}],
    "session-busy": envelope("SESSION_BUSY", **BUSY),
    "rate-limited": envelope("RATE_LIMITED", details=LIMITS),
    "sandbox-provision-failed": envelope("SANDBOX_PROVISION_FAILED"),
}
ANY_TEXT = st.text(max_size=5)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1.0, -0.0, 2**64, 10**30])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)


def paths(value, path=()):
    """Yield the paths of all values within a value, including its own."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield from paths(item, (*path, key))


@st.composite
def documents(draw, name):
    """A valid document with up to three changes."""
    document = {"": copy.deepcopy(VALID[name])}
    for _ in range(draw(st.integers(0, 3))):
        *way, last = ("", *draw(st.sampled_from(list(paths(document[""])))))
        holder = document
        for step in way:
            holder = holder[step]
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "remove" if last != "":
                del holder[last]
            case "add" if isinstance(holder[last], dict):
                holder[last][draw(st.sampled_from(["sequence", "details", "hint"]) | ANY_TEXT)] = draw(JSON)
            case "add" if isinstance(holder[last], list):
                holder[last].append(draw(JSON))
            case _:
                holder[last] = draw(JSON)
    return document[""]


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_valid_json_schema(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name].document)
    assert SCHEMAS[name].document["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", SCHEMAS)
def test_both_validators_accept_a_valid_document(name):
    assert SCHEMAS[name].is_valid(VALID[name])
    assert SCHEMAS[name].explain(VALID[name]) == ()


@given(st.sampled_from(sorted(SCHEMAS)), st.data())
def test_the_fast_and_the_explaining_validator_agree(name, data):
    document = data.draw(documents(name))
    schema = SCHEMAS[name]
    violations = schema.explain(document)
    assert schema.is_valid(document) is (violations == ())
    assert schema.violations(document) == violations
    assert len({violation.path for violation in violations}) == len(violations)
    assert all(has_reported_value(document, violation) for violation in violations)


def has_reported_value(document, violation):
    """Whether the value that a violation reports is at its path."""
    for step in violation.path:
        if isinstance(document, dict) and step not in document:
            return violation.got is ...
        document = document[step]
    return violation.got == document or isinstance(document, dict | list)


@given(JSON)
@example({"error": {"details": [[]]}})
def test_the_validators_agree_about_any_json(document):
    for schema in SCHEMAS.values():
        assert schema.is_valid(document) is (schema.explain(document) == ())


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "odd",
    ["\ud800", {"\ud800": 1}, nested(900), [nested(900)], {"a": nested(900)}, 2**70, -(2**70), 1e300, "x" * 10**6],
    ids=["surrogate", "key", "deep", "deep element", "deep field", "long", "long negative", "float", "wide"],
)
@pytest.mark.parametrize("name", SCHEMAS)
def test_the_validators_agree_about_odd_values_anywhere(name, odd):
    schema = SCHEMAS[name]
    for path in list(paths(VALID[name]))[1:]:
        document = copy.deepcopy(VALID[name])
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = odd
        assert schema.is_valid(document) is (schema.explain(document) == ())


def test_at_most_some_hundred_violations_are_reported():
    violations = SCHEMAS["validation-details"].violations([1] * 100_000)
    assert 100 <= len(violations) <= 1000


def test_a_violation_has_a_path_an_expected_value_and_the_actual_value():
    document = envelope("invalid_request", details=[{"path": "a", "reason": "b"}, {"path": 5}])
    violations = SCHEMAS["error-envelope"].violations(document | {"status": 400})
    assert {(v.where, v.expected, repr(v.got)) for v in violations} == {
        ("status", "no value", "400"),
        ("error.details[1].path", "a string", "5"),
        ("error.details[1].reason", "a string", "Ellipsis"),
    }
    assert Violation((0, "a", 1), "", None).where == "[0].a[1]"


@pytest.mark.parametrize(
    ("name", "change", "where", "expected"),
    [
        ("durable-event", {"content": [{}, 5]}, "content[1]", "an object"),
        ("durable-event", {"content": "Hi"}, "content", "an array or an object"),
        ("durable-event", {"sequence": "1"}, "sequence", "an integer"),
        ("durable-event", {"sequence": True}, "sequence", "an integer"),
        ("ephemeral-event", {"sequence": 1}, "sequence", "no value"),
        ("tool-started", {"type": "tool.failed"}, "type", "`tool.started`"),
        ("tool-started", {"data": {"name": "x"}}, "data.tool_call_id", "a string"),
        ("message-delta", {"delta": {"text": None}}, "delta.text", "a string"),
    ],
)
def test_a_violation_names_the_expected_type(name, change, where, expected):
    (violation,) = SCHEMAS[name].violations(VALID[name] | change)
    assert (violation.where, violation.expected) == (where, expected)


def test_schemas_and_tables_name_the_same_types_codes_and_fields():
    assert EVENT_SCHEMAS.keys() == {"tool.started", "message.delta"} <= EVENT_TYPES.keys()
    assert ERROR_SCHEMAS.keys() == {"SESSION_BUSY", "RATE_LIMITED", "SANDBOX_PROVISION_FAILED"} <= ERROR_CODES.keys()
    assert set(SCHEMAS["error-envelope"].document["properties"]["error"]["required"]) == set(ENVELOPE_FIELDS)


@pytest.mark.parametrize("code", ERROR_CODES)
def test_an_error_may_have_the_common_fields_and_those_of_its_code(code):
    extra = {"SESSION_BUSY": set(BUSY), "SANDBOX_PROVISION_FAILED": set()}.get(code, set())
    details = set() if code == "SANDBOX_PROVISION_FAILED" else {"details"}
    assert error_fields(code) == {*ENVELOPE_FIELDS, *details, *extra}
    assert is_closed(code) is (code == "SANDBOX_PROVISION_FAILED")
    assert has_own_details(code) is (code in {"SANDBOX_PROVISION_FAILED", "RATE_LIMITED"})


def test_all_missing_properties_are_one_error_of_jsonschema():
    """With an error for each, explaining a flood of broken events takes twice as long."""
    assert len(list(DURABLE_EVENT._explainer.iter_errors({}))) == 1
    missing = [violation.path for violation in DURABLE_EVENT.violations({})]
    assert missing == [(name,) for name in DURABLE_EVENT.document["required"]]
