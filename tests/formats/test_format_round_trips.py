"""A recording that is exported to a lossless format and imported is unchanged."""

import tempfile
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from hypothesis import given

from wiretape.observations import BytesArrived, Observation
from wiretape.recording import Recording, open_recording
from wiretape.recording.formats import find_format

# Tests are no package, so that it is not found by its name.
_spec = spec_from_file_location("wiretape_test_recordings", Path(__file__).with_name("recordings.py"))
recordings = module_from_spec(_spec)
_spec.loader.exec_module(recordings)


def single(recording: Recording) -> Iterator[Observation]:
    """Return the observations with one chunk per run, because the grouping of chunks has no meaning."""
    for seen in recording.observations():
        if not isinstance(seen, BytesArrived):
            yield seen
            continue
        start = seen.start
        for time_ns, data in seen.chunks():
            end = start + len(data)
            yield BytesArrived(seen.exchange, seen.side, start, data, (end,), (time_ns,))
            start = end


def _written(recording: Recording, kind: str, to: Path) -> Path:
    to.write_bytes(b"".join(find_format(kind).write(recording, None)))
    return to


@given(recordings.conversations())
def test_every_observation_survives_a_round_trip(seen: list[Observation]) -> None:
    """Bytes, chunks, times, heads, losses and endings are equal, whatever they contain and in any order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.db")
        recordings.record(path, seen)
        with (
            open_recording(path) as recording,
            open_recording(_written(recording, "tape", Path(folder, "again"))) as again,
        ):
            assert list(single(again)) == list(single(recording))
            assert again.info.upstream == recording.info.upstream
            assert again.info.started_unix_ns == recording.info.started_unix_ns
            assert again.info.ended_ns == recording.info.ended_ns
            # Written once more, it is the same file.
            first, second = (b"".join(find_format("tape").write(each, None)) for each in (recording, again))
            assert first == second
