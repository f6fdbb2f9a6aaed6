"""HAR 1.2 as browsers, Playwright and mitmproxy write it, read.  `docs/har.md` says what a HAR does not hold."""

import re

from wiretape.recording.formats.har.reading import read
from wiretape.recording.formats.registry import FormatReader

_BEGINS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:\s*\{')


def begins(data: bytes) -> bool:
    """Whether a HAR begins so."""
    return _BEGINS.match(data) is not None


READER = FormatReader(begins, read)
