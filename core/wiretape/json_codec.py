"""Read the JSON of recorded text, and write JSON that is safe to print: fast for ordinary text, careful with the rest.

The reader keeps integers of any length, reads undecodable bytes as U+FFFD, and reports deep nesting instead of failing.
"""

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import orjson

from wiretape.safe_text import escape_json

_SPACE = b" \t\r\n"
_KEY_END = b'":'
_SPACED = re.compile(rb'"[ \t\r\n]+:')
"""White space between a key and its colon, which `_KEY_END` does not find."""
_HIDDEN = re.compile(rb"\\u00(?:22|3[aA])")
"""Escapes of a quotation mark and a colon, which `_KEY_END` finds only after parsing."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_INEXACT_FROM = 2**63
"""Floats from here on may have been integers in the text."""


class UnreadableJson(Enum):
    """Why a text has no JSON value."""

    NOT_JSON = "not JSON"
    NOT_AN_OBJECT = "too complex to read, but not an object: it does not begin with a brace"
    TOO_COMPLEX = "possibly an object, but nested too deeply or with too long a number"


def read_json(data: bytes) -> Any:
    """Return the value of a JSON text, or an `UnreadableJson`.

    Undecodable bytes become U+FFFD.  The last value of a repeated key wins.  Integers keep their full length.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return read_unusual_json(data, error)


def read_unusual_json(data: bytes, error: orjson.JSONDecodeError) -> Any:
    """Return the value of a JSON text that orjson could not read, or an `UnreadableJson`."""
    # The limit of orjson is fixed; that of the json module depends on the stack of the caller.
    is_too_deep = "depth" in error.msg or "recursion" in error.msg.lower()
    return _classify_complex(data) if is_too_deep else _read_carefully(data)


def sequence_in(document: dict[str, Any], data: bytes) -> Any:
    """Return the `sequence` of the object parsed from `data`; orjson turns integers beyond 64 bits into floats."""
    sequence = document.get("sequence")
    if type(sequence) is not float or abs(sequence) < _INEXACT_FROM:
        return sequence
    again = _read_carefully(data)
    return again["sequence"] if type(again) is dict else again


def find_repeated_keys(data: bytes, document: dict[str, Any]) -> list[str] | None:
    """Return the repeated keys of the JSON object in `data`, each once; None if they cannot be determined.

    `document` is the object parsed from `data`.
    """
    try:
        again = orjson.dumps(document)
    except TypeError:
        # A lone surrogate, or an integer beyond 64 bits.
        return _collect_repeated_keys(data)
    if again == data:
        return []
    if data.count(_KEY_END) == again.count(_KEY_END) and not _SPACED.search(data) and not _HIDDEN.search(data):
        # The text and the parsed object have the same number of keys: none was dropped.
        return []
    return _collect_repeated_keys(data)


def _classify_complex(data: bytes) -> UnreadableJson:
    is_object = data.lstrip(_SPACE).startswith(b"{")
    return UnreadableJson.TOO_COMPLEX if is_object else UnreadableJson.NOT_AN_OBJECT


def _read_carefully(data: bytes) -> Any:
    """Read what orjson cannot: escaped lone surrogates, floats out of range, long integers, text that is not UTF-8."""
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_constant=_reject_constant)
    except json.JSONDecodeError:
        return UnreadableJson.NOT_JSON
    except (RecursionError, ValueError):
        return _classify_complex(data)


def _reject_constant(constant: str) -> None:
    """Reject NaN and the infinities, which the json module accepts although JSON does not have them."""
    raise json.JSONDecodeError("not a JSON value", constant, 0)


def _collect_repeated_keys(data: bytes) -> list[str] | None:
    outermost: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> None:
        # The outermost object is completed last.
        nonlocal outermost
        outermost = pairs

    try:
        json.loads(data, object_pairs_hook=keep)
    except (RecursionError, ValueError):
        return None
    counts = Counter(key for key, _ in outermost)
    return [key for key, count in counts.items() if count > 1]


def dump_json(value: Any, *, indent: bool = False) -> str:
    """Encode `value` as JSON in which every control and text direction character is escaped."""
    option = orjson.OPT_INDENT_2 if indent else 0
    try:
        text = orjson.dumps(value, option=option)
    except orjson.JSONEncodeError:
        text = orjson.dumps(_encodable(value), option=option)
    return escape_json(text.decode())


def members_of(value: Any, *names: str) -> dict[str, Any]:
    """Return the attributes of an object with these names, for JSON; by default all fields of a dataclass."""
    return {name: getattr(value, name) for name in names or [field.name for field in fields(value)]}


def base64_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the base64 of the joined parts, a part at a time."""
    rest = b""
    for part in parts:
        data = rest + part
        cut = len(data) - len(data) % 3
        yield b64encode(data[:cut])
        rest = data[cut:]
    yield b64encode(rest)


def _encodable(value: Any) -> Any:
    """Return `value` with the parts that orjson cannot encode already encoded: lone surrogates and long integers."""
    if isinstance(value, str):
        return orjson.Fragment(json.dumps(value)) if _SURROGATE.search(value) else value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else orjson.Fragment(str(value))
    if isinstance(value, dict):
        return {key: _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    if is_dataclass(value):
        return {field.name: _encodable(getattr(value, field.name)) for field in fields(value)}
    return value
