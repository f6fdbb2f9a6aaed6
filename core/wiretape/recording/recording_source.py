"""Sources of recordings: what the reader of a file format returns, and helpers to make observations of it."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from wiretape.observations import BytesArrived, Observation, Side
from wiretape.recording.recording_types import Capture
from wiretape.rules import Finding

MAX_HELD_BYTES = 512 * 1024 * 1024
"""Limit for what has to be held in memory at once: a whole HAR file, or a line of JSON lines."""
MAX_REDACTED = 2**53
"""Largest number of redacted secrets that a file may declare."""
MIN_STATUS, MAX_STATUS = 100, 999
"""Range of HTTP status codes.  Faulty services have been recorded with smaller ones."""

Chunk = tuple[int, bytes]
"""Arrival time of a chunk (ns, wall clock), and its bytes."""

_MIN_STEP_NS = 4
"""Time between two observations; it leaves room for those that the writer inserts between them."""
_MAX_CHUNK = 16 * 1024 * 1024
"""Longer chunks are split: each is held in memory, and a row of SQLite can hold a gigabyte."""
_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class RecordingMetadata:
    """Description of a recording that is about to be built."""

    upstream: str
    started_unix_ns: int
    """Wall clock at time 0."""
    captures: tuple[Capture, ...] = ()
    """The runs of the programs that recorded; none if they are unknown."""
    redacted: int = 0
    """Number of secrets that were already replaced by fingerprints."""


@dataclass(slots=True)
class RecordingSource:
    """Everything that a new recording is built from."""

    metadata: RecordingMetadata
    observations: Iterator[Observation]
    """In time order, with increasing times.  Raises InputError if the file that is read is invalid."""
    findings: list[Finding] | None = None
    """The live findings in the file, once `observations` is exhausted.  None if its format cannot contain findings:
    the rules then check the recording."""
    notes: list[str] = field(default_factory=list)
    """A sentence for everything that the format could not hold or the reader had to invent, once `observations` is
    exhausted."""


def order_observations(exchanges: Iterable[Iterator[Observation]], started_unix_ns: int) -> Iterator[Observation]:
    """Merge the observations of several exchanges into one sequence with increasing times.

    The given times are wall clock times, and may be equal; the resulting times count from `started_unix_ns`.
    """
    last_ns = 0
    for seen in heapq.merge(*exchanges, key=lambda seen: seen.time_ns):
        last_ns = max(seen.time_ns - started_unix_ns, last_ns + _MIN_STEP_NS)
        yield replace(seen, times=(last_ns,)) if isinstance(seen, BytesArrived) else replace(seen, time_ns=last_ns)


def observe_body(exchange: int, side: Side, chunks: Iterable[Chunk]) -> Iterator[BytesArrived]:
    """Return a body that arrived in these chunks as observations; empty chunks are left out."""
    start = 0
    for time_ns, data in chunks:
        for at in range(0, len(data), _MAX_CHUNK):
            part = data[at : at + _MAX_CHUNK]
            end = start + len(part)
            yield BytesArrived(exchange, side, start, part, (end,), (time_ns,))
            start = end


def list_exchanges(numbers: Sequence[int]) -> str:
    """Return `exchange 1`, or `7 exchanges (1, 2, 3, 4, 5, …)`."""
    if len(numbers) == 1:
        return f"exchange {numbers[0]}"
    listed = ", ".join(map(str, numbers[:_MAX_LISTED]))
    return f"{len(numbers):,} exchanges ({listed}{', …' if len(numbers) > _MAX_LISTED else ''})"
