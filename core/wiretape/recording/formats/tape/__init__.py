"""Tapes: recordings as YAML that people read, edit and keep in git.  `docs/tape.md` says what can stand in one."""

import re

from wiretape.recording.formats.registry import FormatReader, FormatWriter
from wiretape.recording.formats.tape.reading import read
from wiretape.recording.formats.tape.writing import write

_BEGINS = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n|---[ \t]*\r?\n)*tape[ \t]*:[ \t]*[0-9]")


def begins(data: bytes) -> bool:
    """Whether a tape begins so."""
    return _BEGINS.match(data) is not None


READER = FormatReader(begins, read)
WRITER = FormatWriter(write)
