"""What is stored but not yet derived, in order of time."""

import sqlite3
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from wiretape.observations import BytesArrived, Observation
from wiretape.recording.merge import Bounds, interleave, observations

MEMORY_BYTES = 32 * 1024 * 1024
"""How many body bytes are kept in memory; beyond, they are read back from the file when their turn comes."""
_HEAD_BYTES = 2048
"""What an observation without body bytes counts."""


class Slice(NamedTuple):
    """How much is handed out at once."""

    observations: int
    volume: int
    """Bytes of bodies; the last observation may go beyond."""


AT_LENGTH = Slice(512, 256 * 1024)
"""Few enough to be indexed and judged in some hundredths of a second, so that the caller can look after its input."""
BRIEFLY = Slice(64, 32 * 1024)
"""The same in some thousandths."""
GENTLY = Slice(8, 4 * 1024)
"""So few that whoever wants the same core hardly notices."""


@dataclass(slots=True)
class _Batch:
    """What one commit stored."""

    bounds: Bounds
    size: int
    marks: list[Observation] | None
    runs: list[BytesArrived] | None


class Pending:
    """A queue of commits.  Its memory is bounded; what does not fit is read from `connection` again."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.volume = 0
        """How many bytes of bodies are in the queue."""
        self._connection = connection
        self._batches: deque[_Batch] = deque()
        self._held = 0
        self._current: Iterator[Observation] | None = None
        self._until_ns = -1

    def __bool__(self) -> bool:
        return self._current is not None or bool(self._batches)

    def add(self, bounds: Bounds, marks: list[Observation], runs: list[BytesArrived], *, on_disk: bool) -> None:
        """Queue what a commit stored.  Unless it is on disk, it stays in memory."""
        volume = sum(len(run.data) for run in runs)
        size = volume + _HEAD_BYTES * len(marks)
        self.volume += volume
        if on_disk and self._held + size > MEMORY_BYTES:
            self._batches.append(_Batch(bounds, 0, None, None))
            return
        self._held += size
        self._batches.append(_Batch(bounds, size, marks, runs))

    def take(self, most: Slice = AT_LENGTH) -> tuple[list[Observation], int | None]:
        """The next observations in order of time; empty when there are none.

        With them comes the time up to which whole commits have now been handed out, or None within one.
        """
        if self._current is None:
            if not self._batches:
                return [], None
            batch = self._batches.popleft()
            self._held -= batch.size
            self._current, self._until_ns = self._open(batch), batch.bounds.until_ns
        taken, size = [], 0
        for seen in self._current:
            taken.append(seen)
            size += len(seen.data) if isinstance(seen, BytesArrived) else 0
            if len(taken) == most.observations or size >= most.volume:
                self.volume -= size
                return taken, None
        self.volume -= size
        self._current = None
        return taken, self._until_ns

    def _open(self, batch: _Batch) -> Iterator[Observation]:
        if batch.marks is None or batch.runs is None:
            # Read whole, so that no cursor stands open while the file is written.
            return iter(list(observations(self._connection, batch.bounds)))
        marks = sorted(batch.marks, key=lambda seen: seen.time_ns)
        runs = sorted(batch.runs, key=lambda run: run.time_ns)
        return interleave(((seen.time_ns, seen) for seen in marks), ((run.time_ns, run) for run in runs))
