"""A recording that is exported to a lossless format and imported is unchanged."""

import json
import tempfile
from pathlib import Path

from drawn_recordings import ODD, TEXT, conversations, record, split_runs
from hypothesis import given
from hypothesis import strategies as st

from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Recording, open_recording
from wiretape.recording.formats import find_format


def _written(recording: Recording, kind: str, to: Path) -> Path:
    to.write_bytes(b"".join(find_format(kind).write(recording, None)))
    return to


@st.composite
def delta_streams(draw: st.DrawFn) -> list[Observation]:
    """Draw a stream of deltas, most of which differ only in their text, their number and their time."""
    type_ = draw(st.sampled_from(["message.delta", "reasoning.delta"]))
    separators, ascii_only = draw(st.sampled_from([(",", ":"), (", ", ": ")])), draw(st.booleans())
    chunks, number = list[bytes](), draw(st.integers(0, 3))
    for kind in draw(st.lists(st.sampled_from([*["next"] * 9, "same number", "other run", "cut", "odd"]), max_size=20)):
        number += kind != "same number"
        run = "run_2" if kind == "other run" else "run_1"
        value = {"type": type_, "run_id": run, "sequence": number, "delta": {"text": draw(TEXT)}}
        data = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
        event = f"event: {type_}\nid: {number}\ndata: {data}\n\n".encode()
        at = draw(st.integers(0, len(event))) if kind == "cut" else 0
        chunks += [draw(st.sampled_from(ODD))] if kind == "odd" else [event[:at], event[at:]] if at else [event]
    times = [draw(st.sampled_from([1, 1_000_000, 20_345_678])) for _ in chunks]
    target, headers = "/v1/sessions/s1/events/stream?event_deltas=true", (("Content-Type", "text/event-stream"),)
    request = RequestStarted(1, 1, "::1", "GET", "http", "service:80", target, "HTTP/1.1", ())
    seen: list[Observation] = [request, RequestEnded(1, 2), ResponseStarted(1, 3, 200, "OK", "HTTP/1.1", headers)]
    start, now = 0, 3
    for data, after in zip(chunks, times, strict=True):
        now, end = now + after, start + len(data)
        seen.append(BytesArrived(1, Side.RESPONSE, start, data, (end,), (now,)))
        start = end
    return [*seen, ExchangeEnded(1, now + 1_000_000, Ending.COMPLETE, "")]


@given(conversations() | delta_streams())
def test_every_observation_survives_a_round_trip(seen: list[Observation]) -> None:
    """Bytes, chunks, times, heads, losses and endings are equal, whatever they contain and in any order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.db")
        record(path, seen)
        with (
            open_recording(path) as recording,
            open_recording(_written(recording, "tape", Path(folder, "again"))) as again,
        ):
            assert list(split_runs(again.observations())) == list(split_runs(recording.observations()))
            assert again.info.upstream == recording.info.upstream
            assert again.info.started_unix_ns == recording.info.started_unix_ns
            assert again.info.ended_ns == recording.info.ended_ns
            # Written once more, it is the same file.
            first, second = (b"".join(find_format("tape").write(each, None)) for each in (recording, again))
            assert first == second
