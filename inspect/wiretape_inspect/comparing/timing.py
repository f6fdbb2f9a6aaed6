"""What came later or sooner than it should have.  Pure."""

from collections.abc import Iterable, Iterator


def shifts(times: Iterable[tuple[int, int]], tolerance_ns: int) -> Iterator[tuple[int, int]]:
    """Which of the moments, given as times in both recordings, came later in the second, and by how much (ns).

    Times count from where both began together.  What is late makes nothing behind it late: the next is late again only
    if it is neither as late as the one before nor as early as what came before that.
    """
    settled = last = 0
    for index, (first, second) in enumerate(times):
        drift = second - first
        if abs(drift - last) <= tolerance_ns:
            # It has not come alone, so this is how it is from now on.
            settled = last = drift
        elif abs(drift - settled) <= tolerance_ns:
            last = settled = drift
        else:
            yield index, drift - last
            last = drift
