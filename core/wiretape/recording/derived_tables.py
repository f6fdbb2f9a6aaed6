"""The tables `frame` and `finding`: what follows from a recording, read while it grows."""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from wiretape.errors import RecordingError
from wiretape.frame_reader import ReadObservation, StreamReaders
from wiretape.observations import BytesArrived, ExchangeEnded, Observation, RequestStarted, last_time_ns
from wiretape.recording.frame_index import FrameIndex
from wiretape.recording.recording_file import RecordingFile, is_patient, write_transaction
from wiretape.recording.recording_reader import Recording, TailPosition, open_database
from wiretape.recording.table_rows import FINDING_COLUMNS, finding_row
from wiretape.rules import Finding

_STEP_OBSERVATIONS = 512
_STEP_BYTES = 256 * 1024
"""Limits of a step, so that it takes some hundredths of a second; the last observation may exceed this one."""
_INSERT = f"INSERT INTO finding (id, {FINDING_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
_STORED = f"SELECT id, {FINDING_COLUMNS} FROM finding WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608 - constants
_PROGRESS = "SELECT indexed_ns, (SELECT coalesce(max(id), 0) FROM finding) FROM recording"

Check = Callable[[ReadObservation], Sequence[Finding] | None]
"""Returns the findings that an observation proves, in order; None if the checks have failed."""


class _End(NamedTuple):
    """Up to where a file can be read: what is before does not change any more."""

    position: TailPosition
    volume: int
    """Bytes of bodies up to there, with those of the files before."""


@dataclass(slots=True)
class _Part:
    """A file of the recording."""

    file: RecordingFile
    begin: TailPosition
    end: _End
    on_closed: Callable[[], object] = lambda: None


class DerivedTables:
    """Reads a recording in order of time, as a report does, and writes what follows from it.

    The rules need everything before, so it begins at the beginning of a recording that is continued.  What is missing
    is added, and stored findings that the rules no longer prove are replaced.  Only if it begins in a later file of a
    rotated recording, findings that are stored there stay: what proves them may be in an earlier file.

    It has connections of its own: another thread than that of the writer can call `step`.
    """

    def __init__(self, file: RecordingFile) -> None:
        self.readers = StreamReaders()
        """The readers of the streams."""
        self.on_locked: Callable[[float], bool] = is_patient
        """See RecordingFile."""
        self.has_replaced_findings = False
        """Whether stored findings from before this capture differed from those that the rules prove."""
        self.volume = 0
        """Bytes of bodies that were read."""
        self.upstream = file.upstream
        """The services that the recording names."""
        self.began_ns = file.began_ns
        """The time at which this capture began."""
        self.earlier_exchanges = file.earlier_exchanges
        """The last exchange that began in an earlier file, which is not read; 0 if there is none."""
        self._earlier_end = _End(TailPosition(), 0)
        if file.last_exchange:
            position = TailPosition(segment=file.last_segment, time_ns=file.began_ns)
            self._earlier_end = _End(position, file.stored_bytes)
        self._position = TailPosition()
        self._parts = deque([_Part(file, self._position, self._earlier_end)])
        self._open: set[int] = set()
        """The exchanges that are open at this position."""
        self._last_exchange = -1
        self._recording: Recording | None = None
        self._connection = file.connection
        self._index = FrameIndex(self._connection)
        self._observations: Iterator[Observation] | None = None
        """Those up to `_until`."""
        self._until = self._earlier_end
        self._indexed_ns = -1
        """Up to here, the table has all frames."""
        self._is_complete = True
        """Whether all rows could be written so far."""
        self._last_finding = self._last_same = 0
        """The ids of the last finding, and of the last one from before this capture that was proved again."""
        self._is_comparing = self.is_earlier and not self.earlier_exchanges
        """Whether there may be findings after that, from before this capture."""
        self._is_checked = True
        """Whether the checks have not failed."""
        if not self.is_earlier:
            # As long as the file is in place; if it is not any more, `step` reports that.
            with suppress(RecordingError):
                self._connect()

    @property
    def unread_bytes(self) -> int:
        """Bytes of bodies that are stored, but not yet read."""
        return max(0, self._parts[-1].end.volume - self.volume)

    @property
    def is_earlier(self) -> bool:
        """Whether the next step reads what was recorded before this capture."""
        return self._position.time_ns < self._earlier_end.position.time_ns

    def extend(self, position: TailPosition, volume: int) -> None:
        """Let `step` read the last file up to a position; `volume` counts the bytes of bodies up to there."""
        self._parts[-1].end = _End(position, volume)

    def add_file(self, file: RecordingFile, begin: TailPosition, on_closed: Callable[[], object]) -> None:
        """Continue in another file; the one before is closed once its rows are derived, and `on_closed` is called."""
        before = self._parts[-1]
        before.on_closed = on_closed
        self._parts.append(_Part(file, begin, _End(begin, before.end.volume)))

    def step(self, check: Check | None = None) -> bool:
        """Derive the next rows, and write them in one transaction.  Returns False if there is nothing new.

        Without `check`, the stored findings stay.  Raises RecordingError if something cannot be read; the next step
        continues after it.
        """
        reads: list[ReadObservation] = []
        found: list[Finding] = []
        was_earlier = self.is_earlier
        try:
            if not self._begin_reading():
                return False
            try:
                self._read(check, reads, found)
            finally:
                is_checked = check is not None and self._is_checked
                self._write(reads, found, is_settled=is_checked and was_earlier and not self.is_earlier)
        except Exception:
            self._is_complete = self._is_comparing = False
            self._end_reading()
            raise
        return True

    def write_findings(self, findings: Iterable[Finding]) -> None:
        """Insert findings, unless the disk is full, or somebody deleted the file."""
        if found := list(findings):
            with suppress(RecordingError):
                self._connect()
                if self.earlier_exchanges:
                    stored = {tuple(row)[1:] for row in self._connection.execute(_STORED, (0, -1))}
                    found = [finding for finding in found if finding_row(finding) not in stored]
                self._transact(lambda: self._insert(found))

    def close(self) -> None:
        """Close the connections, and all files but the last."""
        while len(self._parts) > 1:
            self._close_part()
        self._disconnect()

    def _begin_reading(self) -> bool:
        """Begin to read what is new.  Returns whether there is anything."""
        while self._observations is None:
            is_last = len(self._parts) == 1
            # The end of a file that is not the last one is final.
            end = self._earlier_end if self.is_earlier else self._parts[0].end
            if end.position.time_ns > self._position.time_ns:
                self._until = end
                recording = self._connect()
                self._last_exchange = recording.begun_exchanges(self._position.time_ns, self._last_exchange)
                # SQLite's journal grows while a query is not finished, so each one reads a slice.
                part = recording.slice_end(self._position, end.position, self._last_exchange)
                if part is not None:
                    self._until = _End(part[0], self.volume + part[1])
                self._observations = recording.observations_between(
                    self._position, self._until.position, (self._last_exchange, self._open), self._index.add_segment
                )
            elif is_last:
                return False
            else:
                self._close_part()
        return True

    def _read(self, check: Check | None, reads: list[ReadObservation], found: list[Finding]) -> None:
        """Read and check observations up to the limits of a step."""
        size = 0
        for seen in self._observations or ():
            if isinstance(seen, BytesArrived):
                size += len(seen.data)
            elif isinstance(seen, RequestStarted):
                self._open.add(seen.exchange)
            elif isinstance(seen, ExchangeEnded):
                self._open.discard(seen.exchange)
            read = self.readers.read(seen)
            reads.append(read)
            if check is not None:
                findings = check(read)
                if findings is None:
                    self._is_checked = False
                elif self._is_new(seen):
                    found += findings
            if size >= _STEP_BYTES or len(reads) == _STEP_OBSERVATIONS:
                self.volume += size
                return
        self._end_reading()

    def _is_new(self, seen: Observation) -> bool:
        """Whether it is known that the findings of an observation are not stored, or will be compared with those."""
        if self.earlier_exchanges and last_time_ns(seen) <= self._indexed_ns:
            return False
        return self._is_complete or not self.is_earlier

    def _end_reading(self) -> None:
        self._observations = None
        self._position, self.volume = self._until

    def _write(self, reads: list[ReadObservation], found: list[Finding], *, is_settled: bool) -> None:
        """Write the frames and findings of a step; `is_settled`: all from before this capture are known now."""
        indexed_ns = self._indexed_ns
        until_ns = last_time_ns(reads[-1].observation) if reads else indexed_ns
        if reads and last_time_ns(reads[0].observation) <= indexed_ns:
            # The index has to know all responses, but only the frames after that are missing.
            reads = [
                read if last_time_ns(read.observation) > indexed_ns else read._replace(frames=()) for read in reads
            ]

        def write() -> None:
            self._index.feed(reads)
            if self._is_comparing:
                same = self._count_same(found)
                if is_settled or same < len(found):
                    self._delete_rest()
                del found[:same]
            self._insert(found)
            if self._is_complete and until_ns > indexed_ns:
                self._connection.execute("UPDATE recording SET indexed_ns = ?", (until_ns,))

        if not self._transact(write):
            # The next capture adds them.
            self._is_complete = self._is_comparing = False
            self._index.forget_words()
            self._index.feed(read._replace(frames=()) for read in reads)

    def _transact(self, statements: Callable[[], object]) -> bool:
        """Run statements in a transaction.  Returns whether that succeeded."""
        has_room = self._parts[0].file.has_room
        return has_room and write_transaction(self._connection, statements, self.on_locked) is None

    def _insert(self, found: Sequence[Finding]) -> None:
        # The id of a deleted row is not used again, so that readers can notice the deletion.
        rows = [(number, *finding_row(finding)) for number, finding in enumerate(found, self._last_finding + 1)]
        self._connection.executemany(_INSERT, rows)
        self._last_finding += len(rows)

    def _count_same(self, found: Sequence[Finding]) -> int:
        """Count the findings, from the first one on, that are stored next."""
        same = 0
        stored = self._connection.execute(_STORED, (self._last_same, len(found))).fetchall()
        for row, finding in zip(stored, found, strict=False):
            if tuple(row)[1:] != finding_row(finding):
                break
            self._last_same = row[0]
            same += 1
        return same

    def _delete_rest(self) -> None:
        """Delete the stored findings that were not proved again."""
        deleted = self._connection.execute("DELETE FROM finding WHERE id > ?", (self._last_same,)).rowcount
        self._is_comparing = False
        self.has_replaced_findings = deleted > 0

    def _connect(self) -> Recording:
        """Open the connections to the first file, unless they are open.  Raises RecordingError."""
        if self._recording is None:
            file = self._parts[0].file
            recording = open_database(file.path, check_rows=self.is_earlier)
            try:
                self._connection = file.connect()
                self._indexed_ns, self._last_finding = self._connection.execute(_PROGRESS).fetchone()
            except sqlite3.Error as error:
                recording.close()
                raise RecordingError(f"{file.path} cannot be read: {error}.") from None
            self._index.continue_in(self._connection)
            self._recording = recording
        return self._recording

    def _disconnect(self) -> None:
        self._observations = None
        if self._recording is not None:
            self._recording.close()
            self._connection.close()
            self._recording = None

    def _close_part(self) -> None:
        """Close the first file, and continue with the next one."""
        self._disconnect()
        part = self._parts.popleft()
        self._position = self._parts[0].begin
        self._is_complete = True
        part.file.close()
        part.on_closed()
