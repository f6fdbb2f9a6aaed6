"""Remembering no more than so much."""

from collections.abc import Callable
from itertools import islice
from typing import TypeVar

Key = TypeVar("Key", bound=object)
Item = TypeVar("Item")


def put(items: dict[Key, Item], key: Key, item: Item, most: int) -> None:
    """Remember an item; the oldest ones are forgotten when there are too many."""
    items[key] = item
    for old in list(islice(items, max(0, len(items) - most))):
        del items[old]


def make_room(items: dict[Key, Item], most: int, is_over: Callable[[Item], bool]) -> bool:
    """Forget the oldest items, those that are over before others, when there are too many; says whether it did."""
    if len(items) < most:
        return False
    over = [key for key, item in items.items() if is_over(item)]
    for key in list(islice(over or items, most // 2)):
        del items[key]
    return True
