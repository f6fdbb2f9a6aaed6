"""JSON types and values of fields, as contracts declare them."""

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, Protocol

from wiretape.contract.contract_tables import FieldTypes, Value
from wiretape.patterns import Pointer, list_of
from wiretape.rules.catalogue import HELD, Outcome, mismatch
from wiretape.rules.finding import describe

_MOST_SHOWN = 5
_NAMES: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "integer": ("an integer", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("a boolean", (bool,)),
    "object": ("an object", (dict,)),
    "array": ("an array", (list,)),
    "null": ("null", (NoneType,)),
}
"""For each JSON type how messages call it, and the Python types of its values."""

ANY_BUT_NULL = tuple(name for name in _NAMES if name != "null")


class RequiredFields:
    """Fields that a JSON value has, and their types; `*` in a pointer stands for each element of an array."""

    def __init__(self, fields: FieldTypes | Mapping[str, Sequence[str]] | None) -> None:
        """Raises ValueError."""
        typed = fields if isinstance(fields, Mapping) else dict.fromkeys(list_of(fields), ())
        listed = [(text, list_of(types)) for text, types in typed.items()]
        self._fields = [(_split(text), name_types(types), classes_of(types)) for text, types in listed]

    def __bool__(self) -> bool:
        return bool(self._fields)

    def find_unfit(self, document: Any) -> Iterator[tuple[str, str, Any]]:
        """Yield the fields that are missing or have another type: the name, the expected type and the value.

        Those inside of one of them are left out.
        """
        unfit: tuple[str, ...] = ()
        for path, wanted, classes in self._fields:
            for name, value in _read_all(document, path, ""):
                if type(value) not in classes and not name.startswith(unfit):
                    unfit += (f"{name}.", f"{name}[")
                    yield name, wanted, value


def _split(text: str) -> tuple[Pointer | None, ...]:
    """Return the parts of a pointer between its asterisks; None for one that is empty."""
    parts = f"{text}/".split("/*/")
    return tuple(Pointer(f"/{part.strip('/')}") if part.strip("/") else None for part in parts)


def _read_all(value: Any, path: Sequence[Pointer | None], name: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that a path leads to."""
    head, *rest = path
    if head is not None:
        name, value = f"{name}.{head.name}".removeprefix("."), head.read(value)
    if not rest:
        yield name, value
    elif type(value) is list:
        for index, each in enumerate(value):
            yield from _read_all(each, rest, f"{name}[{index}]")


class Readable(Protocol):
    """A fact or a pointer."""

    def read(self, source: Any, /) -> Any:
        """Return the value."""


class AllowedValues:
    """Values that some facts can have; values of other JSON types are not checked."""

    def __init__(self, facts: Sequence[Readable], values: Sequence[Value | list[Value]]) -> None:
        self.facts = facts
        rows = [tuple(row) if isinstance(row, list) else (row,) for row in values]
        self._rows = frozenset(rows)
        self._types = frozenset(tuple(map(type, row)) for row in rows)
        shown = [" and ".join(f"`{value}`" for value in row) for row in rows]
        more = [f"{len(rows) - _MOST_SHOWN} more"] if len(rows) > _MOST_SHOWN else []
        self._text = " or ".join([*shown[:_MOST_SHOWN], *more])

    def check(self, source: Any, **values: Any) -> Outcome:
        """Check the facts of an event, or of the body of an error."""
        row = tuple(fact.read(source) for fact in self.facts)
        if tuple(map(type, row)) not in self._types:
            return None
        if row in self._rows:
            return HELD
        expected = f"{' and '.join(f'`{fact}`' for fact in self.facts)} to be {self._text}"
        return [mismatch(expected, " and ".join(map(describe, row)), **values, value=row[0])]


def classes_of(types: Sequence[str]) -> frozenset[type]:
    """Return the Python types of values that have one of these JSON types; without any, of all values."""
    return frozenset(each for name in types or _NAMES for each in _NAMES[name][1])


def name_types(types: Sequence[str]) -> str:
    """Return how messages call one of these types."""
    return " or ".join(_NAMES[name][0] for name in types) or "a value"
