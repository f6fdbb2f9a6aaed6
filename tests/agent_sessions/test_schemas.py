"""The schema files, and the validator that reads them."""

import copy

import jsonschema
import referencing
import referencing.jsonschema
from for_each import for_each
from hypothesis import example, given
from hypothesis import strategies as st

from wiretape_contracts.agent_sessions import ENVELOPE_FIELDS, ERROR_CODES, EVENT_TYPES
from wiretape_contracts.agent_sessions.schemas import ERROR_SCHEMAS, EVENT_SCHEMAS, SCHEMAS, error_fields, is_closed

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


@for_each("name", SCHEMAS)
def test_every_schema_is_valid_json_schema(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name].document)
    assert SCHEMAS[name].document["$schema"] == "https://json-schema.org/draft/2020-12/schema"


REGISTRY = referencing.Registry().with_resources(
    (f"{name}.json", referencing.jsonschema.DRAFT202012.create_resource(schema.document))
    for name, schema in SCHEMAS.items()
)


def pruned(value, depth=6):
    """Return a value without its deep parts, which jsonschema cannot format, and no schema describes."""
    if isinstance(value, dict):
        return {key: pruned(item, depth - 1) for key, item in value.items()} if depth else {}
    return [pruned(item, depth - 1) for item in value if depth] if isinstance(value, list) else value


def is_valid(schema, value):
    """Whether jsonschema, which shares no code with jsonschema-rs, accepts a value."""
    return jsonschema.Draft202012Validator(schema.document, registry=REGISTRY).is_valid(pruned(value))


@for_each("name", SCHEMAS)
def test_a_valid_document_is_accepted(name):
    assert SCHEMAS[name].is_valid(VALID[name])
    assert is_valid(SCHEMAS[name], VALID[name])


@given(st.sampled_from(sorted(SCHEMAS)), st.data())
def test_another_validator_agrees_about_changed_documents(name, data):
    document = data.draw(documents(name))
    assert SCHEMAS[name].is_valid(document) is is_valid(SCHEMAS[name], document)


@given(JSON)
@example({"error": {"details": [[]]}})
def test_another_validator_agrees_about_any_json(document):
    for schema in SCHEMAS.values():
        assert schema.is_valid(document) is is_valid(schema, document)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@for_each(
    "odd",
    ["\ud800", {"\ud800": 1}, nested(900), [nested(900)], {"a": nested(900)}, 2**70, -(2**70), 1e300, "x" * 10**6],
    ids=["surrogate", "key", "deep", "deep element", "deep field", "long", "long negative", "float", "wide"],
)
@for_each("name", SCHEMAS)
def test_another_validator_agrees_about_odd_values_anywhere(name, odd):
    schema = SCHEMAS[name]
    for path in list(paths(VALID[name]))[1:]:
        document = copy.deepcopy(VALID[name])
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = odd
        assert schema.is_valid(document) is is_valid(schema, document)


def test_schemas_and_tables_name_the_same_types_codes_and_fields():
    assert EVENT_SCHEMAS.keys() == {"tool.started", "message.delta"} <= set(EVENT_TYPES)
    assert ERROR_SCHEMAS.keys() == {"SESSION_BUSY", "RATE_LIMITED", "SANDBOX_PROVISION_FAILED"} <= ERROR_CODES.keys()
    assert set(SCHEMAS["error-envelope"].document["properties"]["error"]["required"]) == set(ENVELOPE_FIELDS)


@for_each("code", ERROR_CODES)
def test_an_error_may_have_the_common_fields_and_those_of_its_code(code):
    extra = {"SESSION_BUSY": set(BUSY), "SANDBOX_PROVISION_FAILED": set()}.get(code, set())
    details = set() if code == "SANDBOX_PROVISION_FAILED" else {"details"}
    assert error_fields(code) == {*ENVELOPE_FIELDS, *details, *extra}
    assert is_closed(code) is (code == "SANDBOX_PROVISION_FAILED")
