"""JSON as RFC 8259 has it, quickly where the text is ordinary and carefully where it is not."""

import json
import re
from collections import Counter
from enum import Enum
from typing import Any

import orjson

_SPACE = b" \t\r\n"
_KEY_END = b'":'
_SPACED = re.compile(rb'"[ \t\r\n]+:')
"""Between a key and its colon may stand what hides that it is one."""
_HIDDEN = re.compile(rb"\\u00(?:22|3[aA])")
"""In a text the escapes of a quotation mark and a colon, which are counted only when read."""

_BEYOND_INTEGERS = 2**63
"""From here on a float may have been an integer."""


class Unread(Enum):
    """Why a text gave no value."""

    NOT_JSON = "not JSON"
    NO_OBJECT = "JSON, perhaps, but too deep or long to read; in any case it begins as no object does"
    TOO_MUCH = "an object, perhaps, but nested too deep or with numbers too long to read"


def read(data: bytes) -> Any:
    """The value of a JSON text, or an `Unread`; undecodable bytes are read as U+FFFD.

    Of a key that comes twice the last value counts.  Integers keep their full length.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _too_much(data) if _is_depth(error) else _read_with_care(data)


def read_long_integers(data: bytes) -> Any:
    """As `read`, for a text in which orjson would turn integers beyond 64 bits into floats."""
    return _read_with_care(data)


def sequence_in(document: dict[str, Any], data: bytes) -> Any:
    """The `sequence` of the object that was read from `data`; beyond 64 bits orjson makes floats of integers."""
    sequence = document.get("sequence")
    if type(sequence) is not float or abs(sequence) < _BEYOND_INTEGERS:
        return sequence
    again = read_long_integers(data)
    return again["sequence"] if type(again) is dict else again


def _is_depth(error: orjson.JSONDecodeError) -> bool:
    # Beyond this fixed depth the json module gives up at one that depends on the caller's stack.
    return "depth" in error.msg or "recursion" in error.msg.lower()


def _too_much(data: bytes) -> Unread:
    return Unread.TOO_MUCH if data.lstrip(_SPACE).startswith(b"{") else Unread.NO_OBJECT


def _read_with_care(data: bytes) -> Any:
    """Read what orjson cannot: lone surrogates in escapes, floats out of range, text that was not UTF-8."""
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_constant=_refuse)
    except json.JSONDecodeError:
        return Unread.NOT_JSON
    except (RecursionError, ValueError):
        return _too_much(data)


def _refuse(constant: str) -> None:
    """NaN and the infinities, which the json module takes, are no JSON."""
    raise json.JSONDecodeError("no JSON value", constant, 0)


def repeated_keys(data: bytes, document: dict[str, Any]) -> list[str] | None:
    """The keys that the JSON object in `data` has more than once, each once; None when that cannot be told.

    `document` is what was read from it.
    """
    try:
        again = orjson.dumps(document)
    except TypeError:
        # A lone surrogate, or an integer beyond 64 bits.
        return _read_keys(data)
    if again == data:
        return []
    if data.count(_KEY_END) == again.count(_KEY_END) and not _SPACED.search(data) and not _HIDDEN.search(data):
        # As many keys went in as come out: none was dropped.
        return []
    return _read_keys(data)


def _read_keys(data: bytes) -> list[str] | None:
    last: list[tuple[str, Any]] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        # The outermost object is the last to be whole.
        nonlocal last
        last = pairs

    try:
        json.loads(data, object_pairs_hook=note)
    except (RecursionError, ValueError):
        return None
    counts = Counter(key for key, _ in last)
    return [key for key, count in counts.items() if count > 1]
