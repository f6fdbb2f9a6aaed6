"""JSON Schema files of the JSON shapes in the specification, and validators for them.

`jsonschema-rs` validates in half a microsecond, and explains in some ten why a value is invalid.  The files have no
`$id`: a `$ref` is the name of a file in this folder.

The rules check what a schema cannot express: JSON Schema accepts 1.0 as an integer, does not relate error codes to
HTTP statuses, and sees only the JSON of an event.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import Any

import jsonschema_rs

_BASE = "json-schema:///"
"""The base URI against which jsonschema-rs resolves file names."""
_DEEPEST = 6
"""No schema describes values nested deeper than this."""
_MOST_ERRORS = 200
_TYPE_NAMES = {"array": "an array", "integer": "an integer", "object": "an object", "string": "a string"}


@dataclass(frozen=True, slots=True)
class Violation:
    """One value that does not match its schema."""

    path: tuple[str | int, ...]
    """Keys and indexes that lead to the value, from the outside in."""
    expected: str
    """The expected value as a noun phrase: `a string`."""
    got: Any
    """The actual value, with deeply nested containers emptied; `...` if it is missing."""

    @property
    def where(self) -> str:
        """The path in dotted form: `error.details[0].path`."""
        text = "".join(f"[{step}]" if type(step) is int else f".{step}" for step in self.path)
        return text.removeprefix(".")


class Schema:
    """Validator of one schema file."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The file name without its suffix."""
        self.document: dict[str, Any] = _DOCUMENTS[name]
        """The schema itself."""
        self._validator = jsonschema_rs.Draft202012Validator(self.document, registry=_REGISTRY)
        self._is_valid = self._validator.is_valid

    def is_valid(self, value: Any) -> bool:
        """Whether a JSON value, as Python objects, matches the schema."""
        try:
            return self._is_valid(value)
        except UnicodeEncodeError:
            # A lone surrogate, which JSON can escape but UTF-8 cannot encode.
            return not self.explain(value)

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """Return the violations of a JSON value, one for each path and at most some hundred; empty if it is valid."""
        return () if self.is_valid(value) else self.explain(value)

    def explain(self, value: Any) -> tuple[Violation, ...]:
        """Return the violations as `violations` does, without trying the fast validator first."""
        pruned = _pruned(value, _DEEPEST)
        try:
            errors = self._errors(pruned)
        except UnicodeEncodeError:
            errors = self._errors(_pruned(pruned, _DEEPEST, encodable=True))
        found = {violation.path: violation for error in errors for violation in self._violations_of(error, pruned)}
        return tuple(found.values())

    def _errors(self, value: Any) -> list[jsonschema_rs.ValidationError]:
        """Return the errors in the order of the schema."""
        return sorted(islice(self._validator.iter_errors(value), _MOST_ERRORS), key=self._order)

    def _order(self, error: jsonschema_rs.ValidationError) -> list[int]:
        """Return for each step that led to the error its position among its neighbours."""
        order: list[int] = []
        schema, indexes = self.document, (step for step in error.instance_path if type(step) is int)
        for step in map(str, error.evaluation_path):
            order.append(list(schema).index(step))
            if step == "items":
                order.append(next(indexes))
            schema = _subschema(schema, step)
        return order

    def _violations_of(self, error: jsonschema_rs.ValidationError, value: Any) -> Iterator[Violation]:
        """Convert an error in a value."""
        path, instance, schema = tuple(error.instance_path), value, self.document
        for step in path:
            instance = instance[step]
        *way, keyword = map(str, error.evaluation_path)
        for step in way:
            schema = _subschema(schema, step)
        if keyword == "required":
            for name in schema["required"]:
                if name not in instance:
                    yield Violation((*path, name), _expected(schema, name), ...)
        elif keyword == "additionalProperties":
            for name in sorted(instance.keys() - schema.get("properties", {}).keys()):
                yield Violation((*path, name), "no value", instance[name])
        elif keyword == "type":
            yield Violation(path, _any_of(schema["type"]), instance)
        elif keyword == "const":
            yield Violation(path, f"`{schema['const']}`", instance)
        else:
            yield Violation(path, "no value", instance)


def _subschema(schema: dict[str, Any], step: str) -> Any:
    return _DOCUMENTS[schema["$ref"].removesuffix(".json")] if step == "$ref" else schema[step]


def _expected(schema: dict[str, Any], name: str) -> str:
    """Describe a required property by its type in the schema that requires it."""
    of_property = schema.get("properties", {}).get(name)
    return _any_of(of_property["type"]) if isinstance(of_property, dict) and "type" in of_property else "a value"


def _any_of(types: str | list[str]) -> str:
    return " or ".join(_TYPE_NAMES[kind] for kind in ([types] if isinstance(types, str) else types))


def _pruned(value: Any, depth: int, *, encodable: bool = False) -> Any:
    """Return a copy without deeply nested values, and `encodable` without lone surrogates."""
    if type(value) is dict:
        pairs = value.items() if depth else ()
        return {
            _pruned(key, 0, encodable=encodable): _pruned(item, depth - 1, encodable=encodable) for key, item in pairs
        }
    if type(value) is list:
        return [_pruned(item, depth - 1, encodable=encodable) for item in value] if depth else []
    return value.encode("utf-8", "replace").decode() if encodable and type(value) is str else value


def _load_documents() -> dict[str, dict[str, Any]]:
    found = (file for file in files(__name__).iterdir() if file.name.endswith(".json"))
    return {
        file.name.removesuffix(".json"): json.loads(file.read_bytes())
        for file in sorted(found, key=lambda file: file.name)
    }


_DOCUMENTS = _load_documents()
_REGISTRY = jsonschema_rs.Registry([(f"{_BASE}{name}.json", document) for name, document in _DOCUMENTS.items()])

SCHEMAS = {name: Schema(name) for name in _DOCUMENTS}
"""Every schema by its file name without the suffix."""

DURABLE_EVENT = SCHEMAS["durable-event"]
TOOL_STARTED = SCHEMAS["tool-started"]
EPHEMERAL_EVENT = SCHEMAS["ephemeral-event"]
MESSAGE_DELTA = SCHEMAS["message-delta"]
ERROR_ENVELOPE = SCHEMAS["error-envelope"]

EVENT_SCHEMAS = {schema.document["properties"]["type"]["const"]: schema for schema in (TOOL_STARTED, MESSAGE_DELTA)}
"""The schemas of single event types, by type."""

ERROR_SCHEMAS = {
    schema.document["properties"]["error"]["properties"]["code"]["const"]: schema
    for schema in map(SCHEMAS.__getitem__, ("session-busy", "rate-limited", "sandbox-provision-failed"))
}
"""The schemas of single errors, by error code."""


def error_fields(code: str) -> frozenset[str]:
    """Return the names of the fields that the `error` object with this code may have."""
    own = frozenset(_error(code).get("properties", {}))
    return own if is_closed(code) else own | frozenset(ERROR_ENVELOPE.document["properties"]["error"]["properties"])


def is_closed(code: str) -> bool:
    """Whether the specification allows no other fields in errors with this code than those it names."""
    return _error(code).get("additionalProperties") is False


def has_own_details(code: str) -> bool:
    """Whether the specification defines `details` for this code, or excludes them."""
    return is_closed(code) or "details" in _error(code).get("properties", {})


def _error(code: str) -> dict[str, Any]:
    """Return what the schema of a code adds to the `error` object of the envelope schema."""
    schema = ERROR_SCHEMAS.get(code)
    return {} if schema is None else schema.document["properties"]["error"]
