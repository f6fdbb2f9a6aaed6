"""What holds for every stream, tried on streams made to be difficult."""

import itertools
import re
from collections.abc import Iterable

from for_each import for_each
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.sse import Frame, FrameKind, Parser

_PIECES = [
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r", b"\r\r\n"),
    *(b":", b": ping", b": ping\r\n\r\n", b" ", b"\t", b"\0", b"\xef\xbb\xbf", b"\xef", b"\xbb", b"\xff"),
    *(b"data", b"data:", b"data: a", b"data:  b", b"data:\xe2\x82", b"Data: x", b" data: x", b"dat"),
    *(
        b"id",
        b"id:",
        b"id: 1",
        b"id: 2\0",
        b"id: \xc3\xa9",
        b"event",
        b"event: x",
        b"event:",
        b"retry: 10",
        b"foo: bar",
    ),
    *("€".encode(), b"id: 3\ndata: c\n\n", b"id: 4\r\ndata: d\r\n\r\n", b"data: e\r\r", b"event: y\ndata:\n\n"),
]


def streams() -> st.SearchStrategy[bytes]:
    """Streams put together of pieces that matter, or with one kind of line end, or of any bytes."""
    pieces = st.lists(st.sampled_from(_PIECES), max_size=25).map(b"".join)
    lines = st.lists(st.sampled_from([b"", b":", b"data: a", b"id: 1", b"id", b"event: x", b"data"]), max_size=25)
    one_kind = st.builds(lambda end, parts: end.join(parts), st.sampled_from([b"\n", b"\r\n", b"\r"]), lines)
    return pieces | one_kind | st.binary(max_size=60)


def fed(pieces: Iterable[bytes], **options) -> list[Frame]:
    parser = Parser(**options)
    frames = [frame for piece in pieces for frame in parser.feed(piece)]
    return frames + parser.close()


def cut(stream: bytes, points: Iterable[int]) -> list[bytes]:
    ends = sorted({point % (len(stream) + 1) for point in points})
    return [stream[begin:end] for begin, end in itertools.pairwise([0, *ends, len(stream)])]


def events_by_the_standard(stream: bytes) -> list[tuple[str, str, str]]:
    """The events a client is handed: type, data, last event ID.

    The clauses of the standard one after the other, on the whole text at once.
    """
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = re.split("\r\n|\n|\r", text)[:-1]
    events = []
    data, event_type, last_event_id = "", "", ""
    for line in lines:
        if line == "":
            if data != "":
                events.append((event_type or "message", data.removesuffix("\n"), last_event_id))
            data, event_type = "", ""
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                event_type = value
            elif name == "data":
                data += value + "\n"
            elif name == "id" and "\0" not in value:
                last_event_id = value
    return events


def events_of(frames: Iterable[Frame]) -> list[tuple[str, str, str]]:
    return [
        (
            frame.event or "message",
            frame.data.decode("utf-8", "replace"),
            frame.last_event_id.decode("utf-8", "replace"),
        )
        for frame in frames
        if frame.is_dispatched
    ]


options = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.integers(1, 40),
        "start": st.integers(0, 3),
        "midstream": st.booleans(),
        "last_event_id": st.sampled_from([b"", b"0"]),
    },
)
thorough = settings(max_examples=max(100, settings().max_examples))
points = st.lists(st.integers(0, 1000), max_size=12)


@thorough
@given(streams(), options)
def test_every_byte_is_in_exactly_one_frame(stream, options):
    frames = fed([stream], **options)
    assert b"".join(frame.raw for frame in frames) == stream
    begin = options.get("start", 0)
    for frame in frames:
        assert frame.start == begin
        assert frame.raw
        begin = frame.end


@thorough
@given(streams(), points, options)
def test_any_chunking_gives_the_same_frames(stream, points, options):
    whole = fed([stream], **options)
    assert fed(cut(stream, points), **options) == whole
    assert fed([stream[at : at + 1] for at in range(len(stream))], **options) == whole


@for_each("options", [{}, {"limit": 1}, {"limit": 3}, {"midstream": True}, {"midstream": True, "limit": 2}])
def test_every_short_stream_has_the_same_frames_whole_and_by_bytes(options):
    for length in range(7):
        for letters in itertools.product(b"\r\n:d", repeat=length):
            stream = bytes(letters)
            whole = fed([stream], **options)
            assert b"".join(frame.raw for frame in whole) == stream
            assert fed([stream[at : at + 1] for at in range(length)], **options) == whole, stream


def test_every_short_stream_is_parsed_as_in_the_standard():
    for length in range(6):
        for pieces in itertools.product([b"\r", b"\n", b":", b"data", b"id", b"\xef\xbb\xbf", b"1"], repeat=length):
            stream = b"".join(pieces) + b"\n\n"
            assert events_of(fed([stream])) == events_by_the_standard(stream), stream


@thorough
@given(streams())
def test_events_are_those_of_the_standard(stream):
    assert events_of(fed([stream])) == events_by_the_standard(stream)


@thorough
@given(streams())
def test_only_a_whole_block_changes_the_last_event_id(stream):
    """Seen by a client as the id of an event that comes next."""
    frames = fed([stream])
    cut_off = len(frames[-1].raw) if frames and frames[-1].kind is FrameKind.TAIL else 0
    whole = stream[: len(stream) - cut_off]
    probed = events_by_the_standard(whole + b"data: probe\n\n")
    assert (frames[-1].last_event_id if frames else b"").decode("utf-8", "replace") == probed[-1][2]


@thorough
@given(streams(), st.integers(1, 30))
def test_a_limit_changes_only_the_frames_over_it(stream, limit):
    expected = []
    for frame in fed([stream]):
        if len(frame.raw) <= limit:
            expected.append((frame.kind, frame.raw, frame.fields))
        else:
            pieces = (frame.raw[at : at + limit] for at in range(0, len(frame.raw), limit))
            expected += [(FrameKind.OVERSIZED, piece, ()) for piece in pieces]
    assert [(frame.kind, frame.raw, frame.fields) for frame in fed([stream], limit=limit)] == expected


@thorough
@given(streams(), st.integers(1, 60))
def test_a_stream_parsed_from_the_middle_has_the_same_frame_ends(stream, at):
    tail, *frames = fed([stream[at:]], start=at, midstream=True) or [None]
    if tail is not None:
        assert (tail.kind, tail.start, tail.fields) == (FrameKind.TAIL, at, ())
        rest = [frame for frame in fed([stream]) if frame.start >= tail.end]
        assert [(frame.kind, frame.start, frame.raw, frame.fields) for frame in frames] == [
            (frame.kind, frame.start, frame.raw, frame.fields) for frame in rest
        ]


@thorough
@given(streams(), options)
def test_a_frame_is_never_later_than_the_byte_after_it(stream, options):
    parser = Parser(**options)
    start = options.get("start", 0)
    for at in range(len(stream)):
        for frame in parser.feed(stream[at : at + 1]):
            late = start + at + 1 - frame.end
            assert late == 0 or (late == 1 and (frame.raw.endswith(b"\r") or frame.kind is FrameKind.OVERSIZED))


@given(
    st.lists(st.sampled_from([b"", b":", b"data: a", b"id: 1"]), max_size=20), st.sampled_from([b"\n", b"\r\n", b"\r"])
)
def test_a_stream_with_one_kind_of_line_end_is_never_late(lines, end):
    """But for the first line end of a CR stream, which might be half of a CR LF."""
    stream = b"data: first" + end + end + b"".join(line + end for line in lines)
    parser = Parser()
    for at in range(len(stream)):
        for frame in parser.feed(stream[at : at + 1]):
            assert frame.end == at + 1
