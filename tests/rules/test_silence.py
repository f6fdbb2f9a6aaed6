"""Silence on a stream: how long it was, whoever ended it, and however its bytes were grouped."""

import gzip
import zlib
from functools import partial

import pytest
from for_each import for_each
from wire import Wire

from wiretape.checker import Checker, Settings
from wiretape.observations import BytesArrived, Ending, ExchangeEnded, Side
from wiretape.rules import Verdict

FAMILIES = {"KAL"}
WIRE = partial(Wire, families=FAMILIES)


ALIVE = ": keep-alive\n"


@pytest.mark.parametrize("seconds", [17.5, 60.0, 86_400.0])
def test_one_silence_is_one_finding_with_its_length(wire, event, seconds):
    assert wire.stream(event(1), seconds, ALIVE, ALIVE) == ["KAL001"]
    (finding,) = wire.findings
    assert finding.message == f"Expected a byte at least every 15 s, got none for {seconds:.1f} s."
    assert (finding.event, finding.sequence, finding.byte_offset) == (1, 1, 0)


def test_each_silence_is_a_finding_and_the_first_is_before_any_event(wire):
    assert wire.stream(20.0, ALIVE, 5.0, ALIVE, 30.0, ALIVE) == ["KAL001", "KAL001"]
    assert (wire.findings[0].event, wire.findings[0].byte_offset) == (None, None)


def test_an_event_before_a_silence_precedes_it_even_if_the_next_byte_completes_it(wire, event):
    wire.stream(event(1), event(2).removesuffix("\n") + "\r", 20.0, ALIVE)
    (finding,) = wire.findings
    assert (finding.code, finding.event) == ("KAL001", 2)


def test_a_silence_is_reported_when_it_ends(wire):
    wire.begin()
    wire.wait(100)
    wire.begin(exchange=2)
    assert wire.codes == []
    wire.body("\n")
    assert wire.codes == ["KAL001"]


@for_each("ending", list(Ending), wire=WIRE)
def test_a_silence_ends_with_the_stream_whoever_ends_it(wire, ending):
    assert wire.stream(ALIVE, 30.0, ending=ending) == ["KAL001"]


def test_a_silence_ends_with_the_recording(wire):
    wire.begin()
    wire.wait(20)
    wire.ask(exchange=2)
    (finding,) = wire.checker.finish()
    assert (finding.code, finding.exchange) == ("KAL001", 1)
    assert "20.0 s" in finding.message


@for_each(
    ("parts", "verdict"),
    [
        (3 * [15.0, ALIVE], Verdict.PASS),
        (3 * [16.9, ALIVE], Verdict.PASS),
        ([10.0], Verdict.NOT_EXERCISED),
        ([ALIVE, 10.0, 5, 10.0, ALIVE], Verdict.INCONCLUSIVE),
        ([5, ALIVE, 20.0, ALIVE], Verdict.FAIL),
    ],
    ids=["within the tolerance", "nearly too long", "a short stream", "lost bytes in between", "lost bytes before"],
    wire=WIRE,
)
def test_a_stream_is_silent_only_if_it_certainly_is(wire, parts, verdict):
    assert wire.stream(*parts) == (["KAL001"] if verdict is Verdict.FAIL else [])
    assert wire.verdict("KAL001") is verdict


@pytest.mark.parametrize(("tolerance", "found"), [(0.0, 1), (4.9, 1), (5.1, 0)])
def test_the_tolerance_can_be_set(wire, tolerance, found):
    wire.checker = Checker(Settings(keep_alive_tolerance_s=tolerance))
    assert wire.stream(20.0, ALIVE).count("KAL001") == found


def test_responses_that_are_not_streams_may_be_silent(wire):
    wire.stream(100.0, "{}", request="GET /v1/sessions/anything", status=500)
    assert wire.verdict("KAL001") is Verdict.NOT_EXERCISED


def span(pieces, begin_ns):
    """Bytes as one span of chunks, each given with the seconds since the one before."""
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


@for_each("grouping", [[7], [1, 6], [3, 4], [2, 2, 3], [1] * 7], wire=WIRE)
def test_how_chunks_are_grouped_makes_no_difference(wire, grouping):
    wire.begin()
    whole = span(PIECES, 10)
    at, pieces = 0, []
    for count in grouping:
        start = whole.ends[at - 1] if at else 0
        ends, times = whole.ends[at : at + count], whole.times[at : at + count]
        pieces.append(BytesArrived(1, Side.RESPONSE, start, whole.data[start : ends[-1]], ends, times))
        at += count
    for piece in pieces:
        wire.feed(piece)
    wire.feed(ExchangeEnded(1, whole.times[-1] + 10, Ending.COMPLETE))
    assert [(f.code, f.event, f.time_ns // 10**9) for f in wire.findings] == [("KAL001", None, 21), ("KAL001", 1, 39)]


@pytest.mark.parametrize("broken", [False, True])
def test_silences_of_an_encoded_stream_are_measured_on_the_wire(wire, broken):
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(b": a\n" * 100) + packer.flush(zlib.Z_SYNC_FLUSH)
    second = gzip.compress(b"") if not broken else b"no gzip at all"
    wire.begin(headers={"content-type": "text/event-stream", "content-encoding": "gzip"})
    wire.feed(span([(1, first), (20, second), (1, b"x")], 10))
    assert wire.codes == ["KAL001"]
