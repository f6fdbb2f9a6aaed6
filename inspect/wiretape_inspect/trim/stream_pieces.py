"""Split event streams into their frames, and join some of the frames again."""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from wiretape.content_encoding import is_identity
from wiretape.frame_reader import StreamReaders
from wiretape.observations import BytesArrived, BytesLost, Observation, ResponseStarted, Side, header

Part = tuple[int, bytes] | BytesLost
"""A chunk with its time, or lost bytes."""


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """A frame of a stream as chunks, or lost bytes."""

    exchange: int
    position: int
    """Its index among the pieces of the stream."""
    parts: tuple[Part, ...]

    @property
    def time_ns(self) -> int:
        """When its first byte arrived."""
        first = self.parts[0]
        return first.time_ns if isinstance(first, BytesLost) else first[0]


@dataclass(slots=True)
class SplitObservations:
    """Observations with their streams in pieces."""

    fixed: list[Observation] = field(default_factory=list)
    """Everything except pieces of streams."""
    pieces: list[StreamPiece] = field(default_factory=list)
    """In order of time."""

    def join(self, kept: Iterable[StreamPiece]) -> list[Observation]:
        """The observations with some of the pieces, as if the others had never been sent, in order of time."""
        streams: dict[int, list[Part]] = defaultdict(list)
        for piece in sorted(kept, key=lambda piece: (piece.exchange, piece.position)):
            for part in piece.parts:
                _append(streams[piece.exchange], part)
        runs = [run for number, parts in streams.items() for run in _runs(number, parts)]
        return sorted([*self.fixed, *runs], key=lambda seen: seen.time_ns)


def split_streams(observations: list[Observation]) -> SplitObservations:
    """Split streams into pieces; streams with a content encoding or a Content-Length stay split."""
    split = SplitObservations()
    divisible = _divisible(observations)
    bodies: dict[int, list[Part]] = defaultdict(list)
    cuts: dict[int, list[int]] = defaultdict(list)
    readers = StreamReaders()
    for seen in observations:
        read = readers.read(seen)
        if seen.exchange in divisible:
            cuts[seen.exchange] += [frame.frame.end for frame in read.frames]
        if (
            not isinstance(seen, BytesArrived | BytesLost)
            or seen.side is not Side.RESPONSE
            or seen.exchange not in divisible
        ):
            split.fixed.append(seen)
        else:
            bodies[seen.exchange] += seen.chunks() if isinstance(seen, BytesArrived) else [seen]
    for number, parts in bodies.items():
        split.pieces += _pieces(number, parts, cuts[number])
    split.pieces.sort(key=lambda piece: (piece.time_ns, piece.exchange, piece.position))
    return split


def _divisible(observations: Iterable[Observation]) -> Collection[int]:
    """The exchanges whose stream can be split at its frames."""
    found: set[int] = set()
    for seen in observations:
        if isinstance(seen, ResponseStarted):
            is_plain = is_identity(header(seen.headers, "content-encoding"))
            if is_plain and header(seen.headers, "content-length") is None:
                found.add(seen.exchange)
    return found


def _append(parts: list[Part], part: Part) -> None:
    """Append a part; what arrived in one chunk stays one chunk."""
    before = parts[-1] if parts else None
    if isinstance(part, tuple) and isinstance(before, tuple) and before[0] == part[0]:
        parts[-1] = (part[0], before[1] + part[1])
    else:
        parts.append(part)


def _pieces(number: int, body: list[Part], ends: list[int]) -> list[StreamPiece]:
    """Cut a body at the ends of its frames and around lost bytes; the rest after the last frame is a piece too."""
    pieces: list[list[Part]] = [[]]
    at, next_ends = 0, iter([*ends, sys.maxsize])
    end = next(next_ends)
    for part in body:
        if isinstance(part, BytesLost):
            pieces += [[part], []]
            at = part.start + part.count
            continue
        time_ns, data = part
        while at + len(data) >= end:
            pieces[-1].append((time_ns, data[: end - at]))
            pieces.append([])
            data, at, end = data[end - at :], end, next(next_ends)
        if data or not part[1]:
            pieces[-1].append((time_ns, data))
            at += len(data)
    return [StreamPiece(number, position, tuple(parts)) for position, parts in enumerate(pieces) if parts]


def _runs(number: int, parts: Iterable[Part]) -> Iterable[BytesArrived | BytesLost]:
    start = 0
    for part in parts:
        if isinstance(part, BytesLost):
            yield replace(part, start=start)
            start += part.count
        else:
            time_ns, data = part
            yield BytesArrived(number, Side.RESPONSE, start, data, (start + len(data),), (time_ns,))
            start += len(data)
