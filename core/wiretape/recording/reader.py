"""Reading a recording: the heads, the bytes, the frames, and all of it as it was observed."""

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import dropwhile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlite_utils import Database

from wiretape.content_encoding import is_identity
from wiretape.errors import RecordingError
from wiretape.files import is_pipe, read_error
from wiretape.frame_reader import SeenFrame, StreamPosition, read_frames
from wiretape.observations import BytesArrived, BytesLost, Ending, Observation, Side
from wiretape.recording import growth, lookup, merge, schema
from wiretape.recording.growth import Progress
from wiretape.recording.lookup import IndexedEvent, Silence
from wiretape.recording.model import Capture, Exchange, RecordingInfo
from wiretape.recording.segments import COLUMNS, unpack

_WHERE = "WHERE exchange_id = :exchange AND response = :response"
_BODY = (
    f"SELECT {COLUMNS} FROM segment {_WHERE} AND start >= "  # noqa: S608 - constants
    f"coalesce((SELECT max(start) FROM segment {_WHERE} AND start <= :start), 0) ORDER BY start"
)
_LOST = f"SELECT * FROM lost {_WHERE} AND start >= :start ORDER BY start"  # noqa: S608 - a constant


def open_database(path: Path, *, called: Path | None = None) -> "Recording":
    """Open the SQLite file of a recording read-only; `called` is the name that it goes by where that is another one.

    Raises RecordingError when there is no such file, or it is no recording, or one of a newer format.
    """
    _must_be_a_file(path)
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA trusted_schema = OFF")
        schema.check(connection, path)
        schema.check_begun(connection, path)
    except sqlite3.Error as error:
        raise RecordingError(f"{path} cannot be read: {error}.") from None
    return Recording(called or path, connection)


def _must_be_a_file(path: Path) -> None:
    try:
        if is_pipe(path):
            raise RecordingError(
                f"{path} is a pipe, and a recording is not read from end to end: save it to a file, and give that."
            )
    except OSError as error:
        raise RecordingError(read_error(path, error)) from None
    if not path.is_file():
        raise RecordingError(
            f"{path} is {'a directory, not' if path.is_dir() else 'no regular file, so not'} a recording."
        )


class Recording:
    """A recording opened for reading.  A context manager; everything raises RecordingError on a damaged file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        with _damage(path):
            self.info = _info(Database(connection, execute_plugins=False))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    def observations(self) -> Iterator[Observation]:
        """Everything seen, in order of time: what the live checks saw, as they saw it.  Streams."""
        with _damage(self.path):
            yield from merge.observations(self._connection)

    def progress(self) -> Progress:
        """Up to where the recording goes now, for one that is still being written."""
        with _damage(self.path):
            return growth.progress(self._connection)

    def between(self, after: Progress, until: Progress) -> Iterator[Observation]:
        """What was seen after `after`, up to `until`, in order of time.  Streams."""
        with _damage(self.path):
            yield from growth.between(self._connection, after, until)

    def exchanges(self, after: int = -(2**63)) -> Iterator[Exchange]:
        """The exchanges of a number above `after`, in the order in which they began."""
        with _damage(self.path):
            for row in self._connection.execute("SELECT * FROM exchange WHERE id > ? ORDER BY id", (after,)):
                yield _exchange(row)

    def exchange(self, number: int) -> Exchange:
        """One exchange.  Raises RecordingError when there is none of that number."""
        with _damage(self.path):
            # A number that SQLite cannot hold is one that no exchange has.
            known = min(max(number, -1), 2**62)
            row = self._connection.execute("SELECT * FROM exchange WHERE id = ?", (known,)).fetchone()
            if row is not None:
                return _exchange(row)
            first, last = self._connection.execute("SELECT min(id), max(id) FROM exchange").fetchone()
        there = "it has none" if first is None else f"they go from {first} to {last}"
        raise RecordingError(f"{self.path} has no exchange {number}: {there}.")

    def body(self, number: int, side: Side, start: int = 0) -> Iterator[BytesArrived | BytesLost]:
        """A body as it came off the wire: chunks with their times, and what is missing.  Streams.

        It begins with the run that holds offset `start`, which is not cut.
        """
        place = {"exchange": number, "response": int(side is Side.RESPONSE), "start": start}
        with _damage(self.path):
            gaps = [merge.lost(row) for row in self._connection.execute(_LOST, place)]
            for row in self._connection.execute(_BODY, place):
                while gaps and gaps[0].start <= row["start"]:
                    yield gaps.pop(0)
                yield unpack(row)
            yield from gaps

    def frames(self, number: int, event: int = 1) -> Iterator[SeenFrame]:
        """The frames of an event stream, decoded and numbered, from message number `event` on.  Streams.

        What stands before that message is not read, where the index tells its place in a body that is not encoded.
        """
        encoding = self.exchange(number).content_encoding
        place = self.place(number, event) if event > 1 and is_identity(encoding) else None
        if place is not None:
            found = read_frames(encoding, self.body(number, Side.RESPONSE, place.start), place)
            first = next(found, None)
            # Bytes are the truth: where the index says something else than they do, it is of no use.
            if first is not None and (first.event, first.frame.start) == (event, place.start):
                yield first
                yield from found
                return
        every = read_frames(encoding, self.body(number, Side.RESPONSE))
        yield from every if event <= 1 else dropwhile(lambda seen: (seen.event or 0) < event, every)

    def place(self, number: int, event: int) -> StreamPosition | None:
        """The place just before a message of a stream, by the index; None where the index does not have it."""
        with _damage(self.path):
            return lookup.place(self._connection, number, min(max(event, 0), 2**62))

    def place_from(self, number: int, offset: int) -> StreamPosition | None:
        """The place just before the first message of a stream at or behind an offset, by the index; None without."""
        with _damage(self.path):
            return lookup.place_from(self._connection, number, offset)

    def has_id(self, number: int, sse_id: str) -> bool:
        """Whether a message of a stream has this SSE id, by the index."""
        query = "SELECT 1 FROM frame WHERE exchange_id = ? AND sse_id = ? LIMIT 1"
        with _damage(self.path):
            return self._connection.execute(query, (number, sse_id)).fetchone() is not None

    def first_indexed(self, number: int, event: int, type_: str) -> int | None:
        """The number of the first message of a type, from message number `event` on, by the index."""
        with _damage(self.path):
            return lookup.first(self._connection, number, event, type_)

    def silences(self, number: int, least_ns: int, most: int) -> list[Silence]:
        """The `most` longest times of `least_ns` and more before a message of a stream, in order, by the index."""
        with _damage(self.path):
            return lookup.silences(self._connection, number, least_ns, most)

    def last_indexed_ns(self, number: int) -> int | None:
        """When the last frame of a stream came, by the index; None where there is none."""
        with _damage(self.path):
            query = "SELECT max(time_ns) FROM frame WHERE exchange_id = ?"
            time_ns: int | None = self._connection.execute(query, (number,)).fetchone()[0]
            return time_ns

    def indexed(self, number: int, until: int, without: Collection[str] = ()) -> Iterator[IndexedEvent]:
        """What the index says of the messages before the offset `until`, but those of the types `without`.  Streams."""
        with _damage(self.path):
            yield from lookup.events(self._connection, number, until, without)

    def captures(self) -> list[Capture]:
        """The runs of recorders that made it, in order."""
        with _damage(self.path):
            rows = self._connection.execute("SELECT tool, began_ns, ended_ns FROM capture ORDER BY id")
            return [Capture(row["tool"], row["began_ns"], row["ended_ns"]) for row in rows]

    def findings(self, after: int = 0, until: int = 2**62, exchange: int | None = None) -> Iterator[dict[str, Any]]:
        """The live findings, as stored: one dict a row of `finding`, those with an `id` above `after` up to `until`.

        With `exchange`, only those about it.
        """
        with _damage(self.path):
            chosen = "id > :after AND id <= :until AND (:exchange IS NULL OR exchange_id = :exchange)"
            query = f"SELECT * FROM finding WHERE {chosen} ORDER BY id"  # noqa: S608 - a constant
            parameters = {"after": after, "until": until, "exchange": exchange}
            for row in self._connection.execute(query, parameters):
                yield dict(row)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Say in one sentence what a damaged or malicious file makes Python say in many."""
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, KeyError, IndexError) as error:
        raise RecordingError(f"{path} is damaged: {error}.") from error


def _info(database: Database) -> RecordingInfo:
    head = database.table("recording").get(1)
    capture = next(iter(database.query("SELECT * FROM capture ORDER BY id DESC LIMIT 1")))
    return RecordingInfo(
        format=head["format"],
        tool=capture["tool"],
        upstream=head["upstream"],
        started=datetime.fromtimestamp(head["started_unix_ns"] / 1e9, UTC),
        ended_ns=capture["ended_ns"],
        redacted=head["redacted"],
        started_unix_ns=head["started_unix_ns"],
    )


def _exchange(row: sqlite3.Row) -> Exchange:
    return Exchange(
        number=row["id"],
        request=merge.request(row),
        request_ended_ns=row["request_ended_ns"],
        response=merge.response(row) if row["status"] is not None else None,
        ending=Ending(row["ending"]),
        detail=row["detail"],
        ended_ns=row["ended_ns"],
        operation=row["operation"],
        session_id=row["session_id"],
        run_id=row["run_id"],
        request_bytes=row["request_bytes"],
        response_bytes=row["response_bytes"],
        lost_bytes=row["lost_bytes"],
    )
