"""SQL views of a recording: list them, and update them to those of this version.

They are for people; wiretape itself reads only the tables.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from wiretape.contract.contract_facts import ContractChoice, choose_contracts
from wiretape.errors import RecordingError
from wiretape.recording import schema
from wiretape.recording.recording_file import lock_for_writing
from wiretape.recording.recording_reader import open_database

_VIEWS = "SELECT name, sql FROM sqlite_master WHERE type = 'view'"


def read_columns(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the tables and views of a recording, and their columns.  Raises RecordingError."""
    with _connected(path) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid")
        found = ((name, _columns_of(connection, name)) for (name,) in names.fetchall())
        return {name: columns for name, columns in found if columns}


def find_outdated(path: Path) -> tuple[str, ...]:
    """Return the views that a recording lacks, or has from another version.  Raises RecordingError."""
    with _connected(path) as connection:
        present, own = _views(connection), _own_views(connection)
    return tuple(name for name, sql in own.items() if present.get(name) != sql)


def update_views(path: Path) -> tuple[str, ...]:
    """Replace the outdated views of a recording by those of this version.  Returns their names.

    Changes nothing else.  Raises RecordingError, also if the file is being recorded to.
    """
    names = find_outdated(path)
    if names:
        with _connected(path, "rw") as connection:
            descriptor = lock_for_writing(path)
            try:
                schema.create_views(connection, _contracts(connection))
            finally:
                os.close(descriptor)
    return names


@contextmanager
def _connected(path: Path, mode: str = "ro") -> Iterator[sqlite3.Connection]:
    """Connect to a recording.  Only its schema is queried, never a view, so none of its own SQL runs."""
    open_database(path).close()
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    try:
        # Not protected: SQLite cannot list the columns of a view with JSON then.
        with closing(sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None)) as connection:
            yield connection
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecordingError(f"{path} cannot be {'read' if mode == 'ro' else 'changed'}: {reason}.") from None


def _views(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute(_VIEWS).fetchall())


def _columns_of(connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
    """Return no columns for a view of a table that does not exist, so that the other views can be listed."""
    try:
        return tuple(column for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,)))
    except sqlite3.OperationalError:
        return ()


def _contracts(connection: sqlite3.Connection) -> ContractChoice:
    (stored,) = connection.execute("SELECT contracts FROM recording").fetchone()
    return choose_contracts(stored)


def _own_views(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the views that this version gives to a recording with the same contracts."""
    with schema.empty_recording() as own:
        own.isolation_level = None
        schema.create_views(own, _contracts(connection))
        return _views(own)
