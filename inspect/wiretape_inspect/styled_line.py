"""A line of output: text with styles, and what to do if a terminal is narrower than the line."""

from dataclasses import dataclass
from typing import Literal

from wiretape.safe_text import printable

Part = str | tuple[str, str]
"""Text, or text and the name of its style: what `rich.text.Text.assemble` takes."""

STYLES = {
    "head": "bold",
    "dim": "dim",
    "id": "dim",
    "call": "cyan",
    "durable": "green",
    "delta": "cyan",
    "ephemeral": "",
    "gap": "yellow",
    "time column": "dim",
    "gap column": "dim",
    "long gap column": "yellow",
    "bad": "red",
    "error": "bold red",
    "warning": "bold yellow",
    "note": "blue",
    "key": "bold",
    "string": "green",
    "number": "magenta",
}
"""The styles by name, as rich writes them."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output.  Its parts may hold recorded text: `str` and `Terminal` escape what controls a terminal."""

    parts: list[Part]
    fit: Literal["cut", "wrap", "keep"] = "cut"
    """What to do in a narrow terminal: cut the line, wrap it, or leave it to the terminal."""
    indent: int = 0
    """Columns by which wrapped lines are indented."""

    def __str__(self) -> str:
        return printable("".join([part if isinstance(part, str) else part[0] for part in self.parts])).rstrip()


def wrapped(*parts: Part) -> Line:
    """A line that wraps."""
    return Line(list(parts), "wrap")


def labelled(label: Part, *parts: Part) -> Line:
    """A line that wraps below what follows its label."""
    return Line([label, *parts], "wrap", len(label if isinstance(label, str) else label[0]))
