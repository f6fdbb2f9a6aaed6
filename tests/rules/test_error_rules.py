"""The rules of error answers where their edges are."""

import gzip
from functools import partial

from for_each import for_each
from wire import Wire, rows_of

from wiretape.observations import Ending
from wiretape.rules import Verdict
from wiretape_contracts.agent_sessions import ERROR_CODES

FAMILIES = {"ERR"}
WIRE = partial(Wire, families=FAMILIES)
CODES = ("ERR001", "ERR002", "ERR003", "ERR004")


@for_each("case", rows_of(__file__), lambda case: case[1]["of"], wire=WIRE)
def test_an_answer_is_judged_as_its_row_says(wire, case):
    wire.hold(*case)


@for_each(("code", "status"), ERROR_CODES.items(), wire=WIRE)
def test_every_code_holds_with_its_status_alone(wire, code, status):
    assert wire.answer(f"{code} {{}}", status) == []
    assert {wire.verdict(each) for each in CODES} == {Verdict.PASS}
    assert wire.answer(f'{code} {{"request_id": "req_2"}}', 418, exchange=2) == ["ERR004"]


@for_each(
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
    wire=WIRE,
)
def test_a_body_that_is_not_an_envelope_is_one_finding(wire, body):
    assert wire.answer(body) == ["ERR001"]


@for_each("ending", [ending for ending in Ending if ending is not Ending.COMPLETE], wire=WIRE)
def test_a_body_that_is_cut_off_is_inconclusive(wire, ending):
    assert wire.answer(b'{"err', ending=ending) == []
    assert {wire.verdict(code) for code in CODES} == {Verdict.INCONCLUSIVE}


OTHER = {"request": "GET /v1/sessions/x", "status": 500}


def test_a_body_over_the_limit_is_inconclusive_and_not_kept(wire):
    wire.begin(request="GET /v1/sessions/x", status=500)
    for _ in range(5):
        wire.body(b"x" * 500_000)
    assert not wire.checker._open[1].body.body
    wire.end()
    assert wire.codes == []
    assert wire.verdict("ERR001") is Verdict.INCONCLUSIVE


def test_a_compressed_body_is_read(wire):
    body = gzip.compress(b'{"error":{"code":"nope","message":"","request_id":""}}')
    assert wire.answer(body, headers={"Content-Encoding": "GZIP"}) == ["ERR003"]


@for_each(
    ("coding", "body"),
    [
        ("gzip", b"not gzip"),
        ("secret", b"{}"),
        ("gzip", gzip.compress(b"x" * 50_000_000)),
        ("identity", '{"error":' + "[" * 100_000 + "]" * 100_000 + "}"),
    ],
    ids=["invalid", "unknown", "bomb", "deep"],
    wire=WIRE,
)
def test_a_body_that_cannot_be_decoded_or_read_is_inconclusive(wire, coding, body):
    assert wire.answer(body, headers={"content-encoding": coding}) == []
    assert wire.verdict("ERR001") is Verdict.INCONCLUSIVE


def test_a_deep_array_is_not_an_envelope(wire):
    assert wire.answer("[" * 100_000 + "]" * 100_000) == ["ERR001"]
    assert wire.findings[0].message.endswith("got a body that does not begin with `{`.")


def test_an_unreachable_service_has_no_response(wire):
    wire.ask(request="GET /v1/sessions/x")
    wire.end(ending=Ending.SERVICE_UNREACHABLE)
    assert wire.codes == []
    assert wire.verdict("ERR001") is Verdict.NOT_EXERCISED


def test_an_exchange_still_open_at_the_end_of_the_recording_is_inconclusive(wire):
    wire.begin(request="GET /v1/sessions/x", status=500)
    wire.body("oops")
    assert wire.checker.finish() == []
    assert wire.verdict("ERR001") is Verdict.INCONCLUSIVE


def test_findings_about_a_response_have_no_event(wire):
    wire.answer(b"", status=500)
    (finding,) = wire.findings
    assert (finding.event, finding.sequence, finding.byte_offset) == (None, None, None)
