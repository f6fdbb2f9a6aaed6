"""Reading a stream from the middle, and a recording that is still growing."""

import gzip
import sqlite3
from itertools import accumulate, dropwhile
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observation_builder import EVENT_STREAM, ObservationBuilder

from wiretape.observations import Side
from wiretape.recording import TailPosition, Writer, open_recording

FRAMES = [
    b"id: e1\ndata: {}\n\n",
    b"data: {}\r\n\r\n",
    b"data: x\r\r",
    b"id: \xff\ndata:\n\n",
    b"id:\ndata:\n\n",
    b": keep-alive\n",
    b"\n",
    b"event: a\ndata: {}\r\n\n",
]


def write(path, chunks, encoding=None, lost_after=None):
    """Write a recording with one stream of these chunks, and lost bytes after the chunk with the index `lost_after`."""
    writer, made = Writer.create(path, upstream="http://service.test"), ObservationBuilder()
    headers = (*EVENT_STREAM, ("content-encoding", encoding)) if encoding else EVENT_STREAM
    writer.feed([made.ask(), made.asked(), made.answer(headers)])
    for number, data in enumerate(chunks):
        writer.feed([made.send(data)])
        if number == lost_after:
            writer.feed([made.lose(7)])
    writer.feed([made.end()])
    writer.close(made.tick())
    return path


def from_event(recording, event):
    return list(dropwhile(lambda seen: getattr(seen, "number", 0) < event, recording.frames(1)))


@given(
    pieces=st.lists(st.sampled_from(FRAMES), max_size=12),
    cuts=st.lists(st.integers(1, 20), min_size=1, max_size=40),
    lost=st.none() | st.integers(0, 5),
    event=st.integers(0, 12),
)
def test_frames_are_the_same_from_whichever_event_reading_starts(pieces, cuts, lost, event):
    """With any line ends, chunks and lost bytes: bytes, times, event numbers and cursors are the same."""
    stream = b"".join(pieces)
    ends = [end for end in accumulate(cuts) if end < len(stream)]
    chunks = [stream[begin:end] for begin, end in zip([0, *ends], [*ends, len(stream)], strict=True) if end > begin]
    with (
        TemporaryDirectory() as folder,
        open_recording(write(f"{folder}/run.db", chunks, lost_after=lost)) as recording,
    ):
        expected = from_event(recording, event) if event > 1 else list(recording.frames(1))
        found = list(recording.frames(1, event))
    # The index stores ids as text, so in a cursor that is not UTF-8 the invalid bytes are replaced.
    assert list(map(readable, found)) == list(map(readable, expected))


def readable(seen):
    frame = seen.frame._replace(last_event_id=seen.frame.last_event_id.decode("utf-8", "replace").encode())
    return frame, seen.time_ns, getattr(seen, "number", None)


def test_an_encoded_stream_is_decoded_from_its_beginning(tmp_path):
    chunks = [gzip.compress(b"".join(b"data: %d\n\n" % number for number in range(5)))]
    with open_recording(write(tmp_path / "run.db", chunks, "gzip")) as recording:
        assert list(recording.frames(1, 4)) == from_event(recording, 4)
        assert recording.frames(1, 4).__next__().frame.data == b"3"


def test_a_wrong_index_is_ignored(tmp_path):
    path = write(tmp_path / "run.db", [b"data: %d\n\n" % number for number in range(5)])
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE frame SET event = event + 1 WHERE event > 2")
    connection.close()
    with open_recording(path) as recording:
        assert [seen.frame.data for seen in recording.frames(1, 4)] == [b"3", b"4"]


@pytest.mark.parametrize("start", [0, 3, 9, 10, 44])
def test_reading_a_body_begins_with_the_run_that_contains_the_offset(tmp_path, start):
    path = write(tmp_path / "run.db", [b"data: %d\n\n" % number for number in range(5)], lost_after=1)
    with open_recording(path) as recording:
        parts = list(recording.body(1, Side.RESPONSE, start))
    assert parts[0].start <= start
    assert parts[-1].end == 5 * 9 + 7


def test_following_a_recording_returns_each_observation_once(tmp_path):
    """Reading after every commit returns all observations, in their order."""
    path = tmp_path / "run.db"
    writer, made = Writer.create(path, upstream="http://service.test"), ObservationBuilder()
    steps = [
        [made.ask(), made.asked()],
        [made.answer()],
        [made.send(b"ab")],
        [made.ask()],
        [made.lose(7, 1)],
        [made.send(b"c", exchange=1), made.end(exchange=1)],
    ]
    seen, found = TailPosition(), []
    for step in steps:
        writer.feed(step)
        writer.commit()
        with open_recording(path) as recording:
            until = recording.tail_position()
            found += recording.observations_between(seen, until)
            assert list(recording.observations_between(until, recording.tail_position())) == []
        seen = until
    writer.close(made.tick())
    with open_recording(path) as recording:
        assert found == list(recording.observations())


def test_the_index_finds_the_position_before_each_event(tmp_path):
    path = write(tmp_path / "run.db", FRAMES)
    with open_recording(path) as recording:
        events = list(recording.events(1))
        for seen in events:
            position = recording.position_of_event(1, seen.number)
            assert (position.start, position.events) == (seen.frame.start, seen.number - 1)
            assert next(recording.frames(1, seen.number)) == seen
        assert recording.position_of_event(1, len(events) + 1) is None
        assert recording.position_of_event(2, 1) is None
