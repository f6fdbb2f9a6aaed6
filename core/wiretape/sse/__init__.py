"""Server-sent events: an incremental parser over bytes that follows the WHATWG HTML standard."""

from wiretape.sse.frame import Frame, FrameKind
from wiretape.sse.parser import Parser

__all__ = ["Frame", "FrameKind", "Parser"]
