"""A recording returns the observations that were written, in the same order, with the same bytes and chunks."""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Writer, open_recording
from wiretape.sse import FrameKind

HEADS = st.tuples(st.sampled_from(["/v1/sessions/s%20x/events/stream", "/other?a=b"]), st.sampled_from([200, 404]))
HEADERS = st.lists(st.tuples(st.text("abc-", min_size=1), st.text(st.characters(max_codepoint=255))), max_size=3)
PIECES = st.sampled_from(
    [b"id: 1\ndata: {}\n", b"\n", b"data: x\r\n\r\n", b": ping\n", b"\xff", b"a" * 50_000, b"event: y\r"]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Observation]:
    """Draw concurrent exchanges with their steps in any order, some without an end."""
    seen: list[Observation] = []
    clock = iter(range(1, 10_000))
    open_exchanges: dict[int, dict[Side, int]] = {}
    responded: set[int] = set()
    for number in range(1, draw(st.integers(1, 4)) + 1):
        target, _ = draw(HEADS)
        headers = tuple(draw(HEADERS))
        seen.append(RequestStarted(number, next(clock), "::1", "GET", "https", "h:1", target, "HTTP/2.0", headers))
        open_exchanges[number] = dict.fromkeys(Side, 0)
        for _ in range(draw(st.integers(0, 12))):
            exchange = draw(st.sampled_from(sorted(open_exchanges)))
            step = draw(st.sampled_from(["chunk", "chunk", "chunk", "respond", "end request", "end", "lost"]))
            seen += _step(draw, step, exchange, clock, open_exchanges, responded, seen)
            if not open_exchanges:
                break
    return seen


def _step(
    draw: st.DrawFn,
    step: str,
    exchange: int,
    clock: Iterator[int],
    open_exchanges: dict[int, dict[Side, int]],
    responded: set[int],
    seen: list[Observation],
) -> list[Observation]:
    if step == "respond" and exchange not in responded:
        responded.add(exchange)
        content_type = draw(st.sampled_from(["text/event-stream", "application/json"]))
        return [ResponseStarted(exchange, next(clock), 200, "OK", "HTTP/1.1", (("Content-Type", content_type),))]
    if step == "end request" and not any(isinstance(s, RequestEnded) and s.exchange == exchange for s in seen):
        return [RequestEnded(exchange, next(clock))]
    if step == "end":
        del open_exchanges[exchange]
        return [ExchangeEnded(exchange, next(clock), draw(st.sampled_from(Ending)), "why")]
    side = draw(st.sampled_from(Side)) if exchange in responded else Side.REQUEST
    start = open_exchanges[exchange][side]
    if step == "lost":
        open_exchanges[exchange][side] += 7
        return [BytesLost(exchange, next(clock), side, start, 7, "overload")]
    if step == "chunk":
        data = draw(PIECES)
        open_exchanges[exchange][side] += len(data)
        return [BytesArrived(exchange, side, start, data, (start + len(data),), (next(clock),))]
    return []


def single(observations: Iterable[Observation]) -> list[Observation]:
    """Return the observations with one chunk per run, because the grouping of chunks has no meaning."""
    singles: list[Observation] = []
    for seen in observations:
        if not isinstance(seen, BytesArrived):
            singles.append(seen)
            continue
        start = seen.start
        for time_ns, data in seen.chunks():
            end = start + len(data)
            singles.append(BytesArrived(seen.exchange, seen.side, start, data, (end,), (time_ns,)))
            start = end
    return singles


@given(conversations(), st.lists(st.integers(0, 60), max_size=5))
def test_a_recording_returns_what_was_written(seen: list[Observation], commits: list[int]) -> None:
    """With commits anywhere, the reader and the live checks get the written observations, in order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.db")
        writer = Writer.create(path, upstream="http://service")
        began = writer.began_ns
        shifted = [_later(observation, began) for observation in seen]
        live: list[Observation] = []
        check = lambda read: live.append(read.observation) or ()  # noqa: E731
        for index, observation in enumerate(shifted):
            writer.feed([observation])
            if index in commits:
                writer.commit()
                writer.derive(check)
        writer.commit()
        while writer.derive(check):
            pass
        writer.close(began + 100_000)

        assert single(live) == shifted
        with open_recording(path) as recording:
            assert single(recording.observations()) == shifted
            for exchange in recording.exchanges():
                for side in Side:
                    expected = [s for s in shifted if _is_body(s) and (s.exchange, s.side) == (exchange.number, side)]
                    assert single(recording.body(exchange.number, side)) == expected


def _is_body(seen: Observation) -> bool:
    return isinstance(seen, BytesArrived | BytesLost)


def _later(seen: Observation, by_ns: int) -> Observation:
    if isinstance(seen, BytesArrived):
        return BytesArrived(
            seen.exchange, seen.side, seen.start, seen.data, seen.ends, tuple(t + by_ns for t in seen.times)
        )
    fields = {name: getattr(seen, name) for name in seen.__slots__}
    return type(seen)(**{**fields, "time_ns": seen.time_ns + by_ns})


def test_overlapping_runs_of_one_commit_are_returned_in_time_order(begin, path, new_talk) -> None:
    """A run is cut where a chunk of another stream arrived between two of its own."""
    writer, talk = begin()
    writer.feed([talk.ask(), talk.answer(exchange=1), talk.ask(), talk.answer(exchange=2)])
    for text in (b"a", b"b", b"c"):
        writer.feed([talk.send(text, exchange=1), talk.send(text, text, exchange=2)])
    writer.close(talk.tick())
    with open_recording(path) as recording:
        runs = [(s.exchange, s.data) for s in recording.observations() if isinstance(s, BytesArrived)]
    assert runs == [(1, b"a"), (2, b"aa"), (1, b"b"), (2, b"bb"), (1, b"c"), (2, b"cc")]


def test_frames_joined_are_the_body(begin, path, new_talk) -> None:
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


def test_times_must_increase(begin, new_talk) -> None:
    """Times define the order of a recording, so two observations at the same time are refused."""
    writer, talk = begin()
    request = talk.ask()
    writer.feed([request])
    with pytest.raises(ValueError, match="is not later than"):
        writer.feed([RequestEnded(1, request.time_ns)])
