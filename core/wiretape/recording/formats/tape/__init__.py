"""Tapes: recordings as YAML that people read, edit and keep in git.  `docs/tape.md` says what can stand in one."""

import re

from wiretape.recording.formats.model import Reads, Writes
from wiretape.recording.formats.tape.reading import read
from wiretape.recording.formats.tape.writing import write

_BEGINS = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n|---[ \t]*\r?\n)*tape[ \t]*:[ \t]*[0-9]")


def begins(data: bytes) -> bool:
    """Whether a tape begins so."""
    return _BEGINS.match(data) is not None


READS = Reads(begins, read)
WRITES = Writes(write)
