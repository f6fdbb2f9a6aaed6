"""The registered schemas of application tools, and what does not match them.

`jsonschema-rs` both decides and explains here: schemas come from clients, and it limits what patterns and depth cost.
Where its message about a schema is unclear, this module has its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs

from wiretape.safe_text import shorten

_MOST_REASONS = 20
_TYPES = "array, boolean, integer, null, number, object, string"


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """An invalid part of a request, and the reason."""

    path: str
    reason: str


class UnusableSchemaError(ValueError):
    """An invalid schema; the message gives the reason in a few words."""

    def __init__(self, reason: str, path: tuple[str | int, ...] = ()) -> None:
        """`path` leads to the invalid part of the schema."""
        super().__init__(reason)
        self.path = path


class ToolSchema:
    """A JSON Schema for objects (2020-12, unless its `$schema` names an older draft)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises UnusableSchemaError.  Nothing is fetched, so a `$ref` has to stay within the schema."""
        try:
            self._validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
        except (ValueError, TypeError) as error:
            raise _unusable(error) from None

    def mismatches(self, value: Any, path: str) -> tuple[ErrorDetail, ...]:
        """The reasons why a value does not match; empty if it does.  `path` is where the value stands."""
        if not isinstance(value, Mapping):
            return (ErrorDetail(path, "expected an object"),)
        try:
            errors = list(islice(self._validator.iter_errors(value), _MOST_REASONS))
        except (ValueError, TypeError) as error:
            return (ErrorDetail(path, _first_line(error)),)
        return tuple(ErrorDetail(_join(path, error.instance_path), _first_line(error)) for error in errors)


ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema")


def _unusable(error: Exception) -> UnusableSchemaError:
    """Explain what is wrong with a schema, and where."""
    message, path = _first_line(error), tuple(getattr(error, "instance_path", ()))
    if path[-1:] == ("type",):
        message = f"expected one of {_TYPES}, or a list of them"
    return UnusableSchemaError(message, path)


def _join(path: str, steps: Sequence[str | int]) -> str:
    return shorten(path + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps))


def _first_line(error: Exception) -> str:
    """The message of an error; jsonschema-rs adds the path on further lines."""
    message = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
    return shorten(message.partition("\n")[0])
