"""JSON schemas of contracts, whose authors may be strangers: bounded time, and nothing outside the schema is read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from wiretape.contract.json_types import name_types
from wiretape.labels import count_of
from wiretape.rules.finding import describe, quote
from wiretape.safe_text import shorten

_MOST_PARTS = 20_000
"""Parts of a schema that a value can be compared with, counting each as often as it is referred to."""
MOST_PARTS_IN_ALL = 300_000
"""Those of all schemas of a contract: they are read in a few seconds."""
_DEEPEST = 60
_DEFINITIONS = "#/$defs/"
_REFUSED = frozenset({"$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor", "$schema", "$vocabulary"})
_MOST_VIOLATIONS = 20
_MOST_SHOWN = 5
"""Keys and values that a sentence names."""
_MOST_COMPARISONS = 50_000_000
"""Parts of a schema times bytes of data: about a second."""


class JsonSchema:
    """A JSON schema (2020-12) without references to other documents or to itself."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Raises ValueError."""
        size = _SchemaSize(document)
        self.parts = size.parts
        """How many it has, counting each as often as it is referred to."""
        # A type may be one of very many that share their definitions.
        used = {"$defs": {name: document["$defs"][name] for name in size.definitions}} if size.definitions else {}
        document = {name: each for name, each in document.items() if name != "$defs"} | used
        self._document = document
        import jsonschema_rs  # noqa: PLC0415 - it takes long, and not every contract has schemas

        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                document, pattern_options=jsonschema_rs.RegexOptions(), offline=True
            )
        except (ValueError, TypeError) as error:
            where = _place(map(str, getattr(error, "instance_path", ())))
            raise ValueError(f"invalid JSON schema{where}: {shorten(str(error).splitlines()[0], 120)}") from None

    def is_quick(self, size: int, share: float = 1) -> bool:
        """Whether data of this many bytes can be compared in about this share of a second."""
        return self.parts * size <= _MOST_COMPARISONS * share

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of objects that it names as `properties`, its `$ref` and `allOf` included."""

        def names(schema: Any) -> Iterator[str]:
            yield from schema.get("properties", ())
            for each in schema.get("allOf", ()):
                yield from names(each)
            if "$ref" in schema:
                yield from names(self._document["$defs"][schema["$ref"].removeprefix(_DEFINITIONS)])

        return frozenset(names(self._document))

    def find_violations(self, value: Any) -> Iterator[str]:
        """Yield a sentence for each part of a value that does not match, and at most some."""
        try:
            if self._validator.is_valid(value):
                return
            errors = list(islice(self._validator.iter_errors(value), _MOST_VIOLATIONS))
        except (UnicodeEncodeError, ValueError, OverflowError):
            # A lone surrogate, which JSON can escape but UTF-8 cannot encode, or a number beyond what it reads.
            return
        found: dict[str, list[str]] = {}
        for error in errors:
            where = "".join(f"/{step}" for step in error.instance_path)
            name = f"`{shorten(where, 80)}`" if where else "the data"
            if error.kind.name == "required":
                # What an object lacks is one violation.
                found.setdefault(f"Expected {name} to have ", []).append(quote(error.kind.value))
            else:
                found.setdefault(_describe_violation(name, error.kind.name, error.kind.value, error.instance), [])
        for sentence, keys in found.items():
            yield f"{sentence}{_listed(keys, 'and')}, got no such key." if keys else sentence


_LIMITS = {
    "minimum": "to be at least {}",
    "maximum": "to be at most {}",
    "exclusiveMinimum": "to be above {}",
    "exclusiveMaximum": "to be below {}",
    "minLength": "to have at least {} characters",
    "maxLength": "to have at most {} characters",
    "minItems": "to have at least {} items",
    "maxItems": "to have at most {} items",
}


def _describe_violation(name: str, keyword: str, value: Any, actual: Any) -> str:
    """Return the sentence about a value that violates a keyword of its schema."""
    match keyword:
        case "additionalProperties" | "unevaluatedProperties":
            return f"Expected no other keys in {name}, got {_listed([quote(each) for each in value], 'and')}."
        case "falseSchema":
            return f"Expected no value at {name}, got {describe(actual)}."
        case "type":
            expected = f"to be {name_types(value)}"
        case "enum" | "const":
            values = value if keyword == "enum" else [value]
            texts = [quote(each) if isinstance(each, str) else describe(each) for each in values]
            expected = f"to be {_listed(texts, 'or')}"
        case "pattern":
            expected = f"to match the pattern {quote(value)}"
        case _:
            expected = _LIMITS.get(keyword, "to match its schema").format(value)
    got = count_of(len(actual), "item") if keyword in {"minItems", "maxItems"} else describe(actual)
    return f"Expected {name} {expected}, got {got}."


def _listed(texts: Sequence[str], word: str) -> str:
    """Return the first texts, the last of them after the word."""
    more = [f"{len(texts) - _MOST_SHOWN} more"] if len(texts) > _MOST_SHOWN else []
    *first, last = [*texts[:_MOST_SHOWN], *more]
    return f"{', '.join(first)} {word} {last}" if first else last


class _SchemaSize:
    """Counts the parts of a schema, those that it refers to included."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Raises ValueError if the schema is too large, or refers to itself or to other documents."""
        self._definitions = document.get("$defs")
        self.definitions: dict[str, tuple[int, int]] = {}
        """The definitions that it refers to, with the number of their parts and how deeply they are nested."""
        self._unfinished: set[str] = set()
        self.parts, _ = self._measure(document, ())

    def _measure(self, part: object, path: tuple[str, ...]) -> tuple[int, int]:
        """Return the number of parts, and how deeply they are nested."""
        if len(path) > _DEEPEST:
            raise ValueError(f"the schema is nested more than {_DEEPEST} levels deep")
        inner: list[tuple[int, int]] = []
        if isinstance(part, Mapping):
            if refused := _REFUSED.intersection(part):
                raise ValueError(f"{min(refused)} is not supported in schemas of contracts{_place(path)}")
            measured = ((str(name), each) for name, each in part.items() if name != "$defs" or path)
            inner = [self._measure(each, (*path, name)) for name, each in measured]
            if "$ref" in part:
                inner.append(self._measure_definition(part["$ref"], (*path, "$ref")))
        elif isinstance(part, list):
            inner = [self._measure(each, (*path, str(index))) for index, each in enumerate(part)]
        number, height = 1 + sum(each[0] for each in inner), 1 + max((each[1] for each in inner), default=0)
        if number > _MOST_PARTS or height > _DEEPEST:
            raise ValueError(f"the schema has more than {_MOST_PARTS:,} parts, or {_DEEPEST} levels of them")
        return number, height

    def _measure_definition(self, reference: object, path: tuple[str, ...]) -> tuple[int, int]:
        name = reference.removeprefix(_DEFINITIONS) if isinstance(reference, str) else ""
        definitions = self._definitions if isinstance(self._definitions, Mapping) else {}
        if name not in definitions or reference != _DEFINITIONS + name:
            expected = "expected $ref to name a definition, such as #/$defs/item"
            raise ValueError(f"{expected}, got {shorten(repr(reference), 80)}{_place(path)}")
        if name in self._unfinished:
            raise ValueError(f"the definition {name!r} refers to itself, which is not supported{_place(path)}")
        if name not in self.definitions:
            self._unfinished.add(name)
            self.definitions[name] = self._measure(definitions[name], path)
            self._unfinished.discard(name)
        return self.definitions[name]


def _place(path: Iterable[str]) -> str:
    """Return where something is in a schema, as words that can follow it; empty for the whole schema."""
    steps = "".join(f"/{step}" for step in path)
    return f" at {shorten(steps, 120)}" if steps else ""
