"""A recording that is exported to a lossless format and imported is unchanged."""

import tempfile
from pathlib import Path

from drawn_recordings import conversations, record, split_runs
from hypothesis import given

from wiretape.observations import Observation
from wiretape.recording import Recording, open_recording
from wiretape.recording.formats import find_format


def _written(recording: Recording, kind: str, to: Path) -> Path:
    to.write_bytes(b"".join(find_format(kind).write(recording, None)))
    return to


@given(conversations())
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
