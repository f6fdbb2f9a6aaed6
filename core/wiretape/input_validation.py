"""Validate structured input: one sentence with the key path where a value does not fit its declared type.

Types are `msgspec.Struct` classes, and msgspec decides whether a value fits.  Where it does not, this module compares
the value with the declaration, and names the file, the line where the parser knows it, the key path
(`fault[0].times`), what is expected, the value, and the closest known name.
A tag that is not a key of the file (the caller adds it) has a name in parentheses: `tag_field="(step)"`.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, time
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect

from wiretape.errors import InputError
from wiretape.safe_text import closest_match, printable, shorten

T = TypeVar("T")
KeyPath = tuple[str | int, ...]
"""Keys and list indexes that lead to a value, from the outside in."""
Problem = tuple[KeyPath, str]
"""Where something is wrong, and what."""

_LONGEST_VALUE = 60
_KINDS: dict[type[inspect.Type], tuple[str, tuple[type, ...]]] = {
    inspect.BoolType: ("true or false", (bool,)),
    inspect.IntType: ("a whole number", (int,)),
    inspect.FloatType: ("a number", (int, float, Decimal)),
    inspect.DecimalType: ("a number", (int, float, Decimal, str)),
    inspect.StrType: ("a string", (str,)),
    inspect.EnumType: ("a string", (str,)),
    inspect.LiteralType: ("a string", (str,)),
    inspect.NoneType: ("", (type(None),)),
    inspect.StructType: ("a table", (dict,)),
    inspect.DictType: ("a table", (dict,)),
    inspect.ListType: ("a list", (list, tuple)),
    inspect.VarTupleType: ("a list", (list, tuple)),
    inspect.TupleType: ("a list", (list, tuple)),
}
"""What people call a declared type, and the types of the values that may fit it; other types take any value."""
_BOUNDS = {
    "gt": ("greater than", operator.gt),
    "ge": ("of at least", operator.ge),
    "lt": ("less than", operator.lt),
    "le": ("of at most", operator.le),
}


class Source(Struct, frozen=True):
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


def validate(value: object, type_: type[T], source: Source, path: KeyPath = ()) -> T:
    """Convert plain data (dicts, lists, scalars) into `type_`.

    `path` is the location of `value` in the source.  Raises InputError.
    """
    try:
        try:
            return msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            inner, problem = _find_problem(value, inspect.type_info(type_)) or ((), _own_words(error))
            raise source.error((*path, *inner), problem) from None
    except RecursionError:
        raise source.error(path, "nested too deeply") from None
    except UnicodeEncodeError:
        raise source.error(path, "contains half of a surrogate pair, which is not valid text") from None


def choices_hint(word: str, names: Iterable[str]) -> str:
    """Return what to add to an error about a word that is not in `names`: the closest name, or all names."""
    known = list(names)
    if not known:
        return ""
    if similar := closest_match(word, known):
        return f"; did you mean {similar}?"
    return f"; use {known[0]}" if len(known) == 1 else f"; choose one of {', '.join(known)}"


def _find_problem(value: Any, type_: inspect.Type) -> Problem | None:
    """Return the first part of a value that does not fit its type; None if it fits."""
    options = list(_options(type_))
    fitting = [option for option in options if _is_of_kind(value, option)]
    structs = [option for option in fitting if isinstance(option, inspect.StructType)]
    if not fitting:
        kinds = {type(option) for option in options}
        nouns = dict.fromkeys(noun for kind, (noun, _) in _KINDS.items() if kind in kinds and noun)
        expected = " or ".join(nouns).replace("true or false or", "true, false or")
        return (), f"expected {expected}, got {_shown(value)}"
    if len(structs) > 1:
        tag_field = str(structs[0].tag_field)
        if tag_field not in value:
            return (), f"{tag_field} is missing"
        fitting = [struct for struct in structs if struct.tag == value[tag_field]]
        if not fitting:
            return (tag_field,), _not_one_of([str(struct.tag) for struct in structs], value[tag_field])
    problems = [_find_in(value, option) for option in fitting]
    return None if None in problems else problems[0]


def _options(type_: inspect.Type) -> Iterator[inspect.Type]:
    """Return the members of a union, or the type itself, without their descriptions."""
    if isinstance(type_, inspect.Metadata):
        yield from _options(type_.type)
    elif isinstance(type_, inspect.UnionType):
        for option in type_.types:
            yield from _options(option)
    else:
        yield type_


def _is_of_kind(value: object, type_: inspect.Type) -> bool:
    _, kinds = _KINDS.get(type(type_), ("", (object,)))
    # In Python, booleans are whole numbers.
    return isinstance(value, kinds) and (not isinstance(value, bool) or int not in kinds)


def _find_in(value: Any, type_: inspect.Type) -> Problem | None:
    """Return the first part of a value of the right kind that does not fit its type, which is not a union."""
    match type_:
        case inspect.StructType():
            return _find_in_struct(value, type_)
        case inspect.DictType():
            keys = _first((key, key, type_.key_type) for key in value)
            items = ((key, item, type_.value_type) for key, item in value.items())
            return _find_in_size(value, type_) or keys or _first(items)
        case inspect.ListType() | inspect.VarTupleType():
            return _find_in_size(value, type_) or _first((*each, type_.item_type) for each in enumerate(value))
        case inspect.TupleType(item_types=types):
            if len(value) != len(types):
                return (), f"expected a list of exactly {len(types)} items"
            return _first((index, *each) for index, each in enumerate(zip(value, types, strict=True)))
        case inspect.EnumType() | inspect.LiteralType():
            choices = type_.values if isinstance(type_, inspect.LiteralType) else [each.value for each in type_.cls]
            return None if value in choices else ((), _not_one_of(list(map(str, choices)), value))
        case inspect.StrType():
            if type_.pattern is not None and not re.search(type_.pattern, value):
                return (), f"expected a string that matches {type_.pattern}, got {_shown(value)}"
            return _find_in_size(value, type_)
        case inspect.IntType() | inspect.FloatType() | inspect.DecimalType():
            return _find_in_number(value, type_)
    return None


def _first(items: Iterable[tuple[str | int, Any, inspect.Type]]) -> Problem | None:
    """Return the first problem of items: the key or index, the value and the type of each."""
    found = ((step, _find_problem(item, type_)) for step, item, type_ in items)
    return next((((step, *problem[0]), problem[1]) for step, problem in found if problem is not None), None)


def _find_in_struct(table: dict[str, Any], struct: inspect.StructType) -> Problem | None:
    fields = {field.encode_name: field for field in struct.fields}
    tag = [] if struct.tag_field is None else [struct.tag_field]
    if problem := _first((key, item, fields[key].type) for key, item in table.items() if key in fields):
        return problem
    if struct.forbid_unknown_fields and (unknown := [key for key in table if key not in {*fields, *tag}]):
        keys = [key for key in (*tag, *fields) if not key.startswith("(")]
        return (unknown[0],), f"unknown key{_tag_of(struct)}{choices_hint(unknown[0], keys)}"
    if missing := [key for key, field in fields.items() if field.required and key not in table]:
        return (), f"{missing[0]} is missing"
    try:
        msgspec.convert(table, struct.cls)
    except msgspec.ValidationError as error:
        return (), _own_words(error)
    return None


def _own_words(error: msgspec.ValidationError) -> str:
    """Return what the `__post_init__` of a type says about its value."""
    return printable(str(error.__cause__ or error)).rstrip(".")


def _tag_of(struct: inspect.StructType) -> str:
    """Return which of the tagged structs a table is, for example ` where do = "drop"`."""
    if struct.tag_field is None:
        return ""
    is_key = not struct.tag_field.startswith("(")
    return f' where {struct.tag_field} = "{struct.tag}"' if is_key else f" of the {struct.tag_field[1:-1]} {struct.tag}"


def _find_in_size(value: Any, type_: Any) -> Problem | None:
    """Compare the length of a string, a list or a table with its bounds."""
    unit = "characters" if isinstance(value, str) else "keys" if isinstance(value, dict) else "items"
    if type_.min_length is not None and len(value) < type_.min_length:
        noun = _noun(type_).removeprefix("a ")
        bound = f"a non-empty {noun}" if type_.min_length == 1 else f"a {noun} of at least {type_.min_length} {unit}"
    elif type_.max_length is not None and len(value) > type_.max_length:
        bound = f"{_noun(type_)} of at most {type_.max_length} {unit}"
    else:
        return None
    return (), f"expected {bound}" + (f", got {_shown(value)}" if isinstance(value, str) else "")


def _find_in_number(value: Any, type_: Any) -> Problem | None:
    classes: dict[type[inspect.Type], Any] = {inspect.FloatType: float, inspect.DecimalType: Decimal}
    try:
        number = msgspec.convert(value, classes.get(type(type_), int))
    except msgspec.ValidationError:
        return (), f"expected a number, got {_shown(value)}"
    for name, (words, holds) in _BOUNDS.items():
        bound = getattr(type_, name, None)
        if bound is not None and not holds(number, bound):
            return (), f"expected {_noun(type_)} {words} {str(bound).removesuffix('.0')}, got {_shown(value)}"
    return None


def _not_one_of(choices: list[str], value: object) -> str:
    similar = closest_match(value, choices) if isinstance(value, str) else None
    return f"expected one of {', '.join(choices)}, got {_shown(value)}" + (
        f"; did you mean {similar}?" if similar else ""
    )


def _noun(type_: inspect.Type) -> str:
    return _KINDS[type(type_)][0]


def _shown(value: object) -> str:
    """Return a value nearly as TOML and JSON write it."""
    match value:
        case dict():
            return "a table"
        case list() | tuple():
            return "a list"
        case None | bool():
            text = json.dumps(value)
        case date() | time():
            text = value.isoformat()
        case Decimal():
            text = str(value)
        case _:
            text = repr(value)
    return shorten(text, _LONGEST_VALUE)
