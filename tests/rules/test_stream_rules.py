"""The rules of a stream where their edges are."""

import gzip
import json
from functools import partial

import pytest
from for_each import for_each
from wire import Wire, rows_of

from wiretape.checker import Checker, Settings
from wiretape.observations import Ending
from wiretape.rules import Verdict

FAMILIES = {"SSE", "DUR", "SEQ"}
WIRE = partial(Wire, families=FAMILIES)
PLAIN = "GET /v1/sessions/ses_1/events/stream"
DELTA = 'event: message.delta\ndata: {"type":"message.delta","run_id":"r","delta":{"text":"Hi"}}\n\n'


@for_each("case", rows_of(__file__), lambda case: case[1]["of"], wire=WIRE)
def test_a_stream_is_judged_as_its_row_says(wire, case):
    wire.hold(*case)


@pytest.mark.parametrize("ending", [Ending.SERVICE_CLOSED, Ending.SERVICE_RESET, Ending.COMPLETE])
def test_an_event_cut_off_by_the_service_is_reported_at_its_offset(wire, ending):
    wire.stream(DELTA + "event: x", ending=ending)
    (finding,) = wire.findings
    assert (finding.code, finding.event, finding.byte_offset) == ("SSE002", None, len(DELTA))


def test_a_rule_that_is_off_is_not_exercised_even_if_events_are_lost(wire):
    """It runs nevertheless, because EVT001 leaves out what it reports."""
    wire.checker = Checker(Settings(off=frozenset({"SSE001"})))
    wire.stream(DELTA, 100)
    assert (wire.verdict("SSE001"), wire.verdict("SSE003")) == (Verdict.NOT_EXERCISED, Verdict.INCONCLUSIVE)


def test_an_unrequested_delta_is_reported_after_other_events(wire, event):
    ephemeral = 'event: session.error\ndata: {"type":"session.error"}\n\n'
    assert wire.stream(event(1), ephemeral, DELTA, event(2), DELTA, request=PLAIN) == ["DUR007"]
    assert wire.findings[0].event == 3


@pytest.mark.parametrize("sequence", [2**63, 2**64, 10**30])
def test_a_very_long_sequence_is_an_integer(wire, event, sequence):
    assert wire.stream(event(sequence), event(sequence + 1), event(sequence, sse_id="a", id="a")) == ["SEQ002"]
    assert wire.findings[0].sequence is None, "what SQLite cannot store is left out of the finding"


@pytest.mark.parametrize("sequence", [2**63 - 1, -(2**63)])
def test_a_sequence_of_64_bits_is_in_its_finding(wire, event, sequence):
    assert wire.stream(event(sequence), event(sequence, sse_id="a", id="a")) == ["SEQ002"]
    assert wire.findings[0].sequence == sequence


@pytest.mark.parametrize("deep", ["[" * 100_000 + "]" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000, "1" * 5000])
def test_json_too_deep_or_long_to_read_gives_no_finding_and_no_crash(wire, event, deep):
    document = event(2)[:-3] + f',"x":{deep}}}\n\n'
    assert wire.stream(event(1), document.replace("id: evt_2\n", ""), event(3)) == []


def test_a_number_that_is_too_long_is_inconclusive(wire):
    document = json.dumps({"type": "message.delta", "sequence": 2**70})[:-1] + f', "x": {"[" * 990 + "]" * 990}}}'
    assert wire.stream(f"event: message.delta\ndata: {document}\n\n") == ["DUR005"]


@pytest.mark.parametrize("where", [b"evt_1", b'"evt_1"'])
def test_bad_utf8_in_one_id_or_both_is_one_defect(wire, event, where):
    assert wire.stream(event(1).encode().replace(where, where.replace(b"1", b"\xff"))) == ["SSE001"]


def test_invalid_utf8_elsewhere_does_not_hide_other_defects(wire, event):
    broken = event(1, id="other", sse_id="evt_1").encode().replace(b"run_1", b"run_\xff")
    assert wire.stream(broken) == ["DUR003", "SSE001"]


def test_bad_utf8_in_a_comment_inside_a_message_is_found(wire):
    assert wire.stream(DELTA.encode().replace(b"data:", b": \xe9\ndata:")) == ["SSE001"]


def test_the_last_id_without_nul_wins(wire, event):
    ids = "id: first\nid: evt_1\nid: a\0\n"
    assert wire.stream(event(1).replace("id: evt_1\n", ids)) == ["SSE004", "SSE005"]
    wire.findings.clear()
    ids = ids.replace("evt_1", "evt_2")
    assert wire.stream(event(2, id="a\0", sse_id="x").replace("id: x\n", ids)) == ["DUR003", "SSE004", "SSE005"]
    assert wire.findings[0].message == "Expected the SSE id `evt_2` as JSON `id`, got the string `a\\x00`."


def test_many_unknown_fields_are_few_findings(wire):
    fields = "".join(f"field{number}\n" for number in range(50_000))
    assert wire.stream(fields + DELTA) == ["SSE003"] * 21
    assert wire.findings[-1].message == "Expected no more problems, got 49980 more fields like these."


@for_each(
    ("value", "usable"),
    [
        ("1", True),
        ("3000", True),
        ("0003000", True),
        ("2147483647", True),
        ("2147483648", False),
        ("0", False),
        ("000", False),
        ("", False),
        (" 1", False),
        ("1.5", False),
        ("-1", False),
        ("1_000", False),
        ("\uff11", False),  # a digit, but a wide one
        ("9" * 5000, False),
    ],
    wire=WIRE,
)
def test_retry_is_usable_or_not(wire, value, usable):
    assert wire.stream(f"retry: {value}\n{DELTA}") == ([] if usable else ["SSE010"])


@for_each(
    ("identity", "fit"),
    [
        ("a", True),
        ("a b~!", True),
        ("x" * 1024, True),
        ("x" * 1025, False),
        (" a", False),
        ("a ", False),
        ("a\t", False),
        ("a\tb", False),
        ("\x7f", False),
        ("\x1b[31m", False),
        ("ä", False),
    ],
    wire=WIRE,
)
def test_an_id_fits_a_header_or_not(wire, event, identity, fit):
    assert wire.stream(event(1, id=identity)) == ([] if fit else ["SSE011"])
    assert all(finding.message.isprintable() for finding in wire.findings)


def test_a_compressed_stream_is_read_and_offsets_count_decoded_bytes(wire, event):
    data = gzip.compress((event(1) + event(1)).encode())
    headers = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
    assert wire.stream(*(bytes([byte]) for byte in data), headers=headers) == ["SSE009", "SEQ001", "SEQ003"]
    assert wire.findings[1].byte_offset == len(event(1))


@pytest.mark.parametrize(("coding", "data"), [("gzip", b"not gzip at all"), ("secret", b"\0\1")])
def test_a_stream_that_cannot_be_decoded_is_inconclusive(wire, coding, data):
    assert wire.stream(data, headers={"Content-Type": "text/event-stream", "Content-Encoding": coding}) == ["SSE009"]
    assert wire.verdict("SSE001") is Verdict.INCONCLUSIVE
    assert wire.verdict("SSE002") is Verdict.INCONCLUSIVE
    assert wire.verdict("DUR004") is Verdict.NOT_EXERCISED


def test_an_oversized_event_counts_as_lost(wire, event):
    large = [b"data: " + b"x" * (1 << 20) + b"\n"] * 17
    assert wire.stream(event(1), *large, "\n" + event(3) + event(4)) == []
    assert (wire.verdict("SEQ004"), wire.verdict("SSE002")) == (Verdict.INCONCLUSIVE, Verdict.PASS)


def test_a_reused_sequence_is_found_once_and_not_again_in_the_replay(wire, event):
    wire.stream(event(1) + event(1, sse_id="b", id="b"))
    assert wire.codes == ["SEQ002"]
    wire.findings.clear()
    wire.stream(event(1, sse_id="b", id="b"))
    wire.stream(event(1))
    assert wire.codes == []
    assert wire.stream(event(1, sse_id="c", id="c")) == ["SEQ002"]


def test_sessions_of_other_services_and_base_paths_are_other_sessions(wire, event):
    wire.stream(event(1))
    wire.stream(event(1, id="b"), authority="other.test")
    wire.stream(event(1, id="b"), request="GET /eu/v1/sessions/ses_1/events/stream")
    wire.stream(event(1, id="b"), request="GET /v1/sessions/ses_2/events/stream")
    assert wire.codes == []


def test_interleaved_connections_keep_their_own_order(wire, event):
    wire.begin(exchange=1)
    wire.begin(exchange=2)
    for sequence in (1, 2, 3):
        wire.body(event(sequence), exchange=1)
        wire.body(event(sequence), exchange=2)
    assert wire.codes == []
    wire.body(event(2), exchange=1)
    assert [(f.code, f.exchange, f.event) for f in wire.findings] == [("SEQ001", 1, 4), ("SEQ003", 1, 4)]


@for_each("status", [201, 204, 206, 301, 404], wire=WIRE)
def test_only_responses_with_200_are_streams(wire, status):
    assert wire.stream("data: not an event\n\n", status=status, headers={"Content-Type": "text/event-stream"}) == []
    assert wire.verdict("EVT001") is Verdict.NOT_EXERCISED
    assert wire.checker.events == 1


@pytest.mark.parametrize("request_line", ["GET /v1/other/stream", "POST /v1/sessions/ses_1/events/stream"])
def test_only_the_framing_of_other_streams_is_checked(wire, request_line):
    assert wire.stream("data: x\n\n", "retry: 0\ndata: y\n\n", request=request_line) == ["SSE010"]
    exercised = {code for code, verdict in wire.checker.verdicts().items() if verdict is not Verdict.NOT_EXERCISED}
    assert exercised == {"SSE001", "SSE002", "SSE003", "SSE008", "SSE009", "SSE010"}


def test_the_state_of_an_exchange_is_released_when_it_ends(wire, event):
    for number in range(1, 4):
        wire.stream(event(number), exchange=number)
    assert wire.checker._open == {}


def test_observations_of_unknown_exchanges_are_ignored(wire):
    wire._ends[9] = 0
    wire.body("data: x\n\n", exchange=9)
    wire.lose(5, exchange=9)
    wire.end(exchange=9)
    assert wire.codes == []


SEEN_BY_EVERY_MESSAGE = {"SSE001", "SSE003", "SSE005", "SSE008"}
SEEN_BY_EVERY_STREAM = SEEN_BY_EVERY_MESSAGE | {"SSE002", "SSE007", "SSE009"}


@for_each(
    ("body", "exercised"),
    [
        ("", {"SSE002", "SSE007", "SSE009"}),
        (": keep-alive\n\n", {"SSE002", "SSE007", "SSE009"}),
        ("retry: 10\n\n", SEEN_BY_EVERY_STREAM | {"SSE010"}),
        ("id: a\n\n", SEEN_BY_EVERY_STREAM | {"SSE004", "SSE011"}),
        ("id: a\0\n\n", SEEN_BY_EVERY_STREAM | {"SSE004"}),
        ("data: no object\n\n", SEEN_BY_EVERY_STREAM | {"SSE006"}),
        ('event: x\ndata: {"type":"x"}\n\n', SEEN_BY_EVERY_STREAM | {"SSE006"}),
        (DELTA, SEEN_BY_EVERY_STREAM | {"SSE006", "DUR004", "DUR005", "DUR007"}),
        ('event: x\ndata: {"sequence":1}\n\n', SEEN_BY_EVERY_STREAM | {"SSE006", "DUR002"}),
        (
            'event: x\nid: a\0\ndata: {"sequence":1}\n\n',
            SEEN_BY_EVERY_STREAM | {"SSE006", "SSE004", "DUR001", "DUR002"},
        ),
        (
            'event: x\nid: a\ndata: {"sequence":1,"id":"a"}\n\n',
            SEEN_BY_EVERY_STREAM | {"SSE006", "SSE004", "SSE011", "DUR001", "DUR002", "DUR003", "SEQ002"},
        ),
        (
            'event: x\nid: a\ndata: {"id":"a"}\n\n',
            SEEN_BY_EVERY_STREAM | {"SSE006", "SSE004", "SSE011", "DUR001", "DUR003"},
        ),
        ('event: x\ndata: {"type":"tool.started"}\n\n', SEEN_BY_EVERY_STREAM | {"SSE006", "DUR006"}),
    ],
    wire=WIRE,
)
def test_only_events_to_which_a_rule_applies_exercise_it(wire, body, exercised):
    wire.stream(body)
    verdicts = wire.checker.verdicts()
    assert {code for code, verdict in verdicts.items() if verdict is not Verdict.NOT_EXERCISED} == exercised


@for_each(
    ("second", "exercised"),
    [
        ('event: x\nid: b\ndata: {"sequence":2,"id":"b"}\n\n', {"SEQ001", "SEQ002", "SEQ003", "SEQ004"}),
        ('event: x\nid: b\ndata: {"id":"b"}\n\n', {"SEQ002", "SEQ003"}),
        (
            'event: x\ndata: {"sequence":2,"created_at":"2025-01-01T00:00:00Z"}\n\n',
            {"SEQ001", "SEQ002", "SEQ004", "SEQ005"},
        ),
        (DELTA, {"SEQ002"}),
    ],
    wire=WIRE,
)
def test_the_second_event_exercises_the_order_rules(wire, second, exercised):
    first = 'event: x\nid: a\ndata: {"sequence":1,"id":"a","created_at":"2025-01-01T00:00:00Z"}\n\n'
    wire.stream(first, second)
    verdicts = wire.checker.verdicts()
    found = {code for code, verdict in verdicts.items() if verdict is not Verdict.NOT_EXERCISED}
    assert {code for code in found if code.startswith("SEQ")} == exercised


@for_each(
    ("body", "message"),
    [
        ("id: a\0\n\n", "Expected an id without U+0000, got `a\\x00`."),
        ("id: ä\n\n", "got one that is not printable ASCII: `ä`."),
        ("id: \x1b\n\n", "got one that is not printable ASCII: `\\x1b`."),
        ("id:  a\n\n", "got one with a leading or trailing space or tab: ` a`."),
        ("id: a\tb\n\n", "got one with a tab: `a\\tb`."),
        (f"id: {'a' * 2000}\n\n", "got one of 2000 bytes."),
        (
            'event: x\nid: a\ndata: {"type":"x"}\n\n',
            "Expected a JSON `sequence` in the event with the SSE id `a`, got none.",
        ),
        ('event: x\ndata: {"sequence":"1"}\n\n', "whose JSON `sequence` is the string `1`, got none."),
        ('event: x\nid\ndata: {"sequence":1}\n\n', "whose JSON `sequence` is the number 1, got an empty one."),
        ('id: a\nevent: x\ndata: {"type":"message.delta"}\n\n', "got the id `a`."),
        ('id\nevent: x\ndata: {"type":"message.delta"}\n\n', "got an empty one."),
        ('data: {"type":"x"}\n\n', "Expected the line `event: x`, got none."),
        ("data: {}\n\n", "Expected an `event` line, got none."),
    ],
    wire=WIRE,
)
def test_a_finding_names_the_expected_and_the_actual_value(wire, body, message):
    wire.stream(body)
    assert any(finding.message.endswith(message) for finding in wire.findings)


def test_a_finding_has_its_location(wire, event):
    wire.stream(": hello\n", event(1), DELTA, event(2, id="x", sse_id="y"))
    (finding,) = wire.findings
    assert (finding.event, finding.sequence, finding.byte_offset) == (3, 2, len(": hello\n" + event(1) + DELTA))
    assert finding.exchange == 1
    assert finding.time_ns > 0
    assert finding.message == "Expected the SSE id `y` as JSON `id`, got the string `x`."


def test_recorded_text_in_a_finding_is_short_and_printable(wire, event):
    wire.stream(event(1, id="\x1b[2J" + "x" * 5000, sse_id="evt\u202e_1"), event(2, id="y" * 900, sse_id="z" * 900))
    assert wire.codes == ["DUR003", "SSE011", "DUR003"]
    assert all(len(f.message) < 250 and f.message.isprintable() for f in wire.findings)
