"""The SQLite file under a recording that is being written."""

import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import orjson
from sqlite_utils import Database

from wiretape import __version__
from wiretape.errors import InputError, RecordingError
from wiretape.files import check_writable, exists_error, path_exists, write_error
from wiretape.recording import schema
from wiretape.recording.model import Capture
from wiretape.recording.reader import open_database
from wiretape.recording.redact import Policy, Redactor
from wiretape.safe_text import printable

_LAST_TIMES = """
SELECT max(t) FROM (
  SELECT max(started_ns, coalesce(request_ended_ns, 0), coalesce(responded_ns, 0), coalesce(ended_ns, 0)) AS t
  FROM exchange
  UNION ALL SELECT max(time_ns) FROM lost
  UNION ALL SELECT max(indexed_ns, coalesce(ended_ns, 0), began_ns) FROM capture
  UNION ALL SELECT s.time_ns + coalesce((SELECT max(value) FROM json_each(s.chunks) WHERE key % 2 = 1), 0)
  FROM segment s WHERE s.id > (SELECT max(id) - 10000 FROM segment))
"""


class OpenFile:
    """A recording opened for writing: the connection, and where numbering goes on."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, lock: int, *, upstream: str, started_unix_ns: int | None
    ) -> None:
        self.connection = connection
        self._path = path
        self._lock = lock
        self._begin(upstream, time.time_ns() if started_unix_ns is None else started_unix_ns)

    @classmethod
    def create(cls, path: Path, *, upstream: str, append: bool, started_unix_ns: int | None = None) -> "OpenFile":
        """See `Writer.create`."""
        fresh = _claim(path, append=append)
        try:
            lock = claim_writing(path)
            connection = sqlite3.connect(path, timeout=30, isolation_level=None)
            connection.row_factory = sqlite3.Row
            if not fresh:
                schema.check(connection, path)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            if fresh:
                schema.create(connection)
            return cls(connection, path, lock, upstream=upstream, started_unix_ns=started_unix_ns)
        except BaseException as error:
            if fresh:
                remove(path)
            if isinstance(error, sqlite3.Error | OSError):
                raise RecordingError(write_error(path, error)) from None
            raise

    @property
    def in_place(self) -> bool:
        """Whether the file that is written to is still the one at its path."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._lock))
        except OSError:
            return False

    def attempt(self, write: Callable[[], object]) -> sqlite3.Error | None:
        """Run `write` in a transaction, all or nothing; returns the SQLite error that stopped it, if one did."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            write()
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self.connection.in_transaction:
                with suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
            return error
        return None

    def close(
        self, ended_ns: int | None, captures: Sequence[Capture] = (), redacted_before: int = 0
    ) -> sqlite3.Error | None:
        """Note the end, and make the one file all there is: no `-wal` beside it.  Returns what stopped the note.

        For `captures` and `redacted_before` see `Writer.close`.
        """

        def note() -> None:
            count = self.redactor.count + redacted_before
            self.connection.execute("UPDATE recording SET redacted = redacted + ?", (count,))
            self.connection.execute("UPDATE capture SET ended_ns = ? WHERE id = ?", (ended_ns, self.capture))
            if captures:
                self._replace(captures)

        error = self.attempt(note)
        # Fails only while somebody reads the file; SQLite then tidies up when they are done.
        with suppress(sqlite3.Error):
            self.connection.execute("PRAGMA busy_timeout = 2000")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.execute("PRAGMA journal_mode = DELETE")
        self.connection.close()
        os.close(self._lock)
        return error

    def _replace(self, captures: Sequence[Capture]) -> None:
        database = Database(self.connection, execute_plugins=False)
        (indexed_ns,) = self.connection.execute("SELECT max(indexed_ns) FROM capture").fetchone()
        (started,) = self.connection.execute("SELECT started_unix_ns FROM recording").fetchone()
        database.table("capture").delete_where()
        for each in captures:
            row = {"tool": each.tool, "began": _iso(started + each.began_ns), "indexed_ns": indexed_ns}
            database.table("capture").insert({**row, "began_ns": each.began_ns, "ended_ns": each.ended_ns})

    def _begin(self, upstream: str, now_ns: int) -> None:
        database = Database(self.connection, execute_plugins=False)
        if not database.table("recording").count:
            database.table("recording").insert(_head(upstream, now_ns))
        head = database.table("recording").get(1)
        self.redactor = Redactor(head["salt"])
        self.last_ns: int = self.connection.execute(_LAST_TIMES).fetchone()[0] or 0
        self.last_exchange = self._greatest("exchange")
        self.last_segment = self._greatest("segment")
        self.began_ns: int = max(now_ns - head["started_unix_ns"], self.last_ns + 1)
        row = {
            "tool": f"wiretape {__version__}",
            "began": _iso(now_ns),
            "began_ns": self.began_ns,
            "indexed_ns": self.began_ns,
        }
        database.table("capture").insert(row)
        self.capture = self._greatest("capture")

    def _greatest(self, table: str) -> int:
        (number,) = self.connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()  # noqa: S608
        return int(number)


def _head(upstream: str, now_ns: int) -> dict[str, object]:
    return {
        "id": 1,
        "format": schema.FORMAT,
        "upstream": upstream,
        "started": _iso(now_ns),
        "started_unix_ns": now_ns,
        "salt": secrets.token_bytes(32),
        "redaction": orjson.dumps(asdict(Policy())).decode(),
        "redacted": 0,
    }


def _iso(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def check_output(path: Path, *, append: bool) -> None:
    """Raises RecordingError when it can be seen, without touching anything, that no recording can begin at `path`."""
    if path_exists(path) and not append and not (path.is_file() and path.stat().st_size == 0):
        raise RecordingError(_taken(path))
    check_writable(path, RecordingError)


def spare_recording(path: Path, option: str) -> None:
    """Raises InputError where what `option` writes would replace a recording, by a slip of the hand."""
    with suppress(OSError):  # who writes there will say what is wrong with it
        if path.is_file() and schema.begins_like_sqlite(path):
            said = printable(str(path))
            raise InputError(f"{said} is a recording or another database: give {option} another name.")


def _claim(path: Path, *, append: bool) -> bool:
    """Make an empty file that only its owner can read.  False: there is one, and it is to be appended to."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.is_file() and path.stat().st_size == 0:
            path.chmod(0o600)
            return True
        if append:
            return False
        raise RecordingError(_taken(path)) from None
    except OSError as error:
        raise RecordingError(write_error(path, error)) from None
    return True


def _taken(path: Path) -> str:
    try:
        open_database(path).close()
    except RecordingError:
        return exists_error(path)
    return exists_error(path, otherwise="go on in it with --append")


def claim_writing(path: Path) -> int:
    """Keep a second writer out.  Raises RecordingError where there is one, and OSError.

    The descriptor stays open as long as the connection, because closing it would drop SQLite's own locks.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RecordingError(f"{path} is being recorded to by another process.") from None
    return descriptor


def remove(path: Path) -> None:
    """Remove a recording, if there is one, and what SQLite keeps beside it.  Raises OSError."""
    path.unlink(missing_ok=True)
    remove_beside(path)


def remove_beside(path: Path) -> None:
    """Remove what SQLite keeps beside a recording: it would be taken for part of another that comes in its place.

    Raises OSError.
    """
    for name in ("-wal", "-shm"):
        Path(f"{path}{name}").unlink(missing_ok=True)
