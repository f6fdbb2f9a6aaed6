"""Which item of one sequence is which of another.  Pure.

Items are joined by what names them, in one pass over both sequences: items wait for their partner, and where the two
sequences are alike none waits for long.  What is left is joined by weaker and weaker names.  All of it is linear.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Generic, TypeVar

Item = TypeVar("Item")
Key = Callable[[Item], Hashable | None]
"""What names an item; None: nothing does."""


class Join(Generic[Item]):
    """Pairs items of two sequences that have the same key: the first with the first, the second with the second.

    `wait` is told of each item that has to wait, and how many do already.
    """

    def __init__(self, key: Key[Item], wait: Callable[[Item, int], None] = lambda _item, _count: None) -> None:
        self._key = key
        self._wait = wait
        self._waiting: tuple[dict[Hashable, Item], dict[Hashable, Item]] = ({}, {})
        self._behind: tuple[dict[Hashable, deque[Item]], dict[Hashable, deque[Item]]] = ({}, {})
        """Those that wait behind another one of their key."""
        self._nameless: tuple[list[Item], list[Item]] = ([], [])
        self._count = 0

    def pairs(self, first: Iterable[Item], second: Iterable[Item]) -> Iterator[tuple[Item, Item]]:
        """The pairs, as soon as both are there.  The sequences are read in turns."""
        for here, there in zip_longest(first, second):
            if here is not None and (partner := self._meet(here, 0)) is not None:
                yield here, partner
            if there is not None and (partner := self._meet(there, 1)) is not None:
                yield partner, there

    def left(self, side: int) -> list[Item]:
        """The items of the first (0) or second (1) sequence that have no partner, in no order."""
        behind = [item for items in self._behind[side].values() for item in items]
        return [*self._waiting[side].values(), *behind, *self._nameless[side]]

    def _meet(self, item: Item, side: int) -> Item | None:
        key = self._key(item)
        if key is None:
            self._nameless[side].append(item)
        elif (partner := self._waiting[1 - side].pop(key, None)) is not None:
            self._promote(key, 1 - side)
            self._count -= 1
            return partner
        elif key in self._waiting[side]:
            self._behind[side].setdefault(key, deque()).append(item)
        else:
            self._waiting[side][key] = item
        self._wait(item, self._count)
        self._count += 1
        return None

    def _promote(self, key: Hashable, side: int) -> None:
        """Let the next of this key wait in front."""
        behind = self._behind[side].get(key)
        if behind is not None:
            self._waiting[side][key] = behind.popleft()
            if not behind:
                del self._behind[side][key]


def joined(
    first: Iterable[Item],
    second: Iterable[Item],
    keys: Sequence[Key[Item]],
    place: Callable[[Item], int],
    *,
    left: tuple[list[Item], list[Item]],
    wait: Callable[[Item, int], None] = lambda _item, _count: None,
) -> Iterator[tuple[Item, Item]]:
    """The pairs by the first key, then those of what is left by the next, and so on; what is left then goes to `left`.

    `place` tells the place of an item in its sequence.
    """
    rest: tuple[Iterable[Item], Iterable[Item]] = (first, second)
    for number, key in enumerate(keys):
        join = Join(key, wait if number == 0 else lambda _item, _count: None)
        yield from join.pairs(*rest)
        remaining = [sorted(join.left(side), key=place) for side in (0, 1)]
        rest = (remaining[0], remaining[1])
        if not (remaining[0] and remaining[1]):
            break
    left[0].extend(rest[0])
    left[1].extend(rest[1])


def out_of_order(places: Sequence[int]) -> list[int]:
    """Which of `places`, by their index, have to be taken out so that the others rise; as few as there can be."""
    tails: list[int] = []
    """For each length, the index of the lowest place that a rising row of that length can end with."""
    ends: list[int] = []
    before: list[int] = []
    for index, place in enumerate(places):
        length = bisect_left(ends, place)
        before.append(tails[length - 1] if length else -1)
        if length == len(ends):
            ends.append(place)
            tails.append(index)
        else:
            ends[length], tails[length] = place, index
    rising = set()
    at = tails[-1] if tails else -1
    while at >= 0:
        rising.add(at)
        at = before[at]
    return [index for index in range(len(places)) if index not in rising]
