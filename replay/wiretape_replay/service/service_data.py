"""The data of a service in one SQLite file: sessions, commands, events and responses."""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass
from pathlib import Path

import orjson

from wiretape.errors import InputError
from wiretape.files import write_error
from wiretape.safe_text import printable
from wiretape_replay.service.engine.commands import Command, CommandKind
from wiretape_replay.session.session_log import LogEntry

_APPLICATION = 0x77747376
"""SQLite's application id of the file: `wtsv`."""
_FORMAT = 1
_SEED_LIMIT = 2**63
"""SQLite cannot store larger numbers."""

_TABLES: dict[str, tuple[dict[str, type], str | tuple[str, ...]]] = {
    "service": ({"id": int, "seed": int, "epoch_unix_us": int, "starts": int}, "id"),
    "scenario": ({"id": int, "name": str, "text": str}, "id"),
    "session": (
        {"number": int, "id": str, "tenant": str, "workspace": str, "scenario": int, "created_ns": int},
        "number",
    ),
    "command": ({"id": int, "session": int, "time_ns": int, "do": str, "run_id": str, "body": str}, "id"),
    "event": (
        {"session": int, "place": int, "time_ns": int, "id": str, "type": str, "run_id": str, "data": bytes},
        ("session", "place"),
    ),
    "answer": ({"tenant": str, "key": str, "request": bytes, "status": int, "body": bytes}, ("tenant", "key")),
}
_LAST_TIME = """
SELECT max(t) FROM (
  SELECT max(time_ns) AS t FROM event UNION ALL SELECT max(time_ns) FROM command
  UNION ALL SELECT max(created_ns) FROM session)
"""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A row of `session`: a session as it was created."""

    number: int
    """The number of the session within the service, from 1."""
    id: str
    tenant: str
    workspace: str
    scenario: int
    """The id of its row of `scenario`."""
    created_ns: int


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A row of `answer`: the response to a request with an idempotency key."""

    tenant: str
    key: str
    request: bytes
    """A digest of the request."""
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that are written in one transaction."""

    session: StoredSession | None = None
    commands: Sequence[tuple[int, Command]] = ()
    """With the numbers of their sessions."""
    events: Sequence[tuple[int, int, LogEntry]] = ()
    """With the numbers of their sessions, and their numbers within the session, from 1."""
    response: StoredResponse | None = None


class ServiceData:
    """The open file, locked against other services.

    After `write` returned, the rows survive the end of the process; a power cut may lose the last moments.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, lock: int) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        row = connection.execute("SELECT seed, epoch_unix_us, starts FROM service").fetchone()
        self.seed: int = row["seed"]
        self.epoch_unix_us: int = row["epoch_unix_us"]
        """The start of its time, in microseconds since 1970."""
        self.starts: int = row["starts"]
        """How often the file was opened, including this time."""

    @classmethod
    def open(cls, path: Path, *, seed: int | None, epoch_unix_us: int) -> "ServiceData":
        """Open or create a file.  A new one gets `epoch_unix_us` and `seed` (None: 0).  Raises InputError."""
        if seed is not None and not -_SEED_LIMIT <= seed < _SEED_LIMIT:
            raise InputError(f"Invalid seed {seed}: expected a whole number from -2^63 to 2^63 - 1.")
        is_new = _create_file(path)
        lock = _lock(path)
        with ExitStack() as on_error:
            on_error.callback(os.close, lock)
            try:
                connection = sqlite3.connect(path, timeout=30, isolation_level=None)
                on_error.callback(connection.close)
                _prepare(connection, path, is_new=is_new, seed=seed, epoch_unix_us=epoch_unix_us)
            except sqlite3.Error as error:
                raise InputError(f"{printable(str(path))} is not a `wiretape serve` data file: {error}.") from None
            on_error.pop_all()
        return cls(connection, path, lock)

    def last_ns(self) -> int:
        """The time of the last row."""
        return int(self._connection.execute(_LAST_TIME).fetchone()[0] or 0)

    def scenario(self, name: str, text: str) -> int:
        """Store a scenario unless it is stored already; return its id."""
        find = "SELECT id FROM scenario WHERE name = ? AND text = ?"
        row = self._connection.execute(find, (name, text)).fetchone()
        if row is None:
            self._connection.execute("INSERT INTO scenario (name, text) VALUES (?, ?)", (name, text))
            row = self._connection.execute(find, (name, text)).fetchone()
        return int(row["id"])

    def scenario_texts(self) -> dict[int, str]:
        """The texts of all scenarios by id; empty for a scenario that a program built."""
        return {row["id"]: row["text"] for row in self._connection.execute("SELECT id, text FROM scenario")}

    def sessions(self) -> Iterator[StoredSession]:
        """All of them, in the order in which they were created."""
        columns = "number, id, tenant, workspace, scenario, created_ns"
        for row in self._connection.execute(f"SELECT {columns} FROM session ORDER BY number"):  # noqa: S608
            yield StoredSession(*row)

    def commands(self, session: int) -> Iterator[Command]:
        """The commands of a session, in order."""
        query = "SELECT do, time_ns, run_id, body FROM command WHERE session = ? ORDER BY id"
        for do, time_ns, run_id, body in self._connection.execute(query, (session,)):
            yield Command(CommandKind(do), time_ns, run_id, None if body is None else orjson.loads(body))

    def events(self, session: int) -> list[bytes]:
        """The bytes of the events of a session, in order."""
        query = "SELECT data FROM event WHERE session = ? ORDER BY place"
        return [data for (data,) in self._connection.execute(query, (session,))]

    def response(self, tenant: str, key: str) -> StoredResponse | None:
        """The response to the request of a tenant with an idempotency key; None if there was none."""
        query = "SELECT tenant, key, request, status, body FROM answer WHERE tenant = ? AND key = ?"
        row = self._connection.execute(query, (tenant, key)).fetchone()
        return None if row is None else StoredResponse(*row)

    def write(self, change: Change) -> None:
        """Write all rows, or none.  Raises InputError."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._insert(change)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise InputError(f"{printable(str(self.path))} cannot be written: {error}.") from None

    def close(self) -> None:
        """Close the file and remove SQLite's files next to it."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        os.close(self._lock)

    def _insert(self, change: Change) -> None:
        if (session := change.session) is not None:
            self._connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", astuple(session))
        self._connection.executemany(
            "INSERT INTO command (session, time_ns, do, run_id, body) VALUES (?, ?, ?, ?, ?)",
            (_command_row(*command) for command in change.commands),
        )
        self._connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)", _event_rows(change.events))
        if (response := change.response) is not None:
            self._connection.execute("INSERT INTO answer VALUES (?, ?, ?, ?, ?)", astuple(response))


def _command_row(session: int, command: Command) -> tuple[object, ...]:
    body = None if command.body is None else orjson.dumps(command.body).decode()
    return session, command.time_ns, command.kind.value, command.run_id, body


def _event_rows(events: Iterable[tuple[int, int, LogEntry]]) -> Iterator[tuple[object, ...]]:
    for session, place, entry in events:
        yield session, place, entry.time_ns, entry.id, entry.type, entry.run_id, entry.data


def _create_file(path: Path) -> bool:
    """Create an empty file that only its owner can read; False if it exists and is not empty."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return path.is_file() and path.stat().st_size == 0
    except OSError as error:
        raise InputError(write_error(path, error)) from None
    return True


def _lock(path: Path) -> int:
    """Lock out other services.  The descriptor has to stay open: closing it would drop SQLite's own locks."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        raise InputError(write_error(path, error)) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(f"{printable(str(path))} is in use by another `wiretape serve` process.") from None
    return descriptor


def _prepare(connection: sqlite3.Connection, path: Path, *, is_new: bool, seed: int | None, epoch_unix_us: int) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA trusted_schema = OFF")
    is_new = is_new or not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not is_new:
        _check(connection, path, seed)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if is_new:
        _create(connection, seed or 0, epoch_unix_us)
    connection.execute("UPDATE service SET starts = starts + 1")


def _check(connection: sqlite3.Connection, path: Path, seed: int | None) -> None:
    """Raises InputError if the file cannot be used."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (form,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise InputError(f"{printable(str(path))} is not a `wiretape serve` data file: choose another file for --data.")
    if form != _FORMAT:
        raise InputError(
            f"{printable(str(path))} has format {form}; this version of wiretape can only read format {_FORMAT}."
        )
    (its_seed,) = connection.execute("SELECT seed FROM service").fetchone()
    if seed is not None and seed != its_seed:
        raise InputError(
            f"{printable(str(path))} was created with --seed {its_seed}: use that seed, or leave out --seed."
        )


def _create(connection: sqlite3.Connection, seed: int, epoch_unix_us: int) -> None:
    # sqlite-utils imports pandas if it is installed, and a service that continues needs neither.
    from sqlite_utils import Database  # noqa: PLC0415

    connection.execute("BEGIN IMMEDIATE")
    database = Database(connection, execute_plugins=False)
    for name, (columns, key) in _TABLES.items():
        database.table(name).create(columns, pk=key)
    database.table("session").create_index(["id"], unique=True)
    database.table("command").create_index(["session"])
    connection.execute("INSERT INTO service VALUES (1, ?, ?, 0)", (seed, epoch_unix_us))
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_FORMAT}")
    connection.execute("COMMIT")
