"""JSON Schema files of the JSON shapes in the specification, and validators for them.

`jsonschema-rs` validates in half a microsecond.  If a value is invalid, `jsonschema` explains why, more than a hundred
times slower.  Both read the same files, which have no `$id`: a `$ref` is the name of a file in this folder.

The rules check what a schema cannot express: JSON Schema accepts 1.0 as an integer, does not relate error codes to
HTTP statuses, and sees only the JSON of an event.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from wiretape.bounded_dict import put_bounded

if TYPE_CHECKING:
    import jsonschema

_BASE = "json-schema:///"
"""The base URI against which jsonschema-rs resolves file names."""
_DEEPEST = 6
"""No schema describes values nested deeper than this."""
_MOST_ERRORS = 200
_MOST_MISSING = 256
_MISSING: dict[tuple[int, tuple[str | int, ...], tuple[str, ...]], "tuple[Violation, ...]"] = {}
"""The violations of missing properties that were made last."""
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


@dataclass(frozen=True, slots=True)
class SchemaErrors:
    """Where the JSON of an event does not match its schemas."""

    general: tuple[Violation, ...] = ()
    """Violations of the schema of all durable events, or of all deltas."""
    specific: tuple[Violation, ...] = ()
    """Violations of the schema of the event's type, without the fields that already violate the general schema."""


NO_SCHEMA_ERRORS = SchemaErrors()


class Schema:
    """Validator of one schema file."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The file name without its suffix."""
        self.document: dict[str, Any] = _DOCUMENTS[name]
        """The schema itself."""
        self._is_valid = jsonschema_rs.Draft202012Validator(self.document, registry=_REGISTRY).is_valid

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
        errors = islice(self._explainer.iter_errors(_pruned(value, _DEEPEST)), _MOST_ERRORS)
        found = {violation.path: violation for error in errors for violation in _violations_of(error)}
        return tuple(found.values())

    @cached_property
    def _explainer(self) -> "jsonschema.Draft202012Validator":
        # The import takes a tenth of a second, and most runs never need it.
        import jsonschema  # noqa: PLC0415
        import referencing.jsonschema  # noqa: PLC0415

        make = referencing.jsonschema.DRAFT202012.create_resource
        registry = referencing.Registry().with_resources(
            (f"{name}.json", make(document)) for name, document in _DOCUMENTS.items()
        )

        def find_missing(
            _validator: object, names: list[str], value: object, _schema: object
        ) -> "Iterator[jsonschema.ValidationError]":
            # One error for all missing properties, where jsonschema has one for each.
            if isinstance(value, dict) and not value.keys() >= set(names):
                yield jsonschema.ValidationError("properties are missing")

        with_one_error = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"required": find_missing})
        return with_one_error(self.document, registry=registry)


def _violations_of(error: "jsonschema.ValidationError") -> Iterator[Violation]:
    """Convert an error of jsonschema."""
    path = tuple(error.absolute_path)
    if error.validator == "required":
        # Many events may lack the same properties.  Schemas are never freed, so their identities are unique.
        missing = tuple(name for name in error.validator_value if name not in error.instance)
        key = (id(error.schema), path, missing)
        if key not in _MISSING:
            found = tuple(Violation((*path, name), _expected(error.schema, name), ...) for name in missing)
            put_bounded(_MISSING, key, found, _MOST_MISSING)
        yield from _MISSING[key]
    elif error.validator == "additionalProperties":
        for name in sorted(error.instance.keys() - error.schema.get("properties", {}).keys()):
            yield Violation((*path, name), "no value", error.instance[name])
    elif error.validator == "type":
        yield Violation(path, _any_of(error.validator_value), error.instance)
    elif error.validator == "const":
        yield Violation(path, f"`{error.validator_value}`", error.instance)
    else:
        yield Violation(path, "no value", error.instance)


def _expected(schema: dict[str, Any], name: str) -> str:
    """Describe a required property by its type in the schema that requires it."""
    of_property = schema.get("properties", {}).get(name)
    return _any_of(of_property["type"]) if isinstance(of_property, dict) and "type" in of_property else "a value"


def _any_of(types: str | list[str]) -> str:
    return _TYPE_NAMES[types] if isinstance(types, str) else " or ".join(_TYPE_NAMES[kind] for kind in types)


def _pruned(value: Any, depth: int) -> Any:
    """Return a copy without deeply nested values: jsonschema formats whole values, and fails on deep ones."""
    if type(value) is dict:
        return {key: _pruned(item, depth - 1) for key, item in value.items()} if depth else {}
    if type(value) is list:
        return [_pruned(item, depth - 1) for item in value] if depth else []
    return value


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
_MESSAGE_DELTA_TYPE = MESSAGE_DELTA.document["properties"]["type"]["const"]


def is_valid_delta(value: dict[str, Any]) -> bool:
    """Whether an object matches the schemas of a delta of its `type`."""
    name, delta = value.get("type"), value.get("delta")
    if (
        name == _MESSAGE_DELTA_TYPE
        and type(delta) is dict
        and type(delta.get("text")) is str
        and type(value.get("run_id")) is str
        and "sequence" not in value
    ):
        # Nearly all deltas; the schema takes three times as long.
        return True
    specific = EVENT_SCHEMAS.get(name) if type(name) is str else None
    return (specific or EPHEMERAL_EVENT).is_valid(value)


def find_event_errors(document: dict[str, Any], type_: str, *, is_delta: bool) -> SchemaErrors:
    """Return where the JSON of a delta, or else of a durable event, does not match its schemas."""
    specific = EVENT_SCHEMAS.get(type_)
    if is_valid_delta(document) if is_delta else (specific or DURABLE_EVENT).is_valid(document):
        return NO_SCHEMA_ERRORS
    violations = (EPHEMERAL_EVENT if is_delta else DURABLE_EVENT).violations(document)
    reported = {violation.path[0] for violation in violations}
    more = () if specific is None else specific.violations(document)
    return SchemaErrors(violations, tuple(violation for violation in more if violation.path[0] not in reported))


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
