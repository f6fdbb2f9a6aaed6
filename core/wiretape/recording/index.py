"""The `frame` table: where each frame of an event stream stands, and what it says.  Derived from bytes."""

import sqlite3
from bisect import bisect_right
from dataclasses import dataclass

import orjson

from wiretape.contract import is_event_stream
from wiretape.observe import BytesArrived, BytesLost, ExchangeEnded, Observation, ResponseStarted, Side, header
from wiretape.stream import FrameReader, SeenFrame

_INSERT = "INSERT OR REPLACE INTO frame VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LARGEST = 2**63

Row = tuple[object, ...]


@dataclass(slots=True)
class _Stream:
    """An open event stream."""

    reader: FrameReader
    plain: bool
    """Whether the stored bytes are the decoded ones, so that data can be pointed at."""


class Indexer:
    """Folds observations into rows of `frame`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._streams: dict[int, _Stream] = {}
        self._words: dict[str, int] = {}
        self._starts: dict[int, list[int]] = {}
        """For each open exchange, where each segment of its response begins."""

    def segment_stored(self, exchange: int, start: int) -> None:
        """A segment of a response body begins at `start`.  Called before its bytes are fed."""
        self._starts.setdefault(exchange, []).append(start)

    def feed(self, seen: Observation) -> None:
        """Index what the observation completes.  Raises sqlite3.Error."""
        if isinstance(seen, ResponseStarted):
            self._begin(seen)
        elif isinstance(seen, ExchangeEnded):
            self._starts.pop(seen.exchange, None)
            stream = self._streams.pop(seen.exchange, None)
            if stream is not None:
                self._insert(seen.exchange, stream, stream.reader.close())
        elif isinstance(seen, BytesArrived | BytesLost) and seen.side is Side.RESPONSE:
            stream = self._streams.get(seen.exchange)
            if stream is not None:
                frames = stream.reader.feed(seen) if isinstance(seen, BytesArrived) else stream.reader.skip(seen)
                self._insert(seen.exchange, stream, frames)

    def forget_words(self) -> None:
        """After a rollback: what was thought to be in `word` may not be."""
        self._words.clear()

    def _begin(self, seen: ResponseStarted) -> None:
        if is_event_stream(header(seen.headers, "content-type")):
            encoding = header(seen.headers, "content-encoding")
            plain = (encoding or "identity").strip().lower() == "identity"
            self._streams[seen.exchange] = _Stream(FrameReader(encoding), plain)

    def _insert(self, exchange: int, stream: _Stream, frames: list[SeenFrame]) -> None:
        if frames:
            starts = self._starts.get(exchange, []) if stream.plain else []
            self._connection.executemany(_INSERT, [self._row(exchange, starts, seen) for seen in frames])

    def _row(self, exchange: int, starts: list[int], seen: SeenFrame) -> Row:
        frame = seen.frame
        place = (exchange, frame.start, len(frame.raw), self._word(frame.kind), seen.time_ns, seen.event)
        if seen.event is None:
            return (*place, None, None, None, None, None, None, None, None, None)
        says, text = _read(frame.data)
        name = frame.event
        pointer = _pointer(seen, starts) if text is None else None
        if pointer is None and text is None and frame.dispatched:
            text = frame.data.decode()
        return (
            *place,
            self._word(name or None),
            frame.id,
            says.sequence,
            self._word(says.type),
            self._word(says.run_id),
            self._word(says.tool_call_id),
            *(pointer or (None, None)),
            text,
        )

    def _word(self, text: str | None) -> int | None:
        if text is None:
            return None
        number = self._words.get(text)
        if number is None:
            self._connection.execute("INSERT OR IGNORE INTO word (text) VALUES (?)", (text,))
            (number,) = self._connection.execute("SELECT id FROM word WHERE text = ?", (text,)).fetchone()
            if len(self._words) > 100_000:
                self._words.clear()
            self._words[text] = number
        return number


@dataclass(frozen=True, slots=True)
class _Says:
    """What the index keeps of an event's JSON."""

    sequence: int | None = None
    type: str | None = None
    run_id: str | None = None
    tool_call_id: str | None = None


_NOTHING = _Says()


def _read(data: bytes) -> tuple[_Says, str | None]:
    """What the event says; and its data as text where the bytes themselves are no valid text."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            data.decode()
        except UnicodeDecodeError:
            return _NOTHING, data.decode("utf-8", "replace")
        return _NOTHING, None
    if not isinstance(document, dict):
        return _NOTHING, None
    sequence = document.get("sequence")
    return _Says(
        sequence if type(sequence) is int and -_LARGEST <= sequence < _LARGEST else None,
        _string(document, "type"),
        _string(document, "run_id"),
        _string(document.get("content"), "tool_call_id") or _string(document.get("data"), "tool_call_id"),
    ), None


def _string(document: object, key: str) -> str | None:
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, str) else None


def _pointer(seen: SeenFrame, starts: list[int]) -> tuple[int, int] | None:
    """Offset in the frame and length of the only data line's value, when one segment holds it whole."""
    values = seen.frame.values(b"data")
    if len(values) != 1 or not starts:
        return None
    raw, value = seen.frame.raw, values[0]
    for prefix in (b"data: ", b"data:"):
        at = raw.find(prefix + value)
        if at == 0 or (at > 0 and raw[at - 1] in b"\r\n"):
            begin = seen.frame.start + at + len(prefix)
            end = begin + len(value)
            following = bisect_right(starts, begin)
            inside = following > 0 and (following == len(starts) or end <= starts[following])
            return (at + len(prefix), len(value)) if inside else None
    return None
