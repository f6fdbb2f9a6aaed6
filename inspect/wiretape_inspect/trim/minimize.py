"""Find the smallest recording that still shows a finding, by delta debugging: remove parts and run the rules again."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from wiretape.contract import operation_of
from wiretape.errors import InputError
from wiretape.frame_reader import StreamReaders
from wiretape.observations import BytesArrived, Observation, RequestStarted
from wiretape.rules import EVERY, Checker, Finding, codes_of
from wiretape_inspect.trim.recording_part import ObservationReader, cut_after
from wiretape_inspect.trim.stream_pieces import SplitObservations, StreamPiece, split_streams

Item = TypeVar("Item")

_MAX_TRIES = 400
"""How often the rules run at most on subsets of the frames; a quarter of that on subsets of the exchanges."""
_MAX_FRAMES = 2_000_000
"""About how many frames they check at most in all tries."""
_LOCATION = re.compile(r"\b(event|from byte) [0-9,]+")
"""A location in a stream within a message."""


@dataclass(frozen=True, slots=True)
class MinimalRecording:
    """What a finding needs."""

    finding: Finding
    """As in the whole recording."""
    observations: list[Observation]
    removed_exchanges: int
    removed_frames: int
    """How many frames were removed from the streams that are kept."""

    def find_in(self, observations: Iterable[Observation]) -> Finding | None:
        """The finding in other observations; None if they do not show it."""
        return _find(observations, self.finding)


def minimize(read: ObservationReader, prefix: str = EVERY) -> MinimalRecording:
    """Find the minimum that shows the first finding whose code begins with `prefix`.

    Holds the result in memory.  Raises InputError if there is no such finding, and UnknownCodeError.
    """
    finding, at_ns = _first_finding(read(), prefix)

    def read_until_finding() -> Iterator[Observation]:
        return cut_after(read(), at_ns)

    numbers = _needed_exchanges(read_until_finding, finding)
    kept = [seen for seen in read_until_finding() if seen.exchange in numbers]
    split = split_streams(kept)
    observations = split.join(_needed_pieces(split, finding))
    if _find(observations, finding) is None:
        # Joining the streams again changed something that matters, such as the times of empty chunks.
        observations = kept
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


def _first_finding(observations: Iterable[Observation], prefix: str) -> tuple[Finding, int | None]:
    """The first finding, and when it was certain; None: only at the end of the recording."""
    codes = codes_of(prefix)
    checker = Checker()
    for seen in observations:
        for finding in checker.feed(seen):
            if finding.code in codes:
                return finding, seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
    for finding in checker.finish():
        if finding.code in codes:
            return finding, None
    which = "" if prefix == EVERY else f" of {prefix}"
    raise InputError(f"The selected part of the recording has no finding{which}.")


def _find(observations: Iterable[Observation], wanted: Finding) -> Finding | None:
    """The same finding in other observations."""
    checker, same = Checker(), _identity(wanted)
    for seen in observations:
        for finding in checker.feed(seen):
            if _identity(finding) == same:
                return finding
    return next((finding for finding in checker.finish() if _identity(finding) == same), None)


def _identity(finding: Finding) -> Finding:
    """What stays the same about a finding when other events and exchanges are removed.

    The message does, apart from locations in streams: otherwise the finding could have another reason than before.
    """
    time_ns = 0 if finding.event is None else finding.time_ns
    event = None if finding.event is None else 0
    message = _LOCATION.sub(r"\1", finding.message)
    return replace(finding, event=event, byte_offset=None, time_ns=time_ns, message=message)


def _needed_exchanges(read: ObservationReader, finding: Finding) -> frozenset[int]:
    """The exchanges that the finding needs; tries those of its session first."""
    requests = {seen.exchange: seen for seen in read() if isinstance(seen, RequestStarted)}

    def holds(numbers: Iterable[int]) -> bool:
        kept = frozenset(numbers) | {finding.exchange}
        return _find((seen for seen in read() if seen.exchange in kept), finding) is not None

    others = [number for number in requests if number != finding.exchange]
    budget = Budget(_MAX_TRIES // 4, _MAX_FRAMES)
    for candidates in (
        [],
        [number for number in others if _same_session(requests[number], requests[finding.exchange])],
    ):
        if budget.spend(1) and holds(candidates):
            others = candidates
            break
    return frozenset(reduce_items(others, holds, budget)) | {finding.exchange}


def _same_session(one: RequestStarted, other: RequestStarted) -> bool:
    """Whether two requests are about the same session."""
    first, second = (operation_of(each.method, each.target) for each in (one, other))
    return first is not None and second is not None and first.session_id == second.session_id


def _needed_pieces(split: SplitObservations, finding: Finding) -> list[StreamPiece]:
    """The pieces of streams that the finding needs."""

    def holds(pieces: list[StreamPiece]) -> bool:
        return _find(split.join(pieces), finding) is not None

    if not holds(split.pieces):
        return split.pieces
    return reduce_items(split.pieces, holds, Budget(_MAX_TRIES, _MAX_FRAMES))


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
