"""Reader of recordings: exchanges, bodies, frames, findings, and all observations in time order."""

import heapq
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import orjson

from wiretape.content_encoding import is_identity
from wiretape.contract.contract_facts import choose_contracts
from wiretape.contract.vocabulary import vocabulary_of
from wiretape.errors import RecordingError
from wiretape.event import Event, TimedFrame
from wiretape.files import file_errors, is_pipe
from wiretape.frame_reader import StreamPosition
from wiretape.observations import BytesArrived, BytesLost, Observation, Side
from wiretape.patterns import Globs
from wiretape.recording import schema
from wiretape.recording.contract_views import sql_globs
from wiretape.recording.interleave import Bounds, read_observations
from wiretape.recording.table_rows import (
    SEGMENT_COLUMNS,
    Capture,
    Exchange,
    RecordingInfo,
    read_exchange,
    read_finding,
    read_lost,
    unpack_run,
)
from wiretape.rules import Finding

_MAX_ID = 2**62
_WHERE = "WHERE exchange_id = :exchange AND response = :response"
_BODY = (
    f"SELECT {SEGMENT_COLUMNS} FROM segment {_WHERE} AND start >= "  # noqa: S608 - constants
    f"coalesce((SELECT max(start) FROM segment {_WHERE} AND start <= :start), 0) ORDER BY start"
)
_LOST = f"SELECT * FROM lost {_WHERE} AND start >= :start ORDER BY start"  # noqa: S608 - a constant
_FINDINGS = (
    "SELECT * FROM finding "
    "WHERE id > :after AND id <= :until AND (:exchange IS NULL OR exchange_id = :exchange) ORDER BY id"
)
_EVENT_COUNT = "SELECT event FROM frame WHERE exchange_id = ? AND event IS NOT NULL ORDER BY start DESC LIMIT 1"
_LAST_START = "SELECT max(start) FROM frame WHERE exchange_id = ?"
_EVENT_FROM = """
SELECT start, event FROM frame WHERE exchange_id = ? AND start >= ? AND event IS NOT NULL ORDER BY start LIMIT 1
"""
_NO_EVENT = (None, 2**63)
_EVENT_BEFORE = """
SELECT event, time_ns FROM frame WHERE exchange_id = ? AND start < ? AND event IS NOT NULL ORDER BY start DESC LIMIT 1
"""
_ID_BEFORE = """
SELECT sse_id FROM frame WHERE exchange_id = ? AND start < ? AND sse_id IS NOT NULL ORDER BY start DESC LIMIT 1
"""
_TYPES = """
SELECT id FROM word WHERE text IN (SELECT value FROM json_each(:types))
UNION SELECT w.id FROM json_each(:globs) g JOIN word w ON w.text GLOB g.value
"""
_EVENTS = f"""
SELECT f.event, f.time_ns, coalesce(t.text, n.text, ''), f.sequence, k.text
FROM frame f LEFT JOIN word t ON t.id = f.type LEFT JOIN word n ON n.id = f.name
  LEFT JOIN word k ON k.id = f.keys
WHERE f.exchange_id = :exchange AND f.start < :before AND f.event IS NOT NULL
  AND coalesce(f.type, f.name, 0) NOT IN ({_TYPES})
ORDER BY f.start
"""  # noqa: S608 - constants
_FIRST_OF_TYPE = f"""
SELECT event FROM frame WHERE exchange_id = :exchange AND event >= :event
  AND coalesce(type, name, 0) IN ({_TYPES}) ORDER BY start LIMIT 1
"""  # noqa: S608 - constants
# A single statement sees a single state of the file, between two commits.
_TAIL = """
SELECT coalesce((SELECT max(id) FROM segment), 0), coalesce((SELECT max(id) FROM finding), 0),
  max(coalesce(max(started_ns), 0), coalesce(max(request_ended_ns), 0), coalesce(max(responded_ns), 0),
    coalesce(max(ended_ns), 0), coalesce((SELECT max(time_ns) FROM lost), 0))
FROM exchange
"""
_PLACES = """
SELECT id, time_ns, coalesce((SELECT max(value) FROM json_each(chunks) WHERE key % 2 = 1), 0), length(bytes)
FROM segment WHERE id > ? AND id <= ? ORDER BY id
"""
_SLICE_SEGMENTS = 64
_SLICE_BYTES = 4 * 1024 * 1024
_SLICE_EXCHANGES = 2000
_LATER_EXCHANGE = "SELECT started_ns FROM exchange WHERE id > ? AND started_ns > ? ORDER BY id LIMIT 1 OFFSET ?"
_BEGUN = """
SELECT coalesce(min(id) - 1, (SELECT max(id) FROM exchange), :since) FROM exchange
WHERE id > :since AND started_ns > :time_ns
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


@dataclass(frozen=True, slots=True)
class TailPosition:
    """Position in a growing recording: how far it has been written, or read."""

    segment: int = 0
    finding: int = 0
    time_ns: int = -1
    """Time of the last observation without bytes."""


class Gap(NamedTuple):
    """Time without an event."""

    since_ns: int
    """When the event before arrived, or the response began."""
    until_ns: int
    event: int
    """The event that ended it."""


_Read = TypeVar("_Read")


class IndexedEvent(NamedTuple):
    """What the index has of an event."""

    number: int
    time_ns: int
    type: str
    sequence: int | None
    keys: Mapping[str, str]
    """See `Event.keys`."""


def open_database(path: Path, *, name: Path | None = None, check_rows: bool = True) -> "Recording":
    """Open the SQLite file of a recording read-only.  `name` is the path to use in messages instead of `path`.

    Raises RecordingError if the file does not exist, is not a recording, has a newer format, or has a row that no
    recorder writes.  `check_rows` False skips the last check, which takes some seconds for a million segments.
    """
    shown = name or path
    _check_is_file(path)
    with ExitStack() as undo:
        try:
            connection = undo.enter_context(closing(schema.connect(path)))
            connection.execute("PRAGMA query_only = ON")
            schema.check_schema(connection, shown)
            schema.check_not_empty(connection, shown)
            if check_rows:
                schema.check_rows(connection, shown)
        except sqlite3.OperationalError as error:
            raise RecordingError(f"{shown} cannot be read: {error}.") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise schema.damage_error(shown, str(error)) from None
        recording = Recording(shown, connection)
        recording.database = path
        undo.pop_all()
    return recording


def _check_is_file(path: Path) -> None:
    with file_errors(path, kind=RecordingError):
        if is_pipe(path):
            raise RecordingError(
                f"{path} is a pipe, but reading needs random access: save the recording to a file first."
            )
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise RecordingError(f"{path} is not a recording: it is {kind}.")


class Recording:
    """A recording that is open for reading.

    A context manager.  All methods raise RecordingError if the file is damaged.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.database = path
        """The SQLite file; another one than `path` if that was converted."""
        self._connection = connection
        with _report_damage(path):
            self.info = _read_info(connection)
        self.contracts = choose_contracts(self.info.contracts)
        """Those that its exchanges belong to."""
        self.vocabularies = tuple(map(vocabulary_of, self.contracts.contracts))
        """Those of these contracts."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _row(self, query: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> Any:
        """Return the first row; None if there is none."""
        with _report_damage(self.path):
            return self._connection.execute(query, parameters).fetchone()

    def _read(
        self, read: Callable[[Any], _Read], query: str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> Iterator[_Read]:
        """Stream what `read` makes of each row."""
        with _report_damage(self.path):
            yield from map(read, self._connection.execute(query, parameters))

    def _exchanges(self, condition: str, number: int) -> Iterator[Exchange]:
        query = f"SELECT * FROM exchange WHERE id {condition} ORDER BY id"  # noqa: S608 - a constant
        return self._read(lambda row: read_exchange(row, self.contracts), query, (number,))

    def observations(self) -> Iterator[Observation]:
        """Stream all observations in time order, as the live checks saw them."""
        with _report_damage(self.path):
            yield from read_observations(self._connection)

    def tail_position(self) -> TailPosition:
        """Return the current end of a recording that may still be growing."""
        return TailPosition(*self._row(_TAIL))

    def observations_between(
        self,
        after: TailPosition,
        until: TailPosition,
        exchanges: tuple[int, Collection[int]] = (-_MAX_ID, ()),
    ) -> Iterator[Observation]:
        """Stream the observations after one position up to another, in time order.

        To read fewer rows, pass as `exchanges` the last one that began before, and those that are still open.
        """
        bounds = Bounds(after.time_ns, until.time_ns, after.segment, until.segment, *exchanges)
        with _report_damage(self.path):
            yield from read_observations(self._connection, bounds)

    def begun_exchanges(self, time_ns: int, since: int) -> int:
        """Return a number not below `since`: all exchanges up to it began at `time_ns` or before."""
        return int(self._row(_BEGUN, {"since": since, "time_ns": time_ns})[0])

    def slice_end(self, after: TailPosition, until: TailPosition, exchange: int) -> tuple[TailPosition, int] | None:
        """Return a position some megabytes and exchanges after `after`, and the bytes of bodies up to there.

        No chunk before it is later than one after it.  None if there is not so much before `until`.  All exchanges up
        to number `exchange` began before.
        """
        with _report_damage(self.path):
            later = self._connection.execute(_LATER_EXCHANGE, (exchange, after.time_ns, _SLICE_EXCHANGES)).fetchone()
            if later is None and until.segment - after.segment <= _SLICE_SEGMENTS:
                return None
            most_ns = until.time_ns if later is None else later[0]
            last, end_ns, size = after.segment, after.time_ns, 0
            for number, time_ns, duration_ns, length in self._connection.execute(_PLACES, (last, until.segment)):
                if time_ns > end_ns and (size >= _SLICE_BYTES or time_ns > most_ns):
                    return TailPosition(segment=last, time_ns=max(end_ns, min(time_ns - 1, most_ns))), size
                last, end_ns, size = number, max(end_ns, time_ns + duration_ns), size + length
            most_ns = max(end_ns, most_ns)
            return (TailPosition(segment=last, time_ns=most_ns), size) if most_ns < until.time_ns else None

    def exchanges(self, after: int = -(2**63)) -> Iterator[Exchange]:
        """Stream the exchanges with a number above `after`, in the order in which they began."""
        return self._exchanges("> ?", after)

    def exchange(self, number: int) -> Exchange:
        """Return one exchange.  Raises RecordingError if it does not exist."""
        # SQLite refuses larger numbers.
        for exchange in self._exchanges("= ?", min(max(number, -1), _MAX_ID)):
            return exchange
        counted = self._row("SELECT count(*), min(id), max(id) FROM exchange")
        raise RecordingError(f"{self.path} has no exchange {number}: {_describe_numbers(*counted)}.")

    def body(self, number: int, side: Side, start: int = 0) -> Iterator[BytesArrived | BytesLost]:
        """Stream a body as it crossed the wire: its chunks with their times, and its lost bytes.

        Begins with the run that contains offset `start`; that run is not cut.
        """
        body = {"exchange": number, "response": int(side is Side.RESPONSE), "start": start}
        with _report_damage(self.path):
            losses: Iterator[BytesArrived | BytesLost] = map(read_lost, self._connection.execute(_LOST, body))
            runs = map(unpack_run, self._connection.execute(_BODY, body))
            yield from heapq.merge(losses, runs, key=_place_of)

    def frames(self, number: int, event: int = 1) -> Iterator[TimedFrame]:
        """Stream the frames of an event stream, decoded and numbered, starting at event number `event`.

        Earlier frames are skipped with the help of the index, unless the body is encoded.
        """
        exchange = self.exchange(number)
        is_indexed = event > 1 and is_identity(exchange.content_encoding)
        position = self.position_of_event(number, event) if is_indexed else None
        if position is not None:
            found = exchange.make_reader(position).read(self.body(number, Side.RESPONSE, position.start))
            first = next(found, None)
            # The bytes are authoritative: ignore the index if it contradicts them.
            if isinstance(first, Event) and (first.number, first.frame.start) == (event, position.start):
                yield first
                yield from found
                return
        every = exchange.make_reader().read(self.body(number, Side.RESPONSE))
        yield from every if event <= 1 else dropwhile(lambda seen: not _is_event_from(seen, event), every)

    def events(self, number: int | None = None, event: int = 1) -> Iterator[Event]:
        """Stream the events of one exchange, from event number `event` on, or of all, in the order of the exchanges."""
        if number is None:
            numbers = [exchange.number for exchange in self.exchanges() if exchange.is_stream]
        else:
            numbers = [number]
        for each in numbers:
            yield from (seen for seen in self.frames(each, event) if isinstance(seen, Event))

    def position_of_event(self, number: int, event: int) -> StreamPosition | None:
        """Return the position just before an event of a stream; None if the index does not contain it."""
        event = min(max(event, 0), _MAX_ID)
        (last,) = self._row(_LAST_START, (number,))
        # Events are numbered in the order of their offsets.
        offsets = range(last or 0)
        start = bisect_left(offsets, event, key=lambda at: (self._row(_EVENT_FROM, (number, at)) or _NO_EVENT)[1])
        row = self._row(_EVENT_FROM, (number, start))
        if row is None:
            return None
        before, cursor = (self._row(query, (number, row["start"])) for query in (_EVENT_BEFORE, _ID_BEFORE))
        position = StreamPosition(
            start=row["start"],
            events=before["event"] if before else 0,
            last_event_id=cursor["sse_id"].encode() if cursor else b"",
            time_ns=before["time_ns"] if before else 0,
        )
        return position if position.events + 1 == event else None

    def has_cursor(self, exchange: Exchange, cursor: str) -> bool:
        """Return whether an indexed event of a stream has this cursor: an SSE id, or a sequence."""
        column = "CAST(sequence AS TEXT)" if exchange.has_sequences_as_cursors else "sse_id"
        query = f"SELECT 1 FROM frame WHERE exchange_id = ? AND {column} = ? LIMIT 1"  # noqa: S608 - a constant
        return self._row(query, (exchange.number, cursor)) is not None

    def first_event_of_type(self, number: int, event: int, types: Globs) -> int | None:
        """Return the number of the first indexed event with one of some types, starting at event number `event`."""
        row = self._row(_FIRST_OF_TYPE, {"exchange": number, "event": event, **_type_parameters(types)})
        return None if row is None else int(row["event"])

    def longest_gaps(self, number: int, min_ns: int, limit: int) -> list[Gap]:
        """Return the `limit` longest gaps of at least `min_ns` before an indexed event, in time order."""
        return [*self._read(Gap._make, _GAPS, {"exchange": number, "min_ns": min_ns, "limit": limit})]

    def event_count(self, number: int) -> int:
        """Return the number of indexed events of a stream."""
        row = self._row(_EVENT_COUNT, (number,))
        return 0 if row is None else int(row["event"])

    def last_frame_ns(self, number: int) -> int | None:
        """Return when the last indexed frame of a stream arrived; None if there is none."""
        time_ns: int | None = self._row("SELECT max(time_ns) FROM frame WHERE exchange_id = ?", (number,))[0]
        return time_ns

    def indexed_events(self, exchange: Exchange, before: int, without: Globs) -> Iterator[IndexedEvent]:
        """Stream the indexed events of a stream that begin before an offset, except those with a type in `without`."""
        facts = exchange.facts
        names = list(facts.contract.entities) if facts is not None else []

        def read(row: Sequence[Any]) -> IndexedEvent:
            event, time_ns, type_, sequence, text = row
            found = orjson.loads(text) if text else {}
            return IndexedEvent(event, time_ns, type_, sequence, {name: found[name] for name in names if name in found})

        return self._read(read, _EVENTS, {"exchange": exchange.number, "before": before, **_type_parameters(without)})

    def captures(self) -> list[Capture]:
        """Return the runs of the programs that recorded, in order."""
        return [*self._read(lambda row: Capture(*row), "SELECT tool, began_ns, ended_ns FROM capture ORDER BY id")]

    @property
    def series(self) -> tuple[int, bytes]:
        """What all files of a rotated recording have in common."""
        started_ns, salt = self._row("SELECT started_unix_ns, salt FROM recording WHERE id = 1")
        return started_ns, bytes(salt)

    @property
    def last_exchange(self) -> int:
        """The largest number of an exchange; 0 if there are none."""
        return int(self._row("SELECT coalesce(max(id), 0) FROM exchange")[0])

    def findings(
        self, exchange: int | None = None, after: TailPosition = TailPosition(), until: TailPosition | None = None
    ) -> Iterator[Finding]:
        """Stream the live findings in the order in which they were stored, or only those about one exchange.

        `after` and `until` limit them to those that were stored between two positions.
        """
        last = _MAX_ID if until is None else until.finding
        return self._read(read_finding, _FINDINGS, {"after": after.finding, "until": last, "exchange": exchange})

    def has_replaced_findings(self, since: TailPosition) -> bool:
        """Return whether a recorder has replaced findings that were stored at a position, so that all must be read."""
        return since.finding > 0 and self._row("SELECT 1 FROM finding WHERE id = ?", (since.finding,)) is None


def _type_parameters(types: Globs) -> dict[str, str]:
    exact = [each for each in types.patterns if "*" not in each]
    return {"types": orjson.dumps(exact).decode(), "globs": orjson.dumps(sql_globs(types.patterns)).decode()}


def _is_event_from(seen: TimedFrame, number: int) -> bool:
    """Whether a frame is an event with this number or a larger one."""
    return isinstance(seen, Event) and seen.number >= number


def _describe_numbers(count: int, first: int, last: int) -> str:
    """Describe the exchanges of a recording; `wiretape trim` leaves gaps in their numbers."""
    if count == 0:
        return "it has no exchanges"
    if count == 1:
        return f"its only exchange is {first}"
    if count == last - first + 1:
        return f"its exchanges are {first} to {last}"
    return f"its {count:,} exchanges have numbers from {first} to {last}"


def _place_of(part: BytesArrived | BytesLost) -> tuple[int, int]:
    """Return where a part of a body begins, and when: an empty chunk begins where the bytes after it do."""
    return part.start, part.times[0] if isinstance(part, BytesArrived) else part.time_ns


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    """Turn the errors that a damaged or malicious file causes into a RecordingError."""
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise schema.damage_error(path, str(error)) from error


def _read_info(connection: sqlite3.Connection) -> RecordingInfo:
    row = connection.execute("SELECT * FROM recording WHERE id = 1").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    capture = connection.execute("SELECT * FROM capture ORDER BY id DESC LIMIT 1").fetchone()
    return RecordingInfo(
        format=version,
        tool=capture["tool"],
        upstream=row["upstream"],
        started=datetime.fromtimestamp(row["started_unix_ns"] / 1e9, UTC),
        ended_ns=capture["ended_ns"],
        redacted=row["redacted"],
        started_unix_ns=row["started_unix_ns"],
        part=row["part"],
        earlier_exchanges=row["earlier_exchanges"],
        is_continued=bool(row["continued"]),
        contracts=row["contracts"],
        probe=row["probe"],
    )
