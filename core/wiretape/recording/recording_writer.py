"""Writer of recordings: stores bytes first, and derives frames and findings from what is stored.

`feed` only collects observations. `commit` writes them to disk in one transaction; from then on they survive even if
the process is killed. `derive` reads what is stored, as a report does, and writes what follows from it.  A single
thread uses a writer; another one may call `derive`.
"""

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from wiretape.errors import RecordingError
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
    last_time_ns,
)
from wiretape.recording.body_redaction import BodyRedactor
from wiretape.recording.derived_tables import Check, DerivedTables
from wiretape.recording.recording_file import RecordingFile
from wiretape.recording.recording_reader import TailPosition
from wiretape.recording.redactor import RedactionPolicy, Redactor
from wiretape.recording.table_rows import (
    Capture,
    OpenExchange,
    pack_run,
    read_open_exchanges,
    write_exchanges,
    write_losses,
)
from wiretape.rules import Finding

SEGMENT_BYTES = 48 * 1024
"""A segment is closed once it holds this much: large enough that the overhead of rows does not matter, small enough
that one event can be read quickly."""
_INSERT_SEGMENT = "INSERT INTO segment VALUES (?, ?, ?, ?, ?, ?, ?)"
_CHUNK_BYTES = 24
_ROW_BYTES = 16 * 1024
"""Assumed disk space of the time of a chunk, and of the changed row of an exchange: pages of the table and an index."""
_MOST_UNSTORED = 2000
"""Exchanges that have ended and are kept to be stored later, while the disk takes nothing at all."""


IN_EARLIER_FILE = "recorded in an earlier file of the same recording"
"""Why bytes are missing in a file of a rotated recording."""


@dataclass(slots=True)
class _Segment:
    """Consecutive chunks of one body that are about to be stored."""

    exchange: int
    side: Side
    start: int
    parts: list[bytes] = field(default_factory=list)
    ends: "array[int]" = field(default_factory=lambda: array("q"))
    times: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def end(self) -> int:
        """Offset in the body just after the last byte."""
        return self.ends[-1] if self.ends else self.start

    def run(self) -> BytesArrived:
        """Return all its chunks as one run."""
        return BytesArrived(self.exchange, self.side, self.start, b"".join(self.parts), self.ends, self.times)


class WriteBatch:
    """Bytes, packed into segments, and the rows of exchanges and losses that change."""

    def __init__(self, redactor: Redactor, last_loss: int) -> None:
        """`last_loss` is the number of the last row of `lost`."""
        self._redactor = redactor
        self._last_loss = last_loss
        self.exchanges: dict[int, OpenExchange] = {}
        """The open exchanges."""
        self.changed: set[int] = set()
        """The numbers of the exchanges that changed."""
        self._filling: dict[tuple[int, Side], _Segment] = {}
        self.segments: list[_Segment] = []
        self.losses: dict[int, BytesLost] = {}
        """The rows of `lost` that are not stored as they are, by their number."""
        self.lost_bytes = 0
        """Bytes that were lost, or could not be stored, so far."""

    def __bool__(self) -> bool:
        return bool(self.segments or self.losses or self.changed)

    def runs(self) -> list[BytesArrived]:
        """Return the bytes, in time order."""
        return [segment.run() for segment in sorted(self.segments, key=lambda segment: segment.times[0])]

    def add_bytes(self, run: BytesArrived) -> None:
        """Pack a run into segments."""
        body = (run.exchange, run.side)
        segment = self._filling.get(body)
        for index, end in enumerate(run.ends):
            begin = run.ends[index - 1] if index else run.start
            if segment is None or segment.end != begin or segment.end - segment.start >= SEGMENT_BYTES:
                segment = self._filling[body] = _Segment(*body, begin)
                self.segments.append(segment)
            segment.parts.append(run.data[begin - run.start : end - run.start])
            segment.ends.append(end)
            segment.times.append(run.times[index])
        exchange = self.exchanges[run.exchange]
        exchange.stored[run.side] += len(run.data)
        exchange.ends[run.side] = run.end
        self.changed.add(run.exchange)

    def add_mark(self, seen: Observation) -> None:
        """Change the row of an exchange by an observation without bytes, redacted."""
        exchange = self.exchanges.get(seen.exchange)
        if isinstance(seen, RequestStarted):
            self.exchanges[seen.exchange] = OpenExchange(self._redactor.redact_request(seen))
        elif exchange is None:
            raise ValueError(f"exchange {seen.exchange} has not begun")
        elif isinstance(seen, ResponseStarted):
            exchange.response = self._redactor.redact_response(seen)
        elif isinstance(seen, RequestEnded):
            exchange.request_ended_ns = seen.time_ns
        elif isinstance(seen, ExchangeEnded):
            exchange.ended = replace(seen, detail=self._redactor.mask_text(seen.detail, seen.exchange))
        elif isinstance(seen, BytesLost):
            self._add_loss(exchange, replace(seen, why=self._redactor.mask_text(seen.why, seen.exchange)))
        self.changed.add(seen.exchange)

    def drop_bytes(self, why: str) -> None:
        """Count the bytes as lost.

        While the disk is full, the rows of `lost` do not become more: each grows until its body is stored again.
        """
        for segment in self.segments:
            exchange = self.exchanges[segment.exchange]
            count = segment.end - segment.start
            lost = BytesLost(segment.exchange, segment.times[0], segment.side, segment.start, count, why)
            exchange.stored[segment.side] -= count
            exchange.lost += count
            self.lost_bytes += count
            row, before = exchange.dropped.get(segment.side, (0, lost))
            if before.end == lost.start:
                lost = replace(before, count=before.count + count)
            else:
                row = self._next_row()
            exchange.dropped[segment.side] = (row, lost)
            self.losses[row] = lost
        self.segments = []

    def _add_loss(self, exchange: OpenExchange, lost: BytesLost) -> None:
        exchange.lost += lost.count
        exchange.ends[lost.side] = lost.end
        self.lost_bytes += lost.count
        self.losses[self._next_row()] = lost

    def _next_row(self) -> int:
        self._last_loss += 1
        return self._last_loss

    def continue_in_next_file(self, last_ns: int) -> int:
        """Store the open exchanges again, in the next file of a rotated recording; return the last time used."""
        self._last_loss = 0
        self.changed.update(self.exchanges)
        for number, exchange in self.exchanges.items():
            exchange.stored = dict.fromkeys(Side, 0)
            exchange.dropped.clear()
            exchange.lost = sum(exchange.ends.values())
            for side, end in exchange.ends.items():
                if end:
                    last_ns += 1
                    self.losses[self._next_row()] = BytesLost(number, last_ns, side, 0, end, IN_EARLIER_FILE)
        return last_ns

    def start_next(self) -> None:
        """Start the next batch; keep what a failed commit has to store again."""
        self.segments = []
        self._filling.clear()

    def end_losses(self) -> None:
        """All bytes are stored again: the rows about bytes that could not be stored grow no more."""
        for exchange in self.exchanges.values():
            exchange.dropped.clear()

    def forget_stored(self) -> None:
        """Forget the changes and losses: all of them are stored."""
        self.losses.clear()
        for number in self.changed:
            if self.exchanges[number].ended:
                del self.exchanges[number]
        self.changed.clear()

    def forget_oldest(self) -> None:
        """If not even rows could be stored for long, forget half of the exchanges that have ended.

        Their heads count as lost bytes, so that the loss is reported even if they had no bodies.
        """
        ended = sorted(number for number in self.changed if self.exchanges[number].ended)
        if len(ended) <= _MOST_UNSTORED:
            return
        for number in ended[: len(ended) // 2]:
            request = self.exchanges.pop(number).request
            self.lost_bytes += len(request.target) + sum(len(name) + len(value) for name, value in request.headers)
            self.changed.remove(number)
        self.losses = {row: lost for row, lost in self.losses.items() if lost.exchange in self.exchanges}


class Writer:
    """Writes one recording.  Create it with `create`, and end it with `close`."""

    def __init__(self, file: RecordingFile) -> None:
        self._file = file
        self._connection = file.connection
        self._batch = WriteBatch(file.redactor, file.last_loss)
        self._batch.exchanges = read_open_exchanges(file.connection)
        self._bodies = BodyRedactor(file.redactor)
        self.tables = DerivedTables(file)
        """What follows from the stored bytes, for the thread that calls `derive`."""
        self._stored_bytes = file.stored_bytes
        self._segment_id = file.last_segment
        self._is_ending = self._is_closed = False
        self.upstream = file.upstream
        """What the recording names: the service of this capture, and those of the captures before."""
        self.contracts = file.contracts
        """The contracts that the recording names; see `RecordingInfo`."""
        self.first_exchange = file.last_exchange + 1
        """The number that the first new exchange must have."""
        self.began_ns = file.began_ns
        """The time at which this capture began: later than everything in the file so far."""
        self.began_clock_ns = file.began_clock_ns
        """The monotonic clock at that time."""
        self.last_ns = file.last_ns
        """The latest time that was fed."""
        self._settled_ns = self.last_ns
        """Later bytes are not earlier than this."""
        self.last_error: str | None = None
        """The error of SQLite when it last refused to store something."""

    @classmethod
    def create(
        cls,
        path: Path | str,
        *,
        upstream: str,
        append: bool = False,
        started_unix_ns: int | None = None,
        policy: RedactionPolicy | None = None,
        contracts: str | None = None,
        resume: bool = False,
    ) -> "Writer":
        """Begin a recording in a new file, or with `append` continue an existing one.

        With `resume` as well, the exchanges that are open continue: their connections outlived the recorder.
        `started_unix_ns` is the wall clock at time 0 (default: now); `policy` is what to redact; `contracts` are
        those that it is checked with (default: those of the existing recording).

        Raises RecordingError if the file cannot be written, exists (without `append`), is not a recording, has a newer
        format, or is being recorded to by another process.  The file stays unchanged then.
        """
        begin = partial(
            RecordingFile.begin_capture,
            upstream=upstream,
            started_unix_ns=started_unix_ns,
            policy=policy or RedactionPolicy(),
            contracts=contracts,
            resume=resume,
        )
        return cls(RecordingFile.open(Path(path), begin, append=append))

    @property
    def is_in_place(self) -> bool:
        """Whether the recording is still the file at its path: somebody may have deleted or replaced it."""
        return self._file.is_in_place

    @property
    def lost_bytes(self) -> int:
        """Bytes that were lost, or could not be stored, in this capture."""
        return self._batch.lost_bytes

    def open_bodies(self) -> dict[tuple[int, Side], int]:
        """Return how far the bodies of open exchanges were seen."""
        exchanges = self._batch.exchanges
        return {(number, side): exchanges[number].ends[side] for number in exchanges for side in Side}

    def held_bodies(self) -> dict[tuple[int, Side], int]:
        """Return where the bytes begin that are held back, because they could be a part of a secret, by body."""
        exchanges = self._batch.exchanges
        return {body: exchanges[body[0]].ends[body[1]] for body in self._bodies.held}

    def feed(self, observations: Iterable[Observation]) -> None:
        """Add observations, with their secrets redacted, to the next `commit`.

        Raises ValueError unless times increase: they define the order of a recording.  Only bytes may be earlier than
        those before them, back to the last observation of another kind, or the last call.  Leave 3 ns before the end
        of an exchange and before a loss, for bytes that were held back because they could have been a credential; with
        JSON paths in the policy 5 ns, and also before the end of a request.
        """
        self._settled_ns = self.last_ns
        for seen in observations:
            if isinstance(seen, BytesArrived):
                self._check_time(seen, self._settled_ns)
                self.last_ns = max(self.last_ns, seen.times[-1])
                if (run := self._bodies.redact(seen)) is not None:
                    self._batch.add_bytes(run)
                continue
            if isinstance(seen, RequestStarted | ResponseStarted):
                self._bodies.begin(seen)
            else:
                self._add_held(self._bodies.end(seen, self.last_ns))
            self._advance(seen)
            self._batch.add_mark(seen)

    def wait_for_locks(self, on_locked: Callable[[float], bool], on_derive_locked: Callable[[float], bool]) -> None:
        """Call `on_locked` again and again while another process locks the file, instead of waiting for 30 s.

        It gets the seconds since the first attempt, and returns whether to try again.  `derive` calls the other one.
        """
        self._file.on_locked = on_locked
        self.tables.on_locked = on_derive_locked

    def commit(self) -> None:
        """Store everything that was fed.

        If the disk refuses, the bytes count as lost and recording continues.  Bytes are stored again when there is
        room for more than the rows about what is lost.
        """
        if self._batch and self._store_batch():
            self._let_derive()

    def _store_batch(self) -> bool:
        """Store everything that was fed; return whether no bytes were lost."""
        batch = self._batch
        runs = batch.runs()
        error = self._store_runs(runs)
        if has_lost := error is not None:
            batch.drop_bytes(str(error))
            self._file.merge_journal()
            if self._is_ending or self._file.space.has_reserve(_ROW_BYTES * len(batch.changed)):
                error = self._store([])
        batch.start_next()
        if error is None:
            batch.forget_stored()
        else:
            batch.forget_oldest()
        if not has_lost:
            batch.end_losses()
            self._stored_bytes += sum(len(run.data) for run in runs)
        return not has_lost

    def _let_derive(self) -> None:
        position = TailPosition(segment=self._segment_id, time_ns=self.last_ns)
        self.tables.extend(position, self._stored_bytes)

    def _store_runs(self, runs: list[BytesArrived]) -> sqlite3.Error | None:
        """Store the batch in one transaction, if the disk has room for these runs."""
        size = sum(len(run.data) + _CHUNK_BYTES * len(run.ends) for run in runs)
        if not self._file.space.find_room(size + size // 4 + _ROW_BYTES * len(self._batch.changed)):
            error = sqlite3.OperationalError("the disk is full")
            self.last_error = str(error)
            return error
        return self._store(runs)

    def derive(self, check: Check | None = None) -> bool:
        """Read the next stored observations, and write their frames and findings.  Returns False if there are none.

        See `DerivedTables.step`.
        """
        return self.tables.step(check)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._file.size

    def rotate(self, path: Path, on_closed: Callable[[], object] = lambda: None) -> bool:
        """Continue in a new file at `path`; the one before is closed once `derive` has read it.

        The new file has the same times, salt and exchange numbers.  It contains the heads of the open exchanges again,
        and what was seen of their bodies as lost.  Returns False, and continues in the same file, if not everything
        could be stored in that.  Raises RecordingError, and continues, if `path` cannot be written.
        """
        self.commit()
        if self._batch:
            return False
        closed, file = self._file, self._file.continue_in(path, self.last_ns)
        file.on_locked = closed.on_locked
        self._let_derive()
        closed_ns, redacted = self.last_ns, file.redactor.count
        file.redactor.count = 0
        self._file, self._connection = file, file.connection
        self._segment_id = 0
        begin = TailPosition(time_ns=self._batch.continue_in_next_file(file.began_ns))
        self.last_ns = begin.time_ns
        # The heads come first: if this process is killed, another one continues in the file that the mark selects.
        is_stored = self._store_batch()
        closed.end(closed_ns, redacted_before=redacted - file.redactor.count, is_continued=True)
        self.tables.add_file(file, begin, on_closed)
        if is_stored:
            self._let_derive()
        return True

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Store findings, unless the disk is full, or somebody deleted the file."""
        self.tables.write_findings(findings)

    def close(self, ended_ns: int | None = None, captures: Sequence[Capture] = (), redacted_before: int = 0) -> None:
        """Store the rest, derive what follows, and merge the journal into the file.  Closing again does nothing.

        `ended_ns` None means that the end is unknown, because the proxy was killed.  A recording that is copied keeps
        the `captures` of its original, instead of this one, and adds the secrets that were redacted there
        (`redacted_before`).
        """
        if self._is_closed:
            return
        self._is_closed = True
        self.store_rest()
        with suppress(RecordingError):  # a deleted file
            while self.derive():
                pass
        self.tables.close()
        self._file.end(ended_ns, captures, redacted_before)
        self._file.close()

    def store_rest(self) -> None:
        """Store what is held back because it could be a part of a secret.  Call this only before `close`."""
        if self._is_ending:
            return
        self._is_ending = True
        self._add_held(self._bodies.close(self.last_ns))
        self.commit()
        self._let_derive()

    def _write(self, statements: Callable[[], object]) -> sqlite3.Error | None:
        error = self._file.write(statements)
        if error is not None:
            self.last_error = str(error)
        return error

    def _advance(self, seen: Observation) -> None:
        self._check_time(seen, self.last_ns)
        self.last_ns = self._settled_ns = last_time_ns(seen)

    @staticmethod
    def _check_time(seen: Observation, before_ns: int) -> None:
        if seen.time_ns <= before_ns:
            raise ValueError(f"time {seen.time_ns} is not later than {before_ns}, the time before it")

    def _add_held(self, runs: Iterable[BytesArrived]) -> None:
        for run in runs:
            self._advance(run)
            self._batch.add_bytes(run)

    def _store(self, runs: list[BytesArrived]) -> sqlite3.Error | None:
        """Store the batch in one transaction.  Returns the error if that failed; nothing is stored then."""
        batch = self._batch
        rows = [(number, *pack_run(run)) for number, run in enumerate(runs, self._segment_id + 1)]

        def insert() -> None:
            changed = [batch.exchanges[number] for number in batch.changed]
            write_exchanges(self._connection, changed, self.tables.contracts)
            self._connection.executemany(_INSERT_SEGMENT, rows)
            write_losses(self._connection, batch.losses)

        error = self._write(insert)
        if error is None:
            self._segment_id += len(rows)
        return error
