"""Schema of a recording: create its tables and views, and check whether a file is a recording.

A recording can come from a stranger, who controls every byte.
"""

import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

from wiretape.contract.contract_facts import ContractChoice
from wiretape.errors import RecordingError
from wiretape.recording.contract_views import view_statements
from wiretape.safe_text import shorten

APPLICATION_ID = 0x77726574
"""Marks a SQLite file as a recording (`PRAGMA application_id`): the letters "wret"."""
FORMAT = 1
"""Version of the schema (`PRAGMA user_version`)."""
_STATISTICS = frozenset({"sqlite_stat1", "sqlite_stat4"})
"""Tables that SQLite's ANALYZE adds."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 512 * 1024 * 1024,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_COMMENT_OR_SPACE = re.compile(r"(?:--[^\n]*|\s)+")
MAX_UNIX_NS = 7_300_000_000 * 1_000_000_000
"""The year 2201: nanoseconds since 1970 fit into 64 bits until 2262."""
_MAX_NS = 2**62
_MAX_BODY = 2**60
_LARGEST = {"started_unix_ns": MAX_UNIX_NS, "response": 1, "continued": 1, "status": 2**31}
_OFFSETS = frozenset({"start", "count", "byte_offset"})
"""Columns that count bytes, like those that end with `_bytes`."""
_UNLIMITED = frozenset({"exchange_id", "sequence"})
_SEGMENTS = "SELECT id, exchange_id * 2 + response, start, start + length(bytes) FROM segment ORDER BY id"
_INCOMPLETE_RESPONSE = (
    "(status IS NULL) + (responded_ns IS NULL) + (response_headers IS NULL) + (reason IS NULL) "
    "+ (response_version IS NULL) NOT IN (0, 5)"
)


def damage_error(path: Path, problem: str) -> RecordingError:
    """Return the error that a recording is damaged."""
    return RecordingError(f"{path} is damaged: {problem}; `wiretape recover` saves what is readable.")


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty recording, in one transaction."""
    connection.executescript(f"BEGIN; {_read_schema()} COMMIT;")


@cache
def _read_schema() -> str:
    tables = files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
    return f"{tables}\nPRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"


def create_views(connection: sqlite3.Connection, contracts: ContractChoice) -> None:
    """Replace all views by those of a recording with these contracts, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
        quoted = name.replace('"', '""')
        connection.execute(f'DROP VIEW "{quoted}"')
    for statement in view_statements(contracts.contracts):
        connection.execute(statement)
    connection.execute("COMMIT")


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise RecordingError unless `connection` is to a recording that this version can read."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        objects = _read_objects(connection)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite's message can quote invalid UTF-8
        if "locked" in str(error) or "unable to open" in str(error):
            raise RecordingError(f"{path} cannot be read at the moment: {error}.") from None
        if is_sqlite_file(path):
            raise damage_error(path, str(error)) from None
        raise RecordingError(f"{path} is not a wiretape recording.") from None
    if application != APPLICATION_ID:
        raise RecordingError(f"{path} is not a wiretape recording.")
    if version > FORMAT:
        raise RecordingError(
            f"{path} has recording format {version}, but this version of wiretape reads formats up to {FORMAT}: "
            "use a newer version."
        )
    if version < 1:
        raise damage_error(path, f"invalid recording format {version}")
    _compare_objects(objects, path)


def _read_objects(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Return the SQL of each object in a database, without comments, by kind and name."""
    # Two names that differ only in case cannot exist, and indices without SQL belong to a UNIQUE column.
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master")
    return {(str(kind), str(name)): _COMMENT_OR_SPACE.sub(" ", str(sql)).strip() for kind, name, sql in rows}


@contextmanager
def empty_recording() -> Iterator[sqlite3.Connection]:
    """Connect to a database in memory that has the tables of a recording, and no rows."""
    with closing(sqlite3.connect(":memory:")) as connection:
        create_schema(connection)
        yield connection


@cache
def _own_objects() -> dict[tuple[str, str], str]:
    with empty_recording() as connection:
        return _read_objects(connection)


def _compare_objects(found: dict[tuple[str, str], str], path: Path) -> None:
    """Raise RecordingError unless the tables and indices are exactly ours.

    Views have the names of the contracts, and are never read.
    """
    own = _own_objects()
    if missing := sorted(name for kind, name in own.keys() - found.keys() if kind == "table"):
        which = f"table {missing[0]} is" if len(missing) == 1 else f"tables {', '.join(missing)} are"
        raise damage_error(path, f"the {which} missing")
    for (kind, name), sql in found.items():
        if kind == "view" or (kind == "table" and name in _STATISTICS):
            continue
        if (kind, name) not in own:
            what = shorten(f"{kind} {name}", 80)
            raise RecordingError(
                f"{path} is not a recording that wiretape made, because it contains the {what}; remove that first."
            )
        if own.get((kind, name), sql) != sql:
            raise RecordingError(
                f"{path} is not a recording that wiretape made: its {kind} {name} differs from wiretape's; "
                "`wiretape recover` copies the rows of the file."
            )
    if missing := sorted(name for kind, name in own.keys() - found.keys() if kind == "index"):
        raise damage_error(path, f"the index {missing[0]} is missing")


def connect(path: Path, mode: str = "ro", timeout_s: float = 10) -> sqlite3.Connection:
    """Connect to a recording, in a mode of SQLite's URIs, without implicit transactions; threads may share it.

    Raises sqlite3.Error.
    """
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, timeout=timeout_s, isolation_level=None, check_same_thread=False, uri=True)
    connection.row_factory = sqlite3.Row
    protect(connection)
    return connection


def protect(connection: sqlite3.Connection) -> None:
    """Limit what the file of a connection can make SQLite do: it may come from a stranger."""
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


@cache
def number_ranges() -> Mapping[str, Mapping[str, int]]:
    """Return for each table, except those that are derived, its columns with numbers, and the largest of each."""
    tables = ("recording", "capture", "exchange", "segment", "lost", "finding")
    columns = "SELECT name FROM pragma_table_info(?) WHERE type = 'INTEGER'"
    with empty_recording() as connection:
        names = {table: [name for (name,) in connection.execute(columns, (table,))] for table in tables}
    return {table: {name: _largest(name) for name in names[table] if name not in _UNLIMITED} for table in tables}


def _largest(column: str) -> int:
    if column.endswith("_bytes") or column in _OFFSETS:
        return _MAX_BODY
    return _LARGEST.get(column, _MAX_NS if column.endswith("_ns") else 2**53)


def check_rows(connection: sqlite3.Connection, path: Path) -> None:
    """Raise RecordingError for a row that no recorder writes: numbers out of range, bytes of an unknown exchange.

    Reads no bodies.  Also raises what SQLite raises for a damaged file.
    """
    for table, ranges in number_ranges().items():
        valid = " AND ".join(
            f"(typeof({name}) = 'null' OR (typeof({name}) = 'integer' AND {name} BETWEEN 0 AND {largest}))"
            for name, largest in ranges.items()
        )
        _refuse_row(connection, path, table, f"NOT ({valid})", "is invalid")
    for table in ("segment", "lost", "finding"):
        unknown = "exchange_id NOT IN (SELECT id FROM exchange)"
        _refuse_row(connection, path, table, unknown, "belongs to no exchange")
    ends: dict[int, int] = {}
    for row, body, start, end in connection.execute(_SEGMENTS):
        if not isinstance(end, int) or start < ends.get(body, 0):
            raise damage_error(path, f"row {row} of the `segment` table is invalid or overlaps another row")
        ends[body] = end
    _refuse_row(connection, path, "exchange", _INCOMPLETE_RESPONSE, "has an incomplete response")


def _refuse_row(connection: sqlite3.Connection, path: Path, table: str, condition: str, problem: str) -> None:
    row = connection.execute(f"SELECT rowid FROM {table} WHERE {condition} LIMIT 1").fetchone()  # noqa: S608 - constants
    if row is not None:
        raise damage_error(path, f"row {row[0]} of the `{table}` table {problem}")


def check_not_empty(connection: sqlite3.Connection, path: Path) -> None:
    """Raise RecordingError if the rows that describe the recording are missing."""
    for table in ("recording", "capture"):
        if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None:  # noqa: S608 - a constant
            raise damage_error(path, f"the table {table} is empty")


def is_sqlite_file(path: Path) -> bool:
    """Return whether a file is a SQLite database, or part of one.  Raises OSError."""
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"
