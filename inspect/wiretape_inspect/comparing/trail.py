"""Where the paired events of two streams stood, and when they came.  Pure; 32 bytes a pair."""

from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from wiretape_inspect.comparing.aligning import out_of_order
from wiretape_inspect.comparing.timing import shifts
from wiretape_inspect.comparing.units import Unit


class Trail:
    """Remembers pairs as they are found."""

    def __init__(self) -> None:
        self._places = (array("q"), array("q"))
        self._times = (array("q"), array("q"))

    def add(self, first: Unit, second: Unit) -> None:
        """One more pair."""
        for side, unit in enumerate((first, second)):
            self._places[side].append(unit.event)
            self._times[side].append(unit.time_ns)

    def moved(self) -> list[tuple[int, int]]:
        """The numbers on both streams of the fewest events without which both have the same order."""
        first, second = self._places
        if _rises(first) and _rises(second):
            return []
        order = _order(first)
        return [(first[order[index]], second[order[index]]) for index in out_of_order([second[at] for at in order])]

    def shifted(
        self, moved: Collection[int], began: tuple[int, int], tolerance_ns: int
    ) -> Iterator[tuple[int, int, int]]:
        """The numbers of the events that came later or sooner than the tolerance allows, and how much later (ns).

        Left out are those that `moved`, by their numbers on the first stream.  Both streams began at `began`.
        """
        first, second = self._places
        kept = [at for at in _order(first) if first[at] not in moved]
        times = ((self._times[0][at] - began[0], self._times[1][at] - began[1]) for at in kept)
        for index, later in shifts(times, tolerance_ns):
            yield first[kept[index]], second[kept[index]], later


def _order(places: Sequence[int]) -> list[int]:
    return sorted(range(len(places)), key=places.__getitem__)


def _rises(places: Sequence[int]) -> bool:
    return all(here < there for here, there in pairwise(places))
