"""Decode structured input into declared types: one sentence with the key path where it does not fit.

Types are `msgspec.Struct` classes.  msgspec does the checking; this module turns its errors into sentences with the
file, the line where the parser knows it, the key path (`fault[0].times`), the value, and the closest known name.
A tag that is not a key of the file (the caller adds it) has a name in parentheses: `tag_field="(step)"`.
msgspec was chosen over pydantic because it imports in a fifth of the time and decodes a record in a seventh.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from wiretape.errors import InputError
from wiretape.safe_text import closest_match, printable, shorten

T = TypeVar("T")
KeyPath = tuple[str | int, ...]
"""Keys and list indexes that lead to a value, from the outside in."""

_LONGEST_VALUE = 60
_ANY_KEY = "..."
_MISSING: Any = object()
_MESSAGE = re.compile(r"(?P<problem>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\[(\d+|\.\.\.)\]|\.?((?:[^.\[]|\[(?!\d+\]|\.\.\.\]))+)")
_EXPECTED = re.compile(r"Expected `(?P<type>[^`]+)`(?: (?P<bound>.+?))?(?:, got `(?P<got>[^`]+)`)?")
_BOUND = re.compile(r"(?P<length>of length )?(?P<sign>>=|<=|>|<|==) (?P<number>\S+)")
_NOUNS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "decimal": "a number",
    "object": "a table",
    "array": "a list",
    "dict": "a table",
    "list": "a list",
    "null": "nothing",
}
_SIGNS = {">=": "at least", "<=": "at most", ">": "greater than", "<": "less than", "==": "exactly"}


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value was read from; how error messages name it."""

    name: str
    """What people call it, for example the path of a file."""
    line: Callable[[KeyPath], int | None] | None = None
    """The line of the value at a key path, if the parser knows lines."""

    def error(self, path: KeyPath, problem: str) -> InputError:
        """An error that names the source, the line, the key path and the problem, in one sentence."""
        line = self.line(path) if self.line is not None else None
        where = printable(self.name) + (f", line {line}" if line is not None else "")
        keys = printable(format_key_path(path))
        end = "" if problem.endswith(("?", ".")) else "."
        return InputError(": ".join(part for part in (where, keys, problem) if part) + end)


def format_key_path(path: KeyPath) -> str:
    """Return a key path in its written form: `fault[0].times`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def decode(value: object, type_: type[T], source: Source, path: KeyPath = ()) -> T:
    """Convert plain data (dicts, lists, scalars) into `type_`.

    `path` is the location of `value` in the source.  Raises InputError.
    """
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise _input_error(error, value, type_, source, path) from None
    except RecursionError:
        raise source.error(path, "nested too deeply") from None
    except UnicodeEncodeError:
        raise source.error(path, "contains half of a surrogate pair, which is not valid text") from None


def choices_hint(word: str, names: Iterable[str]) -> str:
    """Return what to add to an error about a word that is not in `names`: the closest name, or all names."""
    known = list(names)
    if similar := closest_match(word, known):
        return f"; did you mean {similar}?"
    return f"; use {known[0]}" if len(known) == 1 else f"; choose one of {', '.join(known)}"


def _input_error(error: msgspec.ValidationError, value: object, type_: Any, source: Source, at: KeyPath) -> InputError:
    """Return the sentence for an error of msgspec about `value`, whose location is `at`."""
    match = _MESSAGE.fullmatch(str(error))
    if match is None:
        return source.error(at, printable(str(error)))
    inner, found, types = _follow(_STEP.findall(match["path"] or ""), value, type_)
    problem = match["problem"]
    if match["key"]:
        return source.error((*at, *inner), f"invalid key: {_plain_problem(problem, _MISSING, types)}")
    if (key := _key_of(problem, "Object contains unknown field ")) is not None:
        return source.error((*at, *inner, key), f"unknown key{_tag_of(types)}{choices_hint(key, _keys(types))}")
    if (key := _key_of(problem, "Object missing required field ")) is not None:
        return source.error((*at, *inner), f"{key} is missing")
    return source.error((*at, *inner), _plain_problem(problem, found, types))


def _key_of(problem: str, beginning: str) -> str | None:
    return problem.removeprefix(beginning).strip("`") if problem.startswith(beginning) else None


def _plain_problem(problem: str, found: object, types: Sequence[Any]) -> str:
    """Return in plain English what msgspec reports about the value `found`."""
    shown = "" if found is _MISSING or isinstance(found, dict | list) else shorten(_as_written(found), _LONGEST_VALUE)
    if problem.startswith("Invalid ") and (choices := list(_choices(types))):
        similar = closest_match(found, choices) if isinstance(found, str) else None
        return f"expected one of {', '.join(choices)}, got {shown}" + (f"; did you mean {similar}?" if similar else "")
    if problem == "Invalid base64 encoded string":
        return "invalid base64"
    if problem == "Invalid decimal string":
        return f"expected a number, got {shown}"
    match = _EXPECTED.fullmatch(problem)
    if match is None:
        # A check of a type's own, raised in `__post_init__`.
        return printable(problem).rstrip(".")
    got = shown or " or ".join(map(_noun, filter(None, (match["got"] or "").split(" | "))))
    return f"expected {_expected(match['type'], match['bound'] or '')}" + (f", got {got}" if got else "")


def _expected(types: str, bound: str) -> str:
    nouns = " or ".join(_noun(name) for name in types.split(" | ") if name != "null") or _NOUNS["null"]
    nouns = nouns.replace("true or false or", "true, false or")
    limit = _BOUND.fullmatch(bound)
    if limit is None:
        return nouns + (f" {bound}" if bound else "")
    number = limit["number"].removesuffix(".0")
    if limit["length"]:
        if (limit["sign"], number) == (">=", "1"):
            return nouns.replace("a string", "a non-empty string").replace("a list", "a non-empty list")
        return f"{nouns} of {_SIGNS[limit['sign']]} {number} {'characters' if 'str' in types else 'items'}"
    return f"{nouns} {'of ' if limit['sign'] in {'>=', '<=', '=='} else ''}{_SIGNS[limit['sign']]} {number}"


def _noun(name: str) -> str:
    return _NOUNS.get(name, name)


def _as_written(value: object) -> str:
    """Return a value nearly as TOML and JSON write it."""
    if value is None:
        return "null"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _follow(steps: Sequence[tuple[str, str]], value: Any, type_: Any) -> tuple[KeyPath, Any, Sequence[Any]]:
    """Return the key path of msgspec's steps, the value there (`_MISSING` if there is none), and its possible types.

    msgspec leaves out which key of a dictionary it means: the first whose value does not fit is taken.
    """
    path: KeyPath = ()
    types: Sequence[Any] = tuple(_alternatives(type_, value))
    for index, name in steps:
        step: str | int = name or (_unfit_key(value, types) if index == _ANY_KEY else int(index))
        path += (step,)
        tags = [each for each in types if _is_struct(each) and each.__struct_config__.tag_field == step]
        inner = tuple(_inner_types(types, step))
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            value = _MISSING
        types = tags or tuple(one for each in inner for one in _alternatives(each, value))
    return path, value, types


def _unfit_key(table: object, types: Sequence[Any]) -> str:
    for key, item in table.items() if isinstance(table, dict) else ():
        for inner in _inner_types(types, key):
            try:
                msgspec.convert(item, inner)
            except msgspec.ValidationError:
                return str(key)
    return _ANY_KEY


def _alternatives(type_: Any, value: object) -> Iterator[Any]:
    """Return the types of a union that `value` may be intended as, without their annotations."""
    if get_origin(type_) is Annotated:
        yield from _alternatives(get_args(type_)[0], value)
    elif get_origin(type_) in {Union, UnionType}:
        members = [one for each in get_args(type_) for one in _alternatives(each, value)]
        tagged = [each for each in members if _is_struct(each) and _has_tag_of(each, value)]
        yield from tagged or members
    else:
        yield type_


def _has_tag_of(struct: Any, value: object) -> bool:
    config = struct.__struct_config__
    return config.tag_field is not None and isinstance(value, dict) and value.get(config.tag_field) == config.tag


def _inner_types(types: Sequence[Any], step: str | int) -> Iterator[Any]:
    """Return the types of the values at one step within values of `types`."""
    for type_ in types:
        if _is_struct(type_):
            names = dict(zip(type_.__struct_encode_fields__, type_.__struct_fields__, strict=True))
            if step in names:
                yield get_type_hints(type_, include_extras=True)[names[step]]
        elif isinstance(step, int) and get_args(type_):
            yield get_args(type_)[0]
        elif isinstance(step, str) and len(get_args(type_)) == len(("key", "value")):
            yield get_args(type_)[1]


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _keys(types: Sequence[Any]) -> Iterator[str]:
    for type_ in types:
        if _is_struct(type_):
            tag_field = type_.__struct_config__.tag_field
            yield from (tag_field,) if tag_field is not None and not tag_field.startswith("(") else ()
            yield from type_.__struct_encode_fields__


def _tag_of(types: Sequence[Any]) -> str:
    """Return which of the tagged structs a table is, for example ` where do = "drop"`."""
    configs = [each.__struct_config__ for each in types if _is_struct(each)]
    if len(configs) != 1 or configs[0].tag_field is None:
        return ""
    field, tag = configs[0].tag_field, configs[0].tag
    return f" of the {field.strip('()')} {tag}" if field.startswith("(") else f' where {field} = "{tag}"'


def _choices(types: Sequence[Any]) -> Iterator[str]:
    """Return what can be written for one of `types`: values of enumerations and literals, tags of structs."""
    for type_ in types:
        if _is_struct(type_):
            yield from [] if type_.__struct_config__.tag is None else [str(type_.__struct_config__.tag)]
        elif get_origin(type_) is Literal:
            yield from map(str, get_args(type_))
        elif isinstance(type_, type) and issubclass(type_, Enum):
            yield from (str(member.value) for member in type_)
