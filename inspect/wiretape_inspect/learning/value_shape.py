"""JSON schemas of recorded values."""

from collections.abc import Iterator
from typing import Any

from wiretape_inspect.learning.recorded_streams import is_name

_MOST_KEYS = 60
"""Keys of an object; one with more is a map, whose keys are not part of the schema."""
_DEEPEST = 8
_JSON_TYPES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
}


class ShapeBudget:
    """The number of parts that all shapes may still have."""

    def __init__(self, left: int) -> None:
        self.left = left


class ValueShape:
    """What several values at the same place have in common."""

    def __init__(self, budget: ShapeBudget, depth: int = 0) -> None:
        self.types: dict[str, int] = {}
        """The JSON types of the values, and how many have each."""
        self.keys: dict[str, ValueShape] | None = {} if depth < _DEEPEST else None
        """Those inside the objects, by key; None for a map, and if they are nested too deeply."""
        self.items: ValueShape | None = None
        self._budget = budget
        self._depth = depth

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.types.values())

    def add(self, value: Any) -> None:
        """Add a value."""
        name = _JSON_TYPES[type(value)]
        self.types[name] = self.types.get(name, 0) + 1
        if type(value) is dict:
            for key, inner in value.items():
                if self.keys is not None and (shape := self._inside(key)) is not None:
                    shape.add(inner)
        elif type(value) is list and self._depth < _DEEPEST:
            for inner in value[:_MOST_KEYS]:
                self.items = self.items or self._new()
                if self.items is not None:
                    self.items.add(inner)

    def _inside(self, key: str) -> "ValueShape | None":
        if self.keys is None or not is_name(key):
            return None
        if key not in self.keys:
            if len(self.keys) >= _MOST_KEYS:
                self.keys = None
                return None
            if (shape := self._new()) is None:
                return None
            self.keys[key] = shape
        return self.keys[key]

    def _new(self) -> "ValueShape | None":
        self._budget.left -= 1
        return ValueShape(self._budget, self._depth + 1) if self._budget.left >= 0 else None

    def schema(self, least: int) -> dict[str, Any]:
        """Return a JSON schema; keys are required if all of at least so many objects have them."""
        names = sorted(self.types.keys() - ({"integer"} if "number" in self.types else set()))
        schema: dict[str, Any] = {} if not names else {"type": names[0] if len(names) == 1 else names}
        objects = self.types.get("object", 0)
        required = sorted(key for key, shape in (self.keys or {}).items() if shape.count == objects >= least)
        if required:
            schema["required"] = required
        if self.keys:
            schema["properties"] = {key: shape.schema(least) for key, shape in sorted(self.keys.items())}
        if self.items is not None and self.items.types:
            schema["items"] = self.items.schema(least)
        return schema

    def new_keys(self, schema: Any, path: str = "") -> "Iterator[tuple[str, str, ValueShape]]":
        """Yield the keys that a schema with properties does not have: the pointer to the object, the key, the shape."""
        known = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(known, dict):
            return
        for key, shape in sorted((self.keys or {}).items()):
            if key not in known:
                yield path, key, shape
            else:
                yield from shape.new_keys(known[key], f"{path}/{key}")
