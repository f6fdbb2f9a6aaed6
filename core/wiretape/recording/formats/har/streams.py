"""The bytes of an event stream and when they came, from the text and the events that a HAR has of it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wiretape.recording.formats.har.values import members, number, text
from wiretape.recording.recording_source import Chunk
from wiretape.sse import Frame, FrameKind, Parser
from wiretape.toml import Table

_TOGETHER = frozenset({FrameKind.BLANK, FrameKind.BOM})
"""Kinds of frames that go with the one before."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An event as `_eventSourceMessages` lists it."""

    unix_ns: int
    name: str
    id: str
    data: str | None
    """None where the HAR is sanitised."""

    def fits(self, frame: Frame) -> bool:
        """Whether this is what a browser makes of a frame."""
        named = self.name == (frame.event or "message")
        return named and (self.data is None or self.data == frame.data.decode("utf-8", "replace"))


def listed(entry: Table) -> list[Listed] | None:
    """The events that an entry lists; None where it has no such list."""
    if entry.values.get("_eventSourceMessages") is None:
        return None
    return [_listed(each) for each in members(entry, "_eventSourceMessages")]


def _listed(table: Table) -> Listed:
    data = None if table.values.get("data") is None else text(table, "data")
    return Listed(round(number(table, "time") * 1_000_000_000), text(table, "eventName"), text(table, "eventId"), data)


def as_utf8(body: bytes) -> bytes | None:
    """What a body was before its UTF-8 was read as windows-1252; None where it cannot have been.

    Chromium hands bodies of event streams without a charset to DevTools so, and thus to who writes a HAR.
    """
    try:
        data = body.decode().translate(_WINDOWS_1252).encode("latin-1")
        data.decode()
    except UnicodeError:
        return None
    return None if data == body else data


_WINDOWS_1252 = {
    ord(bytes([byte]).decode("cp1252")): byte for byte in range(0x80, 0xA0) if byte not in b"\x81\x8d\x8f\x90\x9d"
}
"""The characters of windows-1252 that latin-1 has elsewhere."""


@dataclass(slots=True)
class Course:
    """The chunks of a stream in the making."""

    began_ns: int
    ended_ns: int
    astray: bool = False
    """Whether the events that are listed are others than those in the text."""

    def timed(self, body: bytes, events: Sequence[Listed]) -> Iterator[Chunk]:
        """A body that is known, cut behind each event; what stands between two events is spread over the time."""
        left = iter(events)
        at, units = self.began_ns, list[bytes]()
        for unit, frame in _units(body):
            units.append(unit)
            if not frame.dispatched or self.astray:
                continue
            event = next(left, None)
            if event is None or not event.fits(frame):
                self.astray = True
                continue
            until = self._within(at, event.unix_ns)
            yield from _spread(units, at, until)
            at, units = until, []
        yield from _spread(units, at, at if self.astray else max(at, self.ended_ns))
        rest = list(left)
        self.astray = self.astray or bool(rest)

    def rebuilt(self, events: Sequence[Listed]) -> Iterator[Chunk]:
        """A body put together from its events, a chunk each."""
        at, last_id = self.began_ns, ""
        for event in events:
            at = self._within(at, event.unix_ns)
            yield at, _written(event, event.id if event.id != last_id else "")
            last_id = event.id or last_id

    def _within(self, at: int, unix_ns: int) -> int:
        """A time that does not lie before what came, nor where none can be."""
        latest = self.began_ns + _LATEST_NS
        return min(max(at, unix_ns), latest)


_LINE_END = re.compile(r"\r\n?|\n")
"""What ends a line of an event stream; `str.splitlines` knows more."""
_LATEST_NS = 366 * 24 * 3600 * 1_000_000_000


def _units(body: bytes) -> Iterator[tuple[bytes, Frame]]:
    """What comes in a chunk, with the frame that it begins with: blank lines go with what they stand behind.

    Those behind an event do not: it came when it did, and nobody knows when they came.
    """
    parser = Parser()
    unit, first = b"", None
    for frame in (*parser.feed(body), *parser.close()):
        if first is not None and (first.dispatched or frame.kind not in _TOGETHER):
            yield unit, first
            unit, first = b"", None
        unit, first = unit + frame.raw, first or frame
    if first is not None:
        yield unit, first


def _spread(units: Sequence[bytes], after: int, until: int) -> Iterator[Chunk]:
    """Evenly, the last of them at `until`."""
    for index, unit in enumerate(units, 1):
        yield after + (until - after) * index // len(units), unit


def _written(event: Listed, id_: str) -> bytes:
    lines = [f"event: {_one_line(event.name)}"] if event.name not in {"", "message"} else []
    lines += [f"id: {_one_line(id_)}"] if id_ else []
    lines += [f"data: {line}" for line in _LINE_END.split(event.data or "")]
    return ("\n".join(lines) + "\n\n").encode()


def _one_line(text: str) -> str:
    return _LINE_END.sub(" ", text)
