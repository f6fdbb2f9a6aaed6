"""The table `frame`: the position and the main fields of each frame of an event stream, derived from its bytes."""

import sqlite3
from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import orjson

from wiretape.frame_reader import ReadObservation, SeenFrame
from wiretape.observations import ExchangeEnded, ResponseStarted, header
from wiretape.sse import Frame, FrameKind

_INSERT = "INSERT OR REPLACE INTO frame VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LARGEST = 2**63
# A plain string is hashed much faster than the member of an enumeration.
_MESSAGE = FrameKind.MESSAGE.value
_BLANK = FrameKind.BLANK
_NO_EVENT = (None,) * 10
_MOST_WORDS = 10_000
"""Texts whose numbers are remembered."""
_MOST_STARTS = 10_000
"""Segments of a response that are remembered until their frames are indexed."""


class FrameIndex:
    """Writes the frames that observations complete into the table `frame`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._is_identity: dict[int, bool] = {}
        """For each open response: whether its stored bytes are not encoded, so that rows can point at them."""
        self._words: dict[str, int] = {}
        self._starts: dict[int, list[int]] = {}
        """For each open exchange: the offsets at which the segments of its response begin."""

    def add_segment(self, exchange: int, start: int) -> None:
        """Note that a segment of a response body begins at `start`.  Call this before feeding its bytes."""
        starts = self._starts.setdefault(exchange, [])
        starts.append(start)
        if len(starts) > _MOST_STARTS:
            del starts[: _MOST_STARTS // 2]

    def feed(self, read: ReadObservation) -> None:
        """Index the frames that an observation completes.  Raises sqlite3.Error."""
        seen = read.observation
        if isinstance(seen, ResponseStarted):
            encoding = header(seen.headers, "content-encoding") or "identity"
            self._is_identity[seen.exchange] = encoding.strip().lower() == "identity"
        elif read.frames:
            self._insert(seen.exchange, read.frames)
        if isinstance(seen, ExchangeEnded):
            self._starts.pop(seen.exchange, None)
            self._is_identity.pop(seen.exchange, None)

    def continue_in(self, connection: sqlite3.Connection) -> None:
        """Write into the next file of a rotated recording."""
        self._connection = connection
        self.forget_words()

    def forget_words(self) -> None:
        """Forget which texts the table `word` contains: a rollback may have removed some."""
        self._words.clear()

    def _insert(self, exchange: int, frames: Sequence[SeenFrame]) -> None:
        starts = self._starts.get(exchange, []) if self._is_identity[exchange] else []
        self._connection.executemany(_INSERT, [self._row(exchange, starts, seen) for seen in _join_blank_lines(frames)])
        del starts[: max(0, bisect_right(starts, frames[-1].frame.start) - 1)]

    def _row(self, exchange: int, starts: list[int], seen: SeenFrame) -> tuple[object, ...]:
        frame = seen.frame
        extent = (exchange, frame.start, len(frame.raw))
        if seen.event is None:
            return (*extent, self._word(frame.kind), seen.time_ns, *_NO_EVENT)
        lines = frame.values(b"data")
        data = b"\n".join(lines)
        fields, text = _read_fields(data)
        pointer = None
        if text is None:
            pointer = _pointer(frame, lines[0], starts) if len(lines) == 1 else None
            if pointer is None and lines:
                text = data.decode()
        return (
            *extent,
            self._word(_MESSAGE),
            seen.time_ns,
            seen.event,
            self._word(frame.event or None),
            frame.id,
            fields.sequence,
            self._word(fields.type),
            self._word(fields.run_id),
            self._word(fields.tool_call_id),
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
            if len(self._words) > _MOST_WORDS:
                self._words.clear()
            self._words[text] = number
        return number


def _join_blank_lines(frames: Sequence[SeenFrame]) -> Sequence[SeenFrame]:
    """Join consecutive blank lines of one chunk into one frame: there can be millions."""
    first, last = frames[0].event, frames[-1].event
    if first is not None and last is not None and last - first == len(frames) - 1:
        return frames  # events only, as nearly always
    runs: list[SeenFrame] = []
    for is_blank, group in groupby(frames, lambda seen: seen.frame.kind is _BLANK and seen.time_ns):
        if is_blank is False:
            runs += group
        else:
            begin, *more = group
            raw = b"".join([begin.frame.raw, *(seen.frame.raw for seen in more)])
            runs.append(begin._replace(frame=begin.frame._replace(raw=raw)))
    return runs


class _Fields(NamedTuple):
    """The fields of an event's JSON that the index keeps."""

    sequence: int | None = None
    type: str | None = None
    run_id: str | None = None
    tool_call_id: str | None = None


_NO_FIELDS = _Fields()


def _read_fields(data: bytes) -> tuple[_Fields, str | None]:
    """Return the fields of an event, and its data as text if the bytes are not valid UTF-8."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            data.decode()
        except UnicodeDecodeError:
            return _NO_FIELDS, data.decode("utf-8", "replace")
        return _NO_FIELDS, None
    if not isinstance(document, dict):
        return _NO_FIELDS, None
    sequence = document.get("sequence")
    return _Fields(
        sequence if type(sequence) is int and -_LARGEST <= sequence < _LARGEST else None,
        _string(document, "type"),
        _string(document, "run_id"),
        _string(document.get("content"), "tool_call_id") or _string(document.get("data"), "tool_call_id"),
    ), None


def _string(document: object, key: str) -> str | None:
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, str) else None


def _pointer(frame: Frame, value: bytes, starts: list[int]) -> tuple[int, int] | None:
    """Return offset in the frame and length of the only data value, if one segment contains all of it."""
    if not starts:
        return None
    raw = frame.raw
    for prefix in (b"data: ", b"data:"):
        at = raw.find(prefix + value)
        if at == 0 or (at > 0 and raw[at - 1] in b"\r\n"):
            begin = frame.start + at + len(prefix)
            end = begin + len(value)
            following = bisect_right(starts, begin)
            inside = following > 0 and (following == len(starts) or end <= starts[following])
            return (at + len(prefix), len(value)) if inside else None
    return None
