"""Merge the observations of several recordings in wall-clock order."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wiretape.observations import BytesArrived, Observation
from wiretape.recording import Capture, Recording, RecordingMetadata

Timed = tuple[int, int, Observation]
"""Time (ns since the first recording began), index of the recording, observation."""


@dataclass(frozen=True, slots=True)
class MergedRecording:
    """Several recordings, read as one."""

    recordings: Sequence[Recording]
    shifts: Sequence[int]
    """For each, how long after the first it began (ns, wall clock)."""
    numbers: Sequence[dict[int, int]]
    """For each, the new number of each of its exchanges."""

    def metadata(self) -> RecordingMetadata:
        """The metadata of the whole; its upstream is that of the recording that began first."""
        first = self.recordings[self.shifts.index(0)].info
        return RecordingMetadata(first.upstream, first.started_unix_ns, self._captures(), self._redacted())

    def observations(self) -> Iterator[Observation]:
        """All observations in order of time; equal times are pushed apart by a nanosecond."""
        last_ns = 0
        merged = heapq.merge(*map(self._timed, range(len(self.recordings))), key=lambda timed: timed[:2])
        for time_ns, which, seen in merged:
            last_ns = max(time_ns, last_ns + 1)
            yield _renumbered(seen, self.numbers[which][seen.exchange], last_ns)

    def _timed(self, which: int) -> Iterator[Timed]:
        shift = self.shifts[which]
        for seen in self.recordings[which].observations():
            for each in _split_chunks(seen):
                yield each.time_ns + shift, which, each

    def _captures(self) -> tuple[Capture, ...]:
        """The captures of all recordings, each once: parts of one recording share them."""
        captures: dict[Capture, None] = {}
        for recording, shift in zip(self.recordings, self.shifts, strict=True):
            for each in closed_captures(recording):
                ended_ns = None if each.ended_ns is None else each.ended_ns + shift
                captures[Capture(each.tool, each.began_ns + shift, ended_ns)] = None
        merged = sorted(captures, key=lambda each: each.began_ns)
        if merged[-1].ended_ns is None:
            # A recording is closed if its last capture has ended, and this one is closed.
            merged[-1] = replace(merged[-1], ended_ns=max(each.ended_ns or each.began_ns for each in merged))
        return tuple(merged)

    def _redacted(self) -> int:
        """How many secrets were replaced; parts of one recording all have its total, which counts once."""
        by_start: dict[int, int] = {}
        for info in (recording.info for recording in self.recordings):
            by_start[info.started_unix_ns] = max(info.redacted, by_start.get(info.started_unix_ns, 0))
        return sum(by_start.values())


def merge_recordings(recordings: Sequence[Recording]) -> MergedRecording:
    """Merge recordings.  Exchanges are renumbered in the order in which they began."""
    began = [recording.info.started_unix_ns for recording in recordings]
    shifts = [each - min(began) for each in began]
    starts = [
        (exchange.request.time_ns + shift, which, exchange.number)
        for which, (recording, shift) in enumerate(zip(recordings, shifts, strict=True))
        for exchange in recording.exchanges()
    ]
    numbers: list[dict[int, int]] = [{} for _ in recordings]
    for new, (_, which, old) in enumerate(sorted(starts), 1):
        numbers[which][old] = new
    return MergedRecording(recordings, shifts, numbers)


def closed_captures(recording: Recording) -> tuple[Capture, ...]:
    """The captures of a recording; if it was never closed, the last one ends with the last observation."""
    captures = recording.captures()
    if captures[-1].ended_ns is None:
        ended_ns = max(captures[-1].began_ns, last_ns(recording.observations()))
        captures[-1] = replace(captures[-1], ended_ns=ended_ns)
    return tuple(captures)


def last_ns(observations: Iterable[Observation]) -> int:
    """The time of the last observation; 0 if there are none."""
    last = 0
    for seen in observations:
        last = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
    return last


def _split_chunks(seen: Observation) -> Iterator[Observation]:
    """The chunks of a run, one by one."""
    if not isinstance(seen, BytesArrived):
        yield seen
        return
    start = seen.start
    for time_ns, data in seen.chunks():
        yield BytesArrived(seen.exchange, seen.side, start, data, (start + len(data),), (time_ns,))
        start += len(data)


def _renumbered(seen: Observation, number: int, time_ns: int) -> Observation:
    if isinstance(seen, BytesArrived):
        return BytesArrived(number, seen.side, seen.start, seen.data, seen.ends, (time_ns,))
    return replace(seen, exchange=number, time_ns=time_ns)
