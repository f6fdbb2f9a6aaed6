"""Event streams taken apart into their frames, and put together again from some of them."""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from wiretape.content_encoding import is_identity
from wiretape.frame_reader import StreamReaders
from wiretape.observations import BytesArrived, BytesLost, Observation, ResponseStarted, Side, header

Part = tuple[int, bytes] | BytesLost
"""When a chunk came, and what; or what was lost."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A frame of a stream, in the chunks that it came in, or a loss."""

    exchange: int
    place: int
    """Its number among the frames of the stream."""
    parts: tuple[Part, ...]

    @property
    def time_ns(self) -> int:
        """When its first byte came."""
        first = self.parts[0]
        return first.time_ns if isinstance(first, BytesLost) else first[0]


@dataclass(slots=True)
class Apart:
    """What was observed, streams in pieces."""

    fixed: list[Observation] = field(default_factory=list)
    """What is no piece of a stream that can be left out."""
    pieces: list[Piece] = field(default_factory=list)
    """In the order in which they began to come."""

    def together(self, kept: Iterable[Piece]) -> list[Observation]:
        """The observations with some of the pieces, as if the others had never been sent, in order of time."""
        streams: dict[int, list[Part]] = defaultdict(list)
        for piece in sorted(kept, key=lambda piece: (piece.exchange, piece.place)):
            for part in piece.parts:
                _append(streams[piece.exchange], part)
        runs = [run for number, parts in streams.items() for run in _runs(number, parts)]
        return sorted([*self.fixed, *runs], key=lambda seen: seen.time_ns)


def apart(observations: list[Observation]) -> Apart:
    """Take streams apart; those that are encoded or have an announced length stay whole."""
    whole = Apart()
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
            whole.fixed.append(seen)
        else:
            bodies[seen.exchange] += seen.chunks() if isinstance(seen, BytesArrived) else [seen]
    for number, parts in bodies.items():
        whole.pieces += _pieces(number, parts, cuts[number])
    whole.pieces.sort(key=lambda piece: (piece.time_ns, piece.exchange, piece.place))
    return whole


def _divisible(observations: Iterable[Observation]) -> Collection[int]:
    """The exchanges with a stream whose bytes are its frames."""
    found: set[int] = set()
    for seen in observations:
        if isinstance(seen, ResponseStarted):
            plain = is_identity(header(seen.headers, "content-encoding"))
            if plain and header(seen.headers, "content-length") is None:
                found.add(seen.exchange)
    return found


def _append(parts: list[Part], part: Part) -> None:
    """Add a part to those before it; what came in one chunk stays one."""
    before = parts[-1] if parts else None
    if isinstance(part, tuple) and isinstance(before, tuple) and before[0] == part[0]:
        parts[-1] = (part[0], before[1] + part[1])
    else:
        parts.append(part)


def _pieces(number: int, body: list[Part], ends: list[int]) -> list[Piece]:
    """A body cut at the ends of its frames and around losses; what stands behind the last one is a piece too."""
    pieces: list[list[Part]] = [[]]
    at, coming = 0, iter([*ends, sys.maxsize])
    end = next(coming)
    for part in body:
        if isinstance(part, BytesLost):
            pieces += [[part], []]
            at = part.start + part.count
            continue
        time_ns, data = part
        while at + len(data) >= end:
            pieces[-1].append((time_ns, data[: end - at]))
            pieces.append([])
            data, at, end = data[end - at :], end, next(coming)
        if data or not part[1]:
            pieces[-1].append((time_ns, data))
            at += len(data)
    return [Piece(number, place, tuple(parts)) for place, parts in enumerate(pieces) if parts]


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
