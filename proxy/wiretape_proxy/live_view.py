"""The live view of the open streams on a terminal; log lines scroll above it."""

import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.segment import Segment, Segments
from rich.style import Style

from wiretape.labels import count_of
from wiretape.safe_text import printable
from wiretape.terminal_styles import STYLES, status_style
from wiretape_proxy.recorder_messages import OpenStream, RecorderStatus, unchecked_label

_RATE_WINDOW_S = 2.5
_MOST_ROWS = 20
_RESERVED_ROWS = 6
"""Lines of the screen left to the log and the view's own heading."""
_NARROW_COLUMNS = 64
"""On a narrower screen, optional columns are left out."""
_UNCHECKED_SHOWN = 1_000_000
"""Fewer unchecked bytes are normal, and not shown."""
_COLUMNS = ("exchange", "idle", "sequence", "events", "events/s", "channel")
_OPTIONAL_COLUMNS = (3, 4)
_REQUEST = re.compile(r"exchange \d+: \S+ \S+(?: (?P<status>\d{3}))?:")
"""The line of a request that ended; targets have no spaces."""
_STYLES = {name: Style.parse(style) for name, style in STYLES.items()}
_SEVERITIES = ("error", "warning", "note")


class LiveView:
    """Draws the view.  It must be called from one thread, a few times a second."""

    def __init__(self, file: TextIO) -> None:
        self._console = Console(file=file, force_terminal=True, markup=False, emoji=False, highlight=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._history: dict[int, deque[tuple[float, int]]] = {}

    def draw(self, lines: Sequence[str], status: RecorderStatus | None) -> None:
        """Write escaped lines above the view and update it; remove it if no stream is open."""
        if status is not None and not status.open_streams:
            self.close()
        if lines:
            width = self._console.width
            segments = (segment for line in lines for segment in _colored(line, width))
            self._console.print(Segments(segments), soft_wrap=True)
        if status is not None and status.open_streams:
            self._measure(status.open_streams)
            if not self._live.is_started:
                self._live.start()
            self._live.update(self._render(status), refresh=True)

    def close(self) -> None:
        """Remove the view from the screen."""
        if self._live.is_started:
            self._live.stop()

    def _measure(self, streams: Sequence[OpenStream]) -> None:
        now = time.monotonic()
        kept: dict[int, deque[tuple[float, int]]] = {}
        for stream in streams:
            history = kept[stream.exchange] = self._history.get(stream.exchange, deque())
            history.append((now, stream.events))
            while len(history) > 2 and now - history[1][0] >= _RATE_WINDOW_S:
                history.popleft()
        self._history = kept

    def _rate(self, stream: OpenStream) -> str:
        history = self._history[stream.exchange]
        (before, first), (now, last) = history[0], history[-1]
        return f"{(last - first) / (now - before):,.1f}" if now > before else ""

    def _render(self, status: RecorderStatus) -> Segments:
        """Return plain segments: a rich table takes thirty times as long, while traffic waits for the core."""
        width, height = self._console.size
        shown = status.open_streams[-max(1, min(_MOST_ROWS, height - _RESERVED_ROWS)) :]
        rows = [_COLUMNS, *(self._row(stream) for stream in shown)]
        if width < _NARROW_COLUMNS:
            rows = [tuple(cell for column, cell in enumerate(row) if column not in _OPTIONAL_COLUMNS) for row in rows]
        lines = [_title(status, len(shown)), *_aligned(rows)]
        styles = [_STYLES["head"], _STYLES["dim"], *[None] * len(shown)]
        segments: list[Segment] = []
        for line, style in zip(lines, styles, strict=True):
            segments += (Segment(set_cell_size(line, min(cell_len(line), width)), style), Segment.line())
        return Segments(segments[:-1])

    def _row(self, stream: OpenStream) -> tuple[str, ...]:
        return (
            str(stream.exchange),
            f"{stream.idle_seconds:,.1f} s",
            "" if stream.sequence is None else str(stream.sequence),
            f"{stream.events:,}",
            self._rate(stream),
            printable(stream.channel or ""),
        )


def _title(status: RecorderStatus, shown: int) -> str:
    hidden = status.open_count - shown
    parts = [
        count_of(status.open_count, "open stream") + (f" ({hidden:,} not shown)" if hidden else ""),
        count_of(status.requests, "request"),
        count_of(status.events, "event"),
        count_of(status.findings, "finding"),
    ]
    if status.unchecked_bytes >= _UNCHECKED_SHOWN:
        parts.append(unchecked_label(status.unchecked_bytes))
    return ", ".join(parts)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows with all columns but the last aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        yield "  ".join((*cells, row[-1]))


def _wrapped(line: str, width: int) -> Iterable[str]:
    """Wrap a long line between words; paths and addresses stay whole, so that they can be copied."""
    if len(line) <= width:
        return (line,)
    return wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _colored(line: str, width: int) -> Iterator[Segment]:
    """Color the severity that a line begins with; dim a request that ended, and color a status of 400 or above."""
    style, word = None, line.partition(" ")[0]
    word_style = _STYLES[word] if word in _SEVERITIES else None
    if request := _REQUEST.match(line):
        style, word = _STYLES["dim"], f"{request['status']}:"
        failed = request["status"] is not None and status_style(int(request["status"])) == "bad"
        word_style = _STYLES["bad"] if failed else style
    for part in _wrapped(line, width):
        before, found, after = part.partition(word) if word_style else (part, "", "")
        yield from (Segment(before, style), Segment(found, word_style), Segment(f"{after}\n", style))
        word_style = None if found else word_style
