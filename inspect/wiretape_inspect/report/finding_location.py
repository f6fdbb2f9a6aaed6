"""Where findings are: the frame on the wire, and the line and column in a text file."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path, PurePath

from msgspec import Struct

from wiretape.content_encoding import is_identity
from wiretape.event import Event, TimedFrame
from wiretape.observations import Side
from wiretape.recording import Exchange, Recording
from wiretape.recording.formats import detect_format
from wiretape.recording.schema import is_sqlite_file
from wiretape.rules import Finding, Party

LineAndColumn = tuple[int, int]

_MAX_STREAMS = 32
"""Streams that are read at once to locate findings; others are resumed at the previous event."""
_LINE_END = re.compile(rb"\r\n|\r|\n")


class LocatedFrame(Struct, frozen=True):
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


class LocatedFinding(Struct, frozen=True):
    """A finding, its exchange, and the frame at its location."""

    finding: Finding
    exchange: Exchange
    frame: LocatedFrame | None
    """None if the finding is not about a frame."""
    before: Event | None
    """The previous event on the same connection."""
    suppressed_by: str | None = None
    """The reason that the baseline gives for it; None if it is new."""

    @property
    def event(self) -> Event | None:
        """The frame, if it is an event."""
        return self.frame.event if self.frame is not None else None


def locate(
    recording: Recording, findings: Iterable[Finding], suppressed_by: Iterable[str | None] = repeat(None)
) -> Iterator[LocatedFinding]:
    """Locate findings that are in the order of a report; reads few streams at once, and little of them twice."""
    streams: dict[int, _StreamLocator] = {}
    positions: dict[int, LocatedFrame | None] = {}
    for finding, reason in zip(findings, suppressed_by, strict=False):
        number = finding.exchange
        stream = streams.pop(number, None)
        if stream is None:
            stream = _StreamLocator(recording, recording.exchange(number), positions.get(number))
            if len(streams) == _MAX_STREAMS:
                oldest = next(iter(streams))
                positions[oldest] = streams.pop(oldest).before
        streams[number] = stream
        # Without an offset it cannot be located, so the stream is not read on.
        frame = stream.find(finding.byte_offset) if finding.byte_offset is not None else None
        before = stream.before.event if frame is not None and stream.before is not None else None
        yield LocatedFinding(finding, stream.exchange, frame, before, reason)


def locate_one(recording: Recording, finding: Finding) -> LocatedFinding:
    """Locate one finding; the index finds its event without reading the stream up to it."""
    if finding.event is None:
        return next(locate(recording, [finding]))
    frame = before = None
    for seen in recording.frames(finding.exchange, max(finding.event - 1, 1)):
        frame = LocatedFrame(seen, 0, 0)
        if frame.event is not None:
            if frame.event.number >= finding.event:
                break
            before = frame.event
    return LocatedFinding(finding, recording.exchange(finding.exchange), frame, before)


class _StreamLocator:
    """Finds the frames of one stream by offsets that usually increase."""

    def __init__(self, recording: Recording, exchange: Exchange, after: LocatedFrame | None) -> None:
        self._recording = recording
        self.exchange = exchange
        self._start(after)

    def _start(self, after: LocatedFrame | None) -> None:
        """Read on from an event, or from the beginning.

        Only the frames after that event can be located, because each needs the event before it.
        """
        self._frames = _located_frames(self._recording, self.exchange, after)
        self._reached = after.seen.frame.start + 1 if after is not None else 0
        self._frame: LocatedFrame | None = None
        self.before: LocatedFrame | None = None
        """The event before the frame that was found last."""

    def find(self, offset: int) -> LocatedFrame | None:
        """Return the frame at an offset; None if there is no such frame."""
        if offset < self._reached:
            self._start(None)
        while self._frame is None or self._reached < offset:
            following = next(self._frames, None)
            if following is None:
                return None
            if self._frame is not None and self._frame.event is not None:
                self.before = self._frame
            self._frame, self._reached = following, following.seen.frame.start
        return self._frame if self._reached == offset else None


def _located_frames(recording: Recording, exchange: Exchange, after: LocatedFrame | None) -> Iterator[LocatedFrame]:
    number, line, exported = 1, 1, 0
    if after is not None and after.event is not None and after.event.number > 1:
        number, line, exported = after.event.number, after.line, after.exported
    for seen in recording.frames(exchange.number, number):
        yield LocatedFrame(seen, line, exported)
        line += len(_LINE_END.findall(seen.frame.raw))
        exported += len(seen.frame.raw)


class SourceMap:
    """Finds lines and columns in a recording's file; none if it is a database."""

    def __init__(self, path: Path) -> None:
        """Read the positions in the file.  Raises InputError."""
        self._heads: dict[tuple[int, Side], LineAndColumn] = {}
        self._starts: dict[int, list[int]] = {}
        self._parts: dict[int, list[LineAndColumn]] = {}
        format_ = None if is_sqlite_file(path) else detect_format(path)
        find_positions = format_.reader().positions if format_ is not None else None
        for position in find_positions(path) if find_positions is not None else ():
            if position.start is None:
                self._heads[position.exchange, position.side] = position.line, position.column
            elif position.side is Side.RESPONSE:
                self._starts.setdefault(position.exchange, []).append(position.start)
                self._parts.setdefault(position.exchange, []).append((position.line, position.column))

    def find(self, finding: Finding, exchange: Exchange) -> LineAndColumn | None:
        """Return the line and the column of what a finding is about; None if the recording is a database.

        That is where its first byte is, or else the request if the client broke the rule, or else the response.
        """
        starts = self._starts.get(exchange.number)
        if finding.byte_offset is not None and starts and is_identity(exchange.content_encoding):
            return self._parts[exchange.number][max(bisect_right(starts, finding.byte_offset) - 1, 0)]
        request = self._heads.get((exchange.number, Side.REQUEST))
        return request if finding.side is Party.CLIENT else self._heads.get((exchange.number, Side.RESPONSE), request)

    def find_in_code(self, file: str, located: LocatedFinding) -> tuple[str, int, int | None]:
        """Return the file name, the line and the column of a finding in `file`, for viewers of code.

        The file is the recording if it is text, or else the exported stream, in which findings have no column.  Viewers
        of code require a line, so a finding about no event of a database points at its first one.
        """
        name = PurePath(file)
        if (found := self.find(located.finding, located.exchange)) is not None:
            return name.name if name.is_absolute() else name.as_posix(), *found
        if located.frame is None:
            return name.name, 1, None
        return f"{name.stem}.exchange-{located.exchange.number}.sse", located.frame.line, None
