"""A recording that becomes a file when somebody wants it, so that tests that pass pay for no disk."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from wiretape.frame_reader import ReadObservation
from wiretape.observations import BytesArrived, Observation
from wiretape.recording import Writer
from wiretape.rules import Finding

_MOST_HELD = 16 * 1024 * 1024
"""Bytes that may be held; with more, the file is made unasked."""
_COST = 512
"""Bytes of memory that an observation takes beside those it is about, roughly."""


class DeferredWriter:
    """A Writer that holds everything in memory until `make`, and from then on writes it."""

    def __init__(self, path: Path, *, upstream: str) -> None:
        self._path = path
        self._upstream = upstream
        self._started_unix_ns = time.time_ns()
        self._observations: list[Observation] = []
        self._findings: list[Finding] = []
        self._held = 0
        self._writer: Writer | None = None
        self._ended: tuple[int | None] | None = None

    @property
    def has_backlog(self) -> bool:
        """See Writer."""
        return self._writer is not None and self._writer.has_backlog

    def feed(self, observations: Sequence[Observation]) -> None:
        """See Writer."""
        if self._writer is not None:
            self._writer.feed(observations)
            return
        self._observations += observations
        self._held += sum(_COST + _size(seen) for seen in observations)
        if self._held > _MOST_HELD:
            self.make()

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """See Writer."""
        if self._writer is not None:
            self._writer.add_findings(findings)
        else:
            self._findings += findings

    def commit(self) -> None:
        """See Writer."""
        if self._writer is not None:
            self._writer.commit()

    def derive(self) -> Sequence[ReadObservation]:
        """See Writer."""
        return self._writer.derive() if self._writer is not None else []

    def make(self) -> None:
        """Write everything so far into the file; again, or for one that is closed, nothing happens twice.

        Raises RecordingError when the file cannot be written.
        """
        if self._writer is not None:
            return
        writer = self._writer = Writer.create(
            self._path, upstream=self._upstream, started_unix_ns=self._started_unix_ns
        )
        writer.feed(self._observations)
        writer.add_findings(self._findings)
        writer.commit()
        self._observations, self._findings = [], []
        if self._ended is not None:
            writer.close(*self._ended)

    def close(self, ended_ns: int | None = None) -> None:
        """See Writer."""
        self._ended = (ended_ns,)
        if self._writer is not None:
            self._writer.close(ended_ns)


def _size(seen: Observation) -> int:
    return len(seen.data) if isinstance(seen, BytesArrived) else 0
