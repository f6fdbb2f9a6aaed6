"""The tables `frame` and `finding`: what follows from a recording, read while it grows."""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct

from wiretape.contract.contract_facts import choose_contracts
from wiretape.errors import RecordingError
from wiretape.event import Event, TimedFrame
from wiretape.event_format import shorten_value
from wiretape.event_preview import is_utf8
from wiretape.frame_reader import ReadObservation, StreamReaders
from wiretape.observations import (
    BytesArrived,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    header,
    last_time_ns,
)
from wiretape.patterns import MISSING, Pointer
from wiretape.recording.recording_file import RecordingFile, is_patient, write_transaction
from wiretape.recording.recording_reader import Recording, TailPosition, open_database
from wiretape.recording.table_rows import FINDING_COLUMNS, dump_keys, finding_row
from wiretape.rules import Finding
from wiretape.sse import FrameKind

_STEP_OBSERVATIONS = 512
_STEP_BYTES = 256 * 1024
"""Limits of a step, so that it takes some hundredths of a second; the last observation may exceed this one."""
_INSERT_FINDING = f"INSERT INTO finding (id, {FINDING_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
_STORED = f"SELECT id, {FINDING_COLUMNS} FROM finding WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608 - constants
_PROGRESS = "SELECT indexed_ns, (SELECT coalesce(max(id), 0) FROM finding) FROM recording"
_INSERT_FRAME = f"INSERT OR REPLACE INTO frame VALUES (?{', ?' * 13})"  # noqa: S608 - constants
_SET_CHANNEL = "UPDATE exchange SET channel = ? WHERE id = ? AND channel IS NULL"
_LARGEST = 2**63
# A plain string is hashed much faster than the member of an enumeration.
_MESSAGE = FrameKind.MESSAGE.value
_BLANK = FrameKind.BLANK
_NO_EVENT = (None,) * 9
_USUAL_PREFIX = b"\ndata: "
_Row = tuple[object, ...]
_MOST_WORDS = 10_000
"""Texts whose numbers are remembered."""

Check = Callable[[ReadObservation], Sequence[Finding] | None]
"""Returns the findings that an observation proves, in order; None if the checks have failed."""


class _End(NamedTuple):
    """Up to where a file can be read: what is before does not change any more."""

    position: TailPosition
    volume: int
    """Bytes of bodies up to there, with those of the files before."""


class _Part(Struct):
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
        self.contracts = choose_contracts(file.contracts)
        """Those that the exchanges belong to."""
        self.readers = StreamReaders(self.contracts.format_of)
        """The readers of the streams."""
        self.on_locked: Callable[[float], bool] = is_patient
        """See RecordingFile."""
        self.has_replaced_findings = False
        """Whether stored findings from before this capture differed from those that the rules prove."""
        self.last_error = ""
        """Why some rows were not written; empty if all were."""
        self.volume = 0
        """Bytes of bodies that were read."""
        self.first_file = file
        """The file in which this capture began; what began in files before it is not read."""
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
        self._index = _FrameIndex(self._connection)
        self._observations: Iterator[Observation] | None = None
        """Those up to `_until`."""
        self._until = self._earlier_end
        self._indexed_ns = -1
        """Up to here, the table has all frames."""
        self._is_complete = True
        """Whether all rows could be written so far."""
        self._last_finding = self._last_same = 0
        """The ids of the last finding, and of the last one from before this capture that was proved again."""
        self._is_comparing = self.is_earlier and not self.first_file.earlier_exchanges
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
                if self.first_file.earlier_exchanges:
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
                    self._position, self._until.position, (self._last_exchange, self._open)
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
        if self.first_file.earlier_exchanges and last_time_ns(seen) <= self._indexed_ns:
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
        if not self._parts[0].file.space.has_room:
            self.last_error = "the disk is full"
            return False
        error = write_transaction(self._connection, statements, self.on_locked)
        if error is not None:
            self.last_error = str(error)
        return error is None

    def _insert(self, found: Sequence[Finding]) -> None:
        # The id of a deleted row is not used again, so that readers can notice the deletion.
        rows = [(number, *finding_row(finding)) for number, finding in enumerate(found, self._last_finding + 1)]
        self._connection.executemany(_INSERT_FINDING, rows)
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
            with ExitStack() as undo:
                recording = undo.enter_context(open_database(file.path, check_rows=self.is_earlier))
                try:
                    self._connection = undo.enter_context(closing(file.connect()))
                    self._indexed_ns, self._last_finding = self._connection.execute(_PROGRESS).fetchone()
                except sqlite3.Error as error:
                    raise RecordingError(f"{file.path} cannot be read: {error}.") from None
                undo.pop_all()
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


class _FrameIndex:
    """Writes the frames that observations complete into the table `frame`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._is_identity: dict[int, bool] = {}
        """For each open response: whether its stored bytes are not encoded, so that rows can point at them."""
        self._words: dict[str, int] = {}
        self._channels: dict[int, str] = {}
        """For each open response: the channel that an event names."""

    def feed(self, reads: Iterable[ReadObservation]) -> None:
        """Index the frames that observations complete.  Raises sqlite3.Error."""
        rows: list[_Row] = []
        for read in reads:
            seen = read.observation
            if isinstance(seen, ResponseStarted):
                encoding = header(seen.headers, "content-encoding") or "identity"
                self._is_identity[seen.exchange] = encoding.strip().lower() == "identity"
            elif read.frames:
                # A run is in one segment.
                is_stored = isinstance(seen, BytesArrived) and self._is_identity[seen.exchange]
                start = seen.start if isinstance(seen, BytesArrived) and is_stored else None
                rows += [self._row(seen.exchange, start, each) for each in _join_blank_lines(read.frames)]
            if isinstance(seen, ExchangeEnded):
                self._is_identity.pop(seen.exchange, None)
                self._channels.pop(seen.exchange, None)
        if rows:
            self._connection.executemany(_INSERT_FRAME, rows)

    def continue_in(self, connection: sqlite3.Connection) -> None:
        """Write into the next file of a rotated recording."""
        self._connection = connection
        self.forget_words()

    def forget_words(self) -> None:
        """Forget which texts the table `word` contains: a rollback may have removed some."""
        self._words.clear()

    def _row(self, exchange: int, run_start: int | None, seen: TimedFrame) -> _Row:
        """Return the row of a frame; the run that completes it begins at `run_start`, unless it is encoded."""
        # This runs for every event: calling a function, or reading a field by its name, takes as long as the rest.
        kind, start, raw, _, _ = seen.frame
        word = self._word
        if not isinstance(seen, Event):
            return (exchange, start, len(raw), word(kind), seen.time_ns, *_NO_EVENT)
        data, id_line = seen.data, seen.id_line
        text = data.decode("utf-8", "replace") if seen.has_unusual_json and not is_utf8(data) else None
        pointer: tuple[int | None, int | None] | None = None
        if text is None:
            if run_start is not None and seen.has_data and b"\n" not in data:
                pointer = _pointer(start, raw, data, run_start)
            if pointer is None and seen.has_data:
                text = data.decode()
        sequence, type_, keys = seen.sequence, seen.type, seen.keys
        if seen.format.channel is not None:
            self._note_channel(seen, seen.format.channel)
        return (
            exchange,
            start,
            len(raw),
            word(_MESSAGE),
            seen.time_ns,
            seen.number,
            word(seen.name) if seen.event_line else None,
            seen.id if id_line is not None else None,
            sequence if sequence is not None and -_LARGEST <= sequence < _LARGEST else None,
            word(type_) if type_ else None,
            word(dump_keys(keys)) if keys else None,
            *(pointer or (None, None)),
            text,
        )

    def _note_channel(self, event: Event, pointer: Pointer) -> None:
        """Store the channel that the first event of a stream names, if the request names none."""
        if self._channels.get(event.exchange) is None and (value := pointer.read(event.value)) is not MISSING:
            self._channels[event.exchange] = channel = str(shorten_value(value))
            self._connection.execute(_SET_CHANNEL, (channel.encode("utf-8", "replace").decode(), event.exchange))

    def _word(self, text: str) -> int:
        number = self._words.get(text)
        if number is None:
            # JSON can escape a lone surrogate, which SQLite cannot store.
            stored = text.encode("utf-8", "replace").decode()
            self._connection.execute("INSERT OR IGNORE INTO word (text) VALUES (?)", (stored,))
            (number,) = self._connection.execute("SELECT id FROM word WHERE text = ?", (stored,)).fetchone()
            if len(self._words) > _MOST_WORDS:
                self._words.clear()
            self._words[text] = number
        return number


def _join_blank_lines(frames: Sequence[TimedFrame]) -> Sequence[TimedFrame]:
    """Join consecutive blank lines of one chunk into one frame: there can be millions."""
    first, last = frames[0], frames[-1]
    if isinstance(first, Event) and isinstance(last, Event) and last.number - first.number == len(frames) - 1:
        return frames  # events only, as nearly always
    runs: list[TimedFrame] = []
    for is_blank, group in groupby(frames, lambda seen: seen.frame.kind is _BLANK and seen.time_ns):
        if is_blank is False:
            runs += group
        else:
            begin, *more = group
            raw = b"".join([begin.frame.raw, *(seen.frame.raw for seen in more)])
            runs.append(TimedFrame(begin.exchange, begin.frame._replace(raw=raw), begin.time_ns))
    return runs


def _pointer(start: int, raw: bytes, value: bytes, run_start: int) -> tuple[int, int] | None:
    """Return offset in the frame and length of the only data value, if the run that begins there contains all of it."""
    at = len(raw) - len(value) - 2
    # Nearly all frames end with the value and two LF.
    if not (
        raw.startswith(_USUAL_PREFIX, at - len(_USUAL_PREFIX)) and raw.endswith(b"\n\n") and raw.startswith(value, at)
    ):
        at = _find_value(raw, value)
    return (at, len(value)) if at >= 0 and start + at >= run_start else None


def _find_value(raw: bytes, value: bytes) -> int:
    """Return the offset of the value of the only data line; negative if it is not found."""
    for prefix in (b"data: ", b"data:"):
        at = raw.find(prefix + value)
        if at == 0 or (at > 0 and raw[at - 1] in b"\r\n"):
            return at + len(prefix)
    return -1
