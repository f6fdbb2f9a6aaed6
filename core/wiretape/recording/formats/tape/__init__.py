"""Tapes: recordings as YAML, for people to read, edit and keep in git.  `docs/tape.md` describes the format."""

import re

from wiretape.recording.formats.registry import FormatReader, FormatWriter
from wiretape.recording.formats.tape.reader import positions, read
from wiretape.recording.formats.tape.writer import write

_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n|---[ \t]*\r?\n)*tape[ \t]*:[ \t]*[0-9]")


def matches(data: bytes) -> bool:
    """Return whether a file that begins with `data` is a tape."""
    return _BEGINNING.match(data) is not None


READER = FormatReader(matches, read, positions)
WRITER = FormatWriter(write)
