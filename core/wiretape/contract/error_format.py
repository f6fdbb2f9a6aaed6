"""Where the errors of an API have their facts."""

from collections.abc import Mapping
from typing import Any

from wiretape.contract.contract_tables import ErrorFormatTable
from wiretape.patterns import Pointer


class ErrorFormat:
    """How the facts of errors are read."""

    def __init__(self, table: ErrorFormatTable) -> None:
        """Raises ValueError."""
        self.object = None if table.object is None else Pointer(table.object)
        """Where bodies have the object with the fields of an error; None if it is the whole body."""
        self._code = None if table.code is None else Pointer(table.code)
        self.table = table
        codes = table.codes or {}
        self.codes: Mapping[str, int] = {
            code: each if isinstance(each, int) else each.status for code, each in codes.items()
        }
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
