"""Where text goes: terminals, pagers, pipes, files that nobody else may read."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from wiretape.errors import InputError
from wiretape.files import STDOUT_ERROR, check_free, check_writable, discard_output, replace_atomically, write_error
from wiretape_inspect.timeline_text import Paper


def paper() -> Paper:
    """The paper that standard output is: colours and a width only on a terminal, no colours with NO_COLOR."""
    if not sys.stdout.isatty():
        return Paper()
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Paper(colour=not plain, width=shutil.get_terminal_size().columns)


def write_lines(lines: Iterable[str], *, page: bool = False, live: bool = False) -> None:
    """Write lines to standard output as they come; through a pager when asked to and on a terminal.

    `live` lets each be read at once, also at the other end of a pipe.
    """
    shown = map(_encodable, lines)
    with _stdout_trouble():
        if page and sys.stdout.isatty():
            _page(shown)
            return
        for line in shown:
            sys.stdout.write(f"{line}\n")
            if live:
                sys.stdout.flush()
        sys.stdout.flush()


def _page(lines: Iterator[str]) -> None:
    """As git pages: leave at once when all fits on the screen, keep the colours, keep the screen."""
    flags = os.environ.setdefault("LESS", "FRX")
    # The pager ends the last line itself.
    text = (f"\n{line}" if index else line for index, line in enumerate(lines))
    click.echo_via_pager(text, color="R" in flags.upper() or None)


@contextmanager
def _stdout_trouble() -> Iterator[None]:
    """Say in one sentence when standard output cannot be written; a reader that left is wiretape.cli's to handle."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is still buffered must not raise again when the interpreter flushes at exit.
        discard_output(sys.stdout)
        raise InputError(f"{STDOUT_ERROR}: {error.strerror}.") from None


@contextmanager
def opened(path: Path | None, *, force: bool, recording: Path) -> Iterator[BinaryIO]:
    """A file to write to, readable by its owner only, that is there when all is written; standard output for None.

    Raises InputError where `path` exists (`force` replaces it), is the recording that is read or cannot be written.
    """
    if path is None:
        with _stdout_trouble():
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    check(path, force=force, recording=recording)
    try:
        with replace_atomically(path, 0o600) as file:
            yield file
    except OSError as error:
        raise InputError(write_error(path, error)) from None


def check(path: Path, *, force: bool, recording: Path) -> None:
    """Raises InputError where it can be seen, without touching anything, that `opened` would refuse `path`."""
    check_free(path, [recording], force=force)
    check_writable(path)


def _encodable(line: str) -> str:
    """`line` with what standard output cannot encode escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    return line if encoding.lower() == "utf-8" else line.encode(encoding, "backslashreplace").decode(encoding)
