"""What a recording contained before it was continued: read again for the checks, while the new traffic is stored."""

from collections.abc import Iterator, Sequence

from wiretape.errors import RecordingError
from wiretape.observations import Observation
from wiretape.recording.interleave import LARGE_SLICE, BacklogSlice, take_slice
from wiretape.recording.recording_file import RecordingFile
from wiretape.recording.recording_reader import TailPosition, open_database
from wiretape.recording.table_rows import FindingTable
from wiretape.rules import Finding


class EarlierPart:
    """The observations and findings of a recording from before this capture.

    What the rules prove later depends on everything before, and the end of a capture may have proved what its
    continuation refutes.  So the checks begin with this part, and the stored findings become those of the whole file.
    Its methods raise RecordingError and sqlite3.Error.
    """

    def __init__(self, file: RecordingFile, table: FindingTable) -> None:
        # A connection of its own: its cursors stay open while the other one writes.
        self._recording = open_database(file.path)
        until = TailPosition(segment=file.last_segment, time_ns=file.began_ns)
        self._observations = self._recording.observations_between(TailPosition(), until)
        self._revision = _FindingRevision(table, self._recording.findings())
        (volume,) = file.connection.execute("SELECT total(request_bytes + response_bytes) FROM exchange").fetchone()
        self.unread_bytes = int(volume)
        """Bytes of bodies that `take` has not returned yet."""

    def take(self, limit: BacklogSlice = LARGE_SLICE) -> list[Observation]:
        """Return the next observations in time order; none after the last."""
        taken, size = take_slice(self._observations, limit)
        self.unread_bytes -= size
        return taken

    def compare(self, findings: Sequence[Finding]) -> None:
        """Compare the findings that follow from the observations so far, in order, with the stored ones."""
        self._revision.compare(findings)

    def finish(self) -> bool:
        """Replace the stored findings that differ.  Returns whether there were any."""
        return self._revision.finish()

    def close(self) -> None:
        """Close its connection."""
        self._recording.close()


class _FindingRevision:
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
