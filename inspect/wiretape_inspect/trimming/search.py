"""The smallest recording that still shows a finding, found by leaving out and asking the rules again."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from wiretape.contract import operation_of
from wiretape.errors import InputError
from wiretape.frame_reader import StreamReaders
from wiretape.observations import BytesArrived, Observation, RequestStarted
from wiretape.rules import Checker, Finding
from wiretape.rules.selection import EVERY, codes_of
from wiretape_inspect.trimming.choice import Observe, until
from wiretape_inspect.trimming.reducing import Effort, reduced
from wiretape_inspect.trimming.streams import Apart, Piece, apart

_TRIES = 400
"""How often the rules are asked at most about some of the frames; a quarter of that about some of the exchanges."""
_FRAMES = 2_000_000
"""About how many frames they are shown at most in all of that."""
_NUMBERED = re.compile(r"\b(event|from byte) [0-9,]+")
"""How a place in a stream is named in a message."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """What is kept for a finding."""

    finding: Finding
    """As the whole recording has it."""
    observations: list[Observation]
    exchanges: int
    """How many exchanges were left out."""
    frames: int
    """How many frames were left out of the streams that are kept, from within or from their ends."""

    def shown_in(self, observations: Iterable[Observation]) -> Finding | None:
        """The finding as other observations show it; None where they do not."""
        return _shown(observations, self.finding)


def smallest(observe: Observe, prefix: str = EVERY) -> Smallest:
    """The least that shows the first finding whose code begins with `prefix`.

    What is kept is held in memory.  Raises InputError where there is no such finding, and UnknownCodeError.
    """
    finding, at_ns = _first(observe(), prefix)

    def begun() -> Iterator[Observation]:
        return until(observe(), at_ns)

    numbers = _exchanges(begun, finding)
    kept = [seen for seen in begun() if seen.exchange in numbers]
    taken = apart(kept)
    pieces = _frames(taken, finding)
    observations = taken.together(pieces)
    if _shown(observations, finding) is None:
        # Putting streams together again changed what matters, such as the times of empty chunks.
        pieces, observations = taken.pieces, kept
    exchanges, frames = _counted(observe(), numbers)
    return Smallest(finding, observations, exchanges - len(numbers), frames - _counted(observations, numbers)[1])


def _counted(observations: Iterable[Observation], numbers: Collection[int]) -> tuple[int, int]:
    """How many exchanges there are, and how many frames in the streams of some of them."""
    exchanges = frames = 0
    readers = StreamReaders()
    for seen in observations:
        exchanges += isinstance(seen, RequestStarted)
        frames += len(readers.read(seen).frames) if seen.exchange in numbers else 0
    return exchanges, frames


def _first(observations: Iterable[Observation], prefix: str) -> tuple[Finding, int | None]:
    """The finding, and when it was certain; None: only at the end of the recording."""
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
    raise InputError(f"There is no finding{which} in what is kept of the recording.")


def _shown(observations: Iterable[Observation], wanted: Finding) -> Finding | None:
    """The finding as these observations show it."""
    checker, same = Checker(), _identity(wanted)
    for seen in observations:
        for finding in checker.feed(seen):
            if _identity(finding) == same:
                return finding
    return next((finding for finding in checker.finish() if _identity(finding) == same), None)


def _identity(finding: Finding) -> Finding:
    """What stays of a finding when other events and exchanges are left out.

    What it says stays too, but for places in streams, so that it is not found for another reason than in the whole
    recording.
    """
    time_ns = 0 if finding.event is None else finding.time_ns
    event = None if finding.event is None else 0
    message = _NUMBERED.sub(r"\1", finding.message)
    return replace(finding, event=event, byte_offset=None, time_ns=time_ns, message=message)


def _exchanges(begun: Observe, finding: Finding) -> frozenset[int]:
    """The exchanges that the finding needs: those of its session are tried first."""
    requests = {seen.exchange: seen for seen in begun() if isinstance(seen, RequestStarted)}

    def holds(numbers: Iterable[int]) -> bool:
        kept = frozenset(numbers) | {finding.exchange}
        return _shown((seen for seen in begun() if seen.exchange in kept), finding) is not None

    others = [number for number in requests if number != finding.exchange]
    effort = Effort(_TRIES // 4, _FRAMES)
    for few in ([], [number for number in others if _related(requests[number], requests[finding.exchange])]):
        if effort.spend(1) and holds(few):
            others = few
            break
    return frozenset(reduced(others, holds, effort)) | {finding.exchange}


def _related(one: RequestStarted, other: RequestStarted) -> bool:
    """Whether two requests are about one session."""
    first, second = (operation_of(each.method, each.target) for each in (one, other))
    return first is not None and second is not None and first.session_id == second.session_id


def _frames(taken: Apart, finding: Finding) -> list[Piece]:
    """The frames that the finding needs."""

    def holds(pieces: list[Piece]) -> bool:
        return _shown(taken.together(pieces), finding) is not None

    if not holds(taken.pieces):
        return taken.pieces
    return reduced(taken.pieces, holds, Effort(_TRIES, _FRAMES))
