"""The chunks of a body put together with the frames in them: what a tape tells as one observation.

Where a chunk ends and a frame ends too, an observation ends.  In most streams each event came in one chunk, and is
one observation; otherwise it is as many of both as it takes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wiretape.observations import BytesArrived, BytesLost
from wiretape.sse import Frame, FrameKind, Parser

_MOST_BYTES = 64 * 1024
"""Where chunks and frames do not meet within so many bytes, frames are cut."""


@dataclass(slots=True)
class Group:
    """Chunks that belong together, and the frames that they are."""

    times: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """For each chunk where it ends, from the beginning of the group."""
    parts: list[bytes] = field(default_factory=list)
    frames: list[Frame] | None = None
    """None in a body that is no event stream."""

    @property
    def time_ns(self) -> int:
        """When the first chunk came."""
        return self.times[0]

    @property
    def data(self) -> bytes:
        """All bytes."""
        return b"".join(self.parts)

    def add(self, time_ns: int, data: bytes) -> None:
        """Add a chunk."""
        self.times.append(time_ns)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(data))
        self.parts.append(data)


def grouped(body: Iterable[BytesArrived | BytesLost], *, as_events: bool) -> Iterator[Group | BytesLost]:
    """A body as observations of a tape."""
    return _streamed(_in_time(body)) if as_events else _plain(_in_time(body))


def _in_time(body: Iterable[BytesArrived | BytesLost]) -> Iterator[BytesArrived | BytesLost]:
    """In order of time also where chunks without bytes came just before some were lost: they stand at one offset."""
    lost: list[BytesLost] = []
    for part in body:
        if isinstance(part, BytesLost):
            lost.append(part)
            continue
        if not lost or part.start > lost[0].start or part.time_ns > lost[0].time_ns:
            yield from lost
            lost.clear()
        yield part
    yield from lost


def _plain(body: Iterable[BytesArrived | BytesLost]) -> Iterator[Group | BytesLost]:
    for part in body:
        if isinstance(part, BytesLost):
            yield part
            continue
        for time_ns, data in part.chunks():
            yield Group([time_ns], [len(data)], [data])


def _streamed(body: Iterable[BytesArrived | BytesLost]) -> Iterator[Group | BytesLost]:
    stream = _Stream()
    for part in body:
        if isinstance(part, BytesLost):
            yield from stream.cut(part.start + part.count)
            yield part
            continue
        for time_ns, data in part.chunks():
            yield from stream.take(time_ns, data)
    yield from stream.cut()


class _Stream:
    def __init__(self) -> None:
        self._parser = Parser()
        self._group = Group(frames=[])
        self._framed = 0

    def take(self, time_ns: int, data: bytes) -> Iterator[Group]:
        group = self._group
        if group.frames is None:
            raise AssertionError(group)
        group.add(time_ns, data)
        for frame in self._parser.feed(data):
            group.frames.append(frame)
            self._framed += len(frame.raw)
        if self._framed == group.ends[-1]:
            yield self._done()
        elif group.ends[-1] > _MOST_BYTES:
            yield from self.cut(0)

    def cut(self, start: int = 0) -> Iterator[Group]:
        """The group as far as it has got, cut where it is; what comes next begins anew."""
        group = self._group
        if group.parts and group.frames is not None:
            rest = group.data[self._framed :]
            group.frames += [Frame(FrameKind.TAIL, 0, rest)] if rest else []
            yield self._done()
        self._parser = Parser(start=max(start, 1), midstream=True)

    def _done(self) -> Group:
        done, self._group, self._framed = self._group, Group(frames=[]), 0
        return done
