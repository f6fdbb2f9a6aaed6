"""JSONPath (RFC 9535) queries that select values to ignore or to redact."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wiretape.errors import InputError
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
