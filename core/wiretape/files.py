"""Files that users name: the type of command-line arguments, checks, error messages and atomic replacement.

The messages are for an `InputError`, which makes them safe to print.
"""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import click

from wiretape.errors import InputError
from wiretape.safe_text import closest_match


class _NonEmptyPath(click.Path):
    """A path.  An empty one, probably an unset variable, would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click.ParamType."""
        return super().convert(value, param, ctx) if value != "" else self.fail("the path is empty.", param, ctx)


PATH = _NonEmptyPath(path_type=Path, readable=False)
"""A file or folder on a command line.  The code that opens it reports errors, not click."""

_MOST_FILES = 1000
"""Files of a folder in which a misspelt name is looked up."""
_FORCE = "use --force to replace it"

STDOUT_ERROR = "Cannot write to standard output"


def read_error(path: Path, error: OSError) -> str:
    """Return the message that a file cannot be read, or does not exist."""
    if isinstance(error, FileNotFoundError):
        with suppress(OSError):
            beside = [other.name for other in islice(path.parent.iterdir(), _MOST_FILES) if path.name not in other.name]
            if similar := closest_match(path.name, beside, cutoff=0.75):
                return f"There is no file {path}; did you mean {path.with_name(similar)}?"
        return f"There is no file {path}."
    return f"{path} cannot be read: {error.strerror or error}."


def write_error(path: Path, error: Exception) -> str:
    """Return the message that a file cannot be written."""
    if isinstance(error, FileNotFoundError) and not path_exists(path.parent):
        return f"{path} cannot be written: there is no folder {path.parent}."
    return f"{path} cannot be written: {getattr(error, 'strerror', None) or error}."


def size_error(path: Path, kind: str, most: int, hint: str = "") -> str:
    """Return the message that a file has more than `most` bytes, the limit of its kind."""
    return f"{path} is too large for {kind}: the limit is {most >> 20} MiB.{hint}"


def exists_error(path: Path, option: str = "--output", otherwise: str = "") -> str:
    """Return the message that an output file exists; `otherwise` is an alternative to another name."""
    if path.is_dir():
        return f"{path} is a folder: choose another name for {option}."
    return f"{path} exists: choose another name for {option}{otherwise and f', or {otherwise}'}."


def is_input_error(path: Path, option: str = "--output") -> str:
    """Return the message that an output file is also an input file."""
    return f"{path} is also an input file: choose another name for {option}."


@contextmanager
def file_errors(
    path: Path, message: Callable[[Path, OSError], str] = read_error, kind: type[InputError] = InputError
) -> Iterator[None]:
    """Raise `kind` for an OSError in the block, by default with the message that `path` cannot be read."""
    try:
        yield
    except OSError as error:
        raise kind(message(path, error)) from None


def read_limited(path: Path, kind: str, most: int, hint: str = "") -> bytes:
    """Return the contents of a file of up to `most` bytes.  Raises InputError; see `size_error`."""
    with file_errors(path):
        if path.stat().st_size > most:
            raise InputError(size_error(path, kind, most, hint))
        return path.read_bytes()


def path_exists(path: Path) -> bool:
    """Whether a path exists, as far as permissions allow to check."""
    try:
        return path.exists()
    except OSError:
        return False


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same existing file."""
    return path_exists(one) and path_exists(other) and one.samefile(other)


def check_free(path: Path, read: Iterable[Path], *, force: bool, option: str = "--output") -> None:
    """Raise InputError if `path` is one of the input files, or exists and `force` is not given."""
    if any(is_same_file(path, each) for each in read):
        raise InputError(is_input_error(path, option))
    if path_exists(path) and not force:
        raise InputError(exists_error(path, option, otherwise=_FORCE))


def check_writable(path: Path, kind: type[InputError] = InputError) -> None:
    """Raise `kind` if it is certain, without touching anything, that no file can be written at `path`."""
    if (error := _write_obstacle(path)) is not None:
        raise kind(write_error(path, error))


def _write_obstacle(path: Path) -> OSError | None:
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
    """Discard the interpreter's last flush of a standard stream, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_pipe(path: Path) -> bool:
    """Whether a path is a pipe, which can be read only once.  Raises OSError if it does not exist."""
    return stat.S_ISFIFO(path.stat().st_mode)


def temporary_name(path: Path) -> Path:
    """Return the path of the temporary file that replaces `path` once it is complete.

    A killed process with the same id may have left one.
    """
    return path.with_name(f".{path.name}.{os.getpid()}")


@contextmanager
def replace_atomically(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` in one step if the block succeeds; otherwise `path` stays unchanged.

    `mode` is the mode of a new file, before the umask.  If `path` is not a regular file, or its folder cannot be
    written, `path` is written directly.  Raises OSError.
    """
    if (path.exists() and not path.is_file()) or not os.access(path.resolve().parent, os.W_OK | os.X_OK):
        with path.open("wb") as file:
            yield file
        return
    # Replace the target of a link, not the link.
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
    """Yield a path that can be read repeatedly: for a pipe, a temporary copy of its contents.

    Raises OSError.  An InputError raised in the block names `path`, not the copy.
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
