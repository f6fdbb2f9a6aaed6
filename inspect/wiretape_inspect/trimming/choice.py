"""Which part of a recording is kept."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from wiretape.errors import InputError
from wiretape.observations import BytesArrived, Observation
from wiretape.recording import Exchange, Recording
from wiretape_inspect import exchange_selection

Observe = Callable[[], Iterator[Observation]]
"""Begins to read what is kept, in order of time; can be asked again."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user wants to keep; None, or nothing, for all."""

    session: str | None = None
    numbers: tuple[int, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None

    def exchanges(self, recording: Recording) -> frozenset[int]:
        """The numbers of the exchanges that are kept.  Raises InputError where one is not there, or none is left."""
        for number in self.numbers:
            recording.exchange(number)
        chosen = exchange_selection.exchanges(recording, session=self.session)
        kept = frozenset(exchange.number for exchange in chosen if self._has(exchange))
        if not kept:
            raise InputError("No exchange of the recording is left: choose others, or another time.")
        return kept

    def _has(self, exchange: Exchange) -> bool:
        if self.numbers and exchange.number not in self.numbers:
            return False
        if self.until_ns is not None and exchange.request.time_ns > self.until_ns:
            return False
        return self.since_ns is None or exchange.ended_ns is None or exchange.ended_ns >= self.since_ns


def observed(recording: Recording, kept: Collection[int], until_ns: int | None) -> Iterator[Observation]:
    """What was seen of some exchanges, up to a time.  Streams."""
    return until((seen for seen in recording.observations() if seen.exchange in kept), until_ns)


def until(observations: Iterable[Observation], until_ns: int | None) -> Iterator[Observation]:
    """The observations up to a time; a run of bytes is cut there."""
    for seen in observations:
        if until_ns is None:
            yield seen
        elif seen.time_ns > until_ns:
            return
        elif isinstance(seen, BytesArrived) and seen.times[-1] > until_ns:
            yield _begun(seen, bisect_right(seen.times, until_ns))
        else:
            yield seen


def _begun(run: BytesArrived, chunks: int) -> BytesArrived:
    """The first chunks of a run."""
    ends = run.ends[:chunks]
    return BytesArrived(run.exchange, run.side, run.start, run.data[: ends[-1] - run.start], ends, run.times[:chunks])
