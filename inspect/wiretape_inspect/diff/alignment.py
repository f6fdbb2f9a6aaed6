"""Align two sequences: pair their items by keys, and find the pairs that are out of order or late.

Items are paired in one pass over both sequences.  An item waits for its counterpart, and if the sequences are similar
no item waits for long.  Items that remain are paired by weaker and weaker keys.  All of it takes linear time.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Generic, TypeVar

Item = TypeVar("Item")
Key = Callable[[Item], Hashable | None]
"""Identifies an item; None: it cannot be identified this way."""


class KeyPairing(Generic[Item]):
    """Pairs the items of two sequences that have the same key, in their order.

    `on_wait` gets each item that has to wait, and how many wait already.
    """

    def __init__(self, key: Key[Item], on_wait: Callable[[Item, int], None] = lambda _item, _count: None) -> None:
        self._key = key
        self._on_wait = on_wait
        self._waiting: tuple[dict[Hashable, Item], dict[Hashable, Item]] = ({}, {})
        self._queued: tuple[dict[Hashable, deque[Item]], dict[Hashable, deque[Item]]] = ({}, {})
        """Items that wait behind another one with the same key."""
        self._without_key: tuple[list[Item], list[Item]] = ([], [])
        self._count = 0

    def pairs(self, first: Iterable[Item], second: Iterable[Item]) -> Iterator[tuple[Item, Item]]:
        """The pairs, as soon as both items are known.  Reads the sequences in turns."""
        for here, there in zip_longest(first, second):
            if here is not None and (other := self._match(here, 0)) is not None:
                yield here, other
            if there is not None and (other := self._match(there, 1)) is not None:
                yield other, there

    def unpaired(self, side: int) -> list[Item]:
        """The items of the first (0) or second (1) sequence without a counterpart, in no order."""
        queued = [item for items in self._queued[side].values() for item in items]
        return [*self._waiting[side].values(), *queued, *self._without_key[side]]

    def _match(self, item: Item, side: int) -> Item | None:
        key = self._key(item)
        if key is None:
            self._without_key[side].append(item)
        elif (other := self._waiting[1 - side].pop(key, None)) is not None:
            self._promote(key, 1 - side)
            self._count -= 1
            return other
        elif key in self._waiting[side]:
            self._queued[side].setdefault(key, deque()).append(item)
        else:
            self._waiting[side][key] = item
        self._on_wait(item, self._count)
        self._count += 1
        return None

    def _promote(self, key: Hashable, side: int) -> None:
        queued = self._queued[side].get(key)
        if queued is not None:
            self._waiting[side][key] = queued.popleft()
            if not queued:
                del self._queued[side][key]


def pair_items(
    first: Iterable[Item],
    second: Iterable[Item],
    keys: Sequence[Key[Item]],
    position: Callable[[Item], int],
    *,
    unpaired: tuple[list[Item], list[Item]],
    on_wait: Callable[[Item, int], None] = lambda _item, _count: None,
) -> Iterator[tuple[Item, Item]]:
    """The pairs by the first key, then the pairs of the remaining items by the next, and so on.

    Items that remain at the end are appended to `unpaired`.  `position` is that of an item in its sequence.
    """
    rest: tuple[Iterable[Item], Iterable[Item]] = (first, second)
    for number, key in enumerate(keys):
        pairing = KeyPairing(key, on_wait if number == 0 else lambda _item, _count: None)
        yield from pairing.pairs(*rest)
        remaining = [sorted(pairing.unpaired(side), key=position) for side in (0, 1)]
        rest = (remaining[0], remaining[1])
        if not (remaining[0] and remaining[1]):
            break
    unpaired[0].extend(rest[0])
    unpaired[1].extend(rest[1])


def out_of_order(positions: Sequence[int]) -> list[int]:
    """The indexes to remove so that the other positions increase; as few as possible."""
    tails: list[int] = []
    """For each length, the index at which an increasing subsequence of that length ends lowest."""
    ends: list[int] = []
    before: list[int] = []
    for index, position in enumerate(positions):
        length = bisect_left(ends, position)
        before.append(tails[length - 1] if length else -1)
        if length == len(ends):
            ends.append(position)
            tails.append(index)
        else:
            ends[length], tails[length] = position, index
    increasing = set()
    at = tails[-1] if tails else -1
    while at >= 0:
        increasing.add(at)
        at = before[at]
    return [index for index in range(len(positions)) if index not in increasing]


def find_delays(times: Iterable[tuple[int, int]], tolerance_ns: int) -> Iterator[tuple[int, int]]:
    """Which of the times, given for both sequences, are later in the second, and by how much (ns).

    Times count from a common start.  A delay does not make everything after it late: the next is late only if it
    differs both from the delay before it and from the delay before that.
    """
    settled = last = 0
    for index, (first, second) in enumerate(times):
        drift = second - first
        if min(abs(drift - last), abs(drift - settled)) <= tolerance_ns:
            # As the one before, so this is the normal distance from here on, or back to the normal distance.
            settled = last = drift
        else:
            yield index, drift - last
            last = drift
