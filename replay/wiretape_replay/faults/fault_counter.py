"""Count how often faults matched and were applied, and decide by `skip`, `times` and `probability`.  Pure.

The random choice depends on the seed, the fault and the event or request it is about to hit, never on what other
clients do meanwhile.  Only `skip` and `times`, which count over all connections, depend on the order of requests.
"""

from collections import Counter
from random import Random

from wiretape_replay.faults.fault_script import Fault


class FaultCounter:
    """Counts the faults of one server."""

    def __init__(self, seed: int) -> None:
        self.applied: Counter[str] = Counter()
        """How often each fault was applied in total, by its name."""
        self._since_rewind: Counter[str] = Counter()
        """How often each was applied since the last `rewind`: this is what `times` limits."""
        self._matched: Counter[str] = Counter()
        self._seed = seed

    def rewind(self) -> None:
        """Start over with `skip` and `times`; the totals stay."""
        self._since_rewind.clear()
        self._matched.clear()

    def should_apply(self, fault: Fault, *where: object) -> bool:
        """Count that a fault matches, and decide whether to apply it; `where` identifies the event or request."""
        self._matched[fault.name] += 1
        if self.is_spent(fault) or self._matched[fault.name] <= fault.skip:
            return False
        if fault.probability < 1 and self.random(fault, "whether", *where).random() >= fault.probability:
            return False
        self.applied[fault.name] += 1
        self._since_rewind[fault.name] += 1
        return True

    def is_spent(self, fault: Fault) -> bool:
        """Whether a fault was applied as often as its `times` allows."""
        return fault.times is not None and self._since_rewind[fault.name] >= fault.times

    def random(self, fault: Fault, *where: object) -> Random:
        """A random generator that is the same for the same fault and place."""
        return Random(repr((self._seed, fault.name, *where)))  # noqa: S311 - not used for security
