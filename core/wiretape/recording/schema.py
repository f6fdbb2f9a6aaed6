"""The format of a recording: making it, and telling whether a file has it."""

import sqlite3
from importlib.resources import files
from pathlib import Path

from wiretape.errors import RecordingError
from wiretape.safe_text import shorten

APPLICATION_ID = 0x77726574
"""Marks a SQLite file as a recording (`PRAGMA application_id`): the letters "wret"."""
FORMAT = 1
"""The version of the format (`PRAGMA user_version`)."""
TABLES = frozenset({"recording", "capture", "exchange", "segment", "lost", "word", "frame", "finding"})


def create(connection: sqlite3.Connection) -> None:
    """Lay the tables and views of an empty recording."""
    for part in ("schema.sql", "views.sql"):
        connection.executescript(files(__package__).joinpath(part).read_text(encoding="utf-8"))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise RecordingError unless `connection` is to a recording of a format that this version reads."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as error:
        if "locked" in str(error) or "unable to open" in str(error):
            raise RecordingError(f"{path} cannot be read just now: {error}.") from None
        if begins_like_sqlite(path):
            raise RecordingError(f"{path} is damaged or cut off: {error}.") from None
        raise RecordingError(f"{path} is not a wiretape recording.") from None
    if application != APPLICATION_ID:
        raise RecordingError(f"{path} is not a wiretape recording.")
    _refuse_newer(version, path)
    if missing := sorted(TABLES - tables):
        which = f"table {missing[0]} is" if len(missing) == 1 else f"tables {', '.join(missing)} are"
        raise RecordingError(f"{path} is damaged: the {which} missing.")
    _check_head(connection, path)


def check_begun(connection: sqlite3.Connection, path: Path) -> None:
    """Raise RecordingError where the rows are missing that say what was recorded, and when: it was never begun."""
    for table in ("recording", "capture"):
        if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None:  # noqa: S608 - a constant
            raise RecordingError(f"{path} is damaged: the table {table} is empty.")


def _check_head(connection: sqlite3.Connection, path: Path) -> None:
    """The format stands in a row as well, which a recording that was only just made does not have yet."""
    try:
        heads = connection.execute("SELECT format FROM recording").fetchall()
    except sqlite3.DatabaseError as error:
        raise RecordingError(f"{path} is damaged: {error}.") from None
    for (version,) in heads:
        if not isinstance(version, int) or version < 1:
            raise RecordingError(f"{path} is damaged: there is no recording format {shorten(str(version), 60)}.")
        _refuse_newer(version, path)


def _refuse_newer(version: int, path: Path) -> None:
    if version > FORMAT:
        raise RecordingError(
            f"{path} has recording format {version}, this wiretape reads up to {FORMAT}: use a newer wiretape."
        )


def begins_like_sqlite(path: Path) -> bool:
    """Whether a file is a SQLite database, or what is left of one.  Raises OSError."""
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"
