"""HAR 1.2, with event streams as Chromium's DevTools reads them: `docs/har.md` says what it holds and loses."""

from wiretape.recording.formats.model import Writes
from wiretape_inspect.archive.entries import write

__all__ = ["WRITES", "write"]

WRITES = Writes(write)
"""Sanitised; `write` can leave that be."""
