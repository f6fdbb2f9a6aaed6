"""A recording put where the user wants it, once it is whole."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from wiretape.errors import InputError
from wiretape.files import check_free, check_writable, path_exists, temporary_name, write_error
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


def check(to: Path, sources: Sequence[Path], *, force: bool) -> None:
    """Raises InputError where `to` is one of the files that are read, exists (unless `force`) or cannot be made."""
    check_free(to, sources, force=force)
    if not path_exists(to):
        check_writable(to)
    elif not to.is_file():
        raise InputError(f"{printable(str(to))} is no regular file: give --output another name.")


def place(incoming: RecordingSource, to: Path, look: Callable[[Recording], None] | None = None) -> None:
    """Make a recording of what comes in, and put it at `to` in one step, in the place of a file that is there.

    `look` is shown it before; what it raises, and an interruption, leaves nothing behind and what was there as it was.
    """
    made = temporary_name(to)
    try:
        delete_recording(made)
        build_recording(incoming, made)
        if look is not None:
            with open_recording(made) as recording:
                look(recording)
        with _nobody_writing(to):
            delete_journal(to)
            made.replace(to)
    except InputError as error:
        raise type(error)(error.message.replace(str(made), str(to))) from None
    except OSError as error:
        raise InputError(write_error(to, error)) from None
    finally:
        with suppress(OSError):
            delete_recording(made)


@contextmanager
def _nobody_writing(to: Path) -> Iterator[None]:
    """Raises RecordingError where a recorder is at work on the recording that is to be replaced, and OSError."""
    if not (path_exists(to) and is_sqlite_file(to)):
        yield
        return
    descriptor = lock_for_writing(to)
    try:
        yield
    finally:
        os.close(descriptor)
