"""The table `frame`: the position and the main fields of each frame of an event stream, derived from its bytes."""

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import orjson

from wiretape.frame_reader import ReadObservation, SeenFrame
from wiretape.observations import ExchangeEnded, ResponseStarted, header
from wiretape.sse import FrameKind

_INSERT = "INSERT OR REPLACE INTO frame VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LARGEST = 2**63
# A plain string is hashed much faster than the member of an enumeration.
_MESSAGE = FrameKind.MESSAGE.value
_BLANK = FrameKind.BLANK
_NO_EVENT = (None,) * 10
_EMPTY: dict[str, Any] = {}
_USUAL_PREFIX = b"\ndata: "
_Row = tuple[object, ...]
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

    def feed(self, reads: Iterable[ReadObservation]) -> None:
        """Index the frames that observations complete.  Raises sqlite3.Error."""
        rows: list[_Row] = []
        for read in reads:
            seen = read.observation
            if isinstance(seen, ResponseStarted):
                encoding = header(seen.headers, "content-encoding") or "identity"
                self._is_identity[seen.exchange] = encoding.strip().lower() == "identity"
            elif read.frames:
                self._add_rows(rows, seen.exchange, read.frames)
            if isinstance(seen, ExchangeEnded):
                self._starts.pop(seen.exchange, None)
                self._is_identity.pop(seen.exchange, None)
        if rows:
            self._connection.executemany(_INSERT, rows)

    def continue_in(self, connection: sqlite3.Connection) -> None:
        """Write into the next file of a rotated recording."""
        self._connection = connection
        self.forget_words()

    def forget_words(self) -> None:
        """Forget which texts the table `word` contains: a rollback may have removed some."""
        self._words.clear()

    def _add_rows(self, rows: list[_Row], exchange: int, frames: Sequence[SeenFrame]) -> None:
        starts = self._starts.get(exchange, []) if self._is_identity[exchange] else []
        rows += [self._row(exchange, starts, seen) for seen in _join_blank_lines(frames)]
        del starts[: max(0, bisect_right(starts, frames[-1].frame.start) - 1)]

    def _row(self, exchange: int, starts: list[int], seen: SeenFrame) -> _Row:
        # This runs for every event: reading a field by its name, or calling a function, takes as long as the rest.
        frame, time_ns, event = seen
        kind, start, raw, fields, _ = frame
        if event is None:
            return (exchange, start, len(raw), self._word(kind), time_ns, *_NO_EVENT)
        lines, name, identity = [], b"", None
        for key, value in fields:
            if key == b"data":
                lines.append(value)
            elif key == b"event":
                name = value
            elif key == b"id" and 0 not in value:
                identity = value
        data = lines[0] if len(lines) == 1 else b"\n".join(lines)
        document, text = _EMPTY, None
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            text = _replace_invalid(data)
        if type(document) is not dict:
            document = _EMPTY
        pointer: tuple[int | None, int | None] | None = None
        if text is None:
            pointer = _pointer(start, raw, data, starts) if len(lines) == 1 and starts else None
            if pointer is None and lines:
                text = data.decode()
        sequence, type_, run_id = document.get("sequence"), document.get("type"), document.get("run_id")
        call_id = _call_id(document.get("content")) or _call_id(document.get("data"))
        word = self._word
        return (
            exchange,
            start,
            len(raw),
            word(_MESSAGE),
            time_ns,
            event,
            word(name.decode("utf-8", "replace")) if name else None,
            identity.decode("utf-8", "replace") if identity is not None else None,
            sequence if type(sequence) is int and -_LARGEST <= sequence < _LARGEST else None,
            word(type_) if type(type_) is str else None,
            word(run_id) if type(run_id) is str else None,
            word(call_id) if call_id is not None else None,
            *(pointer or (None, None)),
            text,
        )

    def _word(self, text: str) -> int:
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


def _replace_invalid(data: bytes) -> str | None:
    """Return data that is not valid UTF-8 as text; None if it is valid."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")
    return None


def _call_id(part: object) -> str | None:
    """Return the tool call id in the `content` or `data` of an event."""
    value = part.get("tool_call_id") if type(part) is dict else None
    return value if type(value) is str else None


def _pointer(start: int, raw: bytes, value: bytes, starts: list[int]) -> tuple[int, int] | None:
    """Return offset in the frame and length of the only data value, if one segment contains all of it."""
    at = len(raw) - len(value) - 2
    # Nearly all frames end with the value and two LF.
    if not (
        raw.startswith(_USUAL_PREFIX, at - len(_USUAL_PREFIX)) and raw.endswith(b"\n\n") and raw.startswith(value, at)
    ):
        at = _find_value(raw, value)
    begin = start + at
    following = bisect_right(starts, begin)
    inside = at >= 0 and following > 0 and (following == len(starts) or begin + len(value) <= starts[following])
    return (at, len(value)) if inside else None


def _find_value(raw: bytes, value: bytes) -> int:
    """Return the offset of the value of the only data line; negative if it is not found."""
    for prefix in (b"data: ", b"data:"):
        at = raw.find(prefix + value)
        if at == 0 or (at > 0 and raw[at - 1] in b"\r\n"):
            return at + len(prefix)
    return -1
