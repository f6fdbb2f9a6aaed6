"""Writing a recording: bytes first, what they mean later.

`feed` only collects.  `commit` puts what was collected on disk in one transaction; from then on
a killed process loses none of it.  `derive` indexes what is stored, as far as its caller has
time, and hands it out to be judged; when it lags behind so far that memory would suffer, it reads
back from the file.  One thread uses a writer.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from wiretape.frame_reader import ReadObservation, StreamReaders
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Observation,
    Side,
)
from wiretape.recording.collected import Collected
from wiretape.recording.exchanges import store
from wiretape.recording.file import OpenFile
from wiretape.recording.index import Indexer
from wiretape.recording.mask import Masker
from wiretape.recording.merge import Bounds
from wiretape.recording.model import Capture
from wiretape.recording.pending import AT_LENGTH, Pending, Slice
from wiretape.recording.segments import row
from wiretape.rules.finding import Finding

_INSERT_SEGMENT = "INSERT INTO segment VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_LOST = "INSERT INTO lost (exchange_id, response, start, count, time_ns, why) VALUES (?, ?, ?, ?, ?, ?)"
_INDEXED = "UPDATE capture SET indexed_ns = ? WHERE id = ?"
_INSERT_FINDING = (
    "INSERT INTO finding (exchange_id, event, code, severity, side, sequence, byte_offset, time_ns, message) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Writer:
    """Writes one recording.  Make it with `create`; end it with `close`."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._connection = file.connection
        self._collected = Collected(file.redactor)
        self._masker = Masker(file.redactor)
        self._indexer = Indexer(self._connection)
        self._pending = Pending(self._connection)
        self._last_ns = self._stored_ns = file.last_ns
        self._segment_id = file.last_segment
        self._closed = False
        self.readers = StreamReaders()
        """Those that read what `derive` returns."""
        self.trouble: str | None = None
        """What SQLite said the last time that something could not be stored."""

    @classmethod
    def create(
        cls, path: Path | str, *, upstream: str, append: bool = False, started_unix_ns: int | None = None
    ) -> "Writer":
        """Begin a recording in a new file, or go on in one that exists when `append` says so.

        `started_unix_ns` is when what is recorded began, on the clock on the wall; None: now.
        Raises RecordingError when the file cannot be written, exists (without `append`), is no recording,
        is of a newer format, or is being recorded to by somebody else; it is then left as it was.
        """
        file = OpenFile.create(Path(path), upstream=upstream, append=append, started_unix_ns=started_unix_ns)
        return cls(file)

    @property
    def first_exchange(self) -> int:
        """The number that the first new exchange must have."""
        return self._file.last_exchange + 1

    @property
    def began_ns(self) -> int:
        """The time at which this run of the writer began: later than everything in the file so far."""
        return self._file.began_ns

    @property
    def last_ns(self) -> int:
        """The time of the last observation that was fed."""
        return self._last_ns

    @property
    def in_place(self) -> bool:
        """Whether the recording is still the file at its path: it may have been deleted or replaced meanwhile."""
        return self._file.in_place

    @property
    def lost_bytes(self) -> int:
        """Bytes that were lost, or could not be stored, in this run of the writer."""
        return self._collected.lost_bytes

    @property
    def redacted(self) -> int:
        """How many secrets were redacted in this run of the writer."""
        return self._file.redactor.count

    def feed(self, observations: Iterable[Observation]) -> None:
        """Collect observations, their secrets redacted, for the next `commit`.

        Raises ValueError when times do not increase: the order of a recording is its times.  Before an exchange's
        end and before a loss there must be 3 ns, for what was held back because it could have been a credential.
        """
        for seen in observations:
            if isinstance(seen, BytesArrived):
                self._advance(seen)
                run = self._masker.arrive(seen)
                if run is not None:
                    self._collected.add_bytes(run)
                continue
            if isinstance(seen, ExchangeEnded | BytesLost):
                self._collect_held(self._masker.release(seen.exchange, self._last_ns))
            self._advance(seen)
            self._collected.add_mark(seen)

    def commit(self) -> None:
        """Store everything collected.  Where the disk refuses, the bytes are counted as lost and life goes on."""
        collected = self._collected
        if not collected:
            return
        runs = collected.runs()
        before_segment = self._segment_id
        error = self._store(runs)
        if error is not None:
            collected.give_up(str(error))
            runs = []
        bounds = Bounds(self._stored_ns, self._last_ns, before_segment, self._segment_id, tuple(collected.changed))
        self._pending.add(bounds, collected.marks, runs, on_disk=error is None)
        self._stored_ns = self._last_ns
        collected.begin_anew()
        if error is None:
            collected.forget()

    @property
    def behind(self) -> bool:
        """Whether something is stored but not yet derived."""
        return bool(self._pending)

    @property
    def unchecked(self) -> int:
        """How many bytes of bodies are stored but not yet derived."""
        return self._pending.volume

    def derive(self, most: Slice = AT_LENGTH) -> Sequence[ReadObservation]:
        """Index the next few stored observations and return them, to be judged; empty when there are none.

        `most` is how many at most: fewer where the caller expects something more urgent.
        """
        observations, until_ns = self._pending.take(most)
        reads = [self.readers.read(seen) for seen in observations]

        def index() -> None:
            for read in reads:
                self._indexer.feed(read)
            if until_ns is not None:
                self._connection.execute(_INDEXED, (until_ns, self._file.capture))

        if self._attempt(index):
            self._indexer.forget_words()
        return reads

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Store live findings."""
        rows = [
            (f.exchange, f.event, f.code, f.severity, f.side, f.sequence, f.byte_offset, f.time_ns, f.message)
            for f in findings
        ]
        if rows:
            self._attempt(lambda: self._connection.executemany(_INSERT_FINDING, rows))

    def close(self, ended_ns: int | None = None, captures: Sequence[Capture] = (), redacted_before: int = 0) -> None:
        """Store and derive what is left, and make the one file all there is (no `-wal` beside it).

        `ended_ns` None says that nobody knows when recording ended: the proxy was killed.
        `captures` are the runs that a recording was made in which is now written anew, this one not among them, and
        `redacted_before` is how many secrets had been redacted there.
        Closing again does nothing.
        """
        if self._closed:
            return
        self._closed = True
        self._collect_held(self._masker.release_all(self._last_ns))
        self.commit()
        while self.behind:
            self.derive()
        self._file.close(ended_ns, captures, redacted_before)

    def _attempt(self, write: Callable[[], object]) -> sqlite3.Error | None:
        error = self._file.attempt(write)
        if error is not None:
            self.trouble = str(error)
        return error

    def _advance(self, seen: Observation) -> None:
        first, last = (seen.times[0], seen.times[-1]) if isinstance(seen, BytesArrived) else (seen.time_ns,) * 2
        if first <= self._last_ns:
            raise ValueError(f"time {first} does not come after {self._last_ns}")
        self._last_ns = last

    def _collect_held(self, runs: Iterable[BytesArrived]) -> None:
        for run in runs:
            self._advance(run)
            self._collected.add_bytes(run)

    def _store(self, runs: list[BytesArrived]) -> sqlite3.Error | None:
        """One transaction; when it fails, nothing is stored."""
        rows = [(number, *row(run)) for number, run in enumerate(runs, self._segment_id + 1)]

        def insert() -> None:
            store(self._connection, self._collected.exchanges)
            self._connection.executemany(_INSERT_SEGMENT, rows)
            self._connection.executemany(_INSERT_LOST, [_lost_row(lost) for lost in self._collected.losses])

        error = self._attempt(insert)
        if error is None:
            self._segment_id += len(rows)
            for segment in self._collected.segments:
                if segment.side is Side.RESPONSE:
                    self._indexer.segment_stored(segment.exchange, segment.start)
        return error


def _lost_row(lost: BytesLost) -> tuple[object, ...]:
    return (lost.exchange, int(lost.side is Side.RESPONSE), lost.start, lost.count, lost.time_ns, lost.why)
