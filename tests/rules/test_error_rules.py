"""The rules of error answers where their edges are."""

import gzip
import json

import pytest

from wiretape.observations import Ending
from wiretape.rules import Verdict
from wiretape_contracts.agent_sessions import ERROR_CODES

FAMILIES = {"ERR"}
ENVELOPE = {"error": {"code": "resource_not_found", "message": "No.", "request_id": "req_1"}}
CODES = ("ERR001", "ERR002", "ERR003", "ERR004")


def envelope(**changes):
    fields = {key: value for key, value in (ENVELOPE["error"] | changes).items() if value is not ...}
    return json.dumps({"error": fields})


@pytest.mark.parametrize("row", ERROR_CODES.values(), ids=lambda row: row.code)
def test_every_code_holds_with_its_status_alone(wire, row):
    assert wire.answer(envelope(code=row.code), row.status) == []
    assert {wire.verdict(code) for code in CODES} == {Verdict.PASS}
    assert wire.answer(envelope(code=row.code, request_id="req_2"), 418, exchange=2) == ["ERR004"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"error"',
        b"{}",
        b'{"error":null}',
        b'{"error":[]}',
        b'{"Error":{}}',
        b'{"error":{}',
        b'{"error":{}}{}',
        b'\xef\xbb\xbf{"error":{}}',
        b'{"error":{"message":"\xff"}}',
        '{"error":{}}'.encode("utf-16"),
        b"<html>",
    ],
)
def test_a_body_that_is_not_an_envelope_is_one_finding(wire, body):
    assert wire.answer(body) == ["ERR001"]


@pytest.mark.parametrize(
    ("body", "got"),
    [
        ("", "an empty body"),
        ("oops", "a body that is not JSON"),
        ("[]", "an array"),
        ("{}", "an object without `error`"),
        ('{"error":true}', "true under `error`"),
    ],
)
def test_a_finding_describes_the_body_instead_of_an_envelope(wire, body, got):
    wire.answer(body)
    assert wire.findings[0].message.endswith(f", got {got}.")


def test_another_body_exercises_no_rule_about_envelopes(wire):
    wire.answer(b"{}")
    assert [wire.verdict(code) for code in CODES] == [Verdict.FAIL] + [Verdict.NOT_EXERCISED] * 3


def test_an_unknown_code_does_not_exercise_the_status_rule(wire):
    wire.answer(envelope(code="nope"))
    assert wire.verdict("ERR004") is Verdict.NOT_EXERCISED
    assert wire.verdict("ERR003") is Verdict.FAIL


def test_each_invalid_field_is_one_finding_and_the_only_one(wire):
    assert wire.answer(envelope(code=None, message=5, request_id=...)) == ["ERR002"] * 3
    assert [f.message for f in wire.findings] == [
        "Expected a string as `error.code`, got null.",
        "Expected a string as `error.message`, got the number 5.",
        "Expected a string as `error.request_id`, got no value.",
    ]


def test_a_code_in_the_wrong_case_names_the_right_one_and_no_status(wire):
    assert wire.answer(envelope(code="Session_Busy"), 400) == ["ERR003"]
    assert "`SESSION_BUSY`" in wire.findings[0].message


def test_an_envelope_may_contain_text_in_any_script(wire):
    body = json.dumps({"error": ENVELOPE["error"] | {"message": "n\u00e9ant \u4f1a\u8bdd"}}, ensure_ascii=False)
    assert wire.answer(body) == []


def test_the_last_value_of_a_repeated_key_wins(wire):
    assert wire.answer('{"error":1,"error":{"code":1,"code":"resource_not_found","message":"","request_id":""}}') == []


@pytest.mark.parametrize(
    "ending",
    [ending for ending in Ending if ending is not Ending.COMPLETE],
)
def test_a_body_that_is_cut_off_is_inconclusive(wire, ending):
    assert wire.answer(b'{"err', ending=ending) == []
    assert {wire.verdict(code) for code in CODES} == {Verdict.INCONCLUSIVE}


OTHER = {"request": "GET /v1/sessions/x", "status": 500}


def test_a_body_with_lost_bytes_is_inconclusive(wire):
    assert wire.stream('{"err', 10, "}}", **OTHER) == []
    assert wire.verdict("ERR001") is Verdict.INCONCLUSIVE


def test_a_body_over_the_limit_is_inconclusive_and_not_kept(wire):
    wire.begin(request="GET /v1/sessions/x", status=500)
    for _ in range(5):
        wire.body(b"x" * 500_000)
    assert not wire.checker._open[1].body.body
    wire.end()
    assert wire.codes == []
    assert wire.verdict("ERR001") is Verdict.INCONCLUSIVE


def test_a_compressed_body_is_read(wire):
    body = gzip.compress(envelope(code="nope").encode())
    assert wire.answer(body, headers={"Content-Encoding": "GZIP"}) == ["ERR003"]


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"not gzip"),
        ("secret", b"{}"),
        ("gzip", gzip.compress(b"x" * 50_000_000)),
        ("identity", '{"error":' + "[" * 100_000 + "]" * 100_000 + "}"),
    ],
    ids=["invalid", "unknown", "bomb", "deep"],
)
def test_a_body_that_cannot_be_decoded_or_read_is_inconclusive(wire, coding, body):
    assert wire.answer(body, headers={"content-encoding": coding}) == []
    assert wire.verdict("ERR001") is Verdict.INCONCLUSIVE


def test_a_deep_array_is_not_an_envelope(wire):
    assert wire.answer("[" * 100_000 + "]" * 100_000) == ["ERR001"]
    assert wire.findings[0].message.endswith("got a body that does not begin with `{`.")


def test_a_response_to_head_has_no_body_to_check(wire):
    assert wire.stream(request="HEAD /v1/sessions/anything", status=404) == []
    assert wire.verdict("ERR001") is Verdict.NOT_EXERCISED


@pytest.mark.parametrize("status", [200, 204, 302, 399])
def test_other_responses_are_not_checked(wire, status):
    assert wire.answer("no envelope", status, request="GET /v1/sessions/anything") == []


def test_an_unreachable_service_has_no_response(wire):
    wire.ask(request="GET /v1/sessions/x")
    wire.end(ending=Ending.SERVICE_UNREACHABLE)
    assert wire.codes == []
    assert wire.verdict("ERR001") is Verdict.NOT_EXERCISED


def test_an_error_response_to_a_stream_request_is_not_a_stream(wire):
    headers = {"content-type": "text/event-stream"}
    request = "GET /v1/sessions/s/events/stream"
    assert wire.answer("data: x\n\n", 500, request=request, headers=headers) == ["ERR001"]


def test_an_exchange_still_open_at_the_end_of_the_recording_is_inconclusive(wire):
    wire.begin(request="GET /v1/sessions/x", status=500)
    wire.body("oops")
    assert wire.checker.finish() == []
    assert wire.verdict("ERR001") is Verdict.INCONCLUSIVE


def test_findings_about_a_response_have_no_event(wire):
    wire.answer(b"", status=500)
    (finding,) = wire.findings
    assert (finding.event, finding.sequence, finding.byte_offset) == (None, None, None)
