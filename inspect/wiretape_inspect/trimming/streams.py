"""Event streams taken apart into their frames, and put together again from some of them."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from wiretape.encoding import is_identity
from wiretape.observe import BytesArrived, BytesLost, Observation, ResponseStarted, Side, header
from wiretape.stream import StreamReaders

Chunk = tuple[int, bytes]
"""When it came, and what."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A frame of a stream, in the chunks that it came in."""

    exchange: int
    place: int
    """Its number among the frames of the stream."""
    chunks: tuple[Chunk, ...]

    @property
    def time_ns(self) -> int:
        """When its first byte came."""
        return self.chunks[0][0]


@dataclass(slots=True)
class Apart:
    """What was observed, streams in pieces."""

    fixed: list[Observation] = field(default_factory=list)
    """What is no piece of a stream that can be left out."""
    pieces: list[Piece] = field(default_factory=list)
    """In the order in which they began to come."""

    def together(self, kept: Iterable[Piece]) -> list[Observation]:
        """The observations with some of the pieces, as if the others had never been sent, in order of time."""
        streams: dict[int, list[Chunk]] = defaultdict(list)
        for piece in sorted(kept, key=lambda piece: (piece.exchange, piece.place)):
            for time_ns, data in piece.chunks:
                chunks = streams[piece.exchange]
                if chunks and chunks[-1][0] == time_ns:
                    # Both came in one chunk.
                    data = chunks.pop()[1] + data  # noqa: PLW2901 - it is still this chunk
                chunks.append((time_ns, data))
        runs = [run for number, chunks in streams.items() for run in _runs(number, chunks)]
        return sorted([*self.fixed, *runs], key=lambda seen: seen.time_ns)


def apart(observations: list[Observation]) -> Apart:
    """Take streams apart; those that are encoded, have gaps or an announced length stay whole."""
    whole = Apart()
    divisible = _divisible(observations)
    bodies: dict[int, list[Chunk]] = defaultdict(list)
    cuts: dict[int, list[int]] = defaultdict(list)
    readers = StreamReaders()
    for seen in observations:
        read = readers.read(seen)
        if seen.exchange in divisible:
            cuts[seen.exchange] += [frame.frame.end for frame in read.frames]
        if isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE and seen.exchange in divisible:
            bodies[seen.exchange] += seen.chunks()
        else:
            whole.fixed.append(seen)
    for number, chunks in bodies.items():
        whole.pieces += _pieces(number, chunks, cuts[number])
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
        elif isinstance(seen, BytesLost) and seen.side is Side.RESPONSE:
            found.discard(seen.exchange)
    return found


def _pieces(number: int, chunks: list[Chunk], ends: list[int]) -> list[Piece]:
    """A body cut at the ends of its frames; what stands behind the last one is a piece too."""
    pieces: list[Piece] = []
    parts: list[Chunk] = []
    at, coming = 0, iter(ends)
    end = next(coming, None)
    for time_ns, data in chunks:
        left = data
        while end is not None and at + len(left) >= end:
            parts.append((time_ns, left[: end - at]))
            left, at = left[end - at :], end
            pieces.append(Piece(number, len(pieces), tuple(parts)))
            parts, end = [], next(coming, None)
        if left or not data:
            parts.append((time_ns, left))
            at += len(left)
    if parts:
        pieces.append(Piece(number, len(pieces), tuple(parts)))
    return pieces


def _runs(number: int, chunks: Iterable[Chunk]) -> Iterable[BytesArrived]:
    start = 0
    for time_ns, data in chunks:
        yield BytesArrived(number, Side.RESPONSE, start, data, (start + len(data),), (time_ns,))
        start += len(data)
