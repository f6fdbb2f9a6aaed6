"""The specification as data."""

from for_each import for_each
from tables import read_tables

from wiretape.contract.contract_facts import load_facts
from wiretape.sse import is_event_stream
from wiretape_contracts.agent_sessions import (
    DELTA_TYPES,
    ERROR_CODES,
    EVENT_TYPES,
    KEEP_ALIVE_SECONDS,
    LIMITS,
    STORED_TYPES,
    TERMINAL_RUN_TYPES,
    TOOL_TYPES,
    deltas_requested,
)

TABLES = read_tables(__file__)


def test_there_are_18_event_types():
    assert len(EVENT_TYPES) == 18
    assert set(TOOL_TYPES) | TERMINAL_RUN_TYPES | DELTA_TYPES | STORED_TYPES <= set(EVENT_TYPES)


def test_only_three_delta_types_and_three_stored_types_have_a_durability():
    assert {"message.delta", "reasoning.delta", "intermediate.delta"} == DELTA_TYPES
    assert {"tool.started", "message.completed", "reasoning.message"} == STORED_TYPES


@for_each(("status", "codes"), TABLES["statuses"].items())
def test_each_status_has_its_error_codes(status, codes):
    assert {code for code, each in ERROR_CODES.items() if str(each) == status} == set(codes)


def test_there_are_16_error_codes():
    assert len(ERROR_CODES) == 16


def test_the_limits_are_those_of_the_specification():
    assert LIMITS == {"sessions": (30, 60), "runs": (60, 60), "events": (120, 60)}
    assert KEEP_ALIVE_SECONDS == 15


@for_each(("method", "target", "operation", "session_id", "run_id", "base"), TABLES["operations"])
def test_a_request_line_names_an_operation(method, target, operation, session_id, run_id, base):
    found, parameters = load_facts("agent-sessions").find_operation(method, target)
    assert found is not None
    assert (found.name, found.pattern.base_of(target)) == (operation, base)
    assert (parameters["session_id"], parameters.get("run_id", "")) == (session_id, run_id)


@for_each(("method", "target"), TABLES["others"])
def test_any_other_request_line_names_no_operation(method, target):
    assert load_facts("agent-sessions").find_operation(method, target) == (None, {})


@for_each(("target", "requested"), TABLES["deltas"])
def test_deltas_are_requested_by_the_value_true(target, requested):
    assert deltas_requested(target) is requested


@for_each(
    ("content_type", "expected"),
    [
        ("text/event-stream", True),
        (" Text/Event-Stream ; charset=utf-8", True),
        ("text/event-stream-x", False),
        ("application/json", False),
        ("", False),
        (None, False),
    ],
)
def test_an_event_stream_is_recognized_by_its_media_type(content_type, expected):
    assert is_event_stream(content_type) is expected
