"""Dictionaries of bounded size: the oldest items are dropped."""

from collections.abc import Callable
from itertools import islice
from typing import TypeVar

Key = TypeVar("Key", bound=object)
Item = TypeVar("Item")


def put_bounded(items: dict[Key, Item], key: Key, item: Item, most: int) -> None:
    """Store an item, and drop the oldest ones if there are more than `most`."""
    items[key] = item
    for old in list(islice(items, max(0, len(items) - most))):
        del items[old]


def make_room(items: dict[Key, Item], most: int, is_over: Callable[[Item], bool]) -> bool:
    """If there are `most` items, drop up to half, preferably those that are over; return whether any were dropped."""
    if len(items) < most:
        return False
    over = [key for key, item in items.items() if is_over(item)]
    for key in list(islice(over or items, most // 2)):
        del items[key]
    return True
