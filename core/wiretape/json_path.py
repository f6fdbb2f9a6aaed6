"""JSONPath (RFC 9535): queries that select values to ignore or to redact, and the paths at which two values differ."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from wiretape.errors import InputError
from wiretape.patterns import MISSING
from wiretape.safe_text import shorten

if TYPE_CHECKING:
    from jsonpath_rfc9535 import JSONPathQuery

Keys = tuple[str | int, ...]
"""Member names and list indexes that lead to a value, from the outside in."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A compiled query."""

    text: str
    _query: "JSONPathQuery" = field(repr=False, compare=False)

    @classmethod
    def of(cls, text: str) -> "JsonPath":
        """Compile a query.  Raises InputError."""
        # Takes 0.2 s, which only those who use paths should pay.
        from jsonpath_rfc9535 import compile as compile_query  # noqa: PLC0415 - see above
        from jsonpath_rfc9535.exceptions import JSONPathError  # noqa: PLC0415 - see above

        try:
            return cls(text, compile_query(text))
        except (JSONPathError, RecursionError, IndexError) as error:
            # For an empty query, some versions of the library raise IndexError.
            # Some versions say the place in the same line, some draw it in further lines.
            problem = shorten(str(error).partition("\n")[0].partition(", line ")[0]) if text else "it is empty"
            raise InputError(
                f"Invalid JSON path '{shorten(text, 60)}' ({problem}): "
                "write it like $.name, $.list[0], $.list[*].name or $..name."
            ) from None

    @property
    def is_root(self) -> bool:
        """Whether it selects the whole value."""
        return not self._query.segments

    def locations(self, value: Any) -> set[Keys]:
        """The keys of all selected values in a JSON value.  Raises RecursionError if it is nested too deeply."""
        from jsonpath_rfc9535.exceptions import JSONPathRecursionError  # noqa: PLC0415 - loaded with the query

        try:
            return {node.location for node in self._query.finditer(value)}
        except JSONPathRecursionError as error:
            raise RecursionError(str(error)) from None

    def remove_from(self, value: Any) -> None:
        """Remove the selected members of a JSON object or list.

        A selected list element becomes null, so that the length of the list still counts.
        Raises RecursionError if the value is nested too deeply.
        """
        for keys in self.locations(value):
            parent = _parent(value, keys)
            if isinstance(parent, dict):
                parent.pop(keys[-1], None)
            elif isinstance(parent, list):
                parent[int(keys[-1])] = None


def _parent(value: Any, keys: Sequence[str | int]) -> Any:
    """The object or list that holds the value at `keys`; None if it was removed with an outer value."""
    for key in keys[:-1]:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list):
            value = value[int(key)]
        else:
            return None
    return value if keys else None


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
