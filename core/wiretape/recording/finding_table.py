"""The table `finding`: the findings of the live checks, in the order in which they became certain."""

from collections.abc import Iterable, Iterator, Sequence

from wiretape.errors import RecordingError
from wiretape.recording.recording_file import RecordingFile
from wiretape.recording.table_rows import FINDING_COLUMNS, finding_row
from wiretape.rules import Finding

_INSERT = f"INSERT INTO finding (id, {FINDING_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
_CREATE_PROVEN = f"CREATE TEMP TABLE proven ({FINDING_COLUMNS})"
_INSERT_PROVEN = "INSERT INTO temp.proven VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE_AFTER = "DELETE FROM finding WHERE id >= (SELECT id FROM finding ORDER BY id LIMIT 1 OFFSET ?)"
_COPY_PROVEN = (
    f"INSERT INTO finding (id, {FINDING_COLUMNS}) "  # noqa: S608 - constants
    f"SELECT ? + rowid, {FINDING_COLUMNS} FROM temp.proven ORDER BY rowid"
)


class FindingTable:
    """Writes findings.  The id of a deleted row is not used again, so that readers can notice the deletion."""

    def __init__(self, file: RecordingFile) -> None:
        self._file = file
        self._connection = file.connection
        self._last_id = self._query("SELECT coalesce(max(id), 0) FROM finding")

    def add(self, findings: Iterable[Finding]) -> None:
        """Insert findings.  Raises sqlite3.Error, like the other methods."""
        rows = [(number, *finding_row(finding)) for number, finding in enumerate(findings, self._last_id + 1)]
        self._connection.executemany(_INSERT, rows)
        self._last_id += len(rows)

    def create_proven(self) -> None:
        """Create a temporary table of findings for `replace`."""
        self._connection.execute(_CREATE_PROVEN)

    def add_proven(self, findings: Iterable[Finding]) -> None:
        """Add findings to the temporary table."""
        self._connection.executemany(_INSERT_PROVEN, map(finding_row, findings))

    def replace(self, kept: int) -> None:
        """Replace all but the first `kept` findings by those in the temporary table."""

        def replace() -> None:
            self._connection.execute(_DELETE_AFTER, (kept,))
            self._connection.execute(_COPY_PROVEN, (self._last_id,))

        error = self._file.write(replace)
        if error is not None:
            raise error
        self._last_id += self._query("SELECT count(*) FROM temp.proven")
        self._connection.execute("DROP TABLE temp.proven")

    def _query(self, query: str) -> int:
        return int(self._connection.execute(query).fetchone()[0])


class FindingRevision:
    """Compares stored findings with those that the rules prove now, and replaces them from the first difference on.

    Both are in the order in which they became certain.  So usually only the last ones differ: those that followed from
    the end of a capture.
    """

    def __init__(self, table: FindingTable, stored: Iterator[Finding]) -> None:
        self._table = table
        self._stored = stored
        self._same = 0
        """The number of findings before the first difference."""
        self._differs = False

    def compare(self, proven: Sequence[Finding]) -> None:
        """Compare the next findings that the rules prove.  Raises sqlite3.Error."""
        same = 0
        while not self._differs and same < len(proven):
            if self._next_stored() == proven[same]:
                same += 1
            else:
                self._begin_replacing()
        self._same += same
        if self._differs:
            self._table.add_proven(proven[same:])

    def finish(self) -> bool:
        """Replace what differs, in one transaction.  Returns whether anything did.  Raises sqlite3.Error."""
        if not self._differs and self._next_stored() is not None:
            self._begin_replacing()
        if self._differs:
            self._table.replace(self._same)
        return self._differs

    def _begin_replacing(self) -> None:
        self._differs = True
        self._table.create_proven()

    def _next_stored(self) -> Finding | None:
        """Return the next stored finding; None after the last, and for a damaged row."""
        try:
            return next(self._stored, None)
        except RecordingError:
            return None
