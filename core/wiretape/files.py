"""Files that people name: how a command takes one, and what is said of one that cannot be had.

What is said is a sentence for an `InputError`, which makes it safe to print.
"""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

import click

from wiretape.errors import InputError

PATH = click.Path(path_type=Path, readable=False)
"""A file or folder on a command line.  Who opens it says what is wrong with it, not click."""

_FORCE = "--force to replace it"

STDOUT_ERROR = "Standard output cannot be written"


def read_error(path: Path, error: OSError) -> str:
    """That a file cannot be read, or is not there."""
    if isinstance(error, FileNotFoundError):
        return f"There is no file {path}."
    return f"{path} cannot be read: {error.strerror or error}."


def write_error(path: Path, error: Exception) -> str:
    """That a file cannot be written."""
    if isinstance(error, FileNotFoundError) and not path_exists(path.parent):
        return f"{path} cannot be written: there is no folder {path.parent}."
    return f"{path} cannot be written: {getattr(error, 'strerror', None) or error}."


def exists_error(path: Path, option: str = "--output", otherwise: str = "") -> str:
    """That a file which was to be made is there; `otherwise` is what can be done but giving `option` another name."""
    if path.is_dir():
        return f"{path} is a directory: give {option} another name."
    return f"{path} exists: give {option} another name{otherwise and f', or {otherwise}'}."


def is_input_error(path: Path, option: str = "--output") -> str:
    """That a file which was to be written is one of those that are read."""
    return f"{path} is what is read: give {option} another name."


def path_exists(path: Path) -> bool:
    """Whether something is there, as far as anybody may look."""
    try:
        return path.exists()
    except OSError:
        return False


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file that is there."""
    return path_exists(one) and path_exists(other) and one.samefile(other)


def check_free(path: Path, read: Iterable[Path], *, force: bool) -> None:
    """Raises InputError where `path` is one of the files that are read, or is there without being forced away."""
    if any(is_same_file(path, each) for each in read):
        raise InputError(is_input_error(path))
    if path_exists(path) and not force:
        raise InputError(exists_error(path, otherwise=_FORCE))


def check_writable(path: Path, kind: type[InputError] = InputError) -> None:
    """Raises `kind` where it can be seen, without touching anything, that no file can be made or written at `path`."""
    if (error := _hindrance(path)) is not None:
        raise kind(write_error(path, error))


def _hindrance(path: Path) -> OSError | None:
    try:
        if path.is_dir():
            return _error(errno.EISDIR)
        if path.exists():
            return None if os.access(path, os.W_OK) else _error(errno.EACCES)
        if not path.parent.is_dir():
            return _error(errno.ENOTDIR if path.parent.exists() else errno.ENOENT)
        return None if os.access(path.parent, os.W_OK | os.X_OK) else _error(errno.EACCES)
    except OSError as error:
        return error


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def discard_output(stream: TextIO) -> None:
    """Let the interpreter's last flush of a standard stream go nowhere, instead of failing once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_pipe(path: Path) -> bool:
    """Whether what is there can be read only once, from its beginning.  Raises OSError where nothing is there."""
    return stat.S_ISFIFO(path.stat().st_mode)


def temporary_name(path: Path) -> Path:
    """Where a file is made that takes the place of `path` when it is whole.

    A process of the same number may have left one there, that was killed.
    """
    return path.with_name(f".{path.name}.{os.getpid()}")


@contextmanager
def replace_atomically(path: Path, mode: int) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` in one step when the block has ended well; else what was there stays.

    `mode` is that of a new file, of which the umask takes its share.  What is no regular file, or stands where none can
    be made beside it, is written as it is.  Raises OSError.
    """
    if (path.exists() and not path.is_file()) or not os.access(path.resolve().parent, os.W_OK | os.X_OK):
        with path.open("wb") as file:
            yield file
        return
    # What a link leads to is replaced, not the link.
    path = path.resolve()
    made = temporary_name(path)
    made.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            yield file
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


@contextmanager
def seekable(path: Path) -> Iterator[Path]:
    """A file that can be read again and again: of a pipe, one of all that came, which is gone after the block.

    Raises OSError.  An InputError of the block speaks of `path`.
    """
    if not is_pipe(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        whole = Path(folder, "pipe")
        with path.open("rb") as pipe, whole.open("wb") as file:
            shutil.copyfileobj(pipe, file)
        try:
            yield whole
        except InputError as error:
            raise InputError(error.message.replace(str(whole), str(path))) from None
