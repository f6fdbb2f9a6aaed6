"""Schema of a recording: create its tables and views, and check whether a file is a recording."""

import sqlite3
from importlib.resources import files
from pathlib import Path

from wiretape.errors import RecordingError
from wiretape.safe_text import shorten

APPLICATION_ID = 0x77726574
"""Marks a SQLite file as a recording (`PRAGMA application_id`): the letters "wret"."""
FORMAT = 1
"""Version of the schema (`PRAGMA user_version`)."""
TABLES = frozenset({"recording", "capture", "exchange", "segment", "lost", "word", "frame", "finding"})


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the tables and views of an empty recording."""
    for part in ("schema.sql", "views.sql"):
        connection.executescript(files(__package__).joinpath(part).read_text(encoding="utf-8"))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise RecordingError unless `connection` is to a recording that this version can read."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as error:
        if "locked" in str(error) or "unable to open" in str(error):
            raise RecordingError(f"{path} cannot be read at the moment: {error}.") from None
        if is_sqlite_file(path):
            raise RecordingError(f"{path} is damaged or truncated: {error}.") from None
        raise RecordingError(f"{path} is not a wiretape recording.") from None
    if application != APPLICATION_ID:
        raise RecordingError(f"{path} is not a wiretape recording.")
    _refuse_newer(version, path)
    if missing := sorted(TABLES - tables):
        which = f"table {missing[0]} is" if len(missing) == 1 else f"tables {', '.join(missing)} are"
        raise RecordingError(f"{path} is damaged: the {which} missing.")
    _check_versions(connection, path)


def check_not_empty(connection: sqlite3.Connection, path: Path) -> None:
    """Raise RecordingError if the rows that describe the recording are missing."""
    for table in ("recording", "capture"):
        if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None:  # noqa: S608 - a constant
            raise RecordingError(f"{path} is damaged: the table {table} is empty.")


def _check_versions(connection: sqlite3.Connection, path: Path) -> None:
    """Check the version in the table `recording` as well; a recording that was just created has no row yet."""
    try:
        rows = connection.execute("SELECT format FROM recording").fetchall()
    except sqlite3.DatabaseError as error:
        raise RecordingError(f"{path} is damaged: {error}.") from None
    for (version,) in rows:
        if not isinstance(version, int) or version < 1:
            raise RecordingError(f"{path} is damaged: invalid recording format {shorten(str(version), 60)}.")
        _refuse_newer(version, path)


def _refuse_newer(version: int, path: Path) -> None:
    if version > FORMAT:
        raise RecordingError(
            f"{path} has recording format {version}, but this version of wiretape reads up to {FORMAT}: "
            "use a newer wiretape."
        )


def is_sqlite_file(path: Path) -> bool:
    """Return whether a file is a SQLite database, or part of one.  Raises OSError."""
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"
