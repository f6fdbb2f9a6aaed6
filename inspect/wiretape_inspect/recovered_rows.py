"""The rows that SQLite can still read from a damaged recording, and the valid recording that they are changed into."""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import orjson

from wiretape.contract.contract_facts import NO_CONTRACTS, choose_contracts
from wiretape.labels import count_of
from wiretape.observations import BytesArrived, BytesLost, Ending, ExchangeEnded, Observation
from wiretape.recording import Capture, RecordingMetadata
from wiretape.recording.interleave import Bounds, interleave, read_marks
from wiretape.recording.schema import MAX_UNIX_NS, create_schema, empty_recording, number_ranges, protect
from wiretape.recording.table_rows import SEGMENT_COLUMNS, read_request, read_response, unpack_run
from wiretape.sse import EVENT_STREAM

Value = int | float | str | bytes | None
Row = list[Value]
"""The values of a row."""

TABLES = ("recording", "capture", "exchange", "segment", "lost")
"""The tables that are read; everything else is derived from them."""
_LARGEST_ID = 2**53
_MOST_FAILURES = 10_000
"""Queries of a table that may fail; a hostile file could make each one fail."""


def open_damaged(path: Path) -> sqlite3.Connection:
    """Open a copy of a damaged recording, in which wiretape's own schema replaces that of the file.

    Raises sqlite3.DatabaseError if SQLite cannot read its schema.
    """
    _replace_schema(path)
    connection = sqlite3.connect(path, isolation_level=None)
    protect(connection)
    # Otherwise SQLite refuses a file that ends before its last page.
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def read_rows(connection: sqlite3.Connection, damaged: list[str]) -> Iterator[tuple[str, Row]]:
    """Yield the table and the values of each row; add the tables of which a part cannot be read to `damaged`.

    Each table is read from both ends up to the damage, and then the halves of the rest in the same way.
    """
    for table in TABLES:
        ranges, failures = [(0, _LARGEST_ID)], 0
        while ranges and failures < _MOST_FAILURES:
            low, high = ranges.pop()
            for order in ("ASC", "DESC"):
                try:
                    for row in _select(connection, table, low, high, order):
                        yield table, list(row)
                        low, high = (row[0] + 1, high) if order == "ASC" else (low, row[0] - 1)
                    break
                except (sqlite3.Error, UnicodeDecodeError):
                    failures += 1
            else:
                middle = (low + high) // 2
                ranges += [(low, middle), (middle + 1, high)] if low < high else []
        if failures:
            damaged.append(table)


def _select(connection: sqlite3.Connection, table: str, low: int, high: int, order: str) -> Iterator[tuple[Any, ...]]:
    query = f"SELECT * FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id {order}"  # noqa: S608 - constants
    return connection.execute(query, (low, high))


def _replace_schema(path: Path) -> None:
    """Replace the schema of a file with wiretape's own, so that none of its SQL runs."""
    with empty_recording() as own:
        schema = dict(own.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    marks = ", ".join("?" * len(TABLES))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # With this, SQLite does not parse the schema of the file.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"DELETE FROM sqlite_master WHERE type != 'table' OR name NOT IN ({marks})", TABLES)  # noqa: S608
        for table in TABLES:
            connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (schema[table], table))


_WHY = "it could not be recovered from the damaged recording"
_MAX_CHUNK_NS = 2**53
"""Longest time between two chunks of a segment."""
_SHIFT_NS = 2**50
"""By how much times can be shifted because of other times."""
_RESERVED_NS = 4
"""Time before losses and ends that the writer may need; see `Writer.feed`."""
_EVENT_LINE = re.compile(rb"(?:^|[\r\n])(?:data|event|id|retry):")
_HEAD_COLUMNS = ("status", "reason", "response_version", "response_headers", "responded_ns")

# A wrong bit moves a time out of the order of rows, which is that of time.
_CORRECT_TIME = """
UPDATE {table} SET {column} = before_ns + 1
FROM (SELECT id AS number, lag({column}) OVER (ORDER BY id) AS before_ns, lead({column}) OVER (ORDER BY id) AS after_ns
      FROM {table})
WHERE id = number AND before_ns < after_ns AND {column} NOT BETWEEN before_ns AND after_ns
"""
_GUESS_TIME = """
UPDATE segment SET time_ns = coalesce(
  (SELECT max(started_ns, coalesce(responded_ns, 0)) + 1 FROM exchange WHERE exchange.id = exchange_id), 0)
"""
_INVENT_EXCHANGES = """
INSERT INTO exchange (id, label, client, method, scheme, authority, target, request_version, request_headers,
  started_ns, ending, detail, request_bytes, response_bytes, lost_bytes)
SELECT exchange_id, '', '', 'GET', 'http', 'unknown', '/', 'HTTP/1.1', 'null', min(time_ns), 'open', '', 0, 0, 0
FROM segment
WHERE exchange_id NOT IN (SELECT id FROM exchange) AND exchange_id BETWEEN 1 AND 9007199254740992
GROUP BY exchange_id
"""
_INCOMPLETE_RESPONSES = f"""
SELECT id FROM exchange WHERE ({" OR ".join(f"{name} IS NULL" for name in _HEAD_COLUMNS)})
  AND (coalesce({", ".join(_HEAD_COLUMNS)}) IS NOT NULL OR response_bytes > 0
    OR EXISTS (SELECT 1 FROM segment WHERE exchange_id = exchange.id AND response = 1)
    OR EXISTS (SELECT 1 FROM lost WHERE exchange_id = exchange.id AND response = 1))
"""  # noqa: S608 - constants
_COMPLETE_RESPONSE = """
UPDATE exchange SET status = coalesce(status, 200), reason = coalesce(reason, ''),
  response_version = coalesce(response_version, 'HTTP/1.1'), response_headers = coalesce(response_headers, :headers),
  responded_ns = coalesce(responded_ns, max(started_ns, coalesce(request_ended_ns, 0)) + 1)
WHERE id = :id
"""
_PIECES = """
SELECT 1 AS is_segment, id, start, length(bytes) AS size, time_ns,
  time_ns + coalesce(json_extract(chunks, '$[#-1]'), 0) AS last_ns
FROM segment WHERE exchange_id = :exchange AND response = :response
UNION ALL SELECT 0, id, start, count, time_ns, time_ns FROM lost WHERE exchange_id = :exchange AND response = :response
ORDER BY start, is_segment DESC, id
"""
_INSERT_LOST = "INSERT INTO lost (exchange_id, response, start, count, time_ns, why) VALUES (?, ?, ?, ?, ?, ?)"


@dataclass(slots=True)
class _Piece:
    """A segment or a loss of a body."""

    is_segment: bool
    id: int
    start: int
    size: int
    time_ns: int
    last_ns: int

    @property
    def end(self) -> int:
        return self.start + self.size


class RecoveredRows:
    """Collects rows with `add`, and makes a recording of them with `repair`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """`connection` is to an empty database."""
        self._db = connection
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        create_schema(connection)
        self._db.execute("CREATE INDEX segment_time ON segment (time_ns, id)")
        self._db.execute("CREATE INDEX lost_place ON lost (exchange_id, response)")
        self._contracts = NO_CONTRACTS
        self.unused_rows = 0
        """Rows that are not valid even for their own table, or repeat another."""
        self._wrong_times = 0
        self._max_ns = 0
        self.missing: list[str] = []
        """A sentence for everything that is missing or was changed, after `repair`."""

    def add(self, rows: Iterable[tuple[str, Row]]) -> None:
        """Add the rows of a file, each with its table."""
        for table, row in rows:
            if table == "segment" and isinstance(data := row[6], bytes):
                row[5] = self._fit_chunks(row[5], len(data))
            try:
                statement = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})"  # noqa: S608
                self.unused_rows += 1 - self._db.execute(statement, row).rowcount
            except sqlite3.IntegrityError:
                self.unused_rows += 1

    def _fit_chunks(self, chunks: Value, size: int) -> str | None:
        """Return the chunks of `size` bytes; None, which means one, if they contradict the bytes."""
        if chunks is None:
            return None
        flat: list[int] = []
        with suppress(msgspec.MsgspecError):
            flat = msgspec.json.decode(str(chunks), type=list[int])
        times = flat[1::2]
        valid = len(flat) % 2 == 0 and all(one < other for one, other in pairwise(times))
        if not flat or not valid or min(flat) < 0 or times[-1] > _MAX_CHUNK_NS or sum(flat[::2]) < size:
            self._wrong_times += 1
            return None
        fitting: list[int] = []
        for length, delta in zip(flat[::2], times, strict=True):
            if size > 0:
                fitting += (min(length, size), delta)
            size -= length
        return orjson.dumps(fitting).decode() if fitting else None

    def repair(self) -> RecordingMetadata | None:
        """Make the rows valid, and return the metadata of their recording; None if there is no exchange."""
        metadata = self._metadata()
        self._contracts = choose_contracts(metadata.contracts)
        self._max_ns = MAX_UNIX_NS - metadata.started_unix_ns - _SHIFT_NS
        for table, column in (("segment", "time_ns"), ("exchange", "started_ns")):
            self._wrong_times += self._db.execute(_CORRECT_TIME.format(table=table, column=column)).rowcount
        self._remove_impossible_numbers()
        self._db.execute("DELETE FROM segment WHERE length(bytes) = 0")
        headless = self._repair_heads()
        numbers = [number for (number,) in self._db.execute("SELECT id FROM exchange ORDER BY id")]
        if not numbers:
            return None
        for before, number in pairwise([0, *numbers]):
            if number - before > 1:
                which = f"exchange {number - 1}" if number - before == 2 else f"exchanges {before + 1} to {number - 1}"
                self.missing.append(f"No data of {which} was found.")
        for number in numbers:
            self._repair_exchange(number, headless.get(number))
        if self._wrong_times:
            self.missing.append(f"Timestamps changed because they contradict others: {self._wrong_times}.")
        return replace(metadata, captures=self._captures())

    def observations(self) -> Iterator[Observation]:
        """Stream the observations in time order; equal times are pushed apart."""
        marks = read_marks(self._db, Bounds(after_ns=-(2**62)))
        segments = self._db.execute(f"SELECT {SEGMENT_COLUMNS} FROM segment ORDER BY time_ns, id")  # noqa: S608
        last_ns = 0
        for seen in interleave(marks, map(unpack_run, segments), strict=False):
            if isinstance(seen, BytesArrived):
                times = []
                for time_ns in seen.times:
                    last_ns = max(time_ns, last_ns + 1)
                    times.append(last_ns)
                yield replace(seen, times=times)
                continue
            reserved = _RESERVED_NS if isinstance(seen, BytesLost | ExchangeEnded) else 1
            last_ns = max(seen.time_ns, last_ns + reserved)
            yield replace(seen, time_ns=last_ns)

    def _metadata(self) -> RecordingMetadata:
        valid = {"max": MAX_UNIX_NS - _SHIFT_NS}
        row = self._db.execute(
            "SELECT * FROM recording WHERE started_unix_ns BETWEEN 0 AND :max AND redacted >= 0 LIMIT 1", valid
        ).fetchone()
        if row is not None:
            redacted, contracts, probe = min(row["redacted"], 2**53), row["contracts"], row["probe"]
            return RecordingMetadata(row["upstream"], row["started_unix_ns"], (), redacted, contracts, probe)
        self.missing.append("The description of the recording is missing.")
        started_ns = 0
        for began, began_ns in self._db.execute("SELECT began, began_ns FROM capture ORDER BY id LIMIT 1"):
            with suppress(ValueError, OverflowError):
                started_ns = int(datetime.fromisoformat(began).timestamp() * 1e9) - began_ns
        if not 0 <= started_ns <= valid["max"]:
            started_ns = 0
        return RecordingMetadata("", started_ns)

    def _remove_impossible_numbers(self) -> None:
        for table in ("capture", "exchange", "segment", "lost"):
            optional = {row["name"] for row in self._db.execute(f"PRAGMA table_info({table})") if not row["notnull"]}
            for column, largest in number_ranges()[table].items():
                most = min(largest, self._max_ns) if column.endswith("_ns") else largest
                where = f"{column} NOT BETWEEN 0 AND {most}"
                if table == "exchange" and column != "id":
                    value = "NULL" if column in optional else "0"
                    self._db.execute(f"UPDATE exchange SET {column} = {value} WHERE {where}")  # noqa: S608 - constants
                elif (table, column) == ("segment", "time_ns"):
                    self._wrong_times += self._db.execute(f"{_GUESS_TIME} WHERE {where}").rowcount
                else:
                    self.unused_rows += self._db.execute(f"DELETE FROM {table} WHERE {where}").rowcount  # noqa: S608
        self._db.execute("DELETE FROM exchange WHERE id < 1")

    def _repair_heads(self) -> dict[int, str]:
        """Make the heads of all exchanges readable.  Returns what is missing of them, by exchange."""
        endings = ", ".join(f"'{ending}'" for ending in Ending)
        self._db.execute(f"UPDATE exchange SET ending = 'open' WHERE ending NOT IN ({endings})")  # noqa: S608 - constants
        headless: dict[int, str] = {}
        for row in self._db.execute("SELECT * FROM exchange").fetchall():
            for column, read in (("request_headers", read_request), ("response_headers", read_response)):
                try:
                    if row[column] is not None:
                        "".join(name + value for name, value in read(row).headers).encode("latin-1")
                except (ValueError, TypeError):
                    headless[row["id"]] = "headers"
                    value = "null" if column == "request_headers" else None
                    self._db.execute(f"UPDATE exchange SET {column} = ? WHERE id = ?", (value, row["id"]))  # noqa: S608
        before = self._db.total_changes
        self._db.execute(_INVENT_EXCHANGES)
        if self._db.total_changes > before:
            invented = "SELECT id FROM exchange WHERE authority = 'unknown' AND label = ''"
            headless |= {number: "request and headers" for (number,) in self._db.execute(invented)}
        for table in ("segment", "lost"):
            self._db.execute(f"DELETE FROM {table} WHERE exchange_id NOT IN (SELECT id FROM exchange)")  # noqa: S608
        for (number,) in self._db.execute(_INCOMPLETE_RESPONSES).fetchall():
            headless.setdefault(number, "headers")
            self._invent_response(number)
        return headless

    def _invent_response(self, number: int) -> None:
        """Complete the response of an exchange.  If its body looks like an event stream, it is one."""
        query = "SELECT bytes FROM segment WHERE exchange_id = ? AND response = 1 ORDER BY start LIMIT 1"
        row = self._db.execute(query, (number,)).fetchone()
        is_stream = row is not None and _EVENT_LINE.search(row["bytes"])
        headers = orjson.dumps([("Content-Type", EVENT_STREAM)] if is_stream else []).decode()
        self._db.execute(_COMPLETE_RESPONSE, {"id": number, "headers": headers})
        if is_stream:
            target = self._contracts.stream_target(f"recovered-{number}")
            statement = "UPDATE exchange SET target = ? WHERE id = ? AND authority = 'unknown' AND label = ''"
            self._db.execute(statement, (target, number))

    def _repair_exchange(self, number: int, missing: str | None) -> None:
        """Put the times of an exchange in order, and fill gaps in its bodies with losses."""
        row = self._db.execute("SELECT * FROM exchange WHERE id = ?", (number,)).fetchone()
        bodies = [
            [_Piece(*piece) for piece in self._db.execute(_PIECES, {"exchange": number, "response": response})]
            for response in (0, 1)
        ]
        started, responded, ended = row["started_ns"], row["responded_ns"], row["ended_ns"]
        if responded is not None:
            responded = min([responded, *(piece.time_ns - 1 for piece in bodies[1])])
        others = [time_ns for time_ns in (responded, row["request_ended_ns"]) if time_ns is not None]
        started = min([started, *(time_ns - 1 for time_ns in others), *(piece.time_ns - 1 for piece in bodies[0])])
        last = max([started, *others])
        for response, pieces in enumerate(bodies):
            stored = row["response_bytes" if response else "request_bytes"]
            begin_ns = responded if response and responded is not None else started
            last = max(last, self._repair_body(number, response, pieces, stored, begin_ns))
        if missing is not None:
            self._db.execute(_INSERT_LOST, (number, 0, 0, 0, started + 1, f"its {missing} could not be recovered"))
            last = max(last, started + 1)
            self.missing.append(f"Exchange {number}: the {missing} are missing.")
        if ended is not None and ended <= last:
            ended = last + _RESERVED_NS
        times = (started, responded, ended)
        self._wrong_times += times != (row["started_ns"], row["responded_ns"], row["ended_ns"]) and not missing
        statement = "UPDATE exchange SET started_ns = ?, responded_ns = ?, ended_ns = ? WHERE id = ?"
        self._db.execute(statement, (*times, number))

    def _repair_body(self, number: int, response: int, pieces: list[_Piece], stored: int, last_ns: int) -> int:
        """Make pieces follow each other in offset and time.  Returns the time of the last."""
        whole = stored + sum(piece.size for piece in pieces if not piece.is_segment)
        end = 0
        for piece, following in zip_longest(pieces, pieces[1:]):
            table = "segment" if piece.is_segment else "lost"
            overlaps = not piece.is_segment and following is not None and piece.end > following.start
            if piece.start < end or overlaps or (piece.start > end and piece.end > whole):
                self._db.execute(f"DELETE FROM {table} WHERE id = ?", (piece.id,))  # noqa: S608 - constants
                self.unused_rows += 1
                continue
            if piece.start > end:
                last_ns += 1
                self._lose(number, response, end, piece.start - end, last_ns)
            end = piece.end
            shift = max(0, last_ns + 1 - piece.time_ns)
            if shift:
                self._wrong_times += 1
                self._db.execute(f"UPDATE {table} SET time_ns = time_ns + ? WHERE id = ?", (shift, piece.id))  # noqa: S608
            last_ns = piece.last_ns + shift
        if whole > end:
            last_ns += 1
            self._lose(number, response, end, whole - end, last_ns)
        return last_ns

    def _lose(self, number: int, response: int, start: int, count: int, time_ns: int) -> None:
        self._db.execute(_INSERT_LOST, (number, response, start, count, time_ns, _WHY))
        body = "response" if response else "request"
        lost = f"{count_of(count, 'byte')} of the {body} {'is' if count == 1 else 'are'} missing"
        self.missing.append(f"Exchange {number}: {lost}, from byte {start:,} on.")

    def _captures(self) -> tuple[Capture, ...]:
        """The runs of the recorder; a run without an end ended with the last byte."""
        captures = [
            Capture(*row) for row in self._db.execute("SELECT tool, began_ns, ended_ns FROM capture ORDER BY id")
        ]
        if captures and captures[-1].ended_ns is None:
            query = "SELECT max(coalesce(max(ended_ns), 0), coalesce(max(started_ns), 0), ?) FROM exchange"
            (ended_ns,) = self._db.execute(query, (captures[-1].began_ns,)).fetchone()
            captures[-1] = replace(captures[-1], ended_ns=ended_ns)
        return tuple(captures)
