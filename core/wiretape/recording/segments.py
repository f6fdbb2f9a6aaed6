"""How runs of chunks are laid into rows of `segment`, and read back."""

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import orjson

from wiretape.observations import BytesArrived, Side

SEGMENT_BYTES = 48 * 1024
"""A segment is closed once it holds this much: large enough that rows cost nothing, small enough that
reading one event out of it does not."""

COLUMNS = "id, exchange_id, response, start, time_ns, chunks, bytes"


@dataclass(slots=True)
class Segment:
    """Consecutive chunks of one body, on their way into the file."""

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
        """All its chunks."""
        return BytesArrived(self.exchange, self.side, self.start, b"".join(self.parts), self.ends, self.times)


def row(run: BytesArrived) -> tuple[int, int, int, int, str | None, bytes]:
    """The columns of `segment` after `id`."""
    packed = None if len(run.ends) == 1 else pack(run.start, run.ends, run.times)
    return (run.exchange, int(run.side is Side.RESPONSE), run.start, run.times[0], packed, run.data)


def pack(start: int, ends: Sequence[int], times: Sequence[int]) -> str:
    """Chunk boundaries as the JSON text of the `chunks` column."""
    flat: list[int] = []
    before, first = start, times[0]
    for end, time_ns in zip(ends, times, strict=True):
        flat += (end - before, time_ns - first)
        before = end
    return orjson.dumps(flat).decode()


def lay(run: BytesArrived, segment: Segment | None) -> Iterator[Segment]:
    """Add the run to `segment`, or to new ones where that is full; yields every segment it begins."""
    for index, end in enumerate(run.ends):
        begin = run.ends[index - 1] if index else run.start
        if segment is None or segment.end != begin or segment.end - segment.start >= SEGMENT_BYTES:
            segment = Segment(run.exchange, run.side, begin)
            yield segment
        segment.parts.append(run.data[begin - run.start : end - run.start])
        segment.ends.append(end)
        segment.times.append(run.times[index])


def unpack(row: sqlite3.Row) -> BytesArrived:
    """The run that a row of `segment` holds."""
    data: bytes = row["bytes"]
    start, time_ns, exchange = row["start"], row["time_ns"], row["exchange_id"]
    side = Side.RESPONSE if row["response"] else Side.REQUEST
    if row["chunks"] is None:
        return BytesArrived(exchange, side, start, data, (start + len(data),), (time_ns,))
    flat: list[int] = orjson.loads(row["chunks"])
    ends = list(accumulate(flat[::2], initial=start))[1:]
    times = [time_ns + delta for delta in flat[1::2]]
    if not times or ends[-1] != start + len(data):
        raise ValueError(f"segment {row['id']} does not hold the chunks it says")
    return BytesArrived(exchange, side, start, data, ends, times)
