"""The observations of a recording in the order in which they were made."""

import heapq
import sqlite3
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import orjson

from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording.segments import COLUMNS, unpack

_FOREVER = 2**63 - 1
Seen = TypeVar("Seen")

# One row for each head, end and loss, in order of time.
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


def observations(connection: sqlite3.Connection, batch: "Bounds | None" = None) -> Iterator[Observation]:
    """Everything seen, or what one commit stored, streaming: memory does not grow with the recording.

    Chunks of one body with nothing else between them come as one run, as far as one segment holds them.
    `connection` must have `sqlite3.Row` rows.
    """
    bounds = batch or Bounds()
    return interleave(_marks(connection, bounds), _segments(connection, bounds))


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a commit stored: times in `(after_ns, until_ns]`, segment ids in `(after_segment, until_segment]`."""

    after_ns: int = -1
    until_ns: int = _FOREVER
    after_segment: int = 0
    until_segment: int = _FOREVER
    exchanges: tuple[int, ...] | None = None
    """The exchanges that it touched; None: all."""


def interleave(
    marks: Iterator[tuple[int, Observation]], segments: Iterator[tuple[int, BytesArrived]]
) -> Iterator[Observation]:
    """Heads, ends and losses, and runs of bytes, each in order of (first) time, as one sequence in order of time.

    Runs overlap in time: each is cut where something else was seen.
    """
    ahead, behind = _Ahead(marks), _Ahead(segments)
    # Of each run that has begun: when its next chunk came, and which that is.  No two times are the same.
    begun: list[tuple[int, BytesArrived, int]] = []
    while begun or ahead or behind:
        first = begun[0][0] if begun else _FOREVER
        if behind.time_ns < min(first, ahead.time_ns):
            heapq.heappush(begun, (*behind.take(), 0))
        elif ahead.time_ns < first:
            yield ahead.take()[1]
        else:
            _, run, place = heapq.heappop(begun)
            horizon = min(ahead.time_ns, behind.time_ns, begun[0][0] if begun else _FOREVER)
            until = bisect_left(run.times, horizon, place)
            yield _part(run, place, until)
            if until < len(run.times):
                heapq.heappush(begun, (run.times[until], run, until))


class _Ahead(Generic[Seen]):
    """A timed iterator whose next time can be looked at."""

    def __init__(self, timed: Iterator[tuple[int, Seen]]) -> None:
        self._timed = timed
        self._next = next(timed, None)

    def __bool__(self) -> bool:
        return self._next is not None

    @property
    def time_ns(self) -> int:
        return _FOREVER if self._next is None else self._next[0]

    def take(self) -> tuple[int, Seen]:
        taken = self._next
        if taken is None:
            raise StopIteration
        self._next = next(self._timed, None)
        return taken


def _segments(connection: sqlite3.Connection, bounds: Bounds) -> Iterator[tuple[int, BytesArrived]]:
    query = f"SELECT {COLUMNS} FROM segment WHERE id > ? AND id <= ? ORDER BY id"  # noqa: S608 - a constant
    for row in connection.execute(query, (bounds.after_segment, bounds.until_segment)):
        yield row["time_ns"], unpack(row)


def _part(run: BytesArrived, begin: int, until: int) -> BytesArrived:
    """The chunks of `run` from number `begin` up to `until`."""
    if begin == 0 and until == len(run.times):
        return run
    start = run.ends[begin - 1] if begin else run.start
    data = run.data[start - run.start : run.ends[until - 1] - run.start]
    return BytesArrived(run.exchange, run.side, start, data, run.ends[begin:until], run.times[begin:until])


def _marks(connection: sqlite3.Connection, bounds: Bounds) -> Iterator[tuple[int, Observation]]:
    parameters = {
        "after": bounds.after_ns,
        "until": bounds.until_ns,
        "exchanges": None if bounds.exchanges is None else orjson.dumps(bounds.exchanges).decode(),
    }
    for row in connection.execute(_MARKS, parameters):
        yield row["time_ns"], _mark(connection, row["what"], row["id"])


def _mark(connection: sqlite3.Connection, what: str, number: int) -> Observation:
    if what == "lost":
        return lost(connection.execute("SELECT * FROM lost WHERE id = ?", (number,)).fetchone())
    row = connection.execute("SELECT * FROM exchange WHERE id = ?", (number,)).fetchone()
    if what == "request":
        return request(row)
    if what == "response":
        return response(row)
    if what == "ended":
        return ExchangeEnded(number, row["ended_ns"], Ending(row["ending"]), row["detail"])
    return RequestEnded(number, row["request_ended_ns"])


def request(row: sqlite3.Row) -> RequestStarted:
    """The request head in a row of `exchange`."""
    return RequestStarted(
        exchange=row["id"],
        time_ns=row["started_ns"],
        client=row["client"],
        method=row["method"],
        scheme=row["scheme"],
        authority=row["authority"],
        target=row["target"],
        http_version=row["request_version"],
        headers=_headers(row["request_headers"]),
    )


def response(row: sqlite3.Row) -> ResponseStarted:
    """The response head in a row of `exchange` that has one."""
    return ResponseStarted(
        exchange=row["id"],
        time_ns=row["responded_ns"],
        status=row["status"],
        reason=row["reason"],
        http_version=row["response_version"],
        headers=_headers(row["response_headers"]),
    )


def lost(row: sqlite3.Row) -> BytesLost:
    """The loss in a row of `lost`."""
    side = Side.RESPONSE if row["response"] else Side.REQUEST
    return BytesLost(row["exchange_id"], row["time_ns"], side, row["start"], row["count"], row["why"])


def _headers(text: str) -> Headers:
    headers = tuple((name, value) for name, value in orjson.loads(text))
    if not all(isinstance(part, str) for pair in headers for part in pair):
        raise TypeError("a header is no text")
    return headers
