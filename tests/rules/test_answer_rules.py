"""The rules of answers beyond the envelope's own fields, where their edges are."""

import gzip
import json

import pytest
from tables import read_tables

from wiretape.checker import CATALOGUE
from wiretape.observations import Ending
from wiretape.rules import Severity, Verdict
from wiretape_contracts.agent_sessions import ERROR_CODES, LIMITS

TABLES = read_tables(__file__)

FAMILIES = {"ERR", "BUSY", "RATE", "AUTH"}
RUNS = "POST /v1/sessions/ses_1/runs"
CANCEL, RESUME = (f"/v1/sessions/ses_1/runs/run_1/{name}" for name in ("cancel", "resume"))
RETRY = {"Retry-After": "7"}
DETAILS = {"limit": 60, "window_seconds": 60, "retry_after": 7}
ANSWERED = [code for code in CATALOGUE if code[:-3] in FAMILIES and code not in {"AUTH001", "ERR010"}]


def error(code="invalid_request", message="It is wrong.", request_id="req_1", **more):
    fields = {"code": code, "message": message, "request_id": request_id, **more}
    return {"error": {key: value for key, value in fields.items() if value is not ...}}


def busy(**changes):
    fields = {
        "message": "Session ses_1 has run run_1 with status waiting_for_input.",
        "active_run_id": "run_1",
        "active_run_status": "waiting_for_input",
        "recovery": [f"POST {CANCEL}", f"POST {RESUME}"],
    }
    return error("SESSION_BUSY", **fields | changes)


def limited(**changes):
    details = {key: value for key, value in (DETAILS | changes).items() if value is not ...}
    return error("RATE_LIMITED", details=details)


def ask(wire, document, status=400, request=RUNS, **more):
    return wire.answer(json.dumps(document), status, request, **more)


@pytest.mark.parametrize("details", [{}, [], {"a": 1}, [{"path": "a", "reason": "b", "more": 1}]])
def test_details_may_be_any_object_or_a_list_of_paths(wire, details):
    assert ask(wire, error(details=details)) == []
    assert wire.verdict("ERR005") is Verdict.PASS


@pytest.mark.parametrize(
    ("details", "found"),
    [(None, 1), ("x", 1), (5, 1), ([5], 1), ([[]], 1), ([{}], 2), ([{"path": "a"}, {"path": 5, "reason": 5}], 3)],
)
def test_each_invalid_value_in_details_is_a_finding(wire, details, found):
    assert ask(wire, error(details=details)) == ["ERR005"] * found


def test_only_some_of_very_many_invalid_values_are_listed(wire):
    assert ask(wire, error(details=[1] * 10_000)) == ["ERR005"] * 21


def test_missing_details_do_not_exercise_the_rule(wire):
    ask(wire, error())
    assert wire.verdict("ERR005") is Verdict.NOT_EXERCISED


def test_each_key_besides_the_error_is_a_finding(wire):
    assert ask(wire, error() | {"status": 400, "trace": "x"}) == ["ERR006"] * 2


@pytest.mark.parametrize(("code", "status"), ERROR_CODES.items())
def test_an_undefined_field_is_a_note_unless_other_fields_are_excluded(wire, code, status):
    document = {"SESSION_BUSY": busy(), "RATE_LIMITED": limited()}.get(code, error(code))
    document["error"]["hint"] = None
    headers = RETRY if code == "RATE_LIMITED" else {}
    assert ask(wire, document, status, headers=headers) == ["ERR007"]
    worse = code == "SANDBOX_PROVISION_FAILED"
    assert wire.findings[0].severity is (Severity.ERROR if worse else Severity.NOTE)


@pytest.mark.parametrize("code", ["nope", "session_busy"])
def test_the_fields_of_an_unknown_code_are_not_checked(wire, code):
    assert ask(wire, error(code, active_run_id=5), 409) == ["ERR003"]


def test_excluded_details_are_one_finding(wire):
    assert ask(wire, error("SANDBOX_PROVISION_FAILED", details="x"), 503) == ["ERR007"]


@pytest.mark.parametrize(
    ("content_type", "found"),
    [
        ("application/json", 0),
        (" Application/JSON ; charset=utf-8", 0),
        ("application/problem+json", 0),
        ("text/json", 1),
        ("text/event-stream", 1),
        ("", 1),
    ],
)
def test_an_envelope_needs_a_json_content_type(wire, content_type, found):
    assert ask(wire, error(), headers={"content-type": content_type}) == ["ERR008"] * found


def test_another_body_may_have_any_content_type(wire):
    assert wire.answer("<h1>No</h1>", 502, headers={"content-type": "text/html"}) == ["ERR001"]


def test_a_reused_request_id_names_its_first_exchange(wire):
    ask(wire, error())
    ask(wire, error(), exchange=2)
    ask(wire, error(), exchange=3)
    assert [f.exchange for f in wire.findings] == [2, 3]
    assert all(f.message.endswith("`req_1`, which exchange 1 already has.") for f in wire.findings)


def test_the_first_request_id_does_not_exercise_the_rule(wire):
    ask(wire, error())
    assert wire.verdict("ERR009") is Verdict.NOT_EXERCISED
    ask(wire, error(request_id="b"), exchange=2)
    assert wire.verdict("ERR009") is Verdict.PASS


def test_request_ids_take_bounded_memory(wire, monkeypatch):
    monkeypatch.setattr("wiretape.contract.primitive._MOST_VALUES", 3)
    for number in range(1, 6):
        ask(wire, error(request_id=f"{number}" * 300), exchange=number)
    assert wire.verdict("ERR009") is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    "document",
    [
        error(),
        error("INVALID_REQUEST", message=..., request_id=...),
        error("nope"),
    ],
)
@pytest.mark.parametrize("status", [200, 201, 299])
def test_an_envelope_with_a_success_status_is_reported(wire, document, status):
    assert wire.answer(f" \n{json.dumps(document)}", status) == ["ERR010"]


@pytest.mark.parametrize(
    "body",
    TABLES["success-bodies"],
)
def test_other_success_bodies_exercise_the_rule(wire, body):
    assert wire.answer(body, 200) == []
    assert wire.verdict("ERR010") is Verdict.PASS


@pytest.mark.parametrize(
    ("body", "ending", "verdict"),
    [
        ('{"error":{"code', Ending.SERVICE_CLOSED, Verdict.INCONCLUSIVE),
        ('{"er', Ending.SERVICE_CLOSED, Verdict.INCONCLUSIVE),
        ('{"id', Ending.SERVICE_CLOSED, Verdict.PASS),
        ("", Ending.COMPLETE, Verdict.NOT_EXERCISED),
    ],
)
def test_the_beginning_of_a_success_body_may_decide_the_rule(wire, body, ending, verdict):
    assert wire.answer(body, 200, ending=ending) == []
    assert wire.verdict("ERR010") is verdict


def test_a_success_body_is_kept_only_as_long_as_needed(wire):
    wire.begin(request="GET /v1/sessions/x", status=200, headers={"content-encoding": "gzip"})
    wire.body(gzip.compress(b"x" * 50_000_000))
    assert not wire.checker._open[1].body.body
    wire.end()
    assert wire.verdict("ERR010") is Verdict.PASS


@pytest.mark.parametrize(
    "path", ["/v1/sessions/ses_1/runs", "/api/v1/sessions/ses_1/runs", "/v1/sessions/ses%5F1/runs"]
)
def test_a_complete_busy_error_holds_on_any_path_of_the_session(wire, path):
    assert ask(wire, busy(), 409, f"POST {path}") == []
    assert {wire.verdict(f"BUSY00{n}") for n in (1, 2, 3)} == {Verdict.PASS}


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/sessions/"])
def test_on_other_paths_the_session_need_not_be_named(wire, path):
    document = busy(message="Run run_1 is waiting for input.", recovery=[CANCEL.replace("ses_1", "s"), RESUME])
    assert ask(wire, document, 409, f"POST {path}") == []


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"active_run_id": ...}, ["BUSY001"]),
        ({"active_run_status": 5}, ["BUSY001"]),
        ({"active_run_id": None, "active_run_status": ...}, ["BUSY001"] * 2),
        ({"recovery": ...}, ["BUSY002"]),
        ({"recovery": "x"}, ["BUSY002"]),
        ({"recovery": []}, ["BUSY002"]),
        ({"recovery": [CANCEL, RESUME, 5]}, ["BUSY002"]),
        ({"recovery": [CANCEL, CANCEL]}, ["BUSY002"]),
        ({"recovery": [CANCEL.replace("ses_1", "ses_2"), RESUME]}, ["BUSY002"]),
        ({"recovery": [f"{CANCEL} or {RESUME}"]}, []),
        ({"message": "Session ses_1: run run_1 is Waiting-For-Input"}, []),
        ({"message": "ses_1 run_1"}, ["BUSY003"]),
        ({"message": "ses_1: waiting_for_input of run_1."}, []),
        ({"message": "ses_1: waiting_for_input of run_1:2"}, ["BUSY003"]),
        ({"message": "waiting_for_input"}, ["BUSY003"]),
        ({"message": ...}, ["ERR002"]),
        ({"active_run_id": ..., "message": "ses_1 is waiting_for_input"}, ["BUSY001"]),
    ],
)
def test_a_busy_error_is_checked_field_by_field(wire, changes, codes):
    assert ask(wire, busy(**changes), 409) == codes


@pytest.mark.parametrize(
    ("changes", "said"),
    TABLES["said-of-busy-errors"],
)
def test_a_finding_names_what_a_busy_error_lacks(wire, changes, said):
    ask(wire, busy(**changes), 409)
    assert [finding.message for finding in wire.findings] == [said]


def test_ids_in_recovery_may_be_percent_encoded(wire):
    recovery = [f"/v1/sessions/ses_1/runs/run%2F%201/{name}" for name in ("cancel", "resume")]
    document = busy(active_run_id="run/ 1", recovery=recovery, message="ses_1 run/ 1 waiting for input")
    assert ask(wire, document, 409) == []


@pytest.mark.parametrize("value", [None, "", "soon", "7.0", "-7", "+7", "7 s", "\u0667", "Wed, 01 Jan 2025"])
def test_a_wait_that_is_not_whole_seconds_is_reported(wire, value):
    assert ask(wire, limited(), 429, headers={} if value is None else {"retry-after": value}) == ["RATE001"]


@pytest.mark.parametrize("value", ["7", " 7 ", "007"])
def test_whole_seconds_are_a_wait(wire, value):
    assert ask(wire, limited(), 429, headers={"retry-after": value}) == []
    assert {wire.verdict(f"RATE00{n}") for n in (1, 2, 3, 4)} == {Verdict.PASS}


def test_every_429_needs_a_wait_even_if_its_body_is_cut_off(wire):
    assert wire.answer("", 429) == ["ERR001", "RATE001"]
    assert wire.answer("", 429, ending=Ending.SERVICE_RESET, exchange=2) == ["ERR001", "RATE001", "RATE001"]


@pytest.mark.parametrize(
    ("document", "codes"),
    [
        (error("RATE_LIMITED"), ["RATE002"]),
        (error("RATE_LIMITED", details=[]), ["RATE002"]),
        (error("RATE_LIMITED", details="x"), ["RATE002"]),
        (limited(limit=...), ["RATE002"]),
        (limited(limit=60.0), ["RATE002"]),
        (limited(limit=60.5), ["RATE002"]),
        (limited(window_seconds=True, limit=None), ["RATE002"] * 2),
        (limited(retry_after="7"), ["RATE002"]),
        (limited(retry_after=8), ["RATE003"]),
        (limited(limit=61), ["RATE004"]),
        (limited(window_seconds=61), ["RATE004"]),
        (limited(more=1), []),
    ],
)
def test_details_of_a_limit_are_checked_field_by_field(wire, document, codes):
    assert ask(wire, document, 429, headers=RETRY) == codes


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS.keys())
def test_published_limits_are_known(wire, limit):
    assert ask(wire, limited(limit=limit[0], window_seconds=limit[1]), 429, headers=RETRY) == []


KEYS = [
    ((), False),
    ((("Authorization", ""),), False),
    ((("Authorization", "Bearer"),), False),
    ((("Authorization", "Bearer  "),), False),
    ((("Authorization", "Basic abc"),), False),
    ((("Authorization", "[redacted:0123456789abcdef]"),), False),
    ((("X-Api-Key", "abc"),), False),
    ((("Authorization", "Bearer [redacted:0123456789abcdef]"),), True),
    ((("authorization", "bearer abc"),), True),
    ((("Authorization", "Basic abc"), ("Authorization", "Bearer abc")), True),
]


@pytest.mark.parametrize(("asked", "has_key"), KEYS)
@pytest.mark.parametrize(("status", "code"), [(200, "AUTH001"), (302, "AUTH001"), (404, "AUTH002")])
def test_a_request_without_a_key_is_refused(wire, asked, has_key, status, code):
    document = error("resource_not_found") if status >= 400 else {}
    assert ask(wire, document, status, "GET /v1/sessions", asked=asked) == ([] if has_key else [code])
    verdict = Verdict.NOT_EXERCISED if has_key else Verdict.FAIL if status < 400 else Verdict.PASS
    assert wire.verdict("AUTH001") is verdict


@pytest.mark.parametrize(
    ("document", "status", "codes"),
    [
        (error("authentication_required"), 401, []),
        (error("authentication_required"), 403, ["ERR004"]),
        (error("permission_denied"), 403, ["AUTH002"]),
        (error("permission_denied"), 401, ["AUTH002", "ERR004"]),
        ({"detail": "No."}, 401, ["ERR001"]),
    ],
)
def test_a_request_without_a_key_is_refused_with_401(wire, document, status, codes):
    assert ask(wire, document, status, asked=()) == codes


def test_a_keyless_refusal_that_was_cut_off_is_inconclusive(wire):
    assert wire.answer('{"err', 401, asked=(), ending=Ending.SERVICE_CLOSED) == []
    assert wire.verdict("AUTH002") is Verdict.INCONCLUSIVE
    assert wire.verdict("AUTH001") is Verdict.PASS


def test_a_preflight_needs_no_key(wire):
    asked = (("Origin", "https://a.test"), ("Access-Control-Request-Method", "GET"))
    assert wire.answer("", 204, "OPTIONS /v1/sessions/anything", asked=asked) == []
    assert wire.verdict("AUTH001") is Verdict.NOT_EXERCISED


def test_other_options_requests_need_a_key(wire):
    assert wire.answer("", 204, "OPTIONS /v1/sessions/anything", asked=()) == ["AUTH001"]


def test_a_request_without_a_response_exercises_no_rule(wire):
    wire.ask(request="GET /v1/sessions/x", asked=())
    wire.end(ending=Ending.SERVICE_UNREACHABLE)
    assert {wire.verdict(code) for code in ("AUTH001", "AUTH002")} == {Verdict.NOT_EXERCISED}


@pytest.mark.parametrize("code", ANSWERED)
def test_a_response_that_is_cut_off_is_inconclusive(wire, code):
    """But for the status and the headers, which are there."""
    asked = () if code == "AUTH002" else (("authorization", "Bearer key_1"),)
    status = 401 if code == "AUTH002" else 409
    assert wire.answer('{"error":{"code":"SESSION_BUSY"', status, asked=asked, ending=Ending.SERVICE_RESET) == []
    assert wire.verdict(code) is Verdict.INCONCLUSIVE
