"""The open streams on a terminal, with the lines that are said scrolling above them."""

import time
from collections import deque
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wiretape.text import printable
from wiretape_proxy.lines import counted
from wiretape_proxy.reports import OpenStream, Progress

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_OVER_S = 2.5
"""Rates are those of the last seconds, so many."""
_ROWS = 20
_REST = 6
"""Lines of the screen that are left to what scrolls, and to the view's own head."""
_NARROW = 64


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

    def line(self, line: str) -> None:
        """Write a line above the view; it is safe to show already."""
        text = Text(line)
        word = line.partition(" ")[0]
        if word in _STYLES:
            text.stylize(_STYLES[word], 0, len(word))
        self._console.print(text, soft_wrap=True)

    def show(self, progress: Progress) -> None:
        """Draw the view anew; without open streams there is none."""
        self._measure(progress.streams)
        if not progress.streams:
            self.close()
            return
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

    def _drawn(self, progress: Progress) -> Group:
        width, height = self._console.size
        rows = max(1, min(_ROWS, height - _REST))
        shown = progress.streams[-rows:]
        left_out = progress.open - len(shown)
        head = ", ".join(
            (
                counted(progress.open, "open stream") + (f" ({left_out:,} not shown)" if left_out else ""),
                counted(progress.requests, "request"),
                counted(progress.events, "event"),
                counted(progress.findings, "finding"),
            )
        )
        return Group(
            Text(head, style="bold", no_wrap=True, overflow="crop"), self._table(shown, narrow=width < _NARROW)
        )

    def _table(self, streams: Sequence[OpenStream], *, narrow: bool) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        columns = ["exchange", "silent", "sequence", "session"]
        columns = columns if narrow else ["exchange", "silent", "sequence", "events", "events/s", "session"]
        for column in columns:
            table.add_column(column, justify="left" if column == "session" else "right", no_wrap=True, overflow="crop")
        for stream in streams:
            cells = {
                "exchange": str(stream.exchange),
                "silent": f"{stream.silence:,.1f} s",
                "sequence": "" if stream.sequence is None else str(stream.sequence),
                "events": f"{stream.events:,}",
                "events/s": "" if narrow else self._rate(stream),
                "session": printable(stream.session or ""),
            }
            table.add_row(*(Text(cells[column]) for column in columns))
        return table
