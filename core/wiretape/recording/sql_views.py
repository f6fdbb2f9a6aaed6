"""SQL views of a recording: list them, and update them to those of this version.

They are for people; wiretape itself reads only the tables.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from wiretape.errors import RecordingError
from wiretape.recording import schema
from wiretape.recording.recording_file import lock_for_writing
from wiretape.recording.recording_reader import open_database

_T = TypeVar("_T")
_VIEWS = "SELECT name, sql FROM sqlite_master WHERE type = 'view'"


def read_columns(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the tables and views of a recording, and their columns.  Raises RecordingError."""
    open_database(path).close()
    with _report_errors(path, "read"), closing(_connect(path)) as connection:
        return _columns(connection)


def find_outdated(path: Path) -> tuple[str, ...]:
    """Return the views that a recording lacks, or has from another version.  Raises RecordingError."""
    open_database(path).close()
    with _report_errors(path, "read"), closing(_connect(path)) as connection:
        present = _views(connection)
    return tuple(name for name, sql in _query_new_recording(_views).items() if present.get(name) != sql)


def update_views(path: Path) -> tuple[str, ...]:
    """Replace the outdated views of a recording by those of this version.  Returns their names.

    Changes nothing else.  Raises RecordingError, also if the file is being recorded to.
    """
    names = find_outdated(path)
    statements = _query_new_recording(_views)
    if names:
        with _report_errors(path, "changed"), _locked(path), closing(_connect(path, "rw")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for name in names:
                connection.execute(f'DROP VIEW IF EXISTS "{name}"')
                connection.execute(statements[name])
            connection.execute("COMMIT")
    return names


def _connect(path: Path, mode: str = "ro") -> sqlite3.Connection:
    """Connect to a recording.  Only its schema is queried, never a view, so none of its own SQL runs."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=10, isolation_level=None)


def _views(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute(_VIEWS).fetchall())


def _columns(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid")
    found = ((name, _columns_of(connection, name)) for (name,) in names.fetchall())
    return {name: columns for name, columns in found if columns}


def _columns_of(connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
    """Return no columns for a view of a table that does not exist, so that the other views can be listed."""
    try:
        return tuple(column for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,)))
    except sqlite3.OperationalError:
        return ()


def _query_new_recording(query: Callable[[sqlite3.Connection], _T]) -> _T:
    with closing(sqlite3.connect(":memory:")) as connection:
        schema.create_schema(connection)
        return query(connection)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = lock_for_writing(path)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _report_errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise RecordingError(f"{path} cannot be {what}: {error}.") from None
    except OSError as error:
        raise RecordingError(f"{path} cannot be {what}: {error.strerror}.") from None
