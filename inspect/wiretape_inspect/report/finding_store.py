"""The findings of a report in order, kept in a temporary file if there are many, so that memory does not grow.

A finding that is in the baseline is suppressed, with the reason that the baseline gives; all others are new.
"""

import sqlite3
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter

from wiretape.errors import InputError
from wiretape.rules import Finding, Party, Severity

_COLUMNS = "exchange, event, byte_offset, code, message, severity, side, sequence, time_ns"
_MARKS = ", ".join("?" for _ in _COLUMNS.split(", "))
_VALUES = attrgetter(*_COLUMNS.split(", "))
# At the same time, findings about no event come before those about the first event.
_ORDER = "time_ns, exchange, ifnull(event, 0), ifnull(byte_offset, 0), code, message, rowid"
_SEVERITIES = {str(severity): severity for severity in Severity}
_PARTIES = {str(party): party for party in Party}


class FindingStore:
    """Findings sorted by time, then by exchange, event, offset and code.  Can be iterated repeatedly.

    SQLite keeps a database with an empty name in memory up to 2 MB, and beyond that in a file that is removed with
    the connection.  Raises InputError if that file cannot be written.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        # The garbage collector, which runs in any thread, may be what closes it.
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        with _sqlite_errors():
            self._connection.execute("PRAGMA journal_mode = OFF")
            self._connection.execute(f"CREATE TABLE unsorted ({_COLUMNS})")
            # One transaction: without a journal it only saves ending one for each row.
            self._connection.execute("BEGIN")
            self._connection.executemany(f"INSERT INTO unsorted VALUES ({_MARKS})", map(_VALUES, findings))  # noqa: S608
            self._connection.execute(f"CREATE TABLE sorted AS SELECT *, NULL AS reason FROM unsorted ORDER BY {_ORDER}")  # noqa: S608
            self._connection.execute("DROP TABLE unsorted")
            self._connection.execute("COMMIT")
            self.counts = self._count("true")
            """The number of findings for each rule and severity, in order of first appearance."""
        self.suppressed_counts: Counter[tuple[str, Severity]] = Counter()
        """The number of these that are suppressed."""

    def __len__(self) -> int:
        return self.counts.total()

    def __iter__(self) -> Iterator[Finding]:
        return self._select("true")

    def new(self) -> Iterator[Finding]:
        """Yield the findings that are not suppressed."""
        return self._select("reason IS NULL")

    def suppress(self, reasons: Iterable[tuple[int, str]]) -> None:
        """Suppress findings by their indices, each with the reason."""
        rows = ((reason, index + 1) for index, reason in reasons)
        with _sqlite_errors():
            self._connection.execute("BEGIN")
            self._connection.executemany("UPDATE sorted SET reason = ? WHERE rowid = ?", rows)
            self._connection.execute("COMMIT")
            self.suppressed_counts = self._count("reason IS NOT NULL")

    def reason(self, index: int) -> str | None:
        """Return why the finding with this index is suppressed; None if it is new."""
        with _sqlite_errors():
            rows = self._connection.execute("SELECT reason FROM sorted WHERE rowid = ?", (index + 1,))
            return next((reason for (reason,) in rows), None)

    def is_new(self, index: int) -> bool:
        """Whether the finding with this index is not suppressed."""
        return self.reason(index) is None

    def _count(self, condition: str) -> Counter[tuple[str, Severity]]:
        query = f"SELECT code, severity, count(*) FROM sorted WHERE {condition} GROUP BY code, severity"  # noqa: S608
        counts = self._connection.execute(f"{query} ORDER BY min(rowid)")
        return Counter({(code, _SEVERITIES[severity]): number for code, severity, number in counts})

    def _select(self, condition: str) -> Iterator[Finding]:
        query = f"SELECT {_COLUMNS} FROM sorted WHERE {condition} ORDER BY rowid"  # noqa: S608 - constants
        with _sqlite_errors():
            for row in self._connection.execute(query):
                exchange, event, offset, code, message, severity, side, sequence, time_ns = row
                yield Finding(
                    code=code,
                    severity=_SEVERITIES[severity],
                    side=_PARTIES[side],
                    exchange=exchange,
                    event=event,
                    sequence=sequence,
                    byte_offset=offset,
                    time_ns=time_ns,
                    message=message,
                )


@contextmanager
def _sqlite_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(
            f"Cannot store findings in a temporary file ({error}): set TMPDIR to a folder with more space."
        ) from None
