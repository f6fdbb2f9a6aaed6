"""The open streams on a terminal, with the lines that are said scrolling above them."""

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
from wiretape_proxy.lines import unchecked
from wiretape_proxy.reports import OpenStream, Progress

_STYLES = {"error": Style(color="red", bold=True), "warning": Style(color="yellow"), "note": Style(color="cyan")}
_OVER_S = 2.5
"""Rates are those of the last seconds, so many."""
_ROWS = 20
_REST = 6
"""Lines of the screen that are left to what scrolls, and to the view's own head."""
_NARROW = 64
"""Columns of a screen on which there is no room for all of ours."""
_WORTH_TELLING = 1_000_000
"""Unchecked bytes; some are always on their way."""
_COLUMNS = ("exchange", "silent", "sequence", "events", "events/s", "session")
_DISPENSABLE = (3, 4)
_TITLE = Style(bold=True)
_HEAD = Style(dim=True)


class View:
    """Draws; whoever has it calls it from one thread, a few times a second."""

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
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def draw(self, lines: Sequence[str], progress: Progress | None) -> None:
        """Write lines, safe to show already, above the view, and draw it anew; without open streams there is none."""
        if progress is not None and not progress.streams:
            self.close()
        if lines:
            self._console.print(Segments(_segments(_folded(lines, self._console.width))), soft_wrap=True)
        if progress is not None and progress.streams:
            self._measure(progress.streams)
            if not self._live.is_started:
                self._live.start()
            self._live.update(self._drawn(progress), refresh=True)

    def close(self) -> None:
        """Leave the screen as if there had been no view."""
        if self._live.is_started:
            self._live.stop()

    def _measure(self, streams: Sequence[OpenStream]) -> None:
        now = time.monotonic()
        kept: dict[int, deque[tuple[float, int]]] = {}
        for stream in streams:
            history = kept[stream.exchange] = self._seen.get(stream.exchange, deque())
            history.append((now, stream.events))
            while len(history) > 2 and now - history[1][0] >= _OVER_S:
                history.popleft()
        self._seen = kept

    def _rate(self, stream: OpenStream) -> str:
        (before, first), (now, last) = self._seen[stream.exchange][0], self._seen[stream.exchange][-1]
        return f"{(last - first) / (now - before):,.1f}" if now > before else ""

    def _drawn(self, progress: Progress) -> Segments:
        """Plain segments, because a rich table takes thirty times as long, and the traffic waits meanwhile."""
        width, height = self._console.size
        shown = progress.streams[-max(1, min(_ROWS, height - _REST)) :]
        rows = [_COLUMNS, *(self._row(stream) for stream in shown)]
        if width < _NARROW:
            rows = [tuple(cell for column, cell in enumerate(row) if column not in _DISPENSABLE) for row in rows]
        lines = [_title(progress, len(shown)), *_aligned(rows)]
        styles = [_TITLE, _HEAD, *[None] * len(shown)]
        segments: list[Segment] = []
        for line, style in zip(lines, styles, strict=True):
            segments += (Segment(set_cell_size(line, min(cell_len(line), width)), style), Segment.line())
        return Segments(segments[:-1])

    def _row(self, stream: OpenStream) -> tuple[str, ...]:
        return (
            str(stream.exchange),
            f"{stream.silence:,.1f} s",
            "" if stream.sequence is None else str(stream.sequence),
            f"{stream.events:,}",
            self._rate(stream),
            printable(stream.session or ""),
        )


def _title(progress: Progress, shown: int) -> str:
    left_out = progress.open - shown
    parts = [
        count_of(progress.open, "open stream") + (f" ({left_out:,} not shown)" if left_out else ""),
        count_of(progress.requests, "request"),
        count_of(progress.events, "event"),
        count_of(progress.findings, "finding"),
    ]
    if progress.unchecked >= _WORTH_TELLING:
        parts.append(unchecked(progress.unchecked))
    return ", ".join(parts)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns to the right, but for the last one."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        yield "  ".join((*cells, row[-1]))


def _folded(lines: Iterable[str], width: int) -> Iterator[str]:
    """The lines, those that are too long broken between words; paths and addresses stay whole, to be copied."""
    for line in lines:
        if len(line) <= width:
            yield line
        else:
            yield from wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _segments(lines: Iterable[str]) -> Iterator[Segment]:
    """The lines, the severity that one begins with in its colour."""
    for line in lines:
        word, space, rest = line.partition(" ")
        yield Segment(word, _STYLES.get(word))
        yield Segment(f"{space}{rest}\n")
