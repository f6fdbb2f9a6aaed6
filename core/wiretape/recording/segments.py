"""Rows of the table `segment`: how runs of chunks are packed into them, and read back."""

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import orjson

from wiretape.observations import BytesArrived, Side

SEGMENT_BYTES = 48 * 1024
"""A segment is closed once it holds this much: large enough that the overhead of rows does not matter, small enough
that one event can be read quickly."""

COLUMNS = "id, exchange_id, response, start, time_ns, chunks, bytes"


@dataclass(slots=True)
class Segment:
    """Consecutive chunks of one body that are about to be stored."""

    exchange: int
    side: Side
    start: int
    parts: list[bytes] = field(default_factory=list)
    ends: "array[int]" = field(default_factory=lambda: array("q"))
    times: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def end(self) -> int:
        """Offset in the body just after the last byte."""
        return self.ends[-1] if self.ends else self.start

    def run(self) -> BytesArrived:
        """Return all its chunks as one run."""
        return BytesArrived(self.exchange, self.side, self.start, b"".join(self.parts), self.ends, self.times)


def add_run(run: BytesArrived, segment: Segment | None) -> Iterator[Segment]:
    """Add a run to `segment`, or to new segments once that is full.  Yields every new segment."""
    for index, end in enumerate(run.ends):
        begin = run.ends[index - 1] if index else run.start
        if segment is None or segment.end != begin or segment.end - segment.start >= SEGMENT_BYTES:
            segment = Segment(run.exchange, run.side, begin)
            yield segment
        segment.parts.append(run.data[begin - run.start : end - run.start])
        segment.ends.append(end)
        segment.times.append(run.times[index])


def pack_run(run: BytesArrived) -> tuple[int, int, int, int, str | None, bytes]:
    """Return the columns of `segment` after `id`."""
    packed = None if len(run.ends) == 1 else _pack_chunks(run.start, run.ends, run.times)
    return (run.exchange, int(run.side is Side.RESPONSE), run.start, run.times[0], packed, run.data)


def _pack_chunks(start: int, ends: Sequence[int], times: Sequence[int]) -> str:
    """Return the JSON text of the column `chunks`."""
    flat: list[int] = []
    before, first = start, times[0]
    for end, time_ns in zip(ends, times, strict=True):
        flat += (end - before, time_ns - first)
        before = end
    return orjson.dumps(flat).decode()


def unpack_run(row: sqlite3.Row) -> BytesArrived:
    """Return the run in a row of `segment`.  Raises ValueError if the row contradicts itself."""
    data: bytes = row["bytes"]
    start, time_ns, exchange = row["start"], row["time_ns"], row["exchange_id"]
    side = Side.RESPONSE if row["response"] else Side.REQUEST
    if row["chunks"] is None:
        return BytesArrived(exchange, side, start, data, (start + len(data),), (time_ns,))
    flat: list[int] = orjson.loads(row["chunks"])
    ends = list(accumulate(flat[::2], initial=start))[1:]
    times = [time_ns + delta for delta in flat[1::2]]
    if not times or ends[-1] != start + len(data):
        raise ValueError(f"the chunks of segment {row['id']} do not match its bytes")
    return BytesArrived(exchange, side, start, data, ends, times)
