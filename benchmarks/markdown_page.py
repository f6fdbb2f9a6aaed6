"""A console that also collects what is printed as a Markdown page, and the resources that programs used."""

import resource
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


class MarkdownPage(Console):
    """A console for the tables of the benchmarks; `save` writes them as Markdown."""

    def __init__(self, introduction: str) -> None:
        super().__init__(width=120)
        self._lines = [introduction]

    def print(self, *objects: Any, **options: Any) -> None:
        """Print a table or a line, and add it to the page."""
        super().print(*objects, **options)
        for each in objects:
            self._lines += _table_lines(each) if isinstance(each, Table) else ["", _plain(str(each)).strip()]

    def section(self, title: str, measure: Callable[[], None]) -> None:
        """Add a section.  If it cannot be measured, the page contains the reason, and the benchmark continues."""
        self._lines += ["", f"## {title}"]
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            measure()
        except Exception as error:  # noqa: BLE001 - a program that fails must not cost the other figures
            traceback.print_exc()
            reason = (str(error).splitlines() or [""])[0][:200]
            self.print(f"This could not be measured: {type(error).__name__}: {reason}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.print(f"Measured in {time.monotonic() - began:,.0f} s, with {cpu:,.0f} s of CPU time.")

    def save(self, path: Path) -> None:
        """Write the page."""
        path.write_text("\n".join(self._lines) + "\n", "utf-8")


def _table_lines(table: Table) -> list[str]:
    columns = [[_plain(str(cell)) for cell in column.cells] for column in table.columns]
    titles = [_plain(str(column.header)) for column in table.columns]
    rules = ["---" if column.justify == "left" else "---:" for column in table.columns]
    rows = [titles, rules, *map(list, zip(*columns, strict=True))]
    return ["", f"{_plain(str(table.title))}:", "", *(f"| {' | '.join(row)} |" for row in rows)]


def _plain(text: str) -> str:
    return Text.from_markup(text).plain.replace("|", "\\|").replace("<", "&lt;")
