"""The files of a rotated recording, read as one recording."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar

from wiretape.observations import BytesArrived, BytesLost, Observation
from wiretape.recording.builder import RecordingMetadata, RecordingSource, build_recording
from wiretape.recording.recording_reader import Recording, open_database
from wiretape.recording.recording_writer import IN_EARLIER_FILE


class RotatedPart(Protocol):
    """What `group_parts` has to know about a recording."""

    @property
    def series(self) -> tuple[int, bytes]:
        """See `Recording.series`."""

    @property
    def part(self) -> int:
        """See `Recording.part`."""


_Part = TypeVar("_Part", bound=RotatedPart)


def group_parts(recordings: Sequence[_Part]) -> list[list[_Part]]:
    """Group recordings: consecutive files of one rotated recording in order, all others alone."""
    groups: list[list[_Part]] = []
    last: dict[tuple[int, bytes], list[_Part]] = {}
    order = sorted(range(len(recordings)), key=lambda index: (recordings[index].part, index))
    for index in order:
        recording = recordings[index]
        group = last.get(recording.series)
        if group is not None and recording.part == group[-1].part + 1:
            group.append(recording)
        else:
            group = [recording]
            groups.append(group)
        last[recording.series] = group
    place = {id(recording): index for index, recording in enumerate(recordings)}
    return sorted(groups, key=lambda group: min(place[id(recording)] for recording in group))


def join_parts(parts: Sequence[Recording]) -> RecordingSource:
    """Return consecutive files of a rotated recording as one source."""
    info = parts[0].info
    return RecordingSource(
        RecordingMetadata(
            upstream=info.upstream,
            started_unix_ns=info.started_unix_ns,
            captures=tuple(chain.from_iterable(part.captures() for part in parts)),
            redacted=sum(part.info.redacted for part in parts),
        ),
        _observations(parts),
        [finding for part in parts for finding in part.findings()],
    )


@contextmanager
def open_joined(parts: Sequence[Recording]) -> Iterator[Recording]:
    """Open consecutive files of a rotated recording as one, which exists only within the block."""
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        joined = Path(folder, "run.db")
        build_recording(join_parts(parts), joined)
        with open_database(joined, name=parts[0].path, check_rows=False) as recording:
            yield recording


def _observations(parts: Sequence[Recording]) -> Iterator[Observation]:
    last_ns = -1
    for number, part in enumerate(parts):
        before_ns = last_ns
        for seen in part.observations():
            if number and isinstance(seen, BytesLost) and seen.why == IN_EARLIER_FILE:
                continue
            # A file begins with the heads of the exchanges that were open.
            if seen.time_ns > before_ns:
                yield seen
                last_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
