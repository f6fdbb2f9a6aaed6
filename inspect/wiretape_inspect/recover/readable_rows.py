"""Rows that SQLite can still read from a copy of a damaged recording."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from wiretape.recording.schema import create_schema, protect

Value = int | float | str | bytes | None
Row = list[Value]
"""The values of a row."""

TABLES = ("recording", "capture", "exchange", "segment", "lost")
"""The tables that are read; everything else is derived from them."""
_LARGEST_ID = 2**53
_MOST_FAILURES = 10_000
"""Queries of a table that may fail; a hostile file could make each one fail."""


class ReadableRows:
    """The rows of a copy of a damaged recording, in which wiretape's own schema replaces that of the file."""

    def __init__(self, path: Path) -> None:
        """`path` is the copy, which is changed.  Raises sqlite3.DatabaseError if SQLite cannot read its schema."""
        _replace_schema(path)
        self.damaged_tables: list[str] = []
        """Tables of which SQLite could not read a part."""
        self._connection = sqlite3.connect(path, isolation_level=None)
        protect(self._connection)
        # Otherwise SQLite refuses a file that ends before its last page.
        self._connection.execute("PRAGMA writable_schema = ON")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def read(self) -> Iterator[tuple[str, Row]]:
        """Yield the table and the values of each row."""
        for table in TABLES:
            for row in self._read_table(table):
                yield table, list(row)

    def _read_table(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Read a table from both ends up to the damage, and then the halves of the rest in the same way."""
        ranges, failures = [(0, _LARGEST_ID)], 0
        while ranges and failures < _MOST_FAILURES:
            low, high = ranges.pop()
            try:
                for row in self._select(table, low, high, "ASC"):
                    yield row
                    low = row[0] + 1
                continue
            except (sqlite3.Error, UnicodeDecodeError):
                failures += 1
            try:
                for row in self._select(table, low, high, "DESC"):
                    yield row
                    high = row[0] - 1
            except (sqlite3.Error, UnicodeDecodeError):
                failures += 1
            if low < high:
                middle = (low + high) // 2
                ranges += [(low, middle), (middle + 1, high)]
        if failures:
            self.damaged_tables.append(table)

    def _select(self, table: str, low: int, high: int, order: str) -> Iterator[tuple[Any, ...]]:
        query = f"SELECT * FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id {order}"  # noqa: S608 - constants
        return self._connection.execute(query, (low, high))


def _replace_schema(path: Path) -> None:
    """Replace the schema of a file with wiretape's own, so that none of its SQL runs."""
    with closing(sqlite3.connect(":memory:")) as own:
        create_schema(own)
        schema = dict(own.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    marks = ", ".join("?" * len(TABLES))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # With this, SQLite does not parse the schema of the file.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"DELETE FROM sqlite_master WHERE type != 'table' OR name NOT IN ({marks})", TABLES)  # noqa: S608
        for table in TABLES:
            connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (schema[table], table))
