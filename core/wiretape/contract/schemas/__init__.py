"""JSON Schema files of the shapes that the specification shows, and validators made from them.

`jsonschema-rs` decides, in half a microsecond; `jsonschema` explains what is wrong, more than a hundred times
slower, and only then.  Both read the same files, which have no `$id`: a `$ref` is the name of the file beside it.

What a schema cannot say is left to the rules: JSON Schema takes 1.0 for an integer, knows no error code
by its status, and sees the JSON of an event only.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any

import jsonschema_rs

if TYPE_CHECKING:
    import jsonschema

_BASE = "json-schema:///"
"""What jsonschema-rs resolves names of files against."""
_DEEPEST = 6
"""Below this depth no schema looks at a value."""
_MOST_ERRORS = 200
_WORDS = {"array": "an array", "integer": "an integer", "object": "an object", "string": "a string"}


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a value is not what its schema says."""

    path: tuple[str | int, ...]
    """Keys and indices that lead to the place from the outside in."""
    expected: str
    """What should be there, in words: `a string`."""
    got: Any
    """What is there, containers perhaps emptied deep inside; `...` for nothing at all."""

    @property
    def where(self) -> str:
        """The path as people write it: `error.details[0].path`."""
        text = "".join(f"[{step}]" if type(step) is int else f".{step}" for step in self.path)
        return text.removeprefix(".")


class Schema:
    """One schema file.  Made once; validating is a matter of microseconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        """Of the file, without its ending."""
        self.document: dict[str, Any] = _DOCUMENTS[name]
        """The schema itself."""
        self._decide = jsonschema_rs.Draft202012Validator(self.document, registry=_REGISTRY).is_valid

    def is_valid(self, value: Any) -> bool:
        """Whether a JSON value, as Python objects, keeps the schema."""
        try:
            return self._decide(value)
        except UnicodeEncodeError:
            # A lone surrogate, which JSON can escape but UTF-8 cannot hold.
            return not self.explain(value)

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """What is wrong with a JSON value, each place once and at most some hundred; empty when it is valid."""
        return () if self.is_valid(value) else self.explain(value)

    def explain(self, value: Any) -> tuple[Violation, ...]:
        """The same, by jsonschema alone."""
        errors = islice(self._explainer.iter_errors(_pruned(value, _DEEPEST)), _MOST_ERRORS)
        found = {violation.path: violation for error in errors for violation in _told(error)}
        return tuple(found.values())

    @cached_property
    def _explainer(self) -> "jsonschema.Draft202012Validator":
        # It takes a tenth of a second to import, and most runs never need it.
        import jsonschema  # noqa: PLC0415
        import referencing.jsonschema  # noqa: PLC0415

        make = referencing.jsonschema.DRAFT202012.create_resource
        registry = referencing.Registry().with_resources(
            (f"{name}.json", make(document)) for name, document in _DOCUMENTS.items()
        )
        return jsonschema.Draft202012Validator(self.document, registry=registry)


def _told(error: "jsonschema.ValidationError") -> Iterator[Violation]:
    """What an error of jsonschema says, in our words."""
    path = tuple(error.absolute_path)
    if error.validator == "required":
        for name in error.validator_value:
            if name not in error.instance:
                yield Violation((*path, name), _expected(error.schema, name), ...)
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
    """What a property should be, as far as the schema that requires it says."""
    of_property = schema.get("properties", {}).get(name)
    return _any_of(of_property["type"]) if isinstance(of_property, dict) and "type" in of_property else "a value"


def _any_of(types: str | list[str]) -> str:
    return " or ".join(_WORDS[kind] for kind in ([types] if isinstance(types, str) else types))


def _pruned(value: Any, depth: int) -> Any:
    """A copy without what lies too deep: jsonschema prints whole values, and fails on deep ones."""
    if type(value) is dict:
        return {key: _pruned(item, depth - 1) for key, item in value.items()} if depth else {}
    if type(value) is list:
        return [_pruned(item, depth - 1) for item in value] if depth else []
    return value


def _read() -> dict[str, dict[str, Any]]:
    found = (file for file in files(__name__).iterdir() if file.name.endswith(".json"))
    return {
        file.name.removesuffix(".json"): json.loads(file.read_bytes())
        for file in sorted(found, key=lambda file: file.name)
    }


_DOCUMENTS = _read()
_REGISTRY = jsonschema_rs.Registry([(f"{_BASE}{name}.json", document) for name, document in _DOCUMENTS.items()])

SCHEMAS = {name: Schema(name) for name in _DOCUMENTS}
"""Every schema by the name of its file without the ending."""

DURABLE_EVENT = SCHEMAS["durable-event"]
TOOL_STARTED = SCHEMAS["tool-started"]
EPHEMERAL_EVENT = SCHEMAS["ephemeral-event"]
MESSAGE_DELTA = SCHEMAS["message-delta"]
ERROR_ENVELOPE = SCHEMAS["error-envelope"]

EVENT_SCHEMAS = {schema.document["properties"]["type"]["const"]: schema for schema in (TOOL_STARTED, MESSAGE_DELTA)}
"""The schemas of single event types, by the type."""

ERROR_SCHEMAS = {
    schema.document["properties"]["error"]["properties"]["code"]["const"]: schema
    for schema in map(SCHEMAS.__getitem__, ("session-busy", "rate-limited", "sandbox-provision-failed"))
}
"""The schemas of single errors, by the error code."""


def error_fields(code: str) -> frozenset[str]:
    """The names of the fields that the `error` of an envelope may hold beside a code of the table."""
    own = frozenset(_error(code).get("properties", {}))
    return own if is_closed(code) else own | frozenset(ERROR_ENVELOPE.document["properties"]["error"]["properties"])


def is_closed(code: str) -> bool:
    """Whether the specification says that errors of this code hold no other fields than it names."""
    return _error(code).get("additionalProperties") is False


def has_own_details(code: str) -> bool:
    """Whether the specification says what `details` of this code hold, or that there are none."""
    return is_closed(code) or "details" in _error(code).get("properties", {})


def _error(code: str) -> dict[str, Any]:
    """What the schema of a code says of `error`, beyond what the envelope's says."""
    schema = ERROR_SCHEMAS.get(code)
    return {} if schema is None else schema.document["properties"]["error"]
