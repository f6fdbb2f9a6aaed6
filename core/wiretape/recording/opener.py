"""Open recordings in any form: SQLite files directly, tapes and JSON lines through a temporary recording."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wiretape.errors import InputError, RecordingError
from wiretape.files import read_error
from wiretape.recording.builder import build_recording
from wiretape.recording.formats.registry import Format, detect_format, is_text
from wiretape.recording.recording_reader import Recording, open_database
from wiretape.recording.schema import is_sqlite_file


def open_recording(path: Path | str) -> Recording:
    """Open a recording read-only: a SQLite file, a tape, or JSON lines.

    The format is detected from the content.  Raises RecordingError if the file does not exist, is not a recording, or
    has a newer format, and InputError if a tape or JSON lines are invalid.
    """
    path = Path(path)
    format_ = _other_format(path)
    if format_ is None:
        return open_database(path)
    with _converted(format_, path) as converted:
        # The file stays open after its folder is deleted, and no other process can find it.
        return open_database(converted, name=path, check_rows=False)


@contextmanager
def recording_opener(path: Path | str) -> Iterator[Callable[[], Recording]]:
    """Open a recording several times, for example in several threads: yields a function that opens it.

    A file of another format is converted only once.  Raises what `open_recording` raises.
    """
    path = Path(path)
    format_ = _other_format(path)
    if format_ is None:
        open_database(path).close()
        yield lambda: open_database(path, check_rows=False)
        return
    with _converted(format_, path) as converted:
        yield lambda: open_database(converted, name=path, check_rows=False)


@contextmanager
def _converted(format_: Format, path: Path) -> Iterator[Path]:
    """Convert a file to a recording that exists only within the block.  Raises InputError if the file is invalid."""
    with tempfile.TemporaryDirectory(prefix="wiretape-", ignore_cleanup_errors=True) as folder:
        converted = Path(folder, "run.db")
        try:
            build_recording(format_.reader().read(path), converted)
        except InputError as error:
            if str(converted) not in error.message:
                raise
            message = error.message.replace(str(converted), f"The temporary recording of {path}")
            raise InputError(f"{message.removesuffix('.')}: set TMPDIR to a folder with enough space.") from None
        yield converted


def _other_format(path: Path) -> Format | None:
    """Return the format of a file that is not a SQLite file.  Raises RecordingError and InputError."""
    try:
        if not path.is_file() or is_sqlite_file(path):
            return None
        if path.stat().st_size == 0:
            raise RecordingError(f"{path} is not a wiretape recording: it is empty.")
        format_ = detect_format(path)
        text = format_ is None and is_text(path)
    except OSError as error:
        raise RecordingError(read_error(path, error)) from None
    if text:
        raise RecordingError(
            f"{path} is not a wiretape recording. If it is meant to be a tape, begin it with the line `tape: 1`."
        )
    if format_ is not None and not format_.opens_directly:
        raise RecordingError(
            f"{path} is {format_.description}, not a recording: convert it with `wiretape import` first."
        )
    return format_
