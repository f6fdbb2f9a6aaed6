"""What was on the wire at the location of a finding: the frames, and a few lines of them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wiretape.content_encoding import decode_beginning
from wiretape.contract import CURSOR_HEADER, RETRY_AFTER, TOOL_TYPES
from wiretape.event import Event, TimedFrame
from wiretape.observations import Side, header
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape.safe_text import printable
from wiretape.units import format_duration, format_integer
from wiretape_inspect.report.fingerprint import DefectKind, expected_pattern, request_template
from wiretape_inspect.timeline_text import bytes_before_loss

EVIDENCE_WIDTH = 109
"""Characters of a line of evidence unless the width is known: with the margin they fit into 120 columns."""
MAX_BYTES = 1024
"""Bytes of a frame that are kept."""
_MAX_STREAMS = 32
"""Streams that are read at once to locate findings; others are resumed at the previous event."""
_MAX_LINES = 6
_MAX_BODY = 240
_LINE_END = re.compile(r"\r\n|\r|\n")
_BYTE_LINE_END = re.compile(rb"\r\n|\r|\n")
_REQUEST_HEADERS = ("Authorization", CURSOR_HEADER)
_RESPONSE_HEADERS = ("Content-Type", "Content-Encoding", RETRY_AFTER)


@dataclass(frozen=True, slots=True)
class LocatedFrame:
    """A frame of a stream, and its location in what `wiretape export --format sse` writes."""

    seen: TimedFrame
    line: int
    """Number of its first line there, from 1."""
    exported: int
    """Its offset there, which is less than in the body if bytes were lost."""

    @property
    def event(self) -> Event | None:
        """The frame, if it is an event."""
        return self.seen if isinstance(self.seen, Event) else None


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding, its exchange, and the frame at its location."""

    index: int
    """Index of the finding in the report."""
    finding: Finding
    exchange: Exchange
    frame: LocatedFrame | None
    """None if the finding is not about a frame."""
    before: LocatedFrame | None
    """The previous event on the same connection."""

    @property
    def kind(self) -> DefectKind:
        """What it has in common with findings of the same defect."""
        finding, exchange, frame = self.finding, self.exchange, self.frame
        event = frame.event if frame is not None else None
        about = event.type if event is not None else ""
        if finding.event is None and exchange.response is not None and not exchange.is_stream:
            about = f"status {exchange.response.status}"
        return DefectKind(
            code=finding.code,
            request=request_template(exchange.request.method, exchange.request.target),
            about=about,
            tool=(event.tool_name or "") if event is not None and event.type in TOOL_TYPES else "",
            expected=expected_pattern(finding.message),
        )


def locate(recording: Recording, findings: Iterable[Finding]) -> Iterator[LocatedFinding]:
    """Locate findings that are in the order of a report; reads few streams at once, and little of them twice."""
    streams: dict[int, _StreamLocator] = {}
    positions: dict[int, _Position] = {}
    for index, finding in enumerate(findings):
        number = finding.exchange
        stream = streams.pop(number, None)
        if stream is None:
            stream = _StreamLocator(recording, recording.exchange(number), positions.get(number, _BEGINNING))
            if len(streams) == _MAX_STREAMS:
                oldest = next(iter(streams))
                positions[oldest] = streams.pop(oldest).position
        streams[number] = stream
        # Without an offset it cannot be located, so the stream is not read on.
        offset = finding.byte_offset
        frame, before = stream.find(offset) if offset is not None else (None, None)
        yield LocatedFinding(index, finding, stream.exchange, frame, before)


@dataclass(frozen=True, slots=True)
class _Position:
    """An event from which a stream can be read on."""

    event: int
    start: int
    """Its offset. Only the events after it can be located, because each needs the one before it."""
    line: int
    exported: int


_BEGINNING = _Position(event=1, start=-1, line=1, exported=0)


class _StreamLocator:
    """Finds the frames of one stream by offsets that usually increase."""

    def __init__(self, recording: Recording, exchange: Exchange, position: _Position) -> None:
        self._recording = recording
        self.exchange = exchange
        self._start(position)

    def _start(self, position: _Position) -> None:
        self._frames = _located_frames(self._recording, self.exchange, position)
        self._reached = position.start + 1
        self._frame: LocatedFrame | None = None
        self._before: LocatedFrame | None = None

    @property
    def position(self) -> _Position:
        """The position of the previous event."""
        before = self._before
        if before is None or before.event is None or before.event.number == 1:
            return _BEGINNING
        return _Position(before.event.number, before.seen.frame.start, before.line, before.exported)

    def find(self, offset: int) -> tuple[LocatedFrame | None, LocatedFrame | None]:
        """Return the frame at an offset and the event before it; None if there is no such frame."""
        if offset < self._reached:
            self._start(_BEGINNING)
        while self._frame is None or self._reached < offset:
            following = next(self._frames, None)
            if following is None:
                return None, None
            if self._frame is not None and self._frame.event is not None:
                self._before = self._frame
            self._frame, self._reached = following, following.seen.frame.start
        return (self._frame, self._before) if self._reached == offset else (None, None)


def _located_frames(recording: Recording, exchange: Exchange, position: _Position) -> Iterator[LocatedFrame]:
    line, exported = position.line, position.exported
    for seen in recording.frames(exchange.number, position.event):
        yield LocatedFrame(seen, line, exported)
        line += len(_BYTE_LINE_END.findall(seen.frame.raw))
        exported += len(seen.frame.raw)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Lines that show a location, each with a mark for the margin.  All of it is safe to print."""

    end: int | None
    """Offset after the frame, if the location is one."""
    lines: list[tuple[str, str]]


def evidence(recording: Recording, located: LocatedFinding, width: int = EVIDENCE_WIDTH) -> Evidence:
    """Return what is at the location of a finding, in lines of at most `width` characters."""
    if located.frame is not None:
        return _frame_evidence(located.frame.seen, located.before, width)
    if located.finding.event is None and located.finding.byte_offset is None:
        return _response_evidence(recording, located.exchange, width)
    return Evidence(None, [])


def _frame_evidence(seen: TimedFrame, before: LocatedFrame | None, width: int) -> Evidence:
    """The lines of a frame, after one line about the previous event."""
    lines = [] if before is None or before.event is None else [_previous_event(before.event, seen, width)]
    mark = str(seen.number) if isinstance(seen, Event) else ""
    lines += zip([mark] + [""] * _MAX_LINES, _excerpt(seen.frame.raw, width), strict=False)
    return Evidence(seen.frame.end, lines)


def _previous_event(before: Event, seen: TimedFrame, width: int) -> tuple[str, str]:
    parts = [before.type or "(no type)"]
    parts += [f"id {before.id}"] if before.id is not None else []
    parts += [f"sequence {format_integer(before.sequence)}"] if before.sequence is not None else []
    text = f"({' · '.join(parts)}, {format_duration(seen.time_ns - before.time_ns)} before)"
    return str(before.number), shorten_line(text, width)


def _excerpt(raw: bytes, width: int) -> list[str]:
    """Return the first lines of bytes, cut to the width; bytes that are not UTF-8 become escapes."""
    most = 4 * width * _MAX_LINES
    lines = _LINE_END.split(raw[:most].decode("utf-8", "backslashreplace").rstrip("\r\n"))
    shown = [shorten_line(line, width) for line in lines[:_MAX_LINES]]
    return [*shown, "…"] if len(lines) > _MAX_LINES or (len(raw) > most and len(shown) == _MAX_LINES) else shown


def _response_evidence(recording: Recording, exchange: Exchange, width: int) -> Evidence:
    """The head of a response, and the beginning of a body that is not a stream."""
    response = exchange.response
    if response is None:
        return Evidence(None, [])
    headers = [(name, header(response.headers, name)) for name in _RESPONSE_HEADERS]
    lines = [("<", f"{response.status} {response.reason}".rstrip())]
    lines += [("<", f"{name}: {value}") for name, value in headers if value is not None]
    if not exchange.is_stream:
        lines += [("", line) for line in _excerpt(_body_beginning(recording, exchange, _MAX_BODY + 1), width)]
    return Evidence(None, [(mark, shorten_line(line, width)) for mark, line in lines])


def _body_beginning(recording: Recording, exchange: Exchange, size: int) -> bytes:
    """Return the first `size` bytes of a response body, decoded as far as possible."""
    parts = bytes_before_loss(recording.body(exchange.number, Side.RESPONSE))
    return decode_beginning(exchange.content_encoding, parts, size)[0]


def request_headers(exchange: Exchange, width: int = EVIDENCE_WIDTH) -> list[str]:
    """Return the request headers that rules about clients depend on, safe to print."""
    headers = exchange.request.headers
    found = [(name, header(headers, name)) for name in _REQUEST_HEADERS]
    return [shorten_line(f"{name}: {value}", width) for name, value in found if value is not None]


def shorten_line(line: str, width: int) -> str:
    """Make a line safe to print, and cut it to `width` characters."""
    shown = printable(line[: width + 1])
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def bytes_at(recording: Recording, located: LocatedFinding) -> bytes | None:
    """Return the first `MAX_BYTES` bytes of the frame of a finding, or of a response that is not a stream.

    None if the finding is about neither.
    """
    if located.frame is not None:
        return located.frame.seen.frame.raw[:MAX_BYTES]
    exchange = located.exchange
    if located.finding.byte_offset is not None or exchange.is_stream or not exchange.response_bytes:
        return None
    return _body_beginning(recording, exchange, MAX_BYTES)
