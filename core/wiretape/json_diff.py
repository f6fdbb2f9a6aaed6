"""Where two JSON values differ, by path."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

MISSING = object()
"""In place of a value: there is none at that place."""

Same = Callable[[Any, Any, str], bool]
"""Whether two values that are not both objects or both lists are the same; the third is the name they stand under."""


class Difference(NamedTuple):
    """One place at which two values differ."""

    path: str
    """A JSONPath such as `$.content.items[0].id`."""
    first: Any
    """The value there, or `MISSING`."""
    second: Any


def differences(first: Any, second: Any, same: Same, path: str = "$", name: str = "") -> Iterator[Difference]:
    """The places at which `second` is not as `first`: those of `first` in its order, then what only `second` has.

    Elements of lists are compared by their place; `name` is the member under which a value, or the list that holds it,
    stands.  Raises RecursionError for values that are nested too deep.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        for key in (*first, *(key for key in second if key not in first)):
            here, there = first.get(key, MISSING), second.get(key, MISSING)
            yield from _at(here, there, same, _member(path, key), key)
    elif isinstance(first, list) and isinstance(second, list):
        for index in range(max(len(first), len(second))):
            here, there = (held[index] if index < len(held) else MISSING for held in (first, second))
            yield from _at(here, there, same, f"{path}[{index}]", name)
    elif not same(first, second, name):
        yield Difference(path, first, second)


def _at(first: Any, second: Any, same: Same, path: str, name: str) -> Iterator[Difference]:
    if first is MISSING or second is MISSING:
        yield Difference(path, first, second)
    else:
        yield from differences(first, second, same, path, name)


def _member(path: str, key: str) -> str:
    if key.replace("-", "_").isidentifier():
        return f"{path}.{key}"
    try:
        return f"{path}[{orjson.dumps(key).decode()}]"
    except orjson.JSONEncodeError:
        # Half a surrogate pair.
        return f"{path}[{key!r}]"
