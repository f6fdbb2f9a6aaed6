"""Lines of output, and writing them to standard output: to a terminal, through a pager, or to a pipe.

A line is text with styles, and what to do if a terminal is narrower than the line.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import click

from wiretape.errors import InputError
from wiretape.files import STDOUT_ERROR, discard_output
from wiretape.safe_text import printable
from wiretape.terminal_styles import color_choice

Part = str | tuple[str, str]
"""Text, or text and the name of its style in `STYLES`: what `rich.text.Text.assemble` takes."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output.  Its parts may hold recorded text: `str` and `Terminal` escape what controls a terminal."""

    parts: list[Part]
    fit: Literal["cut", "wrap", "prose", "keep"] = "cut"
    """What to do in a narrow terminal: cut the line, wrap it, or leave it to the terminal; prose is never wide."""
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


def prose(label: Part, *parts: Part) -> Line:
    """Sentences that wrap below what follows their label."""
    return replace(labelled(label, *parts), fit="prose")


BLANK = Line([""])


if TYPE_CHECKING:
    from wiretape_inspect.terminal import Terminal


def find_terminal() -> "Terminal | None":
    """Return the terminal that standard output is; None if it is a pipe or a file that gets no colours."""
    is_terminal = sys.stdout.isatty()
    choice = color_choice()
    has_colour = is_terminal if choice is None else choice
    if not is_terminal and not has_colour:
        return None
    # rich takes long to import, and is needed for terminals only.
    from wiretape_inspect.terminal import Terminal  # noqa: PLC0415

    return Terminal(shutil.get_terminal_size().columns if is_terminal else None, has_colour=has_colour)


def write_lines(lines: Iterable[Line | str], *, page: bool = False, live: bool = False) -> None:
    """Write lines to standard output as they come; through a pager if `page` is set and it is a terminal.

    A `str` is written as it is.  `live` flushes each line.
    """
    terminal = find_terminal()
    shown = (_encodable(terminal.render(line) if terminal and isinstance(line, Line) else str(line)) for line in lines)
    with stdout_errors():
        if page and terminal and terminal.width:
            _page(shown)
            return
        for line in shown:
            sys.stdout.write(f"{line}\n")
            if live:
                sys.stdout.flush()
        sys.stdout.flush()


def _page(lines: Iterator[str]) -> None:
    """Page as git does: leave at once if everything fits on the screen, keep the colours, keep the screen."""
    flags = os.environ.setdefault("LESS", "FRX")
    # The pager ends the last line itself.
    text = (f"\n{line}" if index else line for index, line in enumerate(lines))
    click.echo_via_pager(text, color="R" in flags.upper() or None)


@contextmanager
def stdout_errors() -> Iterator[None]:
    """Turn errors of writing to standard output into an InputError, except a closed pipe, which the CLI handles."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is still buffered must not raise again when the interpreter flushes at exit.
        discard_output(sys.stdout)
        raise InputError(f"{STDOUT_ERROR}: {error.strerror}.") from None


def _encodable(line: str) -> str:
    """Escape what the encoding of standard output cannot represent."""
    encoding = sys.stdout.encoding or "utf-8"
    return line if encoding.lower() == "utf-8" else line.encode(encoding, "backslashreplace").decode(encoding)
