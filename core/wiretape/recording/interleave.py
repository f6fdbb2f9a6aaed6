"""Observations in time order: of a whole recording, or of the new part of a growing recording."""

import heapq
import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import count

import orjson
from msgspec import Struct

from wiretape.observations import BytesArrived, Ending, ExchangeEnded, Observation, RequestEnded
from wiretape.recording.table_rows import SEGMENT_COLUMNS, read_lost, read_request, read_response, unpack_run

_FOREVER = 2**63 - 1
_KEPT_ROWS = 64
"""Rows of exchanges that are kept in memory: each one is needed for several observations."""

# One row for each observation without bytes, in time order.
_MARKS = """
WITH touched AS (
  SELECT * FROM exchange
  WHERE (id > :after_exchange OR id IN (SELECT value FROM json_each(:exchanges))) AND started_ns <= :until)
SELECT time_ns, what, id FROM (
  SELECT started_ns AS time_ns, 'request' AS what, id FROM touched
  UNION ALL SELECT request_ended_ns, 'request ended', id FROM touched
  UNION ALL SELECT responded_ns, 'response', id FROM touched
  UNION ALL SELECT ended_ns, 'ended', id FROM touched
  UNION ALL SELECT time_ns, 'lost', id FROM lost)
WHERE time_ns > :after AND time_ns <= :until ORDER BY time_ns
"""


class Bounds(Struct, frozen=True):
    """Range of observations: times in `(after_ns, until_ns]`, segment ids in `(after_segment, until_segment]`."""

    after_ns: int = -1
    until_ns: int = _FOREVER
    after_segment: int = 0
    until_segment: int = _FOREVER
    after_exchange: int = -(2**62)
    exchanges: Collection[int] = ()
    """The only exchanges with observations in this range are these, and those with a number above the other one."""


def read_observations(connection: sqlite3.Connection, bounds: Bounds | None = None) -> Iterator[Observation]:
    """Stream all observations, or those within `bounds`: memory does not grow with the recording.

    Consecutive chunks of one body that share a segment are one run.  `connection` must have `sqlite3.Row` rows.
    """
    bounds = bounds or Bounds()
    return interleave(read_marks(connection, bounds), _read_runs(connection, bounds))


def interleave(
    marks: Iterator[Observation], runs: Iterator[BytesArrived], *, strict: bool = True
) -> Iterator[Observation]:
    """Merge observations without bytes and runs of bytes, each sorted by (first) time, into one sequence.

    Runs overlap in time: a run is cut where something else was observed between its chunks.  Raises ValueError if two
    observations have the same time, unless `strict` is False.
    """
    mark, next_run = next(marks, None), next(runs, None)
    # For each run that has begun: the time of its next chunk, a number that no other has, and the index of that chunk.
    begun: list[tuple[int, int, BytesArrived, int]] = []
    numbers = count()
    while begun or mark or next_run:
        mark_ns = mark.time_ns if mark else _FOREVER
        run_ns = next_run.time_ns if next_run else _FOREVER
        begun_ns = begun[0][0] if begun else _FOREVER
        if next_run and run_ns < min(begun_ns, mark_ns):
            heapq.heappush(begun, (run_ns, next(numbers), next_run, 0))
            next_run = next(runs, None)
        elif mark and mark_ns < begun_ns:
            yield mark
            mark = next(marks, None)
        else:
            _, number, run, begin = heapq.heappop(begun)
            horizon = min(mark_ns, run_ns, begun[0][0] if begun else _FOREVER)
            until = bisect_left(run.times, horizon, begin)
            if until == begin:
                if strict:
                    raise ValueError("two observations have the same time")
                until += 1
            yield _slice_run(run, begin, until)
            if until < len(run.times):
                heapq.heappush(begun, (run.times[until], number, run, until))


def _slice_run(run: BytesArrived, begin: int, until: int) -> BytesArrived:
    """Return the chunks of `run` from index `begin` up to `until`."""
    if begin == 0 and until == len(run.times):
        return run
    start = run.ends[begin - 1] if begin else run.start
    data = run.data[start - run.start : run.ends[until - 1] - run.start]
    return BytesArrived(run.exchange, run.side, start, data, run.ends[begin:until], run.times[begin:until])


def _read_runs(connection: sqlite3.Connection, bounds: Bounds) -> Iterator[BytesArrived]:
    query = f"SELECT {SEGMENT_COLUMNS} FROM segment WHERE id > ? AND id <= ? ORDER BY id"  # noqa: S608 - a constant
    yield from map(unpack_run, connection.execute(query, (bounds.after_segment, bounds.until_segment)))


def read_marks(connection: sqlite3.Connection, bounds: Bounds) -> Iterator[Observation]:
    """Stream the observations without bytes within `bounds`, in time order."""

    @lru_cache(_KEPT_ROWS)
    def exchange(number: int) -> sqlite3.Row:
        row: sqlite3.Row = connection.execute("SELECT * FROM exchange WHERE id = ?", (number,)).fetchone()
        return row

    parameters = {
        "after": bounds.after_ns,
        "until": bounds.until_ns,
        "after_exchange": bounds.after_exchange,
        "exchanges": orjson.dumps(list(bounds.exchanges)).decode(),
    }
    for _, what, number in connection.execute(_MARKS, parameters):
        if what == "lost":
            yield read_lost(connection.execute("SELECT * FROM lost WHERE id = ?", (number,)).fetchone())
            continue
        row = exchange(number)
        if what == "request":
            yield read_request(row)
        elif what == "response":
            yield read_response(row)
        elif what == "ended":
            yield ExchangeEnded(number, row["ended_ns"], Ending(row["ending"]), row["detail"])
        else:
            yield RequestEnded(number, row["request_ended_ns"])
