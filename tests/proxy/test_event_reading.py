"""What is kept of an event stream for those who look, and how it is read when they do."""

import gzip
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.frame_reader import StreamPosition
from wiretape.sse import FrameKind, Parser
from wiretape_proxy.reading import SHOWN, Reading
from wiretape_proxy.reports import Found
from wiretape_proxy.streams import Stream, lines_of_body
from wiretape_proxy.tail import MOST_BYTES, Tail

PIECES = [
    b"id: e1\ndata: {}\n\n",
    b"data: x\r\n\r\n",
    b": keep-alive\n\n",
    b"event: a\n\n",
    b"\n",
    b"data: \xff\xfe\n\n",
]


def nowhere(_):
    """No place is known."""


def places(body):
    """What the index would tell."""
    messages = [frame for frame in Parser().feed(body) if frame.kind is FrameKind.MESSAGE]

    def find(offset):
        for before, frame in enumerate(messages):
            if frame.start >= offset:
                return StreamPosition(frame.start, before)
        return None

    return find


def filled(body, size=1000):
    tail = Tail(None)
    for at in range(0, len(body), size):
        tail.keep(body[at : at + size])
    return tail


@settings(max_examples=40)
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.lists(st.integers(0, 400), max_size=8))
def test_however_a_stream_is_cut_and_whenever_it_is_read_its_rows_are_its_frames(pieces, cuts):
    body = b"".join(pieces)
    tail = Tail(None)
    reading = Reading(tail)
    for begin, end in pairwise(sorted({0, len(body), *(min(cut, len(body)) for cut in cuts)})):
        tail.keep(body[begin:end])
        reading.catch_up(nowhere)
    frames = [frame for frame in Parser().feed(body) if frame.kind not in {FrameKind.BLANK, FrameKind.BOM}]

    assert [row.kind for row in reading.rows] == [frame.kind for frame in frames]
    numbers = [row.event for row in reading.rows if row.event]
    assert numbers == list(range(1, (reading.events or 0) + 1))
    assert reading.whole


def test_who_looks_late_sees_the_last_events_with_the_numbers_that_the_index_knows():
    body = b"".join(b"data: %0600d\n\n" % number for number in range(1, 5001))
    tail = filled(body)
    reading = Reading(tail)
    reading.catch_up(places(body))

    assert tail.start > 0
    assert reading.events == 5000
    assert [row.event for row in reading.rows] == list(range(5000 - len(reading.rows) + 1, 5001))
    assert 100 < len(reading.rows) <= SHOWN
    assert not reading.whole


def test_without_the_index_events_have_no_numbers_until_it_knows_them():
    body = b"".join(b"data: %0600d\n\n" % number for number in range(1, 5001))
    reading = Reading(filled(body))
    reading.catch_up(nowhere)
    assert reading.events is None
    assert {row.event for row in reading.rows} == {None}
    assert len(reading.rows) > 100

    reading.catch_up(places(body))
    assert reading.rows[-1].event == 5000


def test_what_is_kept_is_bounded_whatever_the_chunks():
    tail = filled(b"x" * 5 * MOST_BYTES, size=65_535)
    assert tail.end == tail.size == 5 * MOST_BYTES
    assert len(tail.content()) == MOST_BYTES

    tail = filled(b"x" * 150_000, size=1)
    chunks = list(tail.chunks(0))
    assert len(chunks) <= 1 << 17
    assert b"".join(data for _, data in chunks) == b"x" * (tail.end - tail.start)


def test_of_an_encoded_stream_the_beginning_is_kept():
    tail = Tail("gzip")
    kept = [tail.keep(bytes([number]) * 65_536) for number in range(32)]

    assert kept == [True] * 16 + [False] * 16
    assert (tail.start, tail.end, tail.size) == (0, MOST_BYTES, 2 * MOST_BYTES)
    assert tail.content()[:1] == b"\0"


def test_of_a_stream_that_is_known_by_its_body_alone_all_is_shown_but_times():
    body = b'id: e1\ndata: {"type": "a", "sequence": 7}\n\ndata: cut'
    lines = ["       1       7              a                       e1  " + '{"type": "a", "sequence": 7}']
    lines = [line.removeprefix(" ") for line in lines] + ["    cut  9 bytes of an unfinished event"]

    assert lines_of_body(body, None)[2:] == lines
    assert lines_of_body(gzip.compress(body), "gzip")[2:] == lines


def test_findings_stand_below_their_event_below_the_head_or_are_counted():
    stream = Stream("a run.db", 3, None)
    stream.tail.keep(b"data: 1\n\ndata: 2\n\n")
    found = [Found("SSE006", "error", 3, event, f"about {event}", more=False) for event in (2, None, 9)]
    lines = stream.lines(found)

    assert lines[0] == "exchange 3: still open, 2 events, 18 bytes"
    assert [line.strip() for line in (lines[1], lines[-2], lines[-1])] == [
        "└ SSE006 error  about None",
        "└ SSE006 error  about 2",
        "└ 1 finding about events that are not shown",
    ]
    assert lines[-3].split()[0] == "2"
