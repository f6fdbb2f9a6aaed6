"""The table `frame`: the position and the main fields of each frame of an event stream, derived from its bytes."""

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby

from wiretape.event import Event, TimedFrame
from wiretape.event_preview import is_utf8
from wiretape.frame_reader import ReadObservation
from wiretape.observations import ExchangeEnded, ResponseStarted, header
from wiretape.sse import FrameKind

_INSERT = "INSERT OR REPLACE INTO frame VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LARGEST = 2**63
# A plain string is hashed much faster than the member of an enumeration.
_MESSAGE = FrameKind.MESSAGE.value
_BLANK = FrameKind.BLANK
_NO_EVENT = (None,) * 10
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
        self._starts.clear()
        self.forget_words()

    def forget_words(self) -> None:
        """Forget which texts the table `word` contains: a rollback may have removed some."""
        self._words.clear()

    def _add_rows(self, rows: list[_Row], exchange: int, frames: Sequence[TimedFrame]) -> None:
        starts = self._starts.get(exchange, []) if self._is_identity[exchange] else []
        rows += [self._row(exchange, starts, seen) for seen in _join_blank_lines(frames)]
        del starts[: max(0, bisect_right(starts, frames[-1].frame.start) - 1)]

    def _row(self, exchange: int, starts: list[int], seen: TimedFrame) -> _Row:
        # This runs for every event: calling a function, or reading a field by its name, takes as long as the rest.
        kind, start, raw, _, _ = seen.frame
        word = self._word
        if not isinstance(seen, Event):
            return (exchange, start, len(raw), word(kind), seen.time_ns, *_NO_EVENT)
        document, data, id_line = seen.document, seen.data, seen.id_line
        text = data.decode("utf-8", "replace") if seen.has_unusual_json and not is_utf8(data) else None
        pointer: tuple[int | None, int | None] | None = None
        if text is None:
            pointer = _pointer(start, raw, data, starts) if starts and seen.has_data and b"\n" not in data else None
            if pointer is None and seen.has_data:
                text = data.decode()
        sequence, type_, run_id, call_id = seen.sequence, document.get("type"), seen.run_id, seen.tool_call_id
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
            word(type_) if type(type_) is str else None,
            word(run_id) if run_id is not None else None,
            word(call_id) if call_id is not None else None,
            *(pointer or (None, None)),
            text,
        )

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
