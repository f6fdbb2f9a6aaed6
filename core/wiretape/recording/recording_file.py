"""The SQLite file of a recording that is being written: create, lock, append to, close and delete it."""

import fcntl
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from wiretape import __version__
from wiretape.addresses import join_upstreams
from wiretape.contract.contract_facts import choose_contracts
from wiretape.errors import InputError, RecordingError
from wiretape.files import check_writable, exists_error, path_exists, write_error
from wiretape.recording import schema
from wiretape.recording.disk_space import DiskSpace
from wiretape.recording.redactor import RedactionPolicy, Redactor
from wiretape.recording.table_rows import Capture

_TOOL = f"wiretape {__version__}"
_INTERRUPTED = "The recording was interrupted."
_LAST_TIMES = """
SELECT max(t) FROM (
  SELECT max(started_ns, coalesce(request_ended_ns, 0), coalesce(responded_ns, 0), coalesce(ended_ns, 0)) AS t
  FROM exchange
  UNION ALL SELECT max(time_ns) FROM lost
  UNION ALL SELECT max(coalesce(ended_ns, 0), began_ns) FROM capture
  UNION ALL SELECT s.time_ns + coalesce((SELECT max(value) FROM json_each(s.chunks) WHERE key % 2 = 1), 0)
  FROM segment s WHERE s.id > (SELECT max(id) - 10000 FROM segment))
"""
_JOURNAL = ("-wal", "-shm")
"""What SQLite appends to the name of a recording for its journal and the index of that."""
_COMPANIONS = ("-journal", *_JOURNAL)
"""The same for all files that SQLite may write beside it."""
_LOCK_ATTEMPT_MS = 100
_LOCK_PATIENCE_S = 30.0


def is_patient(seconds: float) -> bool:
    """Return whether to wait longer for a lock of another process."""
    return seconds < _LOCK_PATIENCE_S


class RecordingFile:
    """A recording that is open for writing: its connection, its lock, and the last numbers and times in it."""

    began_ns: int
    """When this capture began: later than everything in the file so far."""
    last_ns: int
    """The last time in the file."""
    contracts: str | None = None
    """The contracts that the recording is checked with; see `RecordingInfo`."""
    has_new_contracts = False
    """Whether it named other contracts before."""
    earlier_exchanges = 0
    """The last exchange that began in an earlier file, which this process has not written."""

    def __init__(self, connection: sqlite3.Connection, path: Path, lock: int, space: DiskSpace) -> None:
        self.connection = connection
        self.path = path
        self.on_locked: Callable[[float], bool] = is_patient
        """Called again and again while another process locks the file, with the seconds since the first attempt.
        Returns whether to try again."""
        self._lock = lock
        self.space = space
        """Room for what is written."""
        self.began_clock_ns = time.monotonic_ns()
        """The monotonic clock at `began_ns`: what follows takes milliseconds, and seconds in a large file."""

    @classmethod
    def reopen(cls, path: Path) -> "RecordingFile":
        """Open a file of a rotated recording that a killed recorder has not closed.  Raises RecordingError."""
        return cls.open(path, cls._read_end, append=True, is_last=False)

    @classmethod
    def open(
        cls, path: Path, begin: Callable[["RecordingFile"], object], *, append: bool, is_last: bool = True
    ) -> "RecordingFile":
        """Create a file, or open one to append to it, and call `begin` with it; see `Writer.create`.

        Unless it `is_last`, the recording may continue in another file.
        """
        _check_companions(path)
        _claim(path, append=append)
        with ExitStack() as undo:
            try:
                lock = lock_for_writing(path)
                undo.callback(os.close, lock)
                is_new = _is_new(path, lock, append=append)
                if is_new:
                    undo.callback(_delete_if_possible, path)
                connection = schema.connect(path, "rw", _LOCK_PATIENCE_S)
                undo.callback(connection.close)
                if not is_new:
                    schema.check_schema(connection, path)
                    if is_last:
                        _refuse_continued(connection, path)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                if is_new:
                    schema.create_schema(connection)
                space = DiskSpace(connection, lock)
                undo.callback(space.close)
                undo.callback(connection.close)  # before the files of the space
                # Another user may have created them a moment ago.
                _check_companions(path)
                space.reserve()
                file = cls(connection, path, lock, space)
                begin(file)
                if is_new or file.has_new_contracts:
                    schema.create_views(connection, choose_contracts(file.contracts))
                connection.execute(f"PRAGMA busy_timeout = {_LOCK_ATTEMPT_MS}")
            except (sqlite3.Error, OSError) as error:
                raise RecordingError(write_error(path, error)) from None
            undo.pop_all()
        return file

    def continue_in(self, path: Path, last_ns: int) -> "RecordingFile":
        """Create the next file of a rotated recording, whose last observation was at `last_ns`; see `open`."""
        begin = partial(RecordingFile._continue_capture, previous=self, previous_ns=last_ns)
        return RecordingFile.open(path, begin, append=False)

    @property
    def is_in_place(self) -> bool:
        """Whether the open file is still the one at its path."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self._lock))
        except OSError:
            return False

    @property
    def size(self) -> int:
        """Bytes of the file, with what is in its journal."""
        query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        return int(self.connection.execute(query).fetchone()[0])

    def merge_journal(self) -> None:
        """Merge the journal into the file, so that it begins again, if nothing prevents that."""
        with suppress(sqlite3.Error):
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def write(self, statements: Callable[[], object]) -> sqlite3.Error | None:
        """Run `statements` in a transaction.  Returns the error if SQLite refused; nothing is written then."""
        return write_transaction(self.connection, statements, self.on_locked)

    def connect(self) -> sqlite3.Connection:
        """Open another connection to write.  Raises sqlite3.Error, and RecordingError if the file is not in place."""
        with ExitStack() as undo:
            connection = undo.enter_context(closing(schema.connect(self.path, "rw", _LOCK_PATIENCE_S)))
            connection.execute(f"PRAGMA busy_timeout = {_LOCK_ATTEMPT_MS}")
            connection.execute("PRAGMA synchronous = NORMAL")
            if not self.is_in_place:
                raise RecordingError(f"{self.path} was deleted, moved or replaced.")
            undo.pop_all()
        return connection

    def end(
        self,
        ended_ns: int | None,
        captures: Sequence[Capture] = (),
        redacted_before: int = 0,
        *,
        is_continued: bool = False,
    ) -> None:
        """Store the end of the capture, unless SQLite refuses.

        For `captures` and `redacted_before` see `Writer.close`; `is_continued` tells that another file follows.
        """

        def store_end() -> None:
            count = self.redactor.count + redacted_before
            self.connection.execute(
                "UPDATE recording SET redacted = redacted + ?, continued = ?", (count, int(is_continued))
            )
            self.connection.execute("UPDATE capture SET ended_ns = ? WHERE id = ?", (ended_ns, self.capture))
            if captures:
                self.connection.execute("DELETE FROM capture")
                for each in captures:
                    self._insert_capture(each)

        self.write(store_end)

    def close(self) -> None:
        """Merge the journal into the file, and unlock it.  All other connections must be closed."""
        # This fails only while another process reads the file, or if the disk is full; SQLite then merges the journal
        # when that process ends, or when the file is opened for writing again.
        with suppress(sqlite3.Error):
            self.connection.execute("PRAGMA busy_timeout = 2000")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.execute("PRAGMA journal_mode = DELETE")
        self.connection.close()
        unlock(self._lock)
        self.space.close()

    def _insert_capture(self, capture: Capture, number: int | None = None) -> None:
        (started,) = self.connection.execute("SELECT started_unix_ns FROM recording").fetchone()
        times = {"began": _iso(started + capture.began_ns), "began_ns": capture.began_ns, "ended_ns": capture.ended_ns}
        self._insert("capture", {"id": number, "tool": capture.tool, **times})

    def begin_capture(
        self,
        upstream: str,
        started_unix_ns: int | None,
        policy: RedactionPolicy,
        *,
        contracts: str | None,
        resume: bool,
    ) -> None:
        """Add a row for this capture, and one for the recording if it is new; see `Writer.create`."""
        now_ns = time.time_ns() if started_unix_ns is None else started_unix_ns
        if not self._last_id("recording"):
            row = {"started": _iso(now_ns), "started_unix_ns": now_ns, "salt": secrets.token_bytes(32)}
            self._insert("recording", row)
        recording = self.connection.execute("SELECT * FROM recording WHERE id = 1").fetchone()
        self.redactor = Redactor(recording["salt"], policy)
        upstream = join_upstreams((recording["upstream"], self.redactor.redact_upstream(upstream)))
        self.contracts = contracts or recording["contracts"]
        self.has_new_contracts = self.contracts != recording["contracts"]
        self.connection.execute("UPDATE recording SET upstream = ?, contracts = ?", (upstream, self.contracts))
        self._read_end()
        if not resume:
            self._end_open_exchanges()
            self.began_ns = max(now_ns - recording["started_unix_ns"], self.last_ns + 1)
        self._insert_capture(Capture(_TOOL, self.began_ns, None))
        self.capture = self._last_id("capture")

    def _read_end(self) -> None:
        """Read the last numbers and times, before anything is added."""
        row = self.connection.execute("SELECT upstream, earlier_exchanges FROM recording").fetchone()
        self.upstream, self.earlier_exchanges = row
        self.last_ns = self.connection.execute(_LAST_TIMES).fetchone()[0] or 0
        self.began_ns = self.last_ns + 1
        self.last_exchange = self._last_id("exchange")
        self.last_segment = self._last_id("segment")
        self.last_loss = self._last_id("lost")
        (volume,) = self.connection.execute("SELECT total(request_bytes + response_bytes) FROM exchange").fetchone()
        self.stored_bytes = int(volume)

    def _continue_capture(self, previous: "RecordingFile", previous_ns: int) -> None:
        """Begin the next file of a rotated recording: its times, salt and capture numbers continue."""
        row = dict(previous.connection.execute("SELECT * FROM recording WHERE id = 1").fetchone())
        row |= {"redacted": 0, "indexed_ns": 0, "part": row["part"] + 1}
        row["earlier_exchanges"] = max(row["earlier_exchanges"], previous._last_id("exchange"))  # noqa: SLF001
        self._insert("recording", row)
        self.redactor = previous.redactor
        self.upstream, self.contracts = previous.upstream, previous.contracts
        self.last_ns = previous_ns
        self.last_exchange = self.last_segment = self.last_loss = self.stored_bytes = 0
        self.began_ns = previous_ns + 1
        self.capture = previous.capture + 1
        self._insert_capture(Capture(_TOOL, self.began_ns, None), self.capture)

    def _insert(self, table: str, row: Mapping[str, object]) -> None:
        columns, values = ", ".join(row), ", ".join("?" * len(row))
        self.connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({values})", tuple(row.values()))  # noqa: S608

    def _end_open_exchanges(self) -> None:
        """End the exchanges that were open when the last recorder was killed: their connections are closed."""
        numbers = self.connection.execute("SELECT id FROM exchange WHERE ended_ns IS NULL ORDER BY id").fetchall()
        rows = [(self.last_ns + index, _INTERRUPTED, number) for index, (number,) in enumerate(numbers, 1)]
        self.connection.executemany("UPDATE exchange SET ended_ns = ?, detail = ? WHERE id = ?", rows)
        self.last_ns += len(rows)

    def _last_id(self, table: str) -> int:
        (number,) = self.connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()  # noqa: S608
        return int(number)


def write_transaction(
    connection: sqlite3.Connection, statements: Callable[[], object], on_locked: Callable[[float], bool]
) -> sqlite3.Error | None:
    """Run `statements` in a transaction.  Returns the error if SQLite refused; nothing is written then.

    `on_locked` is called again and again while another connection locks the file; see RecordingFile.
    """
    try:
        _begin(connection, on_locked)
        statements()
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        return error
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
    return None


def _begin(connection: sqlite3.Connection, on_locked: Callable[[float], bool]) -> None:
    """Begin a transaction, once no other connection locks the file.  Raises sqlite3.Error."""
    since = time.monotonic()
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or not on_locked(time.monotonic() - since):
                raise
        else:
            return


def _refuse_continued(connection: sqlite3.Connection, path: Path) -> None:
    """Raise RecordingError if a rotated recording continues in another file, which has the next numbers."""
    if _is_continued(connection):
        raise RecordingError(
            f"{path} is part of a rotated recording that continues in another file: append to the last one."
        )


def _is_continued(connection: sqlite3.Connection) -> bool:
    """Whether another file of a rotated recording follows.  Raises sqlite3.Error."""
    return connection.execute("SELECT 1 FROM recording WHERE continued").fetchone() is not None


def without_unused_part(files: Sequence[Path]) -> Sequence[Path]:
    """Return the files of a rotated recording without the last one, unless the recording continues there.

    A recorder that was killed may have created this file without using it; then it is deleted.  The files before it
    exist until they are handled, which is after the last one is used.  Raises RecordingError.
    """
    *before, last = files
    try:
        if before and before[-1].exists():
            with closing(schema.connect(before[-1], "ro")) as connection:
                if not _is_continued(connection):
                    _delete_if_possible(last)
                    return before
    except sqlite3.Error as error:
        raise RecordingError(write_error(before[-1], error)) from None
    return files


def mark_as_probe(path: Path, results: str) -> None:
    """Store the results of probe cases, as JSON, in the recording of the probe.  Raises RecordingError."""
    try:
        with closing(schema.connect(path, "rw")) as connection:
            connection.execute("UPDATE recording SET probe = ?", (results,))
    except sqlite3.Error as error:
        raise RecordingError(write_error(path, error)) from None


def _iso(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def check_output(path: Path, *, append: bool) -> None:
    """Raise RecordingError if no recording can begin at `path`, as far as that is visible without writing."""
    if path_exists(path) and not append and not _is_empty_file(path):
        raise RecordingError(_exists_error(path))
    check_writable(path, RecordingError)


def check_not_recording(path: Path, option: str) -> None:
    """Raise InputError if the output of `option` would replace a recording by mistake."""
    with suppress(OSError):  # whoever writes there reports what is wrong
        if path.is_file() and schema.is_sqlite_file(path):
            raise InputError(f"{path} is a recording or another database: choose another name for {option}.")


def _claim(path: Path, *, append: bool) -> None:
    """Create an empty file that only its owner can read.  Raises RecordingError if there is one not to append to."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not _is_empty_file(path):
            if not append:
                raise RecordingError(_exists_error(path)) from None
        elif path.stat().st_uid == os.geteuid():
            path.chmod(0o600)
        else:
            # The other user may have opened it already.
            raise RecordingError(f"{path} cannot be written: it belongs to another user.") from None
    except OSError as error:
        raise RecordingError(write_error(path, error)) from None


def _check_companions(path: Path) -> None:
    """Raise RecordingError if a file in which SQLite would store what is recorded belongs to another user."""
    path = Path(os.path.realpath(path))
    owners = {os.geteuid()}
    with suppress(OSError):
        owners.add(path.stat().st_uid)
    for suffix in _COMPANIONS:
        companion = Path(f"{path}{suffix}")
        with suppress(OSError):
            found = companion.lstat()
            if found.st_uid not in owners or not stat.S_ISREG(found.st_mode):
                reason = f"{companion} belongs to another user, or is not a regular file"
                raise RecordingError(f"{path} cannot be written: {reason}.")


def _is_new(path: Path, lock: int, *, append: bool) -> bool:
    """Return whether the file is empty, now that it is locked: another process may have used it a moment ago.

    Raises RecordingError.
    """
    if not os.path.samestat(path.stat(), os.fstat(lock)):
        raise RecordingError(f"{path} was deleted by another process: try again.")
    if _is_empty_file(path):
        return True
    if not append:
        raise RecordingError(_exists_error(path))
    return False


def _is_empty_file(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == 0


def _exists_error(path: Path) -> str:
    try:
        with closing(schema.connect(path)) as connection:
            schema.check_schema(connection, path)
    except (RecordingError, sqlite3.Error, OSError):
        return exists_error(path)
    return exists_error(path, otherwise="append to it with --append")


def lock_for_writing(path: Path) -> int:
    """Lock a recording against other writers.  Raises OSError, and RecordingError if another process has the lock.

    Returns a descriptor that must stay open as long as the connection: closing it would drop SQLite's own locks.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RecordingError(f"Another process is recording to {path}.") from None
    return descriptor


def unlock(descriptor: int) -> None:
    """Release the lock of `lock_for_writing`.

    Closing the descriptor is not enough: a program that another thread is starting still has a copy of it.
    """
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def delete_recording(path: Path) -> None:
    """Delete a recording, if it exists, and its journal.  Raises OSError."""
    path.unlink(missing_ok=True)
    delete_journal(path)


def _delete_if_possible(path: Path) -> None:
    with suppress(OSError):  # files of another user
        delete_recording(path)


def delete_journal(path: Path) -> None:
    """Delete the journal beside a recording: SQLite would apply it to another file of that name.  Raises OSError."""
    for suffix in _JOURNAL:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
