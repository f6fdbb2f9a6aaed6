"""The rules of answers beyond the envelope's own fields, where their edges are."""

import gzip
import json
from functools import partial

import pytest
from for_each import for_each
from wire import Wire, rows_of

from wiretape.checker import CATALOGUE
from wiretape.observations import Ending
from wiretape.rules import Severity, Verdict
from wiretape_contracts.agent_sessions import ERROR_CODES, LIMITS

FAMILIES = {"ERR", "BUSY", "RATE", "AUTH"}
WIRE = partial(Wire, families=FAMILIES)
RUNS = "POST /v1/sessions/ses_1/runs"
RETRY = {"Retry-After": "7"}
ANSWERED = [code for code in CATALOGUE if code[:-3] in FAMILIES and code not in {"AUTH001", "ERR010"}]


def ask(wire, error="invalid_request {}", status=400, request=RUNS, **more):
    return wire.answer(error, status, request, **more)


@for_each("case", rows_of(__file__), lambda case: case[1]["of"], wire=WIRE)
def test_an_answer_is_judged_as_its_row_says(wire, case):
    wire.hold(*case)


def test_only_some_of_very_many_invalid_values_are_listed(wire):
    assert ask(wire, f'invalid_request {{"details": {[1] * 10_000}}}') == ["ERR005"] * 21


@for_each(("code", "status"), ERROR_CODES.items(), wire=WIRE)
def test_an_undefined_field_is_a_note_unless_other_fields_are_excluded(wire, code, status):
    headers = RETRY if code == "RATE_LIMITED" else {}
    assert ask(wire, f'{code} {{"hint": null}}', status, headers=headers) == ["ERR007"]
    worse = code == "SANDBOX_PROVISION_FAILED"
    assert wire.findings[0].severity is (Severity.ERROR if worse else Severity.NOTE)


def test_a_reused_request_id_names_its_first_exchange(wire):
    ask(wire)
    ask(wire, exchange=2)
    ask(wire, exchange=3)
    assert [f.exchange for f in wire.findings] == [2, 3]
    assert all(f.message.endswith("`req_1`, which exchange 1 already has.") for f in wire.findings)


def test_the_first_request_id_does_not_exercise_the_rule(wire):
    ask(wire)
    assert wire.verdict("ERR009") is Verdict.NOT_EXERCISED
    ask(wire, 'invalid_request {"request_id": "b"}', exchange=2)
    assert wire.verdict("ERR009") is Verdict.PASS


def test_request_ids_take_bounded_memory(wire, monkeypatch):
    monkeypatch.setattr("wiretape.contract.primitive._MOST_VALUES", 3)
    for number in range(1, 6):
        ask(wire, f'invalid_request {{"request_id": "{str(number) * 300}"}}', exchange=number)
    assert wire.verdict("ERR009") is Verdict.INCONCLUSIVE


def test_a_success_body_is_kept_only_as_long_as_needed(wire):
    wire.begin(request="GET /v1/sessions/x", status=200, headers={"content-encoding": "gzip"})
    wire.body(gzip.compress(b"x" * 50_000_000))
    assert not wire.checker._open[1].body.body
    wire.end()
    assert wire.verdict("ERR010") is Verdict.PASS


@for_each("value", [None, "", "soon", "7.0", "-7", "+7", "7 s", "\u0667", "Wed, 01 Jan 2025"], wire=WIRE)
def test_a_wait_that_is_not_whole_seconds_is_reported(wire, value):
    assert ask(wire, "RATE_LIMITED {}", 429, headers={} if value is None else {"retry-after": value}) == ["RATE001"]


def test_every_429_needs_a_wait_even_if_its_body_is_cut_off(wire):
    assert wire.answer("", 429) == ["ERR001", "RATE001"]
    assert wire.answer("", 429, ending=Ending.SERVICE_RESET, exchange=2) == ["ERR001", "RATE001", "RATE001"]


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS.keys())
def test_published_limits_are_known(wire, limit):
    details = {"limit": limit[0], "window_seconds": limit[1], "retry_after": 7}
    assert ask(wire, f'RATE_LIMITED {{"details": {json.dumps(details)}}}', 429, headers=RETRY) == []


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


@for_each(("asked", "has_key"), KEYS)
@for_each(("status", "code"), [(200, "AUTH001"), (302, "AUTH001"), (404, "AUTH002")], wire=WIRE)
def test_a_request_without_a_key_is_refused(wire, asked, has_key, status, code):
    body = "resource_not_found {}" if status >= 400 else "{}"
    assert ask(wire, body, status, "GET /v1/sessions", asked=asked) == ([] if has_key else [code])
    verdict = Verdict.NOT_EXERCISED if has_key else Verdict.FAIL if status < 400 else Verdict.PASS
    assert wire.verdict("AUTH001") is verdict


def test_a_request_without_a_response_exercises_no_rule(wire):
    wire.ask(request="GET /v1/sessions/x", asked=())
    wire.end(ending=Ending.SERVICE_UNREACHABLE)
    assert {wire.verdict(code) for code in ("AUTH001", "AUTH002")} == {Verdict.NOT_EXERCISED}


@for_each("code", ANSWERED, wire=WIRE)
def test_a_response_that_is_cut_off_is_inconclusive(wire, code):
    """But for the status and the headers, which are there."""
    asked = () if code == "AUTH002" else (("authorization", "Bearer key_1"),)
    status = 401 if code == "AUTH002" else 409
    assert wire.answer('{"error":{"code":"SESSION_BUSY"', status, asked=asked, ending=Ending.SERVICE_RESET) == []
    assert wire.verdict(code) is Verdict.INCONCLUSIVE
