"""A recording returns the observations that were written, in the same order, with the same bytes and chunks."""

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from drawn_recordings import conversations, record, split_runs
from hypothesis import given
from hypothesis import strategies as st

from wiretape.observations import BytesArrived, BytesLost, Observation, RequestEnded, Side
from wiretape.recording import Writer, open_recording, recording_reader
from wiretape.sse import FrameKind

FRAMES = """
SELECT f.exchange_id, f.start, f.length, f.kind, f.time_ns, f.event, f.sse_id, f.sequence, e.data
FROM frame f LEFT JOIN events e USING (exchange_id, event) ORDER BY 1, 2
"""


@given(conversations(has_secrets=False), st.sets(st.integers(1, 60), max_size=5), st.integers(0, 3))
def test_a_recording_returns_what_was_written(seen: list[Observation], commits: set[int], steps: int) -> None:
    """With commits anywhere, the reader and the live checks get the written observations, in order.

    The bytes between two commits are one run for each body, so runs overlap; frames are those of a single commit.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as limits:
        limits.setattr(recording_reader, "_SLICE_SEGMENTS", 1)
        limits.setattr(recording_reader, "_SLICE_EXCHANGES", 1)
        path = Path(folder, "run.db")
        writer = Writer.create(path, upstream="http://service")
        live: list[Observation] = []
        check = lambda read: live.append(read.observation) or ()  # noqa: E731
        for begin, end in pairwise([0, *sorted(commits), len(seen)]):
            writer.feed(_gather(seen[begin:end]))
            writer.commit()
            for _ in range(steps):
                writer.derive(check)
        while writer.derive(check):
            pass
        writer.close(writer.last_ns + 100_000)

        assert list(split_runs(live)) == seen
        with open_recording(path) as recording:
            assert list(split_runs(recording.observations())) == seen
            for exchange in recording.exchanges():
                for side in Side:
                    expected = [s for s in seen if _is_body(s) and (s.exchange, s.side) == (exchange.number, side)]
                    assert list(split_runs(recording.body(exchange.number, side))) == expected
        record(Path(folder, "single.db"), seen)
        assert _frames(path) == _frames(Path(folder, "single.db"))


def _gather(seen: Iterable[Observation]) -> Iterator[Observation]:
    """Join bytes to one run for each body, up to the next observation without bytes, as a recorder does."""
    for is_bytes, group in groupby(seen, lambda each: isinstance(each, BytesArrived)):
        if not is_bytes:
            yield from group
            continue
        bodies: dict[tuple[int, Side], list[BytesArrived]] = {}
        for run in group:
            bodies.setdefault((run.exchange, run.side), []).append(run)
        for (exchange, side), runs in bodies.items():
            data = b"".join(run.data for run in runs)
            ends, times = [run.end for run in runs], [run.times[0] for run in runs]
            yield BytesArrived(exchange, side, runs[0].start, data, ends, times)


def _frames(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(FRAMES).fetchall()


def _is_body(seen: Observation) -> bool:
    return isinstance(seen, BytesArrived | BytesLost)


def test_overlapping_runs_of_one_commit_are_returned_in_time_order(begin, path) -> None:
    """A run is cut where a chunk of another stream arrived between two of its own."""
    writer, talk = begin()
    writer.feed([talk.ask(), talk.answer(exchange=1), talk.ask(), talk.answer(exchange=2)])
    for text in (b"a", b"b", b"c"):
        writer.feed([talk.send(text, exchange=1), talk.send(text, text, exchange=2)])
    writer.close(talk.tick())
    with open_recording(path) as recording:
        runs = [(s.exchange, s.data) for s in recording.observations() if isinstance(s, BytesArrived)]
    assert runs == [(1, b"a"), (2, b"aa"), (1, b"b"), (2, b"bb"), (1, b"c"), (2, b"cc")]


def test_frames_joined_are_the_body(begin, path) -> None:
    """Every byte of a stream belongs to one frame, even if the frame spans chunks and segments."""
    writer, talk = begin()
    chunks = [b": hi\n\n", b"id: 1\ndata: " + b"x" * 200_000, b"\n\ndata: cut \xe2\x82", b"\xac\n", b"\ndata: tail"]
    writer.feed(talk.stream(*chunks))
    writer.close(talk.tick())
    with open_recording(path) as recording:
        frames = [seen.frame for seen in recording.frames(1)]
        body = b"".join(run.data for run in recording.body(1, Side.RESPONSE))
    assert b"".join(frame.raw for frame in frames) == body == b"".join(chunks)
    assert [frame.kind for frame in frames] == [
        FrameKind.COMMENT,
        FrameKind.BLANK,
        FrameKind.MESSAGE,
        FrameKind.MESSAGE,
        FrameKind.TAIL,
    ]


def test_times_must_increase(begin) -> None:
    """Times define the order of a recording, so two observations at the same time are refused."""
    writer, talk = begin()
    request = talk.ask()
    writer.feed([request])
    with pytest.raises(ValueError, match="is not later than"):
        writer.feed([RequestEnded(1, request.time_ns)])


def test_bytes_of_several_bodies_can_overlap_but_are_not_earlier_than_what_was_fed_before(begin) -> None:
    writer, talk = begin()
    requests = [talk.ask(), talk.ask()]
    first = talk.now_ns
    runs = [
        BytesArrived(one.exchange, Side.REQUEST, 0, b"ab", (1, 2), (first + at, first + 9))
        for at, one in enumerate(requests, 1)
    ]
    writer.feed([*requests, *runs])
    assert writer.last_ns == first + 9
    for time_ns in (first, first + 9):
        with pytest.raises(ValueError, match="is not later than"):
            writer.feed([BytesArrived(1, Side.REQUEST, 2, b"c", (3,), (time_ns,))])
    with pytest.raises(ValueError, match="is not later than"):
        writer.feed([RequestEnded(1, first + 9)])
