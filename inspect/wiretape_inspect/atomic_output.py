"""Write files and recordings that replace what was there only once they are whole."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from wiretape.errors import InputError
from wiretape.files import check_free, check_writable, path_exists, replace_atomically, temporary_name, write_error
from wiretape.labels import count_of
from wiretape.recording import (
    Recording,
    RecordingSource,
    build_recording,
    delete_journal,
    delete_recording,
    is_sqlite_file,
    lock_for_writing,
    open_recording,
)
from wiretape.safe_text import printable
from wiretape_inspect.terminal_output import stdout_errors

_MAX_PRINTED = 20
"""Sentences that are printed about a new recording."""


@contextmanager
def open_output(
    path: Path | None, *, force: bool, recording: Path | None = None, mode: int = 0o600
) -> Iterator[BinaryIO]:
    """Open a file that by default only its owner can read, and that appears when it is whole; stdout for None.

    Raises InputError if `path` exists (unless `force`), is the recording that is read, or cannot be written.
    """
    if path is None:
        with stdout_errors():
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    check_output(path, force=force, recording=recording)
    try:
        with replace_atomically(path, mode) as file:
            yield file
    except OSError as error:
        raise InputError(write_error(path, error)) from None


def write_text(text: str, path: Path | None, *, force: bool, mode: int = 0o600) -> None:
    """Write a text as `open_output` does, and say where."""
    with open_output(path, force=force, mode=mode) as file:
        file.write(text.encode())
    if path is not None:
        click.echo(f"Wrote {printable(str(path))}.", err=True)


def check_output(path: Path, *, force: bool, recording: Path | None) -> None:
    """Check, without touching anything, whether `open_output` would accept `path`.  Raises InputError."""
    check_free(path, [recording] if recording is not None else [], force=force)
    check_writable(path)


def check_recording_output(path: Path, sources: Sequence[Path], *, force: bool, option: str = "--output") -> None:
    """Check whether `write_recording` can write `path`.

    Raises InputError if it is one of the `sources`, exists (unless `force`), or cannot be written.
    """
    check_free(path, sources, force=force, option=option)
    if not path_exists(path):
        check_writable(path)
    elif not path.is_file():
        raise InputError(f"{printable(str(path))} is not a regular file: choose another name for {option}.")


def write_recording(source: RecordingSource, path: Path, check: Callable[[Recording], None] | None = None) -> None:
    """Build a recording, and move it to `path` in one step; a file at `path` is replaced.

    `check` is called with the recording before it is moved.  If it raises, or an interruption comes, nothing changes.
    """
    made = temporary_name(path)
    try:
        delete_recording(made)
        build_recording(source, made)
        if check is not None:
            with open_recording(made) as recording:
                check(recording)
        with _lock_for_replacement(path):
            delete_journal(path)
            made.replace(path)
    except InputError as error:
        raise type(error)(error.message.replace(str(made), str(path))) from None
    except OSError as error:
        raise InputError(write_error(path, error)) from None
    finally:
        with suppress(OSError):
            delete_recording(made)


def describe_contents(recording: Recording) -> str:
    """Return how many exchanges, streams and findings a recording has."""
    exchanges = streams = 0
    for exchange in recording.exchanges():
        exchanges += 1
        streams += exchange.is_stream
    findings = count_of(sum(1 for _ in recording.findings()), "finding")
    return f"{count_of(exchanges, 'exchange')}, {count_of(streams, 'stream')}, {findings}"


def print_sentences(sentences: Sequence[str], more: str, indent: str = "") -> None:
    """Print the first sentences about a new recording to standard error, and how many `more` there are."""
    for sentence in sentences[:_MAX_PRINTED]:
        click.echo(f"{indent}{printable(sentence)}", err=True)
    if len(sentences) > _MAX_PRINTED:
        click.echo(f"… and {count_of(len(sentences) - _MAX_PRINTED, more)}.", err=True)


@contextmanager
def _lock_for_replacement(path: Path) -> Iterator[None]:
    """Lock the recording that is replaced.  Raises RecordingError if a recorder is writing to it, and OSError."""
    if not (path_exists(path) and is_sqlite_file(path)):
        yield
        return
    descriptor = lock_for_writing(path)
    try:
        yield
    finally:
        os.close(descriptor)
