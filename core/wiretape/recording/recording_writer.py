"""Writer of recordings: stores bytes first, and indexes them later.

`feed` only collects observations. `commit` writes them to disk in one transaction; from then on they survive even if
the process is killed. `derive` indexes stored observations, as far as its caller has time, and returns them to be
checked. If it falls so far behind that memory would suffer, it reads them from the file again. A writer is used by a
single thread.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from wiretape.frame_reader import ReadObservation, StreamReaders
from wiretape.observations import BytesArrived, BytesLost, ExchangeEnded, Observation, Side
from wiretape.recording.exchange_table import write_exchanges, write_losses
from wiretape.recording.frame_index import FrameIndex
from wiretape.recording.indexing_backlog import LARGE_SLICE, BacklogSlice, IndexingBacklog
from wiretape.recording.interleave import Bounds
from wiretape.recording.recording_file import RecordingFile
from wiretape.recording.recording_types import Capture
from wiretape.recording.redactor import BodyMasker
from wiretape.recording.segments import pack_run
from wiretape.recording.write_batch import WriteBatch
from wiretape.rules import Finding

_INSERT_SEGMENT = "INSERT INTO segment VALUES (?, ?, ?, ?, ?, ?, ?)"
_SET_INDEXED = "UPDATE capture SET indexed_ns = ? WHERE id = ?"
_INSERT_FINDING = (
    "INSERT INTO finding (exchange_id, event, code, severity, side, sequence, byte_offset, time_ns, message) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Writer:
    """Writes one recording.  Create it with `create`, and end it with `close`."""

    def __init__(self, file: RecordingFile) -> None:
        self._file = file
        self._connection = file.connection
        self._batch = WriteBatch(file.redactor)
        self._masker = BodyMasker(file.redactor)
        self._index = FrameIndex(self._connection)
        self._backlog = IndexingBacklog(self._connection)
        self._last_ns = self._stored_ns = file.last_ns
        self._segment_id = file.last_segment
        self._closed = False
        self.stream_readers = StreamReaders()
        """The readers of the streams that `derive` returns."""
        self.last_error: str | None = None
        """The error of SQLite when it last refused to store something."""

    @classmethod
    def create(
        cls, path: Path | str, *, upstream: str, append: bool = False, started_unix_ns: int | None = None
    ) -> "Writer":
        """Begin a recording in a new file, or with `append` continue an existing one.

        `started_unix_ns` is the wall clock at time 0 (default: now).  Raises RecordingError if the file cannot be
        written, exists (without `append`), is not a recording, has a newer format, or is being recorded to by another
        process.  The file stays unchanged then.
        """
        file = RecordingFile.create(Path(path), upstream=upstream, append=append, started_unix_ns=started_unix_ns)
        return cls(file)

    @property
    def first_exchange(self) -> int:
        """The number that the first new exchange must have."""
        return self._file.last_exchange + 1

    @property
    def began_ns(self) -> int:
        """The time at which this capture began: later than everything in the file so far."""
        return self._file.began_ns

    @property
    def last_ns(self) -> int:
        """The time of the last observation that was fed."""
        return self._last_ns

    @property
    def is_in_place(self) -> bool:
        """Whether the recording is still the file at its path: somebody may have deleted or replaced it."""
        return self._file.is_in_place

    @property
    def lost_bytes(self) -> int:
        """Bytes that were lost, or could not be stored, in this capture."""
        return self._batch.lost_bytes

    @property
    def redacted(self) -> int:
        """Number of secrets that were redacted in this capture."""
        return self._file.redactor.count

    def feed(self, observations: Iterable[Observation]) -> None:
        """Add observations, with their secrets redacted, to the next `commit`.

        Raises ValueError unless times increase: they define the order of a recording.  Leave 3 ns before the end of an
        exchange and before a loss, for bytes that were held back because they could have been a credential.
        """
        for seen in observations:
            if isinstance(seen, BytesArrived):
                self._advance(seen)
                run = self._masker.mask(seen)
                if run is not None:
                    self._batch.add_bytes(run)
                continue
            if isinstance(seen, ExchangeEnded | BytesLost):
                self._add_held(self._masker.release(seen.exchange, self._last_ns))
            self._advance(seen)
            self._batch.add_mark(seen)

    def commit(self) -> None:
        """Store everything that was fed.  If the disk refuses, the bytes count as lost and recording continues."""
        batch = self._batch
        if not batch:
            return
        runs = batch.runs()
        segment_before = self._segment_id
        error = self._store(runs)
        if error is not None:
            batch.drop_bytes(str(error))
            runs = []
        bounds = Bounds(self._stored_ns, self._last_ns, segment_before, self._segment_id, tuple(batch.changed))
        self._backlog.add(bounds, batch.marks, runs, on_disk=error is None)
        self._stored_ns = self._last_ns
        batch.start_next()
        if error is None:
            batch.forget_stored()

    @property
    def has_backlog(self) -> bool:
        """Whether there are stored observations for `derive`."""
        return bool(self._backlog)

    @property
    def backlog_bytes(self) -> int:
        """Bytes of bodies that are stored, but not yet indexed and checked."""
        return self._backlog.volume

    def derive(self, limit: BacklogSlice = LARGE_SLICE) -> Sequence[ReadObservation]:
        """Index the next stored observations and return them to be checked; none if the backlog is empty.

        Pass a smaller `limit` to return sooner.
        """
        observations, until_ns = self._backlog.take(limit)
        reads = [self.stream_readers.read(seen) for seen in observations]

        def index() -> None:
            for read in reads:
                self._index.feed(read)
            if until_ns is not None:
                self._connection.execute(_SET_INDEXED, (until_ns, self._file.capture))

        if self._write(index):
            self._index.forget_words()
        return reads

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Store live findings."""
        rows = [
            (f.exchange, f.event, f.code, f.severity, f.side, f.sequence, f.byte_offset, f.time_ns, f.message)
            for f in findings
        ]
        if rows:
            self._write(lambda: self._connection.executemany(_INSERT_FINDING, rows))

    def close(self, ended_ns: int | None = None, captures: Sequence[Capture] = (), redacted_before: int = 0) -> None:
        """Store and index the rest, and merge the journal into the file.  Closing again does nothing.

        `ended_ns` None means that the end is unknown, because the proxy was killed.  A recording that is copied keeps
        the `captures` of its original, instead of this one, and adds the secrets that were redacted there
        (`redacted_before`).
        """
        if self._closed:
            return
        self._closed = True
        self._add_held(self._masker.release_all(self._last_ns))
        self.commit()
        while self.has_backlog:
            self.derive()
        self._file.close(ended_ns, captures, redacted_before)

    def _write(self, statements: Callable[[], object]) -> sqlite3.Error | None:
        error = self._file.write(statements)
        if error is not None:
            self.last_error = str(error)
        return error

    def _advance(self, seen: Observation) -> None:
        first, last = (seen.times[0], seen.times[-1]) if isinstance(seen, BytesArrived) else (seen.time_ns,) * 2
        if first <= self._last_ns:
            raise ValueError(f"time {first} is not later than {self._last_ns}")
        self._last_ns = last

    def _add_held(self, runs: Iterable[BytesArrived]) -> None:
        for run in runs:
            self._advance(run)
            self._batch.add_bytes(run)

    def _store(self, runs: list[BytesArrived]) -> sqlite3.Error | None:
        """Store the batch in one transaction.  Returns the error if that failed; nothing is stored then."""
        rows = [(number, *pack_run(run)) for number, run in enumerate(runs, self._segment_id + 1)]

        def insert() -> None:
            write_exchanges(self._connection, self._batch.exchanges)
            self._connection.executemany(_INSERT_SEGMENT, rows)
            write_losses(self._connection, self._batch.losses)

        error = self._write(insert)
        if error is None:
            self._segment_id += len(rows)
            for segment in self._batch.segments:
                if segment.side is Side.RESPONSE:
                    self._index.add_segment(segment.exchange, segment.start)
        return error
