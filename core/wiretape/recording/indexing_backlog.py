"""Queue of stored observations that are not yet indexed and checked."""

import sqlite3
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from wiretape.observations import BytesArrived, Observation
from wiretape.recording.interleave import Bounds, interleave, read_observations

MEMORY_BYTES = 32 * 1024 * 1024
"""Body bytes that are kept in memory; beyond that, they are read from the file again when they are needed."""
_MARK_BYTES = 2048
"""Assumed memory of an observation without bytes."""


class BacklogSlice(NamedTuple):
    """Limits of one slice that is taken from the backlog."""

    observations: int
    volume: int
    """Bytes of bodies; the last observation may exceed it."""


LARGE_SLICE = BacklogSlice(512, 256 * 1024)
"""Indexed and checked within some hundredths of a second, so that the caller can look after its input."""
SMALL_SLICE = BacklogSlice(64, 32 * 1024)
"""Indexed and checked within some thousandths of a second."""
TINY_SLICE = BacklogSlice(8, 4 * 1024)
"""So small that another process on the same core is hardly delayed."""


@dataclass(slots=True)
class _Commit:
    """The observations of one commit; None where they have to be read from the file."""

    bounds: Bounds
    size: int
    marks: list[Observation] | None
    runs: list[BytesArrived] | None


class IndexingBacklog:
    """Queue of commits with bounded memory; what does not fit is read from `connection` again."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.volume = 0
        """Bytes of bodies in the queue."""
        self._connection = connection
        self._commits: deque[_Commit] = deque()
        self._held = 0
        self._current: Iterator[Observation] | None = None
        self._until_ns = -1

    def __bool__(self) -> bool:
        return self._current is not None or bool(self._commits)

    def add(self, bounds: Bounds, marks: list[Observation], runs: list[BytesArrived], *, on_disk: bool) -> None:
        """Add the observations of a commit.  Unless they are on disk, they stay in memory."""
        volume = sum(len(run.data) for run in runs)
        size = volume + _MARK_BYTES * len(marks)
        self.volume += volume
        if on_disk and self._held + size > MEMORY_BYTES:
            self._commits.append(_Commit(bounds, 0, None, None))
            return
        self._held += size
        self._commits.append(_Commit(bounds, size, marks, runs))

    def take(self, limit: BacklogSlice = LARGE_SLICE) -> tuple[list[Observation], int | None]:
        """Take the next observations in time order; none if the backlog is empty.

        Also returns the time up to which whole commits have been taken, or None within a commit.
        """
        if self._current is None:
            if not self._commits:
                return [], None
            commit = self._commits.popleft()
            self._held -= commit.size
            self._current, self._until_ns = self._open(commit), commit.bounds.until_ns
        taken, size = [], 0
        for seen in self._current:
            taken.append(seen)
            size += len(seen.data) if isinstance(seen, BytesArrived) else 0
            if len(taken) == limit.observations or size >= limit.volume:
                self.volume -= size
                return taken, None
        self.volume -= size
        self._current = None
        return taken, self._until_ns

    def _open(self, commit: _Commit) -> Iterator[Observation]:
        if commit.marks is None or commit.runs is None:
            # Read all at once, so that no cursor stays open while the file is written.
            return iter(list(read_observations(self._connection, commit.bounds)))
        marks = sorted(commit.marks, key=lambda seen: seen.time_ns)
        runs = sorted(commit.runs, key=lambda run: run.time_ns)
        return interleave(((seen.time_ns, seen) for seen in marks), ((run.time_ns, run) for run in runs))
