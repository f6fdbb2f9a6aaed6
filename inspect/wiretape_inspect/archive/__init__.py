"""HAR 1.2, with event streams as Chromium's DevTools reads them: `docs/har.md` says what it holds and loses."""

from wiretape.recording.formats import FormatWriter
from wiretape_inspect.archive.entries import write

__all__ = ["WRITER", "write"]

WRITER = FormatWriter(write)
"""Sanitised; `write` can leave that be."""
