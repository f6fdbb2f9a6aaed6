"""File formats of recordings other than SQLite: their readers and writers, and how to detect them.

To add a format, add a row to `FORMATS`.  Each is loaded when it is used, so that opening a recording needs none.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from wiretape.errors import InputError
from wiretape.observations import Side
from wiretape.recording.recording_builder import RecordingSource
from wiretape.recording.recording_reader import Recording
from wiretape.recording.table_rows import Exchange

_BEGINNING = 64 * 1024
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[\t\r\n -~]\0){4}|(?:\0[\t\r\n -~]){4}")


class SourcePosition(Struct, frozen=True):
    """Where the beginning of a request, of a response, or of some bytes of a body is in a text file."""

    exchange: int
    side: Side
    start: int | None
    """Offset of the bytes in the body as it arrived; None for the beginning of the request or the response."""
    line: int
    column: int
    """In characters; like lines, from 1."""


class FormatReader(Struct, frozen=True):
    """How to detect and read files of a format."""

    matches: Callable[[bytes], object]
    """Return whether a file that begins with these bytes (the first 64 KiB) has this format."""
    read: Callable[[Path], RecordingSource]
    """Start to read a file.  Raises InputError if it is invalid."""
    positions: Callable[[Path], Iterator[SourcePosition]] | None = None
    """Return the positions in a file, in the order of the offsets of each body; None if the format has no lines."""


class Format(Struct, frozen=True):
    """A file format: its name, and where to find its reader and writer (`module:object`)."""

    name: str
    description: str
    """A file of this format, as part of a sentence."""
    summary: str
    """Explanation for users: continues a sentence that begins with the name."""
    reads: str
    """A `FormatReader`."""
    writes: str | None = None
    """A function that returns the bytes for a recording, or for some of its exchanges, a part at a time; None if the
    format cannot be written."""
    opens_directly: bool = False
    """Whether `open_recording` accepts such a file: it must contain everything that a recording contains."""

    def reader(self) -> FormatReader:
        """Load the reader."""
        reader: FormatReader = _load(self.reads)
        return reader

    def write(self, recording: Recording, exchanges: Iterable[Exchange] | None = None) -> Iterator[bytes]:
        """Return the bytes for a recording, or for some of its exchanges.  Raises InputError."""
        if self.writes is None:
            raise InputError(f"wiretape can read the {self.name} format, but cannot write it.")
        parts: Iterator[bytes] = _load(self.writes)(recording, exchanges)
        return parts


FORMATS = (
    Format(
        "tape",
        "a tape",
        "YAML for people and git, with events as data; lossless",
        reads="wiretape.recording.formats.tape_reader:READER",
        writes="wiretape.recording.formats.tape_writer:write",
        opens_directly=True,
    ),
    Format(
        "har",
        "a HAR file",
        "HTTP Archive 1.2, as used by browsers; docs/import.md lists what it cannot store",
        reads="wiretape.recording.formats.har_reader:READER",
        writes="wiretape.recording.formats.har_writer:write",
    ),
    Format(
        "flows",
        "a mitmproxy flow file",
        "flows saved by mitmproxy (`mitmdump -w`)",
        reads="wiretape_proxy.flow_files:READER",
    ),
    Format(
        "sse",
        "a raw event stream",
        "the bytes of one event stream",
        writes="wiretape.recording.formats.raw_stream:write",
        reads="wiretape.recording.formats.raw_stream:READER",
    ),
)
"""All formats, in the order in which a file is compared with them."""


def find_format(name: str) -> Format:
    """Return the format with this name."""
    return next(each for each in FORMATS if each.name == name)


def detect_format(path: Path) -> Format | None:
    """Return the format of a file, judging by its first bytes; None if it is unknown.

    Raises OSError, and InputError for UTF-16, which no format uses.
    """
    beginning = _read_beginning(path)
    found = next((each for each in FORMATS if each.reader().matches(beginning)), None)
    if found is None and _UTF_16.match(beginning):
        raise InputError(f"{path} looks like UTF-16 text: save it as UTF-8.")
    return found


def is_text(path: Path) -> bool:
    """Return whether a file begins like UTF-8 text.  Raises OSError."""
    try:
        return "\0" not in getincrementaldecoder("utf-8")().decode(_read_beginning(path))
    except UnicodeDecodeError:
        return False


def _read_beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_BEGINNING)


def _load(location: str) -> Any:
    module, _, attribute = location.partition(":")
    return getattr(import_module(module), attribute)
