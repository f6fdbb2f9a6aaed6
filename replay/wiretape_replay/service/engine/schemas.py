"""The registered schemas of application tools, and what does not match them.

`jsonschema-rs` decides and explains here: schemas come from clients, and it bounds what their patterns and depth cost.
What is wrong with a schema is said in our own words where the library's are about itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs

from wiretape.safe_text import shorten
from wiretape_replay.responses.error_envelope import ErrorDetail

_MOST_REASONS = 20
_TYPES = "array, boolean, integer, null, number, object, string"
_NAMED = re.compile(r"'([^']*)'")
_Steps = tuple[str | int, ...]


class UnusableSchemaError(ValueError):
    """A schema that is none, with why in a few words."""

    def __init__(self, why: str, place: _Steps = ()) -> None:
        """`place` says where in the schema."""
        super().__init__(why)
        self.place = place


class Shape:
    """A JSON Schema (2020-12 unless its `$schema` names an older draft) for objects."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises UnusableSchemaError; nothing is fetched, so a `$ref` has to stay within the schema."""
        try:
            self._validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
        except (ValueError, TypeError) as error:
            raise _unusable(error, schema) from None

    def reasons(self, value: Any, path: str) -> tuple[ErrorDetail, ...]:
        """What is wrong with a value, `path` being where it stands; empty where it matches."""
        if not isinstance(value, Mapping):
            return (ErrorDetail(path, "it has to be an object"),)
        try:
            errors = list(islice(self._validator.iter_errors(value), _MOST_REASONS))
        except (ValueError, TypeError) as error:
            return (ErrorDetail(path, _first_line(error)),)
        return tuple(ErrorDetail(_where(path, error.instance_path), _first_line(error)) for error in errors)


ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema")


def _unusable(error: Exception, schema: Mapping[str, Any]) -> UnusableSchemaError:
    """What is wrong with a schema, and where."""
    told = _first_line(error)
    if "meta-schema" in told:
        return UnusableSchemaError("$schema names no draft of JSON Schema; leave it out for 2020-12", ("$schema",))
    if not isinstance(error, jsonschema_rs.ValidationError):
        return UnusableSchemaError(told)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
        for place, reference in _references(schema):
            if any(reference.endswith(named) for named in _NAMED.findall(told)):
                why = f"{shorten(reference)} leads nowhere; a $ref has to stay within the schema, like #/$defs/name"
                return UnusableSchemaError(why, place)
    place = tuple(error.instance_path)
    if place[-1:] == ("type",):
        told = f"it has to be one of {_TYPES}, or a list of them"
    return UnusableSchemaError(told, place)


def _references(schema: Mapping[str, Any]) -> Iterator[tuple[_Steps, str]]:
    """Where a schema refers to something, and to what."""
    left: list[tuple[_Steps, Any]] = [((), schema)]
    while left:
        place, value = left.pop()
        if isinstance(value, Mapping):
            left += [((*place, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [((*place, index), inner) for index, inner in enumerate(value)]
        elif isinstance(value, str) and place[-1] in {"$ref", "$dynamicRef"}:
            yield place, value


def _where(path: str, steps: Sequence[str | int]) -> str:
    return shorten(path + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps))


def _first_line(error: Exception) -> str:
    """What an error says of itself; jsonschema-rs adds where, over several lines."""
    message = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
    return shorten(message.partition("\n")[0])
