"""Dictionaries and caches of bounded size: the oldest items are dropped."""

from collections.abc import Callable
from functools import lru_cache, wraps
from itertools import islice
from typing import ParamSpec, TypeVar

Key = TypeVar("Key", bound=object)
Item = TypeVar("Item")
Texts = ParamSpec("Texts")

_MOST_CALLS = 256
_LONGEST_KEPT = 500


def put_bounded(items: dict[Key, Item], key: Key, item: Item, most: int) -> None:
    """Store an item, and drop the oldest ones if there are more than `most`."""
    items[key] = item
    if len(items) > most:
        for old in list(islice(items, len(items) - most)):
            del items[old]


def make_room(items: dict[Key, Item], most: int, is_over: Callable[[Item], bool]) -> bool:
    """If there are `most` items, drop up to half, preferably those that are over; return whether any were dropped."""
    if len(items) < most:
        return False
    over = [key for key, item in items.items() if is_over(item)]
    for key in list(islice(over or items, most // 2)):
        del items[key]
    return True


def cache_short(function: Callable[Texts, Item]) -> Callable[Texts, Item]:
    """Keep the results of the last calls of a function of texts, except for long ones, which a client may choose."""
    cached = lru_cache(_MOST_CALLS)(function)

    @wraps(function)
    def call(*texts: Texts.args, **named: Texts.kwargs) -> Item:
        return (cached if sum(map(len, texts)) <= _LONGEST_KEPT else function)(*texts, **named)  # type: ignore[arg-type]

    return call
