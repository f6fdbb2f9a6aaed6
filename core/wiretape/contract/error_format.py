"""Where the errors of an API have their facts, and which JSON types their fields have."""

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

from wiretape.contract.contract_tables import ErrorFormatTable, FieldTypes
from wiretape.patterns import MISSING, Pointer, list_of

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


class ErrorFormat:
    """How the facts of errors are read."""

    def __init__(self, table: ErrorFormatTable) -> None:
        """Raises ValueError."""
        self.object = None if table.object is None else Pointer(table.object)
        """Where bodies have the object with the fields of an error; None if it is the whole body."""
        self._code = None if table.code is None else Pointer(table.code)
        self.codes: Mapping[str, int] = table.codes or {}
        """The status of each code."""

    def find_object(self, document: Any) -> dict[str, Any] | None:
        """Return the object that has the fields of an error; None if a body has none."""
        found = document if self.object is None else self.object.read(document)
        return found if type(found) is dict else None

    def read_code(self, document: Any) -> str | None:
        """Return the error code, if it is a string."""
        code = None if self._code is None else self._code.read(document)
        return code if type(code) is str else None

    def require_code(self, *, codes: bool = False) -> None:
        """Raise ValueError unless the contract says where errors have their code, and which codes exist."""
        if self._code is None or (codes and not self.codes):
            missing = "codes" if self._code is not None else "code"
            raise ValueError(f"{missing} of errors is not defined: add it to the table [error]")


NO_ERROR_FORMAT = ErrorFormat(ErrorFormatTable())
"""Errors without facts: the whole body is the object."""


class RequiredFields:
    """Fields that a JSON value has, and their types."""

    def __init__(self, fields: FieldTypes | None) -> None:
        """Raises ValueError."""
        typed = fields if isinstance(fields, dict) else dict.fromkeys(list_of(fields), ())
        self._fields = [(Pointer(text), list_of(types)) for text, types in typed.items()]

    def __bool__(self) -> bool:
        return bool(self._fields)

    def find_unfit(self, document: Any) -> Iterator[tuple[Pointer, str, Any]]:
        """Yield the fields that are missing or have another type, with the expected type and the value.

        Those inside of one of them are left out.
        """
        unfit: list[str] = []
        for pointer, types in self._fields:
            value = pointer.read(document)
            if has_type(value, types) or any(pointer.text.startswith(f"{outer}/") for outer in unfit):
                continue
            unfit.append(pointer.text)
            yield pointer, name_types(types), value


def has_type(value: Any, types: Sequence[str]) -> bool:
    """Whether a JSON value has one of these types; without any, whether it is there."""
    return value is not MISSING and (not types or any(type(value) in _NAMES[name][1] for name in types))


def name_types(types: Sequence[str]) -> str:
    """Return how messages call one of these types."""
    return " or ".join(_NAMES[name][0] for name in types) or "a value"
