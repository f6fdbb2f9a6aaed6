"""Silence on a stream: how long it was, whoever ended it, and however its bytes were grouped."""

import gzip
import zlib

import pytest

from wiretape.observations import BytesArrived, Ending, ExchangeEnded, Side
from wiretape.rules import Checker, Settings, Verdict

FAMILIES = {"KAL"}


def comment(wire):
    wire.body(": keep-alive\n")


@pytest.mark.parametrize("seconds", [17.5, 60, 86_400])
def test_one_silence_is_one_finding_with_its_length(wire, event, seconds):
    wire.begin()
    wire.body(event(1))
    wire.wait(seconds)
    comment(wire)
    comment(wire)
    (finding,) = wire.findings
    assert finding.code == "KAL001"
    assert finding.message == f"Expected a byte at least every 15 s, got none for {seconds:.1f} s."
    assert (finding.event, finding.sequence, finding.byte_offset) == (1, 1, 0)


def test_each_silence_is_a_finding(wire):
    wire.begin()
    for seconds in (20, 5, 30):
        wire.wait(seconds)
        comment(wire)
    assert wire.codes == ["KAL001", "KAL001"]


def test_before_the_first_event_a_silence_has_no_event(wire):
    wire.begin()
    wire.wait(20)
    comment(wire)
    assert (wire.findings[0].event, wire.findings[0].byte_offset) == (None, None)


def test_an_event_before_a_silence_precedes_it_even_if_the_next_byte_completes_it(wire, event):
    wire.begin()
    wire.body(event(1))
    wire.body(event(2).removesuffix("\n") + "\r")
    wire.wait(20)
    comment(wire)
    (finding,) = wire.findings
    assert (finding.code, finding.event) == ("KAL001", 2)


def test_a_silence_is_reported_when_it_ends(wire):
    wire.begin()
    wire.wait(100)
    wire.begin(exchange=2)
    assert wire.codes == []
    wire.body("\n")
    assert wire.codes == ["KAL001"]


@pytest.mark.parametrize("ending", list(Ending))
def test_a_silence_ends_with_the_stream_whoever_ends_it(wire, ending):
    wire.begin()
    comment(wire)
    wire.wait(30)
    wire.end(ending=ending)
    assert wire.codes == ["KAL001"]


def test_a_silence_ends_with_the_recording(wire):
    wire.begin()
    wire.wait(20)
    wire.ask(exchange=2)
    (finding,) = wire.checker.finish()
    assert (finding.code, finding.exchange) == ("KAL001", 1)
    assert "20.0 s" in finding.message


@pytest.mark.parametrize("seconds", [15, 16.9])
def test_within_the_tolerance_there_is_no_silence(wire, seconds):
    wire.begin()
    for _ in range(3):
        wire.wait(seconds)
        comment(wire)
    wire.end()
    assert wire.codes == []
    assert wire.verdict("KAL001") is Verdict.PASS


def test_a_short_stream_does_not_exercise_the_rule(wire):
    wire.begin()
    wire.wait(10)
    wire.end()
    assert wire.verdict("KAL001") is Verdict.NOT_EXERCISED


@pytest.mark.parametrize(("tolerance", "found"), [(0.0, 1), (4.9, 1), (5.1, 0)])
def test_the_tolerance_can_be_set(wire, tolerance, found):
    wire.checker = Checker(Settings(keep_alive_tolerance_s=tolerance))
    wire.begin()
    wire.wait(20)
    comment(wire)
    assert wire.codes.count("KAL001") == found


def test_bytes_that_were_lost_may_have_broken_the_silence(wire):
    wire.begin()
    comment(wire)
    wire.wait(10)
    wire.lose(5)
    wire.wait(10)
    comment(wire)
    wire.end()
    assert wire.codes == []
    assert wire.verdict("KAL001") is Verdict.INCONCLUSIVE


def test_silences_after_lost_bytes_are_checked(wire):
    wire.begin()
    wire.lose(5)
    comment(wire)
    wire.wait(20)
    comment(wire)
    assert wire.codes == ["KAL001"]


def test_responses_that_are_not_streams_may_be_silent(wire):
    wire.begin(request="GET /v1/sessions/anything", status=500)
    wire.wait(100)
    wire.body("{}")
    wire.end()
    assert wire.verdict("KAL001") is Verdict.NOT_EXERCISED


def run(pieces, begin_ns):
    """Bytes as one run of chunks, each given with the seconds since the one before."""
    ends, times, data = [], [], b""
    for seconds, piece in pieces:
        data += piece
        begin_ns += round(seconds * 1e9)
        ends.append(len(data))
        times.append(begin_ns)
    return BytesArrived(1, Side.RESPONSE, 0, data, ends, times)


PIECES = [
    (1, b"event: session.error\nid: a\n"),
    (20, b'data: {"type":"session.error"}\n\n'),
    (5, b""),
    (5, b""),
    (8, b": a\n"),
    (16, b": b\n"),
    (3, b""),
]


@pytest.mark.parametrize("grouping", [[7], [1, 6], [3, 4], [2, 2, 3], [1] * 7])
def test_how_chunks_are_grouped_makes_no_difference(wire, grouping):
    wire.begin()
    whole = run(PIECES, 10)
    at, pieces = 0, []
    for count in grouping:
        start = whole.ends[at - 1] if at else 0
        ends, times = whole.ends[at : at + count], whole.times[at : at + count]
        pieces.append(BytesArrived(1, Side.RESPONSE, start, whole.data[start : ends[-1]], ends, times))
        at += count
    for piece in pieces:
        wire.feed(piece)
    wire.feed(ExchangeEnded(1, whole.times[-1] + 10, Ending.COMPLETE))
    assert [(f.code, f.event, f.time_ns // 10**9) for f in wire.findings] == [
        ("KAL001", None, 21),
        ("KAL001", 1, 39),
    ]


@pytest.mark.parametrize("broken", [False, True])
def test_silences_of_an_encoded_stream_are_measured_on_the_wire(wire, broken):
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(b": a\n" * 100) + packer.flush(zlib.Z_SYNC_FLUSH)
    second = gzip.compress(b"") if not broken else b"no gzip at all"
    wire.begin(headers={"content-type": "text/event-stream", "content-encoding": "gzip"})
    wire.feed(run([(1, first), (20, second), (1, b"x")], 10))
    assert wire.codes == ["KAL001"]
