"""Find a small recording that still shows a finding, by delta debugging: remove parts and run the rules again."""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from wiretape.checker import EVERY, Checker, Settings, codes_of
from wiretape.content_encoding import is_identity
from wiretape.contract.contract_facts import ContractChoice, given_or_detected
from wiretape.errors import InputError
from wiretape.frame_reader import StreamReaders
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
    last_time_ns,
)
from wiretape.recording import observe_body
from wiretape.rules import Finding
from wiretape_inspect.exchange_selection import ObservationReader, cut_after

Item = TypeVar("Item")
Part = tuple[int, bytes] | BytesLost
"""A chunk with its time, or lost bytes."""

_MAX_TRIES = 400
"""How often the rules run at most on subsets of the frames; a quarter of that on subsets of the exchanges."""
_MAX_FRAMES = 2_000_000
"""About how many frames they check at most in all tries."""
_LOCATION = re.compile(r"\b(event|from byte) [0-9,]+")
"""A location in a stream within a message."""


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
    """Split streams into pieces at their frames; those with a content encoding or a Content-Length stay whole."""
    split = SplitObservations()
    bodies: dict[int, list[Part]] = {}
    cuts: dict[int, list[int]] = defaultdict(list)
    readers = StreamReaders()
    for seen in observations:
        cuts[seen.exchange] += [frame.frame.end for frame in readers.read(seen).frames]
        if isinstance(seen, ResponseStarted):
            encoding, length = (header(seen.headers, name) for name in ("content-encoding", "content-length"))
            if is_identity(encoding) and length is None:
                bodies[seen.exchange] = []
        if isinstance(seen, BytesArrived | BytesLost) and seen.side is Side.RESPONSE and seen.exchange in bodies:
            bodies[seen.exchange] += seen.chunks() if isinstance(seen, BytesArrived) else [seen]
        else:
            split.fixed.append(seen)
    for number, parts in bodies.items():
        split.pieces += _pieces(number, parts, cuts[number])
    split.pieces.sort(key=lambda piece: (piece.time_ns, piece.exchange, piece.position))
    return split


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
            yield from observe_body(number, Side.RESPONSE, [part], start)
            start += len(part[1])


@dataclass(frozen=True, slots=True)
class MinimalRecording:
    """What a finding needs."""

    finding: Finding
    """As in the whole recording."""
    observations: list[Observation]
    removed_exchanges: int
    removed_frames: int
    """How many frames were removed from the streams that are kept."""


def minimize(
    read: ObservationReader, prefix: str = EVERY, settings: Settings | None = None, *, upstream: str | None = None
) -> MinimalRecording:
    """Find the minimum that shows the first finding whose code begins with `prefix`.

    `upstream` is that of the recording; see `Checker`.  Holds the result in memory.  Raises InputError if there is no
    such finding, and UnknownCodeError.
    """
    finding, at_ns = _first_finding(read(), prefix, settings, upstream)

    def read_until_finding() -> Iterator[Observation]:
        return cut_after(read(), at_ns)

    def holds(observations: Iterable[Observation]) -> bool:
        return find_finding(observations, finding, settings, upstream=upstream) is not None

    numbers = _needed_exchanges(
        read_until_finding, finding, holds, given_or_detected((settings or Settings()).contracts)
    )
    kept = [seen for seen in read_until_finding() if seen.exchange in numbers]
    split = split_streams(kept)
    observations = kept
    # Splitting and joining the streams may change something that matters, such as the times of empty chunks.
    if holds(split.join(split.pieces)):
        budget = Budget(_MAX_TRIES, _MAX_FRAMES)
        observations = split.join(reduce_items(split.pieces, lambda pieces: holds(split.join(pieces)), budget))
    exchanges, frames = _count(read(), numbers)
    return MinimalRecording(finding, observations, exchanges - len(numbers), frames - _count(observations, numbers)[1])


def _count(observations: Iterable[Observation], numbers: Collection[int]) -> tuple[int, int]:
    """The number of exchanges, and of frames in the streams of some of them."""
    exchanges = frames = 0
    readers = StreamReaders()
    for seen in observations:
        exchanges += isinstance(seen, RequestStarted)
        frames += len(readers.read(seen).frames) if seen.exchange in numbers else 0
    return exchanges, frames


def _first_finding(
    observations: Iterable[Observation], prefix: str, settings: Settings | None, upstream: str | None
) -> tuple[Finding, int | None]:
    """The first finding, and when it was certain; None: only at the end of the recording."""
    codes = codes_of(prefix, (settings or Settings()).catalogue)
    for finding, time_ns in _findings(observations, settings, upstream):
        if finding.code in codes:
            return finding, time_ns
    which = "" if prefix == EVERY else f" of {prefix}"
    raise InputError(f"The selected part of the recording has no findings{which}.")


def find_finding(
    observations: Iterable[Observation],
    wanted: Finding,
    settings: Settings | None = None,
    *,
    upstream: str | None = None,
) -> Finding | None:
    """The same finding in other observations; None if they do not show it."""
    same = _identity(wanted)
    return next((found for found, _ in _findings(observations, settings, upstream) if _identity(found) == same), None)


def _findings(
    observations: Iterable[Observation], settings: Settings | None, upstream: str | None
) -> Iterator[tuple[Finding, int | None]]:
    """Yield each finding, and when it was certain; None: only at the end of the recording."""
    checker = Checker(settings, upstream=upstream)
    for seen in observations:
        yield from ((finding, last_time_ns(seen)) for finding in checker.feed(seen))
    yield from ((finding, None) for finding in checker.finish())


def _identity(finding: Finding) -> Finding:
    """What stays the same about a finding when other events and exchanges are removed.

    The message does, apart from locations in streams: otherwise the finding could have another reason than before.
    """
    time_ns = 0 if finding.event is None else finding.time_ns
    event = None if finding.event is None else 0
    message = _LOCATION.sub(r"\1", finding.message)
    return replace(finding, event=event, byte_offset=None, time_ns=time_ns, message=message)


def _needed_exchanges(
    read: ObservationReader,
    finding: Finding,
    shows_finding: Callable[[Iterable[Observation]], bool],
    contracts: ContractChoice,
) -> frozenset[int]:
    """The exchanges that the finding needs; tries those of its channel first."""
    requests = {seen.exchange: seen for seen in read() if isinstance(seen, RequestStarted)}

    def holds(numbers: Iterable[int]) -> bool:
        kept = frozenset(numbers) | {finding.exchange}
        return shows_finding(seen for seen in read() if seen.exchange in kept)

    others = [number for number in requests if number != finding.exchange]
    channels = {number: contracts.channel_in(request.target) for number, request in requests.items()}
    same_channel = [number for number in others if channels[number] == channels[finding.exchange] is not None]
    budget = Budget(_MAX_TRIES // 4, _MAX_FRAMES)
    for candidates in ([], same_channel):
        if budget.spend(1) and holds(candidates):
            others = candidates
            break
    return frozenset(reduce_items(others, holds, budget)) | {finding.exchange}


@dataclass(slots=True)
class Budget:
    """How much may still be tried."""

    tries: int
    items: int
    """How many items, in all tries together."""

    def spend(self, items: int) -> bool:
        """Whether another try, with this many items, is possible."""
        self.tries -= 1
        self.items -= items
        return self.is_left

    @property
    def is_left(self) -> bool:
        """Whether anything is left."""
        return self.tries >= 0 and self.items >= 0


def reduce_items(items: Sequence[Item], holds: Callable[[list[Item]], bool], budget: Budget) -> list[Item]:
    """The items that `holds` needs, in order, as far as the budget goes; `holds` is true for all of them.

    Removes parts of decreasing size as long as `holds` stays true.  The result was tried, unless it is `items`.
    """
    kept = list(items)
    size = len(kept)
    while size:
        fewer = _remove_parts(kept, size, holds, budget)
        if size == 1 and len(fewer) == len(kept):
            break
        kept, size = fewer, min(max(size // 2, 1), len(fewer))
        if not budget.is_left:
            break
    return kept


def _remove_parts(kept: list[Item], size: int, holds: Callable[[list[Item]], bool], budget: Budget) -> list[Item]:
    """Remove each part of a size that is not needed, the last one first."""
    end = len(kept)
    while end > 0:
        begin = max(end - size, 0)
        fewer = kept[:begin] + kept[end:]
        if not budget.spend(len(fewer)):
            break
        if holds(fewer):
            kept = fewer
        end = begin
    return kept
