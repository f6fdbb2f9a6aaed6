"""The table of sessions."""

from collections import Counter
from collections.abc import Iterator
from io import StringIO

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wiretape.safe_text import printable
from wiretape_inspect.humanize import count, digits, duration
from wiretape_inspect.spans import Span
from wiretape_inspect.summary import Session, Summary
from wiretape_inspect.timeline_text import Paper

_COLUMNS = (
    *("session", "streams", "events", "durable", "deltas"),
    *("last seq", "first (UTC)", "last (UTC)", "endings", "findings"),
)
_RIGHT = {"streams", "events", "durable", "deltas", "last seq"}
_WIDE = 10_000
"""Columns of a table: it is never folded."""
_INDENT = " " * 4
_NONE = "-"


def sessions(whole: Summary, paper: Paper) -> Iterator[str]:
    """The lines of `wiretape sessions`."""
    yield paper.line([(_head(whole), "finding")])
    if whole.sessions:
        yield ""
        table = list(_rendered(_table(whole), paper))
        widest = max(cell_len(click.unstyle(line)) for line in table)
        yield from table if paper.width is None or widest <= paper.width else map(paper.line, _blocks(whole))
        yield ""
    yield f"other exchanges: {_tally(whole.others) or 'none'}"
    yield f"findings: {_severities(whole.findings) or 'none'}"


def _blocks(whole: Summary) -> Iterator[list[Span]]:
    """A few lines for each session, where there is no room for the table."""
    for session in whole.sessions:
        told = dict(zip(_COLUMNS, _cells(whole, session), strict=True))
        counts = [f"{told[name]} {name}" for name in ("streams", "events", "durable", "deltas")]
        yield [(told["session"], "head")]
        yield [(_INDENT, ""), (" · ".join([*counts, f"last seq {told['last seq']}"]), "finding")]
        yield [(_INDENT, ""), (f"{told['first (UTC)']} to {told['last (UTC)']} UTC", "finding")]
        for name in ("endings", "findings"):
            if told[name] != _NONE:
                yield [(_INDENT, ""), (told[name], "finding")]


def _head(whole: Summary) -> str:
    info = whole.info
    lasted = f"lasted {duration(info.ended_ns)}" if info.ended_ns is not None else "not closed"
    parts = (info.tool, f"upstream {info.upstream}", f"{info.started:%Y-%m-%d %H:%M:%SZ}", lasted)
    return " · ".join(parts)


def _table(whole: Summary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in _COLUMNS:
        table.add_column(column, justify="right" if column in _RIGHT else "left", overflow="fold")
    for session in whole.sessions:
        table.add_row(*(Text(printable(cell)) for cell in _cells(whole, session)))
    return table


def _cells(whole: Summary, session: Session) -> Iterator[str]:
    yield session.id if session.id is not None else "(none)"
    for number in (session.streams, session.events, session.durable, session.deltas):
        yield f"{number:,}"
    yield digits(session.last_sequence) if session.last_sequence is not None else _NONE
    yield f"{whole.wall(session.first_ns or 0):%H:%M:%S.%f}"[:-3]
    yield f"{whole.wall(session.last_ns):%H:%M:%S.%f}"[:-3]
    yield _tally(session.endings) or _NONE
    yield _severities(session.findings) or _NONE


def _rendered(table: Table, paper: Paper) -> Iterator[str]:
    to = StringIO()
    console = Console(
        file=to,
        width=_WIDE,
        force_terminal=paper.colour,
        color_system="standard" if paper.colour else None,
    )
    console.print(table)
    for line in to.getvalue().splitlines():
        yield line.rstrip()


def _severities(numbers: Counter[str]) -> str:
    return ", ".join(count(number, severity) for severity, number in sorted(numbers.items()))


def _tally(numbers: Counter[str]) -> str:
    return ", ".join(f"{what}: {number:,}" for what, number in sorted(numbers.items()))
