"""The specification as data."""

import pytest
from tables import read_tables

from wiretape.sse import is_event_stream
from wiretape_contracts.agent_sessions import (
    CANCEL,
    DELTA_TYPES,
    ERROR_CODES,
    EVENT_TYPES,
    KEEP_ALIVE_SECONDS,
    LIMITS,
    RESUME,
    STORED_TYPES,
    STREAM,
    TERMINAL_RUN_TYPES,
    TOOL_TYPES,
    deltas_requested,
    operation_of,
)

TABLES = read_tables(__file__)


def test_there_are_18_event_types():
    assert len(EVENT_TYPES) == 18
    assert set(TOOL_TYPES) | TERMINAL_RUN_TYPES | DELTA_TYPES | STORED_TYPES <= set(EVENT_TYPES)


def test_only_three_delta_types_and_three_stored_types_have_a_durability():
    assert {"message.delta", "reasoning.delta", "intermediate.delta"} == DELTA_TYPES
    assert {"tool.started", "message.completed", "reasoning.message"} == STORED_TYPES


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (400, {"invalid_request", "invalid_cursor"}),
        (401, {"authentication_required"}),
        (403, {"permission_denied"}),
        (404, {"resource_not_found"}),
        (
            409,
            {
                "idempotency_conflict",
                "event_already_resolved",
                "event_expired",
                "run_not_resumable",
                "SESSION_BUSY",
                "RUN_NOT_CANCELLABLE",
            },
        ),
        (422, {"tool_input_invalid", "tool_result_invalid"}),
        (429, {"RATE_LIMITED"}),
        (503, {"runtime_resume_unavailable", "SANDBOX_PROVISION_FAILED"}),
    ],
)
def test_each_status_has_its_error_codes(status, codes):
    assert {code for code, each in ERROR_CODES.items() if each == status} == codes


def test_there_are_16_error_codes():
    assert len(ERROR_CODES) == 16


def test_the_limits_are_those_of_the_specification():
    assert LIMITS == {"sessions": (30, 60), "runs": (60, 60), "events": (120, 60)}
    assert KEEP_ALIVE_SECONDS == 15


@pytest.mark.parametrize(
    ("method", "target", "operation", "session_id", "run_id", "base"),
    [
        ("GET", "/v1/sessions/s1/events/stream", STREAM, "s1", None, ""),
        ("GET", "/v1/sessions/s1/events/stream?event_deltas=true", STREAM, "s1", None, ""),
        ("GET", "/eu/api/v1/sessions/s1/events/stream", STREAM, "s1", None, "/eu/api"),
        ("GET", "http://host:80/v1/sessions/s1/events/stream", STREAM, "s1", None, ""),
        ("GET", "http://host/api/v1/sessions/s1/events/stream#x", STREAM, "s1", None, "/api"),
        ("GET", "/v1/sessions/a%2Fb%20c/events/stream", STREAM, "a/b c", None, ""),
        ("GET", "/v1/sessions/caf%C3%A9/events/stream", STREAM, "café", None, ""),
        ("GET", "/v1/sessions/caf\xc3\xa9/events/stream", STREAM, "café", None, ""),
        ("GET", "/v1/sessions/%ff/events/stream", STREAM, "\ufffd", None, ""),
        ("GET", "/v1/sessions/x/v1/sessions/y/events/stream", STREAM, "y", None, "/v1/sessions/x"),
        ("GET", "/v1/%73essions/s1/events/stream", STREAM, "s1", None, ""),
        ("POST", "/v1/sessions/s1/runs/r1/cancel", CANCEL, "s1", "r1", ""),
        ("POST", "/v1/sessions/s1/runs/r%201/resume?x=1", RESUME, "s1", "r 1", ""),
    ],
)
def test_a_request_line_names_an_operation(method, target, operation, session_id, run_id, base):
    match = operation_of(method, target)
    assert match is not None
    assert (match.operation, match.session_id, match.run_id, match.base) == (operation, session_id, run_id, base)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/v1/sessions/s1/events/stream"),
        ("get", "/v1/sessions/s1/events/stream"),
        ("GET", "/v1/sessions/s1/events/stream/"),
        ("GET", "/v1/sessions//events/stream"),
        ("GET", "/v1/sessions/s1/events"),
        ("GET", "/v2/sessions/s1/events/stream"),
        ("GET", "v1/sessions/s1/events/stream"),
        ("GET", "/xv1/sessions/s1/events/stream"),
        ("GET", "/?next=/v1/sessions/s1/events/stream"),
        ("GET", "/v1/sessions/s1/runs/r1/cancel"),
        ("POST", "/v1/sessions/s1/runs//cancel"),
        ("POST", "/v1/sessions"),
        ("GET", "/"),
        ("GET", ""),
        ("OPTIONS", "*"),
        ("CONNECT", "host:443"),
        ("GET", "/v1" * 4 + "/v1/sessions/s1/events/stream"),
        ("GET", f"/{'a' * 1000}/v1/sessions/s1/events/stream"),
    ],
)
def test_any_other_request_line_names_no_operation(method, target):
    assert operation_of(method, target) is None


@pytest.mark.parametrize(
    ("target", "requested"),
    TABLES["deltas"],
)
def test_deltas_are_requested_by_the_value_true(target, requested):
    assert deltas_requested(target) is requested


@pytest.mark.parametrize(
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
