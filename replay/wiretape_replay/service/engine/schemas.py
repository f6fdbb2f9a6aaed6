"""The registered schemas of application tools, and what does not match them.

`jsonschema-rs` decides and explains here: schemas come from clients, and it bounds what their patterns and depth cost.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import jsonschema_rs

from wiretape.text import shown
from wiretape_replay.answers.reasons import Reason

_MOST_REASONS = 20


class UnusableSchemaError(ValueError):
    """A schema that is none, with why in a few words."""


class Shape:
    """A JSON Schema (2020-12 unless its `$schema` names an older draft) for objects."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises UnusableSchemaError; nothing is fetched, so a `$ref` has to stay within the schema."""
        try:
            self._validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
        except (ValueError, TypeError) as error:
            raise UnusableSchemaError(_first_line(error)) from None

    def reasons(self, value: Any, path: str) -> tuple[Reason, ...]:
        """What is wrong with a value, `path` being where it stands; empty where it matches."""
        if not isinstance(value, Mapping):
            return (Reason(path, "it has to be an object"),)
        try:
            errors = list(islice(self._validator.iter_errors(value), _MOST_REASONS))
        except (ValueError, TypeError) as error:
            return (Reason(path, _first_line(error)),)
        return tuple(Reason(_where(path, error.instance_path), _first_line(error)) for error in errors)


ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema")


def _where(path: str, steps: list[str | int]) -> str:
    return shown(path + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps))


def _first_line(error: Exception) -> str:
    """What an error says of itself; jsonschema-rs adds where, over several lines."""
    message = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
    return shown(message.partition("\n")[0])
