"""Opening what holds a recording, whatever its form."""

from pathlib import Path

from wiretape.errors import RecordingError
from wiretape.recording.formats.registry import format_of
from wiretape.recording.formats.storing import opened
from wiretape.recording.reader import Recording, open_database
from wiretape.recording.schema import begins_like_sqlite


def open_recording(path: Path | str) -> Recording:
    """Open a recording read-only: its own file, or one of another form that holds all of it (a tape, JSON lines).

    What a file is, is told by what it holds.  Raises RecordingError when there is no such file, or it is no
    recording, or one of a newer format, and InputError where a file of another form is wrong.
    """
    path = Path(path)
    if not path.is_file() or path.stat().st_size == 0:
        return open_database(path)
    try:
        if begins_like_sqlite(path):
            return open_database(path)
        kind = format_of(path)
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}.") from None
    if kind is None:
        return open_database(path)
    if not kind.opens:
        raise RecordingError(f"{path} is {kind.name}, not a recording: `wiretape import` makes one of it.")
    return opened(kind, path)
