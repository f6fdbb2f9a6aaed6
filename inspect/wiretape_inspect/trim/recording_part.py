"""Select a part of a recording: by session, exchange and time."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from wiretape.errors import InputError
from wiretape.observations import BytesArrived, Observation
from wiretape.recording import Exchange, Recording
from wiretape_inspect.exchange_selection import select_exchanges

ObservationReader = Callable[[], Iterator[Observation]]
"""Reads the selected observations in order of time; may be called repeatedly."""


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """What to keep; None or empty for everything."""

    session: str | None = None
    numbers: tuple[int, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None

    def select_exchanges(self, recording: Recording) -> frozenset[int]:
        """The numbers of the exchanges to keep.  Raises InputError if one does not exist, or none is left."""
        for number in self.numbers:
            recording.exchange(number)
        candidates = select_exchanges(recording, session=self.session)
        kept = frozenset(exchange.number for exchange in candidates if self._includes(exchange))
        if not kept:
            raise InputError("No exchange is left: select other exchanges or another time range.")
        return kept

    def _includes(self, exchange: Exchange) -> bool:
        if self.numbers and exchange.number not in self.numbers:
            return False
        if self.until_ns is not None and exchange.request.time_ns > self.until_ns:
            return False
        return self.since_ns is None or exchange.ended_ns is None or exchange.ended_ns >= self.since_ns


def read_part(recording: Recording, kept: Collection[int], until_ns: int | None) -> Iterator[Observation]:
    """The observations of some exchanges up to a time."""
    return cut_after((seen for seen in recording.observations() if seen.exchange in kept), until_ns)


def cut_after(observations: Iterable[Observation], until_ns: int | None) -> Iterator[Observation]:
    """The observations up to a time; a run of bytes is cut there."""
    for seen in observations:
        if until_ns is None:
            yield seen
        elif seen.time_ns > until_ns:
            return
        elif isinstance(seen, BytesArrived) and seen.times[-1] > until_ns:
            yield _first_chunks(seen, bisect_right(seen.times, until_ns))
        else:
            yield seen


def _first_chunks(run: BytesArrived, count: int) -> BytesArrived:
    ends = run.ends[:count]
    return BytesArrived(run.exchange, run.side, run.start, run.data[: ends[-1] - run.start], ends, run.times[:count])
