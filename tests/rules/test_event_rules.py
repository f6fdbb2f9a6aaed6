"""The rules of what events hold, where their edges are."""

import json

import pytest
from tables import read_tables

from wiretape.contract.event_primitives import is_utc_time
from wiretape.rules import Verdict
from wiretape.rules.catalogue import COMPLEX_JSON, MOST_DEPTH, MOST_DIGITS
from wiretape.rules.finding import format_number, quote, quote_bytes

TABLES = read_tables(__file__)

FAMILIES = {"SSE", "DUR", "EVT", "KAL"}
CALL = {"tool_call_id": "call_1", "name": "search"}
TOOL = {"content": CALL | {"input": {}}, "data": CALL}


def message(document, event="session.error", sse_id=None):
    data = document if isinstance(document, str) else json.dumps(document)
    event = "" if event is None else f"event: {event}\n"
    return f"{event}{'' if sse_id is None else f'id: {sse_id}'}\ndata: {data}\n\n".replace("\n\ndata", "\ndata")


def delta(**changes):
    document = {"type": "message.delta", "run_id": "r", "delta": {"text": "Hi"}} | changes
    return message({key: value for key, value in document.items() if value is not ...}, "message.delta")


def found(wire):
    return [(finding.code, finding.message) for finding in wire.findings]


@pytest.mark.parametrize(
    ("data", "got"),
    TABLES["no-objects"],
)
def test_data_that_is_not_one_object_is_one_finding(wire, data, got):
    assert wire.stream(message(data, sse_id="a")) == ["EVT001"]
    assert wire.findings[0].message == f"Expected one JSON object as data, got {got}."


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    TABLES["two-types"],
)
def test_the_known_one_of_two_types_is_expected(wire, line, kind, said):
    wire.stream(message({"type": kind}, event=line))
    (finding,) = [finding for finding in wire.findings if finding.code == "EVT003"]
    assert finding.message.startswith(said)


BEYOND = [f"{'[' * 1024}{']' * 1024}", "1" * 4301]


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
    wire.stream(message(f'{{"type":{BEYOND[0]}}}'), message("[1]"))
    tally = wire.checker.tallies()["EVT001"]
    assert (tally.findings, tally.reasons) == (1, {COMPLEX_JSON.reason: 1})


@pytest.mark.parametrize(
    "raw",
    [
        b'event: run.started\ndata: {"type":"run.started\xff"}\n\n',
        b'event: run.started\xff\ndata: {"type":"run.started"}\n\n',
        b"event: run.started\ndata: \xff\n\n",
        b'event: session.error\ndata: {"type":"session.error","x":"\xff"}\n\n',
    ],
)
def test_invalid_utf8_is_one_finding(wire, raw):
    assert wire.stream(raw) == ["SSE001"]


@pytest.mark.parametrize("kind", [None, 5, ["run.started"], {}])
def test_a_type_that_is_not_a_string_is_one_finding(wire, event, kind):
    assert wire.stream(event(1, "run.started", type=kind)) == ["EVT003"]


def test_without_an_event_line_there_is_no_name_to_disagree_with(wire):
    assert wire.stream(message({"type": "run.started"}, None)) == ["SSE006"]


def test_without_an_event_line_a_durable_event_still_needs_its_type(wire, event):
    assert wire.stream(event(1, type=...).replace("event: session.error\n", "")) == ["EVT004", "SSE006"]


def test_an_unknown_type_is_one_finding(wire, event):
    assert wire.stream(event(1, "run.paused")) == ["EVT002"]


def test_a_name_with_a_trailing_space_differs(wire):
    assert wire.stream(message({"type": "session.error"}, "session.error ")) == ["EVT003"]


@pytest.mark.parametrize("name", ["workspace_id", "session_id", "run_id", "created_at", "data", "content", "id"])
def test_a_missing_field_of_a_durable_event_is_found(wire, event, name):
    lacking = event(1, sse_id="evt_1", **{name: ...})
    assert wire.stream(lacking) == ["EVT004"]
    assert wire.findings[0].message.endswith(f" as `{name}`, got no value.")


@pytest.mark.parametrize("name", ["workspace_id", "session_id", "run_id", "created_at", "data"])
@pytest.mark.parametrize("value", [None, 5, [], True])
def test_a_field_of_a_wrong_type_is_found(wire, event, name, value):
    assert wire.stream(event(1, **{name: value})) == ["EVT004"]


@pytest.mark.parametrize("sequence", ["1", True, 1.0, 1.5, None, [1], {}])
def test_a_sequence_that_is_not_an_integer_is_reported(wire, event, sequence):
    assert wire.stream(event(1, sequence=sequence)) == ["EVT004"]
    assert wire.findings[0].message.startswith("Expected an integer as `sequence`, got ")


@pytest.mark.parametrize("sequence", [0, -1, 2**63, 10**30])
def test_any_integer_is_a_sequence(wire, event, sequence):
    assert wire.stream(event(1, sequence=sequence)) == []


def test_each_bad_field_is_a_finding(wire, event):
    assert wire.stream(event(1, run_id=..., data=[], workspace_id=1)) == ["EVT004"] * 3


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sequence": ...}, "DUR001"),
        ({"id": 5}, "DUR003"),
        ({"id": "b"}, "DUR003"),
    ],
)
def test_findings_of_durability_rules_are_not_repeated(wire, event, changes, code):
    assert wire.stream(event(1, sse_id="evt_1", **changes)) == [code]


def test_a_sequence_without_any_id_is_one_finding(wire, event):
    nameless = event(1, sse_id="x", id=...).replace("id: x\n", "")
    assert wire.stream(nameless) == ["DUR002"]


def test_another_field_is_reported_besides_findings_of_durability_rules(wire, event):
    assert wire.stream(event(1, sequence=..., data=5)) == ["DUR001", "EVT004"]


@pytest.mark.parametrize("content", [None, "Hi", 5, True])
def test_content_that_is_neither_object_nor_list_is_one_finding(wire, event, content):
    assert wire.stream(event(1, content=content)) == ["EVT006"]


@pytest.mark.parametrize("content", [["Hi"], [{}, None], [[]], [1, 2, 3]])
def test_content_with_an_element_that_is_not_an_object_is_one_finding(wire, event, content):
    assert wire.stream(event(1, content=content)) == ["EVT006"]


@pytest.mark.parametrize("content", [[], {}, [{}, {}], {"a": [1]}])
def test_any_blocks_and_any_object_are_content(wire, event, content):
    assert wire.stream(event(1, content=content)) == []
    assert wire.verdict("EVT006") is Verdict.PASS


def test_an_invalid_element_is_reported_with_its_index(wire, event):
    wire.stream(event(1, content=[{}, "Hi"]))
    expected = "Expected an object or an array of objects as `content`, got an array with the string `Hi` at index 1."
    assert wire.findings[0].message == expected


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, []),
        ({"content": CALL}, ["EVT007"]),
        ({"content": {}}, ["EVT007"] * 3),
        ({"content": []}, ["EVT007"]),
        ({"content": ["x"]}, ["EVT006"]),
        ({"content": "x"}, ["EVT006"]),
        ({"content": ...}, ["EVT004"]),
        ({"data": []}, ["EVT004"]),
        ({"data": ...}, ["EVT004"]),
        ({"data": {}}, ["EVT007"] * 2),
        ({"content": CALL | {"input": []}}, ["EVT007"]),
        ({"content": CALL | {"input": {}, "name": 5}}, ["EVT007"]),
        ({"data": CALL | {"tool_call_id": None}}, ["EVT007"]),
        ({"data": {"tool_call_id": "b", "name": "b"}}, ["EVT008"] * 2),
        ({"data": {"tool_call_id": "b", "name": 5}}, ["EVT007", "EVT008"]),
    ],
)
def test_a_started_tool_call_is_checked_field_by_field(wire, event, changes, codes):
    assert wire.stream(event(1, "tool.started", **TOOL | changes)) == codes


@pytest.mark.parametrize("kind", ["tool.completed", "agent.custom_tool_use", "run.started"])
def test_the_content_of_other_events_is_not_checked(wire, event, kind):
    assert wire.stream(event(1, kind, content={"name": 5}, data={"tool_call_id": []})) == []
    assert wire.verdict("EVT007") is Verdict.NOT_EXERCISED


def test_an_ephemeral_event_that_is_not_a_delta_may_contain_anything(wire):
    assert wire.stream(message({"type": "session.error", "run_id": 5, "content": "x", "created_at": 0})) == []
    assert wire.verdict("EVT004") is Verdict.NOT_EXERCISED


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"run_id": ...}, ["EVT011"]),
        ({"run_id": None, "delta": ...}, ["EVT011"] * 2),
        ({"delta": "Hi"}, ["EVT011"]),
        ({"delta": {}}, ["EVT011"]),
        ({"delta": {"text": ["Hi"]}}, ["EVT011"]),
        ({"type": {}}, ["EVT003"]),
        ({"delta": {"text": "", "more": 1}, "extra": 1}, []),
        ({"sequence": 1}, ["DUR005"]),
        ({"sequence": None}, []),
        ({"sequence": 1, "run_id": 5}, ["DUR005", "EVT011"]),
    ],
)
def test_a_delta_is_checked_field_by_field(wire, changes, codes):
    assert wire.stream(delta(**changes)) == codes


def test_a_delta_with_an_id_is_not_a_durable_event(wire):
    assert wire.stream(delta().replace("\n", "\nid: a\n", 1)) == ["DUR004"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("2025-01-01T00:00:00Z", True),
        ("2025-01-01T00:00:00+00:00", True),
        ("2025-01-01T00:00:00.123456789Z", True),
        ("2025-01-01T00:00:00,5Z", True),
        ("2025-01-01T00:00Z", True),
        ("20250101T000000Z", True),
        ("20250101T000000+0000", True),
        ("2025-W01-1T00:00:00Z", True),
        ("2025-001T00:00:00Z", True),
        ("2024-366T00:00:00Z", True),
        ("2016-12-31T23:59:60Z", True),
        ("2025-01-01T24:00:00Z", True),
        ("2025-01-01t00:00:00z", True),
        ("2025-01-01T00:00:00", False),
        ("2025-01-01T00:00:00-00:00", False),
        ("2025-01-01T01:00:00+01:00", False),
        ("2025-01-01 00:00:00Z", False),
        ("2025-01-01", False),
        ("2025-02-29T00:00:00Z", False),
        ("2025-366T00:00:00Z", False),
        ("2025-13-01T00:00:00Z", False),
        ("2025-01-01T25:00:00Z", False),
        ("2025-01-01T24:00:01Z", False),
        ("2025-01-01T00:60:00Z", False),
        ("1735689600", False),
        ("Wed, 01 Jan 2025 00:00:00 GMT", False),
        ("\uff12025-01-01T00:00:00Z", False),
        ("2025-01-01T00:00:00Z\n", False),
        ("", False),
        ("0" * 100_000, False),
    ],
)
def test_a_timestamp_in_utc_is_recognized(wire, event, text, answer):
    assert is_utc_time(text) is answer
    assert wire.stream(event(1, created_at=text)) == ([] if answer else ["EVT005"])


@pytest.mark.parametrize("session", ["ses_2", "", "SES_1"])
def test_an_event_of_another_session_is_found_and_its_workspace_is_not(wire, event, session):
    assert wire.stream(event(1), event(2, session_id=session, workspace_id="other")) == ["EVT009"]


def test_each_new_workspace_is_one_finding(wire, event):
    places = ["ws_1", "ws_2", "ws_1", "ws_2", "ws_3", "ws_3"]
    assert wire.stream(*(event(n, workspace_id=name) for n, name in enumerate(places))) == ["EVT010"] * 2


def test_sessions_may_have_different_workspaces(wire, event):
    wire.stream(event(1))
    wire.stream(event(1, session_id="s2", workspace_id="x"), exchange=2, request="GET /v1/sessions/s2/events/stream")
    assert wire.codes == []


@pytest.mark.parametrize(
    ("data", "found"),
    TABLES["repeated-keys"],
)
def test_a_repeated_top_level_key_is_reported_however_it_is_written(wire, data, found):
    assert wire.stream(message(data)) == ["EVT012"] * found
    assert wire.verdict("EVT012") is (Verdict.FAIL if found else Verdict.PASS)


def test_only_some_of_very_many_repeated_keys_are_listed(wire):
    pairs = ",".join(f'"k{n}":1' for n in range(500))
    assert wire.stream(message(f'{{"type":"session.error",{pairs},{pairs}}}')) == ["EVT012"] * 21


@pytest.mark.parametrize("name", ["ping", "PING", "keepalive", "keep-alive", "keep_alive", "heartbeat", "heart-beat"])
@pytest.mark.parametrize("data", ["", "{}", "pong", '{"type":"ping"}', '{"type":"x"}', "[]"])
def test_a_keep_alive_as_an_event_is_one_note(wire, name, data):
    assert wire.stream(message(data, name)) == ["KAL002"]


def test_a_keep_alive_without_a_name_is_recognized_by_its_type(wire):
    assert wire.stream(message({"type": "ping"}, None)) == ["KAL002", "SSE006"]


def test_a_keep_alive_without_data_is_not_an_event(wire):
    assert wire.stream("event: ping\n\n") == ["SSE008"]


@pytest.mark.parametrize(
    ("event", "document", "codes"),
    [
        ("ping", {"type": "session.error"}, ["EVT003"]),
        ("session.error", {"type": "ping"}, ["EVT002", "EVT003"]),
        ("pinging", {"type": "pinging"}, ["EVT002"]),
    ],
)
def test_an_event_with_a_known_name_is_not_a_keep_alive(wire, event, document, codes):
    assert wire.stream(message(document, event)) == codes


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([": a\n\n"], 1),
        ([":\r\n\r\n"], 1),
        ([": a\n: b\n\n: c\n\n"], 1),
        ([": a\n: b\n"], 0),
        ([": a\n", "\n"], 1),
        ([": a\n", delta()], 0),
        (["\n\n"], 0),
        ([": a\n"], 0),
    ],
)
def test_blank_lines_after_comments_are_one_note_per_stream(wire, parts, found):
    assert wire.stream(*parts) == ["KAL003"] * found


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


def test_findings_name_the_expected_and_the_actual_value(wire, event):
    wire.stream(event(1, "tool.started", **TOOL | {"data": {"tool_call_id": 5, "name": "x\x1b"}}), delta(delta=1))
    assert found(wire) == [
        ("EVT007", "Expected a string as `data.tool_call_id`, got the number 5."),
        ("EVT008", "Expected `search`, the value in `content`, as `data.name`, got `x\\x1b`."),
        ("EVT011", "Expected an object as `delta`, got the number 1."),
    ]


@pytest.mark.parametrize("character", ["a", "é", "€", "😀"])
@pytest.mark.parametrize("count", [59, 60, 61, 200])
def test_bytes_are_quoted_like_their_text(character, count):
    """A character is up to four bytes."""
    text = character * count
    assert quote_bytes(text.encode()) == quote(text)
    assert quote(text).count(character) == min(count, 60)


@pytest.mark.parametrize("number", [10**40, -(10**40), 1e40])
def test_a_number_of_more_than_40_digits_is_not_quoted(number):
    assert format_number(number) == "of more than 40 digits"
    assert format_number(10**40 - 1) == "9" * 40
