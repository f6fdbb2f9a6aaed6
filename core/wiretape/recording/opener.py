"""Open recordings in any form: SQLite files directly, compressed ones and tapes as a temporary file."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from wiretape.errors import InputError, RecordingError
from wiretape.files import file_errors, write_error
from wiretape.recording.compressed_file import decompressed_parts, is_compressed
from wiretape.recording.formats import detect_format, is_text
from wiretape.recording.recording_builder import build_recording
from wiretape.recording.recording_reader import Recording, open_database
from wiretape.recording.schema import connect, is_sqlite_file


def open_recording(path: Path | str) -> Recording:
    """Open a recording read-only: a SQLite file, also a compressed one, or a tape.

    The format is detected from the content.  Raises RecordingError if the file does not exist, is not a recording, or
    has a newer format, and InputError if a tape is invalid.
    """
    path = Path(path)
    convert = _find_conversion(path)
    if convert is None:
        return open_database(path)
    with _converted(path, convert) as converted:
        # The file stays open after its folder is deleted, and no other process can find it.
        return open_database(converted, name=path, check_rows=False)


@contextmanager
def recording_opener(path: Path | str) -> Iterator[Callable[[], Recording]]:
    """Open a recording several times, for example in several threads: yields a function that opens it.

    A file that is not a SQLite file is converted only once.  Raises what `open_recording` raises.
    """
    path = Path(path)
    convert = _find_conversion(path)
    if convert is None:
        open_database(path).close()
        yield lambda: open_database(path, check_rows=False)
        return
    with _converted(path, convert) as converted:
        yield lambda: open_database(converted, name=path, check_rows=False)


def copy_recording(path: Path, to: Path) -> None:
    """Copy a recording, in any form, to a new SQLite file.  Raises what `open_recording` raises."""
    (_find_conversion(path) or _copy_database)(path, to)


_Conversion = Callable[[Path, Path], None]
"""Makes a SQLite file of a file.  Raises InputError."""


@contextmanager
def _converted(path: Path, convert: _Conversion) -> Iterator[Path]:
    """Convert a file to a recording that exists only within the block.  Raises InputError if the file is invalid."""
    with tempfile.TemporaryDirectory(prefix="wiretape-", ignore_cleanup_errors=True) as folder:
        converted = Path(folder, "run.db")
        try:
            convert(path, converted)
        except InputError as error:
            if str(converted) not in error.message:
                raise
            message = error.message.replace(str(converted), f"The temporary recording of {path}")
            raise InputError(f"{message.removesuffix('.')}: set TMPDIR to a folder with enough space.") from None
        yield converted


def _copy_database(path: Path, to: Path) -> None:
    open_database(path).close()
    with (
        file_errors(to, write_error, RecordingError),
        closing(connect(path)) as source,
        closing(connect(to, "rwc")) as copy,
    ):
        source.backup(copy)


def _decompress(path: Path, converted: Path) -> None:
    parts = decompressed_parts(path)
    with file_errors(converted, write_error, RecordingError), converted.open("wb") as file:
        file.writelines(parts)
    open_database(converted, name=path).close()


def _find_conversion(path: Path) -> _Conversion | None:
    """Return how to convert a file; None for a SQLite file.  Raises RecordingError and InputError."""
    with file_errors(path, kind=RecordingError):
        if not path.is_file() or is_sqlite_file(path):
            return None
        if is_compressed(path):
            return _decompress
        if path.stat().st_size == 0:
            raise RecordingError(f"{path} is not a wiretape recording: it is empty.")
        format_ = detect_format(path)
        text = format_ is None and is_text(path)
    if text:
        raise RecordingError(
            f"{path} is not a wiretape recording. If it is meant to be a tape, begin it with the line `tape: 1`."
        )
    if format_ is None:
        return None
    if not format_.opens_directly:
        raise RecordingError(
            f"{path} is {format_.description}, not a recording: convert it with `wiretape import` first."
        )
    reader = format_.reader()
    return lambda path, converted: build_recording(reader.read(path), converted)
