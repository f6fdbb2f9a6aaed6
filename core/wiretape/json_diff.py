"""Compare two JSON values and list the paths at which they differ."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from wiretape.patterns import MISSING

IsSame = Callable[[Any, Any, str], bool]
"""Whether two values that are not both objects or both lists are equal; the third argument is their member name."""


class Difference(NamedTuple):
    """One path at which two values differ."""

    path: str
    """A JSONPath such as `$.content.items[0].id`."""
    first: Any
    """The value there, or `MISSING`."""
    second: Any


def differences(first: Any, second: Any, is_same: IsSame, path: str = "$", name: str = "") -> Iterator[Difference]:
    """The paths at which the values differ: those of `first` in its order, then those that only `second` has.

    List elements are compared by index.  `name` is the member that holds the value, or the list that the value is in.
    Raises RecursionError for values that are nested too deeply.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        for key in (*first, *(key for key in second if key not in first)):
            here, there = first.get(key, MISSING), second.get(key, MISSING)
            yield from _at(here, there, is_same, _member(path, key), key)
    elif isinstance(first, list) and isinstance(second, list):
        for index in range(max(len(first), len(second))):
            here, there = (items[index] if index < len(items) else MISSING for items in (first, second))
            yield from _at(here, there, is_same, f"{path}[{index}]", name)
    elif not is_same(first, second, name):
        yield Difference(path, first, second)


def _at(first: Any, second: Any, is_same: IsSame, path: str, name: str) -> Iterator[Difference]:
    if first is MISSING or second is MISSING:
        yield Difference(path, first, second)
    else:
        yield from differences(first, second, is_same, path, name)


def _member(path: str, key: str) -> str:
    if key.isidentifier():
        return f"{path}.{key}"
    try:
        return f"{path}[{orjson.dumps(key).decode()}]"
    except orjson.JSONEncodeError:
        # Half a surrogate pair.
        return f"{path}[{key!r}]"
