"""JSON Schema files of the JSON shapes in the specification, and validators for them.

The files have no `$id`: a `$ref` is the name of a file in this folder.  What is wrong with a value is for the rules,
which also check what a schema cannot express: JSON Schema accepts 1.0 as an integer, does not relate error codes to
HTTP statuses, and sees only the JSON of an event.
"""

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

_BASE = "json-schema:///"
"""The base URI against which jsonschema-rs resolves file names."""
_DEEPEST = 6
"""No schema describes values nested deeper than this."""


class Schema:
    """Validator of one schema file."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The file name without its suffix."""
        self.document: dict[str, Any] = _DOCUMENTS[name]
        """The schema itself."""
        self._validate: Callable[[Any], bool] | None = None

    def _is_valid(self, value: Any) -> bool:
        if self._validate is None:
            self._validate = _compile(self.document)
        return self._validate(value)

    def is_valid(self, value: Any) -> bool:
        """Whether a JSON value, as Python objects, matches the schema."""
        try:
            return self._is_valid(value)
        except UnicodeEncodeError:
            # A lone surrogate, which JSON can escape but UTF-8 cannot encode.
            text = json.dumps(_pruned(value, _DEEPEST), ensure_ascii=False)
            return self._is_valid(json.loads(text.encode("utf-8", "replace")))


def _pruned(value: Any, depth: int) -> Any:
    """Return a copy without deeply nested values."""
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


def _compile(document: dict[str, Any]) -> Callable[[Any], bool]:
    """Return the validator of a schema; it is made when a value is first compared, because that takes long."""
    import jsonschema_rs  # noqa: PLC0415

    registry = jsonschema_rs.Registry([(f"{_BASE}{name}.json", each) for name, each in _DOCUMENTS.items()])
    return jsonschema_rs.Draft202012Validator(document, registry=registry).is_valid


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


def is_valid_durable(value: dict[str, Any], type_: str) -> bool:
    """Whether the JSON of a durable event matches the schemas of its type."""
    return (EVENT_SCHEMAS.get(type_) or DURABLE_EVENT).is_valid(value)


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


def _error(code: str) -> dict[str, Any]:
    """Return what the schema of a code adds to the `error` object of the envelope schema."""
    schema = ERROR_SCHEMAS.get(code)
    return {} if schema is None else schema.document["properties"]["error"]
