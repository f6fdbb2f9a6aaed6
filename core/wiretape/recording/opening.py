"""Opening what holds a recording, whatever its form."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wiretape.errors import RecordingError
from wiretape.files import read_error
from wiretape.recording.formats.registry import Format, format_of, is_text
from wiretape.recording.formats.storing import opened, stored
from wiretape.recording.reader import Recording, open_database
from wiretape.recording.schema import begins_like_sqlite


def open_recording(path: Path | str) -> Recording:
    """Open a recording read-only: its own file, or one of another form that holds all of it (a tape, JSON lines).

    What a file is, is told by what it holds.  Raises RecordingError when there is no such file, or it is no
    recording, or one of a newer format, and InputError where a file of another form is wrong.
    """
    path = Path(path)
    kind = _other_form(path)
    return open_database(path) if kind is None else opened(kind, path)


@contextmanager
def openings(path: Path | str) -> Iterator[Callable[[], Recording]]:
    """The same for who opens a recording many times, from several threads: what it yields opens it once more.

    A file of another form is read once.  Raises what `open_recording` raises.
    """
    path = Path(path)
    kind = _other_form(path)
    if kind is None:
        open_database(path).close()
        yield lambda: open_database(path)
        return
    with stored(kind, path) as made:
        yield lambda: open_database(made, called=path)


def _other_form(path: Path) -> Format | None:
    """What `path` is where it is not a recording's own file, or that neither.  Raises RecordingError and InputError."""
    try:
        if not path.is_file() or begins_like_sqlite(path):
            return None
        if path.stat().st_size == 0:
            raise RecordingError(f"{path} is empty, so it is not a wiretape recording.")
        kind = format_of(path)
        text = kind is None and is_text(path)
    except OSError as error:
        raise RecordingError(read_error(path, error)) from None
    if text:
        raise RecordingError(f"{path} is not a wiretape recording: one that is text begins with a line tape: 1.")
    if kind is not None and not kind.opens:
        raise RecordingError(f"{path} is {kind.called}, not a recording: `wiretape import` makes one of it.")
    return kind
