"""HAR 1.2: files of browsers, Playwright and mitmproxy are read, and event streams are written as Chromium reads them.

`docs/har.md` lists what a HAR file cannot store.
"""

import re

from wiretape.recording.formats.har.reader import read
from wiretape.recording.formats.har.writer import write
from wiretape.recording.formats.registry import FormatReader, FormatWriter

__all__ = ["READER", "WRITER", "write"]

_BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:\s*\{')


def matches(data: bytes) -> bool:
    """Return whether a file that begins with `data` is a HAR file."""
    return _BEGINNING.match(data) is not None


READER = FormatReader(matches, read)
WRITER = FormatWriter(write)
