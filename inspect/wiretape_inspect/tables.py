"""The table of sessions."""

from collections import Counter
from collections.abc import Iterator
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wiretape.text import printable
from wiretape_inspect.lines import Paper
from wiretape_inspect.summary import Session, Summary
from wiretape_inspect.words import count, digits, duration

_COLUMNS = ("session", "streams", "events", "durable", "deltas", "last seq", "first (UTC)", "last (UTC)", "endings")
_RIGHT = {"streams", "events", "durable", "deltas", "last seq"}
_WIDE = 10_000
"""Columns where no terminal sets a bound: a table that is piped is never folded."""


def sessions(whole: Summary, paper: Paper) -> Iterator[str]:
    """The lines of `wiretape sessions`."""
    yield _head(whole)
    if whole.sessions:
        yield ""
        yield from _rendered(_table(whole), paper)
        yield ""
    yield f"other exchanges: {_tally(whole.others) or 'none'}"
    yield f"findings: {_tally(whole.findings) or 'none'}"


def _head(whole: Summary) -> str:
    info = whole.info
    lasted = f"lasted {duration(info.ended_ns)}" if info.ended_ns is not None else "not closed"
    parts = (info.tool, f"upstream {info.upstream}", f"{info.started:%Y-%m-%d %H:%M:%SZ}", lasted)
    return printable(" · ".join(parts))


def _table(whole: Summary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in (*_COLUMNS, "findings"):
        table.add_column(column, justify="right" if column in _RIGHT else "left", overflow="fold")
    for session in whole.sessions:
        table.add_row(*(Text(printable(cell)) for cell in _cells(whole, session)))
    return table


def _cells(whole: Summary, session: Session) -> Iterator[str]:
    yield session.id if session.id is not None else "(none)"
    for number in (session.streams, session.events, session.durable, session.deltas):
        yield f"{number:,}"
    yield digits(session.last_sequence) if session.last_sequence is not None else "-"
    yield f"{whole.wall(session.first_ns or 0):%H:%M:%S.%f}"[:-3]
    yield f"{whole.wall(session.last_ns):%H:%M:%S.%f}"[:-3]
    yield _tally(session.endings) or "-"
    yield ", ".join(count(number, severity) for severity, number in sorted(session.findings.items())) or "-"


def _rendered(table: Table, paper: Paper) -> Iterator[str]:
    to = StringIO()
    console = Console(
        file=to,
        width=paper.width or _WIDE,
        force_terminal=paper.colour,
        color_system="standard" if paper.colour else None,
    )
    console.print(table)
    for line in to.getvalue().splitlines():
        yield line.rstrip()


def _tally(numbers: Counter[str]) -> str:
    return ", ".join(f"{what}: {number:,}" for what, number in sorted(numbers.items()))
