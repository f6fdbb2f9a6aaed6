"""The findings of a report in order, kept in a temporary file if there are many, so that memory does not grow."""

import sqlite3
import weakref
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
            self._connection.execute(f"CREATE TABLE sorted AS SELECT * FROM unsorted ORDER BY {_ORDER}")  # noqa: S608
            self._connection.execute("DROP TABLE unsorted")
            self._connection.execute("COMMIT")
            counts = self._connection.execute(
                "SELECT code, severity, count(*) FROM sorted GROUP BY code, severity ORDER BY min(rowid)"
            )
            self.counts = Counter({(code, _SEVERITIES[severity]): number for code, severity, number in counts})
            """The number of findings for each rule and severity, in order of first appearance."""

    def __len__(self) -> int:
        return self.counts.total()

    def __iter__(self) -> Iterator[Finding]:
        with _sqlite_errors():
            for row in self._connection.execute(f"SELECT {_COLUMNS} FROM sorted ORDER BY rowid"):  # noqa: S608
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


class SuppressionReasons(Mapping[int, str]):
    """The reasons of findings that are in the baseline, by index.  Takes four bytes for each finding of the report."""

    def __init__(self, total: int) -> None:
        """`total` is the number of all findings."""
        self._reasons: list[str] = []
        self._numbers: dict[str, int] = {}
        self._chosen = array("i", [-1]) * total
        self._count = 0

    def add(self, index: int, reason: str) -> None:
        """Suppress the finding with this index."""
        number = self._numbers.setdefault(reason, len(self._reasons))
        if number == len(self._reasons):
            self._reasons.append(reason)
        self._chosen[index] = number
        self._count += 1

    def __getitem__(self, index: int) -> str:
        if index not in self:
            raise KeyError(index)
        return self._reasons[self._chosen[index]]

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and self._chosen[index] >= 0

    def __iter__(self) -> Iterator[int]:
        return (index for index, reason in enumerate(self._chosen) if reason >= 0)

    def __len__(self) -> int:
        return self._count


@contextmanager
def _sqlite_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(
            f"Cannot store findings in a temporary file ({error}): set TMPDIR to a folder with more space."
        ) from None
