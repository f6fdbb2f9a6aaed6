"""Chunks of an event stream, made from the text and the events in a HAR file, which has no chunks."""

import re
from collections.abc import Iterator, Sequence

from wiretape.recording.formats.har.document import EventSourceMessage, positive
from wiretape.recording.recording_source import Chunk
from wiretape.sse import Frame, FrameKind, Parser

_JOINED = frozenset({FrameKind.BLANK, FrameKind.BOM})
"""Frames that belong to the frame before them."""
_LINE_END = re.compile(r"\r\n?|\n")
"""The line ends of event streams; `str.splitlines` knows more."""
_MAX_DURATION_NS = 366 * 24 * 3600 * 1_000_000_000
_WINDOWS_1252 = {
    ord(bytes([byte]).decode("cp1252")): byte for byte in range(0x80, 0xA0) if byte not in b"\x81\x8d\x8f\x90\x9d"
}
"""Characters that windows-1252 has, and latin-1 has not, with their bytes."""


def undo_windows_1252(body: bytes) -> bytes | None:
    """Return a body whose UTF-8 was decoded as windows-1252 as it was before; None if that did not happen.

    Chromium passes event streams without a charset to DevTools, and so to HAR files, in this way.
    """
    try:
        data = body.decode().translate(_WINDOWS_1252).encode("latin-1")
        data.decode()
    except UnicodeError:
        return None
    return None if data == body else data


class EventChunks:
    """Makes the chunks of one stream."""

    def __init__(self, began_ns: int, ended_ns: int) -> None:
        self._began_ns = began_ns
        self._ended_ns = ended_ns
        self.mismatch = False
        """Whether the listed events differ from those in the body."""

    def split_body(self, body: bytes, events: Sequence[EventSourceMessage]) -> Iterator[Chunk]:
        """Cut a body after each event; everything between two events is spread evenly over the time between them."""
        left = iter(events)
        at, parts = self._began_ns, list[bytes]()
        for part, frame in _split_frames(body):
            parts.append(part)
            if not frame.is_dispatched or self.mismatch:
                continue
            event = next(left, None)
            if event is None or not _is_same_event(event, frame):
                self.mismatch = True
                continue
            until = self._event_time(at, event)
            yield from _spread(parts, at, until)
            at, parts = until, []
        yield from _spread(parts, at, at if self.mismatch else max(at, self._ended_ns))
        rest = list(left)
        self.mismatch = self.mismatch or bool(rest)

    def build_body(self, events: Sequence[EventSourceMessage]) -> Iterator[Chunk]:
        """Write the bytes of each event as a chunk."""
        at, last_id = self._began_ns, ""
        for event in events:
            at = self._event_time(at, event)
            id_ = event.event_id or ""
            yield at, _write_event(event, id_ if id_ != last_id else "")
            last_id = id_ or last_id

    def _event_time(self, at: int, event: EventSourceMessage) -> int:
        """Return the time of an event, limited to the range from the event before to the longest duration."""
        unix_ns = round(positive(event.time) * 1_000_000_000)
        return min(max(at, unix_ns), self._began_ns + _MAX_DURATION_NS)


def _is_same_event(event: EventSourceMessage, frame: Frame) -> bool:
    """Return whether a browser lists a frame as this event."""
    name = frame.event or "message"
    return (event.event_name or "") == name and event.data in {None, frame.data.decode("utf-8", "replace")}


def _split_frames(body: bytes) -> Iterator[tuple[bytes, Frame]]:
    """Split a body into frames; blank lines are joined to the frame before, unless that is an event.

    It is unknown when the blank lines after an event arrived.
    """
    parser = Parser()
    part, first = b"", None
    for frame in (*parser.feed(body), *parser.close()):
        if first is not None and (first.is_dispatched or frame.kind not in _JOINED):
            yield part, first
            part, first = b"", None
        part, first = part + frame.raw, first or frame
    if first is not None:
        yield part, first


def _spread(parts: Sequence[bytes], after: int, until: int) -> Iterator[Chunk]:
    """Spread parts evenly over a time, with the last one at its end."""
    for index, part in enumerate(parts, 1):
        yield after + (until - after) * index // len(parts), part


def _write_event(event: EventSourceMessage, id_: str) -> bytes:
    lines = [f"event: {_one_line(event.event_name)}"] if event.event_name not in {None, "", "message"} else []
    lines += [f"id: {_one_line(id_)}"] if id_ else []
    lines += [f"data: {line}" for line in _LINE_END.split(event.data or "")]
    return ("\n".join(lines) + "\n\n").encode()


def _one_line(text: str | None) -> str:
    return _LINE_END.sub(" ", text or "")
