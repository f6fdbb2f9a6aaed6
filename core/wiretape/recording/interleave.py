"""Observations in time order: of a whole recording, of one commit, or of the new part of a growing recording."""

import heapq
import sqlite3
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import orjson

from wiretape.observations import BytesArrived, Ending, ExchangeEnded, Observation, RequestEnded
from wiretape.recording.exchange_table import read_lost, read_request, read_response
from wiretape.recording.segments import COLUMNS, unpack_run

_FOREVER = 2**63 - 1
_T = TypeVar("_T")

# One row for each observation without bytes, in time order.
_MARKS = """
WITH touched AS (
  SELECT * FROM exchange
  WHERE :exchanges IS NULL OR id IN (SELECT value FROM json_each(:exchanges)))
SELECT time_ns, what, id FROM (
  SELECT started_ns AS time_ns, 'request' AS what, id FROM touched
  UNION ALL SELECT request_ended_ns, 'request ended', id FROM touched
  UNION ALL SELECT responded_ns, 'response', id FROM touched
  UNION ALL SELECT ended_ns, 'ended', id FROM touched
  UNION ALL SELECT time_ns, 'lost', id FROM lost)
WHERE time_ns > :after AND time_ns <= :until ORDER BY time_ns
"""
# A single statement sees a single state of the file, between two commits.
_TAIL = """
SELECT coalesce((SELECT max(id) FROM segment), 0), coalesce((SELECT max(id) FROM finding), 0),
  max(coalesce(max(started_ns), 0), coalesce(max(request_ended_ns), 0), coalesce(max(responded_ns), 0),
    coalesce(max(ended_ns), 0), coalesce((SELECT max(time_ns) FROM lost), 0))
FROM exchange
"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Range of observations: times in `(after_ns, until_ns]`, segment ids in `(after_segment, until_segment]`."""

    after_ns: int = -1
    until_ns: int = _FOREVER
    after_segment: int = 0
    until_segment: int = _FOREVER
    exchanges: tuple[int, ...] | None = None
    """The only exchanges with observations in this range; None: any."""


@dataclass(frozen=True, slots=True)
class TailPosition:
    """Position in a growing recording: how far it has been written, or read."""

    segment: int = 0
    finding: int = 0
    time_ns: int = -1
    """Time of the last observation without bytes."""


def read_tail_position(connection: sqlite3.Connection) -> TailPosition:
    """Return the current end of the recording."""
    return TailPosition(*connection.execute(_TAIL).fetchone())


def read_observations(connection: sqlite3.Connection, bounds: Bounds | None = None) -> Iterator[Observation]:
    """Stream all observations, or those within `bounds`: memory does not grow with the recording.

    Consecutive chunks of one body that share a segment are one run.  `connection` must have `sqlite3.Row` rows.
    """
    bounds = bounds or Bounds()
    return interleave(_read_marks(connection, bounds), _read_segments(connection, bounds))


def read_observations_between(
    connection: sqlite3.Connection, after: TailPosition, until: TailPosition
) -> Iterator[Observation]:
    """Stream the observations after one position up to another."""
    return read_observations(connection, Bounds(after.time_ns, until.time_ns, after.segment, until.segment))


def interleave(
    marks: Iterator[tuple[int, Observation]], segments: Iterator[tuple[int, BytesArrived]]
) -> Iterator[Observation]:
    """Merge observations without bytes and runs of bytes, each sorted by (first) time, into one sequence.

    Runs overlap in time: a run is cut where something else was observed between its chunks.
    """
    next_mark, next_segment = _Peekable(marks), _Peekable(segments)
    # For each run that has begun: the time and the index of its next chunk.  All times differ.
    begun: list[tuple[int, BytesArrived, int]] = []
    while begun or next_mark or next_segment:
        first = begun[0][0] if begun else _FOREVER
        if next_segment.time_ns < min(first, next_mark.time_ns):
            heapq.heappush(begun, (*next_segment.take(), 0))
        elif next_mark.time_ns < first:
            yield next_mark.take()[1]
        else:
            _, run, begin = heapq.heappop(begun)
            horizon = min(next_mark.time_ns, next_segment.time_ns, begun[0][0] if begun else _FOREVER)
            until = bisect_left(run.times, horizon, begin)
            yield _slice_run(run, begin, until)
            if until < len(run.times):
                heapq.heappush(begun, (run.times[until], run, until))


class _Peekable(Generic[_T]):
    """Iterator of timed items that shows the time of its next item."""

    def __init__(self, timed: Iterator[tuple[int, _T]]) -> None:
        self._timed = timed
        self._next = next(timed, None)

    def __bool__(self) -> bool:
        return self._next is not None

    @property
    def time_ns(self) -> int:
        return _FOREVER if self._next is None else self._next[0]

    def take(self) -> tuple[int, _T]:
        taken = self._next
        if taken is None:
            raise StopIteration
        self._next = next(self._timed, None)
        return taken


def _slice_run(run: BytesArrived, begin: int, until: int) -> BytesArrived:
    """Return the chunks of `run` from index `begin` up to `until`."""
    if begin == 0 and until == len(run.times):
        return run
    start = run.ends[begin - 1] if begin else run.start
    data = run.data[start - run.start : run.ends[until - 1] - run.start]
    return BytesArrived(run.exchange, run.side, start, data, run.ends[begin:until], run.times[begin:until])


def _read_segments(connection: sqlite3.Connection, bounds: Bounds) -> Iterator[tuple[int, BytesArrived]]:
    query = f"SELECT {COLUMNS} FROM segment WHERE id > ? AND id <= ? ORDER BY id"  # noqa: S608 - a constant
    for row in connection.execute(query, (bounds.after_segment, bounds.until_segment)):
        yield row["time_ns"], unpack_run(row)


def _read_marks(connection: sqlite3.Connection, bounds: Bounds) -> Iterator[tuple[int, Observation]]:
    parameters = {
        "after": bounds.after_ns,
        "until": bounds.until_ns,
        "exchanges": None if bounds.exchanges is None else orjson.dumps(bounds.exchanges).decode(),
    }
    for row in connection.execute(_MARKS, parameters):
        yield row["time_ns"], _read_mark(connection, row["what"], row["id"])


def _read_mark(connection: sqlite3.Connection, what: str, number: int) -> Observation:
    if what == "lost":
        return read_lost(connection.execute("SELECT * FROM lost WHERE id = ?", (number,)).fetchone())
    row = connection.execute("SELECT * FROM exchange WHERE id = ?", (number,)).fetchone()
    if what == "request":
        return read_request(row)
    if what == "response":
        return read_response(row)
    if what == "ended":
        return ExchangeEnded(number, row["ended_ns"], Ending(row["ending"]), row["detail"])
    return RequestEnded(number, row["request_ended_ns"])
