"""The forms a recording has besides its own file: what reads them, what writes them, and how each is told by content.

A format is added in one place: a row of `FORMATS`, which names the object that knows it.
"""

from wiretape.recording.formats.model import Head, Incoming, Reads, Writes
from wiretape.recording.formats.registry import FORMATS, Format, format_of, named
from wiretape.recording.formats.storing import opened, store

__all__ = ["FORMATS", "Format", "Head", "Incoming", "Reads", "Writes", "format_of", "named", "opened", "store"]
