"""What several recorders saw, in one order: that of the clock on the wall."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wiretape.observations import BytesArrived, Observation
from wiretape.recording import Capture, Recording, RecordingMetadata

Timed = tuple[int, int, Observation]
"""When (ns since the first recording began), in which of the recordings, and what."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Recordings on their way into one."""

    recordings: Sequence[Recording]
    shifts: Sequence[int]
    """For each, how long after the first of them it began, in ns by the clock on the wall."""
    numbers: Sequence[dict[int, int]]
    """For each, the new number of each of its exchanges."""

    def head(self) -> RecordingMetadata:
        """What is known of the whole besides what was observed; its upstream is that of the first to begin."""
        first = self.recordings[self.shifts.index(0)].info
        return RecordingMetadata(first.upstream, first.started_unix_ns, self._captures(), self._redacted())

    def observations(self) -> Iterator[Observation]:
        """Everything, in order of time; what fell on one nanosecond is pushed apart.  Streams."""
        last_ns = 0
        merged = heapq.merge(*map(self._timed, range(len(self.recordings))), key=lambda timed: timed[:2])
        for time_ns, which, seen in merged:
            last_ns = max(time_ns, last_ns + 1)
            yield _moved(seen, self.numbers[which][seen.exchange], last_ns)

    def _timed(self, which: int) -> Iterator[Timed]:
        shift = self.shifts[which]
        for seen in self.recordings[which].observations():
            for each in _singles(seen):
                yield each.time_ns + shift, which, each

    def _captures(self) -> tuple[Capture, ...]:
        """The runs of all recorders, each once: parts of one recording have the same ones."""
        runs: dict[Capture, None] = {}
        for recording, shift in zip(self.recordings, self.shifts, strict=True):
            for run in closed_captures(recording):
                ended_ns = None if run.ended_ns is None else run.ended_ns + shift
                runs[Capture(run.tool, run.began_ns + shift, ended_ns)] = None
        made = sorted(runs, key=lambda run: run.began_ns)
        if made[-1].ended_ns is None:
            # The last one says whether a recording is closed, and this one is.
            made[-1] = replace(made[-1], ended_ns=max(run.ended_ns or run.began_ns for run in made))
        return tuple(made)

    def _redacted(self) -> int:
        """How many secrets were replaced; of parts of one recording, each of which knows all, once."""
        of_one: dict[int, int] = {}
        for info in (recording.info for recording in self.recordings):
            of_one[info.started_unix_ns] = max(info.redacted, of_one.get(info.started_unix_ns, 0))
        return sum(of_one.values())


def joined(recordings: Sequence[Recording]) -> Joined:
    """Recordings as one.  Exchanges are numbered in the order in which they began."""
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
    return Joined(recordings, shifts, numbers)


def closed_captures(recording: Recording) -> tuple[Capture, ...]:
    """The runs of recorders that made it; where nobody closed it, the last ends with what was seen last."""
    runs = recording.captures()
    if runs[-1].ended_ns is None:
        runs[-1] = replace(runs[-1], ended_ns=max(runs[-1].began_ns, last_ns(recording.observations())))
    return tuple(runs)


def last_ns(observations: Iterable[Observation]) -> int:
    """When the last of them was seen; 0 where there are none."""
    last = 0
    for seen in observations:
        last = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
    return last


def _singles(seen: Observation) -> Iterator[Observation]:
    """Each chunk of a run on its own."""
    if not isinstance(seen, BytesArrived):
        yield seen
        return
    start = seen.start
    for time_ns, data in seen.chunks():
        yield BytesArrived(seen.exchange, seen.side, start, data, (start + len(data),), (time_ns,))
        start += len(data)


def _moved(seen: Observation, number: int, time_ns: int) -> Observation:
    if isinstance(seen, BytesArrived):
        return BytesArrived(number, seen.side, seen.start, seen.data, seen.ends, (time_ns,))
    return replace(seen, exchange=number, time_ns=time_ns)
