"""Align two sequences: pair their items by keys, and find the pairs that are out of order or late.

Items are paired in one pass over both sequences.  An item waits for its counterpart, and if the sequences are similar
no item waits for long.  Items that remain are paired by weaker and weaker keys.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

Item = TypeVar("Item")
Key = Callable[[Item], Hashable | None]
"""Identifies an item; None: it cannot be identified this way."""
Waiting = dict[Hashable, list[Item]]
"""Items without a counterpart so far, by key; those with the same key in their order."""


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
    `on_wait` gets each item that has to wait for its counterpart by the first key, and how many wait already.
    """
    rest: tuple[Iterable[Item], Iterable[Item]] = (first, second)
    for number, key in enumerate(keys):
        waiting: tuple[Waiting[Item], Waiting[Item]] = ({}, {})
        yield from _pairs(rest, key, waiting, on_wait if number == 0 else lambda _item, _count: None)
        remaining = [sorted((item for items in side.values() for item in items), key=position) for side in waiting]
        rest = (remaining[0], remaining[1])
        if not (remaining[0] and remaining[1]):
            break
    unpaired[0].extend(rest[0])
    unpaired[1].extend(rest[1])


def _pairs(
    sequences: tuple[Iterable[Item], Iterable[Item]],
    key: Key[Item],
    waiting: tuple[Waiting[Item], Waiting[Item]],
    on_wait: Callable[[Item, int], None],
) -> Iterator[tuple[Item, Item]]:
    """The pairs with the same key, as soon as both items are known.  Reads the sequences in turns."""
    count = 0
    for both in zip_longest(*sequences):
        for side, item in enumerate(both):
            if item is None:
                continue
            name = key(item)
            if name is not None and (others := waiting[1 - side].get(name)):
                other = others.pop(0)
                if not others:
                    del waiting[1 - side][name]
                count -= 1
                yield (other, item) if side else (item, other)
            else:
                waiting[side].setdefault(name, []).append(item)
                on_wait(item, count)
                count += 1


def out_of_order(positions: Sequence[int]) -> list[int]:
    """The indexes to remove so that the other positions increase; as few as possible."""
    tails = array("q")
    """For each length, the index at which an increasing subsequence of that length ends lowest."""
    ends, before = array("q"), array("q")
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
