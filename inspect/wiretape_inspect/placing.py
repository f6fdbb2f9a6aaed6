"""A recording put where the user wants it, once it is whole."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from wiretape.errors import InputError
from wiretape.files import check_free, check_writable, path_exists, temporary_name, write_error
from wiretape.recording import Recording, open_recording
from wiretape.recording.file import claim_writing, remove, remove_beside
from wiretape.recording.formats import Incoming, store
from wiretape.recording.schema import begins_like_sqlite
from wiretape.safe_text import printable


def check(to: Path, sources: Sequence[Path], *, force: bool) -> None:
    """Raises InputError where `to` is one of the files that are read, exists (unless `force`) or cannot be made."""
    check_free(to, sources, force=force)
    if not path_exists(to):
        check_writable(to)
    elif not to.is_file():
        raise InputError(f"{printable(str(to))} is no regular file: give --output another name.")


def place(incoming: Incoming, to: Path, look: Callable[[Recording], None] | None = None) -> None:
    """Make a recording of what comes in, and put it at `to` in one step, in the place of a file that is there.

    `look` is shown it before; what it raises, and an interruption, leaves nothing behind and what was there as it was.
    """
    made = temporary_name(to)
    try:
        remove(made)
        store(incoming, made)
        if look is not None:
            with open_recording(made) as recording:
                look(recording)
        with _nobody_writing(to):
            remove_beside(to)
            made.replace(to)
    except InputError as error:
        raise type(error)(error.message.replace(str(made), str(to))) from None
    except OSError as error:
        raise InputError(write_error(to, error)) from None
    finally:
        with suppress(OSError):
            remove(made)


@contextmanager
def _nobody_writing(to: Path) -> Iterator[None]:
    """Raises RecordingError where a recorder is at work on the recording that is to be replaced, and OSError."""
    if not (path_exists(to) and begins_like_sqlite(to)):
        yield
        return
    descriptor = claim_writing(to)
    try:
        yield
    finally:
        os.close(descriptor)
