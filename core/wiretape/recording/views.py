"""The views of a recording: what people ask with SQL.  Nothing of wiretape reads them."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from wiretape.errors import RecordingError
from wiretape.recording import schema
from wiretape.recording.file import claim_writing
from wiretape.recording.reader import open_database

_T = TypeVar("_T")
_VIEWS = "SELECT name, sql FROM sqlite_master WHERE type = 'view'"


def columns(path: Path) -> dict[str, tuple[str, ...]]:
    """The tables and views of a recording's own file, and their columns.  Raises RecordingError."""
    open_database(path).close()
    with _trouble(path, "read"), closing(_connected(path)) as connection:
        return _columns(connection)


def columns_now() -> dict[str, tuple[str, ...]]:
    """The same, of a recording that this version would make."""
    return _asked_of_an_empty_one(_columns)


def outdated(path: Path) -> tuple[str, ...]:
    """The views that a recording lacks, or has as another version made them.  Raises RecordingError."""
    open_database(path).close()
    with _trouble(path, "read"), closing(_connected(path)) as connection:
        there = _views(connection)
    return tuple(name for name, sql in _asked_of_an_empty_one(_views).items() if there.get(name) != sql)


def update(path: Path) -> tuple[str, ...]:
    """Put the views of this version into a recording, in the place of those that are `outdated`, and name them.

    Nothing else in the file is changed.  Raises RecordingError, also where the file is being recorded to.
    """
    names = outdated(path)
    statements = _asked_of_an_empty_one(_views)
    if names:
        with _trouble(path, "changed"), _claimed(path), closing(_connected(path, "rw")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for name in names:
                connection.execute(f'DROP VIEW IF EXISTS "{name}"')
                connection.execute(statements[name])
            connection.execute("COMMIT")
    return names


def _connected(path: Path, mode: str = "ro") -> sqlite3.Connection:
    """A connection that asks about views, but asks no view anything, and so runs no SQL of the file's own."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=10, isolation_level=None)


def _views(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute(_VIEWS).fetchall())


def _columns(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid")
    found = ((name, _columns_of(connection, name)) for (name,) in names.fetchall())
    return {name: there for name, there in found if there}


def _columns_of(connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
    """None for a view of what is not there: it cannot be asked, and the rest can."""
    try:
        return tuple(column for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,)))
    except sqlite3.OperationalError:
        return ()


def _asked_of_an_empty_one(ask: Callable[[sqlite3.Connection], _T]) -> _T:
    with closing(sqlite3.connect(":memory:")) as connection:
        schema.create(connection)
        return ask(connection)


@contextmanager
def _claimed(path: Path) -> Iterator[None]:
    descriptor = claim_writing(path)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _trouble(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise RecordingError(f"{path} cannot be {what}: {error}.") from None
    except OSError as error:
        raise RecordingError(f"{path} cannot be {what}: {error.strerror}.") from None
