"""How often faults were done, and whether they are done again: `skip`, `times` and chance.  Pure.

Chance depends on the seed, the fault and what it is about to hit, never on what other clients do meanwhile.  Only
`skip` and `times`, which count over all connections, depend on the order in which clients come.
"""

from collections import Counter
from random import Random

from wiretape_replay.faults.script import Fault


class Tally:
    """Counts the faults of one server."""

    def __init__(self, seed: int) -> None:
        self.done: Counter[str] = Counter()
        """How often each fault was done in all, by its name."""
        self._again: Counter[str] = Counter()
        """How often each was done since all began anew, which is what `times` counts."""
        self._fitted: Counter[str] = Counter()
        self._seed = seed

    def rewind(self) -> None:
        """Begin anew with `skip` and `times`; what was done remains done."""
        self._again.clear()
        self._fitted.clear()

    def allows(self, fault: Fault, *where: object) -> bool:
        """Count that a fault fits, and say whether it is done; `where` says to what, for chance's sake."""
        self._fitted[fault.name] += 1
        if self.is_spent(fault) or self._fitted[fault.name] <= fault.skip:
            return False
        if fault.probability < 1 and self.chance(fault, "whether", *where).random() >= fault.probability:
            return False
        self.done[fault.name] += 1
        self._again[fault.name] += 1
        return True

    def is_spent(self, fault: Fault) -> bool:
        """Whether a fault was done as often as it may be."""
        return fault.times is not None and self._again[fault.name] >= fault.times

    def chance(self, fault: Fault, *where: object) -> Random:
        """Chance that is the same for the same place."""
        return Random(repr((self._seed, fault.name, *where)))  # noqa: S311 - nothing secret hangs on it
