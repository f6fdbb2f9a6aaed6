"""What a recording contained before it was continued: read again for the checks, while the new traffic is stored."""

from collections.abc import Callable, Iterator, Sequence

from wiretape.errors import RecordingError
from wiretape.frame_reader import ReadObservation, StreamReaders
from wiretape.observations import BytesArrived
from wiretape.recording.interleave import LARGE_SLICE, BacklogSlice, take_slice
from wiretape.recording.recording_file import RecordingFile
from wiretape.recording.recording_reader import TailPosition, open_database
from wiretape.recording.table_rows import FindingTable
from wiretape.rules import Finding

# For each earlier capture, the times after which and before which frames may not be indexed.
_UNINDEXED = """
SELECT indexed_ns, next_ns FROM (SELECT indexed_ns, lead(began_ns) OVER (ORDER BY id) AS next_ns FROM capture)
WHERE indexed_ns < next_ns
"""
_SET_INDEXED = """
UPDATE capture SET indexed_ns = later.next_ns
FROM (SELECT id, lead(began_ns) OVER (ORDER BY id) - 1 AS next_ns FROM capture) AS later
WHERE later.id = capture.id AND later.next_ns > capture.indexed_ns
"""


class EarlierPart:
    """The observations and findings of a recording from before this capture.

    What the rules prove later depends on everything before, and the end of a capture may have proved what its
    continuation refutes.  So the checks begin with this part, and the stored findings become those of the whole file.
    Its methods raise RecordingError and sqlite3.Error.
    """

    def __init__(
        self,
        file: RecordingFile,
        table: FindingTable,
        readers: StreamReaders,
        index: Callable[[list[ReadObservation]], None],
    ) -> None:
        """`index` adds the frames of observations to the table `frame`."""
        self._file = file
        self._readers = readers
        self._index = index
        # A connection of its own: its cursors stay open while the other one writes.
        self._recording = open_database(file.path)
        until = TailPosition(segment=file.last_segment, time_ns=file.began_ns)
        self._observations = self._recording.observations_between(TailPosition(), until)
        self._revision = _FindingRevision(table, self._recording.findings())
        (volume,) = file.connection.execute("SELECT total(request_bytes + response_bytes) FROM exchange").fetchone()
        self.unread_bytes = int(volume)
        """Bytes of bodies that `take` has not returned yet."""
        self._unindexed: list[tuple[int, int]] = [tuple(row) for row in file.connection.execute(_UNINDEXED)]
        self._is_indexed = True

    def take(self, limit: BacklogSlice = LARGE_SLICE) -> list[ReadObservation]:
        """Return the next observations in time order; none after the last.

        Frames that a recorder had not indexed when it was killed are indexed.
        """
        taken, size = take_slice(self._observations, limit)
        self.unread_bytes -= size
        reads = [self._readers.read(seen) for seen in taken]
        # The index has to know all responses, but only these frames are missing.
        missing = [read if self._is_unindexed(read) else read._replace(frames=()) for read in reads]
        if any(read.frames for read in missing):
            # If the disk refuses, they stay missing until the next time.
            self._is_indexed &= self._file.write(lambda: self._index(missing)) is None
        else:
            self._index(missing)
        return reads

    def _is_unindexed(self, read: ReadObservation) -> bool:
        seen = read.observation
        time_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
        return any(after < time_ns < before for after, before in self._unindexed)

    def compare(self, findings: Sequence[Finding]) -> None:
        """Compare the findings that follow from the observations so far, in order, with the stored ones."""
        self._revision.compare(findings)

    def finish(self) -> bool:
        """Replace the stored findings that differ.  Returns whether there were any."""
        if self._is_indexed:
            self._file.write(lambda: self._file.connection.execute(_SET_INDEXED))
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
