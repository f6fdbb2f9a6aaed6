"""The findings of a report in order, in a temporary file as soon as they are many: memory does not grow with them."""

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
# What is about no event stands before what is about the first one.
_ORDER = "exchange, ifnull(event, 0), ifnull(byte_offset, 0), code, message, rowid"
_SEVERITIES = {str(severity): severity for severity in Severity}
_PARTIES = {str(party): party for party in Party}


class Findings:
    """Findings sorted by exchange, event, offset and code.  Can be gone through many times; each makes them anew.

    SQLite keeps what it holds for an empty name in memory up to 2 MB, and beyond that in a file that is removed
    with the connection.  Raises InputError where that file cannot be written.
    """

    def __init__(self, found: Iterable[Finding]) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        weakref.finalize(self, self._connection.close)
        with _trouble():
            self._connection.execute("PRAGMA journal_mode = OFF")
            self._connection.execute(f"CREATE TABLE unsorted ({_COLUMNS})")
            # One transaction: without a journal that only spares the work of ending each.
            self._connection.execute("BEGIN")
            self._connection.executemany(f"INSERT INTO unsorted VALUES ({_MARKS})", map(_VALUES, found))  # noqa: S608
            self._connection.execute(f"CREATE TABLE sorted AS SELECT * FROM unsorted ORDER BY {_ORDER}")  # noqa: S608
            self._connection.execute("DROP TABLE unsorted")
            self._connection.execute("COMMIT")
            counts = self._connection.execute(
                "SELECT code, severity, count(*) FROM sorted GROUP BY code, severity ORDER BY min(rowid)"
            )
            self.counts = Counter({(code, _SEVERITIES[severity]): number for code, severity, number in counts})
            """How many there are of each rule and severity, in the order in which they first come."""

    def __len__(self) -> int:
        return self.counts.total()

    def __iter__(self) -> Iterator[Finding]:
        with _trouble():
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


class Suppressed(Mapping[int, str]):
    """Findings that a baseline knows: for the place of each the reason.  Takes four bytes for each finding there is."""

    def __init__(self, total: int) -> None:
        """`total` is how many findings there are, known or not."""
        self._reasons: list[str] = []
        self._numbers: dict[str, int] = {}
        self._chosen = array("i", [-1]) * total
        self._count = 0

    def add(self, place: int, reason: str) -> None:
        """Let the finding at `place` pass."""
        number = self._numbers.setdefault(reason, len(self._reasons))
        if number == len(self._reasons):
            self._reasons.append(reason)
        self._chosen[place] = number
        self._count += 1

    def __getitem__(self, place: int) -> str:
        if place not in self:
            raise KeyError(place)
        return self._reasons[self._chosen[place]]

    def __contains__(self, place: object) -> bool:
        return isinstance(place, int) and self._chosen[place] >= 0

    def __iter__(self) -> Iterator[int]:
        return (place for place, reason in enumerate(self._chosen) if reason >= 0)

    def __len__(self) -> int:
        return self._count


@contextmanager
def _trouble() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(f"The temporary file that findings are kept in fails ({error}): set TMPDIR.") from None
