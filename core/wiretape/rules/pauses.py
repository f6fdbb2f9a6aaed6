"""How long a stream is silent: the time between its bytes."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from wiretape.observations import BytesArrived


@dataclass(frozen=True, slots=True)
class Pause:
    """A time without a byte that was too long; or none, of a stream that could have had one."""

    ended_ns: int
    length_ns: int
    limit_ns: int
    """How long it may be."""
    lost: bool = False
    """Whether bytes passed unseen in it, so that there may have been no silence at all."""

    @property
    def is_too_long(self) -> bool:
        """Whether it is longer than it may be."""
        return self.length_ns > self.limit_ns


class Hearing:
    """Listens to one stream from its response head on.  Times are those of chunks as they came off the wire."""

    __slots__ = ("_begun_ns", "_heard_ns", "_limit_ns", "_lost", "_told")

    def __init__(self, begun_ns: int, limit_ns: int) -> None:
        self._begun_ns = self._heard_ns = begun_ns
        self._limit_ns = limit_ns
        self._lost = False
        self._told = False

    def hear(self, run: BytesArrived) -> list[Pause]:
        """The pauses before and between the chunks of a run that are too long."""
        if run.times[-1] - self._heard_ns > self._limit_ns:
            return list(self._pauses(run))
        if run.ends[-1] > run.start:
            # Empty chunks may stand at the end of the run.
            self._heard_ns = run.times[bisect_left(run.ends, run.ends[-1])]
            self._lost = False
        return []

    def miss(self) -> None:
        """Bytes passed unseen."""
        self._lost = True

    def end(self, time_ns: int) -> Pause | None:
        """The last pause, when it is too long; or else one that was not, when there could have been one."""
        pause = self._pause(time_ns)
        if pause is not None or self._told or time_ns - self._begun_ns <= self._limit_ns:
            return pause
        return Pause(time_ns, 0, self._limit_ns)

    def _pauses(self, run: BytesArrived) -> Iterator[Pause]:
        before = run.start
        for end, time_ns in zip(run.ends, run.times, strict=True):
            if end > before:
                pause = self._pause(time_ns)
                if pause is not None:
                    yield pause
                self._heard_ns, self._lost, before = time_ns, False, end

    def _pause(self, until_ns: int) -> Pause | None:
        pause = Pause(until_ns, until_ns - self._heard_ns, self._limit_ns, self._lost)
        if not pause.is_too_long:
            return None
        self._told = True
        return pause
