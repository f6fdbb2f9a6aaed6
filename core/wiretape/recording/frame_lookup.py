"""Lookups in the table `frame`: find an event of a stream without reading everything before it."""

import sqlite3
from collections.abc import Collection, Iterator
from typing import NamedTuple

import orjson

from wiretape.frame_reader import StreamPosition

_FROM = """
SELECT start, event FROM frame WHERE exchange_id = ? AND start >= ? AND event IS NOT NULL ORDER BY start LIMIT 1
"""
_BEFORE = """
SELECT event, time_ns FROM frame WHERE exchange_id = ? AND start < ? AND event IS NOT NULL ORDER BY start DESC LIMIT 1
"""
_ID_BEFORE = """
SELECT sse_id FROM frame WHERE exchange_id = ? AND start < ? AND sse_id IS NOT NULL ORDER BY start DESC LIMIT 1
"""
_EVENTS = """
SELECT f.event, f.time_ns, coalesce(t.text, n.text, ''), f.sse_id, f.sequence, r.text, c.text
FROM frame f LEFT JOIN word t ON t.id = f.type LEFT JOIN word n ON n.id = f.name
  LEFT JOIN word r ON r.id = f.run_id LEFT JOIN word c ON c.id = f.tool_call_id
WHERE f.exchange_id = ? AND f.start < ? AND f.event IS NOT NULL
  AND coalesce(f.type, f.name, 0) NOT IN (SELECT id FROM word WHERE text IN (SELECT value FROM json_each(?)))
ORDER BY f.start
"""
_FIRST = """
SELECT event FROM frame WHERE exchange_id = ? AND event >= ?
  AND coalesce(type, name, 0) = (SELECT id FROM word WHERE text = ?) ORDER BY start LIMIT 1
"""
_GAPS = """
SELECT since_ns, time_ns, event FROM (
  SELECT * FROM (
    SELECT event, time_ns,
      lag(time_ns, 1, (SELECT coalesce(responded_ns, started_ns) FROM exchange WHERE id = :exchange))
        OVER (ORDER BY start) AS since_ns
    FROM frame WHERE exchange_id = :exchange AND event IS NOT NULL)
  WHERE time_ns - since_ns >= :min_ns ORDER BY time_ns - since_ns DESC LIMIT :limit)
ORDER BY time_ns
"""


class Gap(NamedTuple):
    """Time without an event."""

    since_ns: int
    """When the event before arrived, or the response began."""
    until_ns: int
    event: int
    """The event that ended it."""


class IndexedEvent(NamedTuple):
    """An event, as far as the index describes it."""

    event: int
    time_ns: int
    type: str
    """The JSON `type`, else the name on the `event:` line, else empty."""
    id: str | None
    sequence: int | None
    run_id: str | None
    tool_call_id: str | None


def position_of_event(connection: sqlite3.Connection, exchange: int, event: int) -> StreamPosition | None:
    """Return the position just before an event; None if the index does not contain it."""
    (last,) = connection.execute("SELECT max(start) FROM frame WHERE exchange_id = ?", (exchange,)).fetchone()
    low, high = 0, last if last is not None else -1
    # Events are numbered in the order of their offsets.
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(_FROM, (exchange, middle)).fetchone()
        if row is None or row["event"] >= event:
            high = middle
        else:
            low = row["start"] + 1
    found = position_at_offset(connection, exchange, low)
    return found if found is not None and found.events + 1 == event else None


def position_at_offset(connection: sqlite3.Connection, exchange: int, offset: int) -> StreamPosition | None:
    """Return the position just before the first event at or after an offset; None if there is none."""
    row = connection.execute(_FROM, (exchange, offset)).fetchone()
    if row is None:
        return None
    start = row["start"]
    before = connection.execute(_BEFORE, (exchange, start)).fetchone()
    cursor = connection.execute(_ID_BEFORE, (exchange, start)).fetchone()
    return StreamPosition(
        start=start,
        events=before["event"] if before else 0,
        last_event_id=cursor["sse_id"].encode() if cursor else b"",
        time_ns=before["time_ns"] if before else 0,
    )


def events_before(
    connection: sqlite3.Connection, exchange: int, offset: int, without: Collection[str]
) -> Iterator[IndexedEvent]:
    """Stream the events that begin before an offset, except those of the types in `without`."""
    for row in connection.execute(_EVENTS, (exchange, offset, orjson.dumps(list(without)).decode())):
        yield IndexedEvent(*row)


def first_event_of_type(connection: sqlite3.Connection, exchange: int, event: int, type_: str) -> int | None:
    """Return the number of the first event of a type, starting at number `event`."""
    row = connection.execute(_FIRST, (exchange, event, type_)).fetchone()
    return None if row is None else int(row["event"])


def longest_gaps(connection: sqlite3.Connection, exchange: int, min_ns: int, limit: int) -> list[Gap]:
    """Return the `limit` longest gaps of at least `min_ns`, in time order."""
    found = connection.execute(_GAPS, {"exchange": exchange, "min_ns": min_ns, "limit": limit})
    return [Gap(*row) for row in found]
