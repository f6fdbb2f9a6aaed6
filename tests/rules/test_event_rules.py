"""The rules of what events hold, where their edges are."""

import json
from functools import partial

import pytest
from for_each import for_each
from tables import read_tables
from wire import Wire, rows_of

from wiretape.contract.event_primitives import is_utc_time
from wiretape.rules import Verdict
from wiretape.rules.catalogue import COMPLEX_JSON, MOST_DEPTH, MOST_DIGITS
from wiretape.rules.finding import format_number, quote, quote_bytes

TABLES = read_tables(__file__)

FAMILIES = {"SSE", "DUR", "EVT", "KAL"}
WIRE = partial(Wire, families=FAMILIES)


def message(document, event="session.error", sse_id=None):
    data = document if isinstance(document, str) else json.dumps(document)
    event = "" if event is None else f"event: {event}\n"
    return f"{event}{'' if sse_id is None else f'id: {sse_id}'}\ndata: {data}\n\n".replace("\n\ndata", "\ndata")


def delta(**changes):
    document = {"type": "message.delta", "run_id": "r", "delta": {"text": "Hi"}} | changes
    return message({key: value for key, value in document.items() if value is not ...}, "message.delta")


BEYOND = [f"{'[' * 1024}{']' * 1024}", "1" * 4301]


@for_each("case", rows_of(__file__), lambda case: case[1]["of"], wire=WIRE)
def test_events_are_judged_as_their_row_says(wire, case):
    wire.hold(*case)


@pytest.mark.parametrize("beyond", BEYOND, ids=["deep", "long"])
def test_an_object_with_json_that_cannot_be_read_is_inconclusive(wire, beyond):
    assert wire.stream(message(f' {{"type":{beyond}}}')) == []
    assert wire.verdict("EVT001") is Verdict.INCONCLUSIVE
    assert list(wire.checker.tallies()["EVT001"].reasons) == [COMPLEX_JSON.reason]


@pytest.mark.parametrize("within", ["[" * (MOST_DEPTH - 1) + "]" * (MOST_DEPTH - 1), "1" * MOST_DIGITS])
def test_json_within_the_limits_is_read(wire, within):
    assert wire.stream(message(f'{{"type":{within}}}', event="session.error")) == ["EVT003"]


@pytest.mark.parametrize("beyond", [f" {BEYOND[0]}", f"[{BEYOND[0]}]", BEYOND[1]], ids=["space", "deep", "long"])
def test_a_deep_array_is_not_an_object(wire, beyond):
    deep = beyond if beyond.startswith("1") else f"[{beyond}]"
    assert wire.stream(message(deep)) == ["EVT001"]
    assert wire.findings[0].message == "Expected one JSON object as data, got text that does not begin with `{`."


def test_an_inconclusive_reason_is_counted_even_if_the_rule_is_broken(wire):
    wire.stream(*[message(f'{{"type":{BEYOND[0]}}}')] * 2, message("[1]"), message("{}"))
    tally = wire.checker.tallies()["EVT001"]
    counts = (tally.exercised, tally.findings, tally.inconclusive, tally.reasons)
    assert counts == (2, 1, 2, {COMPLEX_JSON.reason: 2})


@for_each(
    "raw",
    [
        b'event: run.started\ndata: {"type":"run.started\xff"}\n\n',
        b'event: run.started\xff\ndata: {"type":"run.started"}\n\n',
        b"event: run.started\ndata: \xff\n\n",
        b'event: session.error\ndata: {"type":"session.error","x":"\xff"}\n\n',
    ],
    wire=WIRE,
)
def test_invalid_utf8_is_one_finding(wire, raw):
    assert wire.stream(raw) == ["SSE001"]


@for_each("name", ["workspace_id", "session_id", "run_id", "created_at", "data"])
@for_each("value", [None, 5, [], True], wire=WIRE)
def test_a_field_of_a_wrong_type_is_found(wire, event, name, value):
    assert wire.stream(event(1, **{name: value})) == ["EVT004"]


@for_each(
    ("text", "answer"),
    [
        *((text, True) for text in TABLES["times"]["utc"]),
        *((text, False) for text in [*TABLES["times"]["other"], "0" * 100_000]),
    ],
    wire=WIRE,
)
def test_a_timestamp_in_utc_is_recognized(wire, event, text, answer):
    assert is_utc_time(text) is answer
    assert wire.stream(event(1, created_at=text)) == ([] if answer else ["EVT005"])


def test_sessions_may_have_different_workspaces(wire, event):
    wire.stream(event(1))
    wire.stream(event(1, session_id="s2", workspace_id="x"), exchange=2, request="GET /v1/sessions/s2/events/stream")
    assert wire.codes == []


def test_only_some_of_very_many_repeated_keys_are_listed(wire):
    pairs = ",".join(f'"k{n}":1' for n in range(500))
    assert wire.stream(message(f'{{"type":"session.error",{pairs},{pairs}}}')) == ["EVT012"] * 21


@for_each("name", ["ping", "PING", "keepalive", "keep-alive", "keep_alive", "heartbeat", "heart-beat"])
@for_each("data", ["", "{}", "pong", '{"type":"ping"}', '{"type":"x"}', "[]"], wire=WIRE)
def test_a_keep_alive_as_an_event_is_one_note(wire, name, data):
    assert wire.stream(message(data, name)) == ["KAL002"]


def test_a_blank_line_after_lost_bytes_does_not_follow_the_comment(wire):
    wire.begin()
    wire.body(": a\n")
    wire.lose(10)
    wire.body("\n")
    wire.end()
    assert wire.codes == []


def test_the_location_of_a_blank_line_is_its_comment(wire):
    wire.stream(delta(), ": a\n\n")
    (finding,) = wire.findings
    assert (finding.event, finding.byte_offset) == (None, len(delta()))


@for_each("character", ["a", "é", "€", "😀"])
@for_each("count", [59, 60, 61, 200])
def test_bytes_are_quoted_like_their_text(character, count):
    """A character is up to four bytes."""
    text = character * count
    assert quote_bytes(text.encode()) == quote(text)
    assert quote(text).count(character) == min(count, 60)


@pytest.mark.parametrize("number", [10**40, -(10**40), 1e40])
def test_a_number_of_more_than_40_digits_is_not_quoted(number):
    assert format_number(number) == "of more than 40 digits"
    assert format_number(10**40 - 1) == "9" * 40
