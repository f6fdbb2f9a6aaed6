"""Hashes of the JSON of events, which are equal for equal values however they are written."""

import json
import re
from decimal import Decimal
from typing import Any

import orjson

from wiretape.event import Event

_FLOAT = re.compile(rb'(?:":|[\[,])-?\d+[.e]')
# The integers that orjson reads and writes.
_INT64, _UINT64, _UINT64_DIGITS = -(2**63), 2**64, 20
_MOST_DIGITS = 4300
"""Longest number that is compared, so that a hostile one costs nothing; as many digits as Python reads."""


def json_hash(event: Event) -> int | None:
    """Return a hash that is equal for equal JSON values, however they are written; None if they cannot be compared.

    Numbers are compared exactly: 1 and 1.0 are equal, 2^64 + 1 and 2^64 + 2 are not.  The hash differs between
    processes.
    """
    if event.json_hash is None:
        event.json_hash = hash_json(event)
    return event.json_hash


def hash_json(event: Event, changes: dict[str, Any] | None = None) -> int | None:
    """Hash the JSON, with changes if there are some."""
    if event.has_unusual_json:
        return _exact_hash(event, changes)
    try:
        text = orjson.dumps(event.document | changes if changes else event.document, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError):
        return _exact_hash(event, changes)
    return _exact_hash(event, changes) if _has_float(text, event) else hash(text)


def _has_float(text: bytes, event: Event) -> bool:
    """Whether the JSON may have a float, which orjson also makes of integers beyond 64 bits."""
    created_at = event.document.get("created_at")
    # Nearly all events have these characters only in their type and their time.
    name = event.document.get("type")
    if type(created_at) is str and type(name) is str and text.find(b"e-") < 0:
        dots, pluses = name.count(".") + created_at.count("."), name.count("+") + created_at.count("+")
        if text.count(b".") == dots and text.count(b"+") == pluses:
            return False
    return _FLOAT.search(text) is not None


def _exact_hash(event: Event, changes: dict[str, Any] | None) -> int | None:
    """Hash the JSON with exact numbers.  It is equal to that of the text if all numbers are integers of 64 bits."""
    if not event.is_utf8:
        # SSE001 reports it.
        return None
    try:
        value = json.loads(event.data, parse_int=_exact_integer, parse_float=_exact_number)
        for name, change in (changes or {}).items():
            value[name] = _exact_integer(str(change)) if type(change) is int else change
        try:
            return hash(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
        except (TypeError, orjson.JSONEncodeError):
            return hash(json.dumps(value, sort_keys=True))
    except (ArithmeticError, RecursionError, ValueError):
        return None


def _exact_integer(token: str) -> int | str:
    return int(token) if len(token) < _UINT64_DIGITS - 1 else _exact_number(token)


def _exact_number(token: str) -> int | str:
    """Return an integer of 64 bits as such, and any other number as text that is equal for equal numbers."""
    if len(token) > _MOST_DIGITS:
        raise ValueError(f"The number has more than {_MOST_DIGITS} digits.")
    sign, digits, exponent = Decimal(token).as_tuple()
    significant = "".join(map(str, digits)).lstrip("0")
    text = significant.rstrip("0")
    zeros = len(significant) - len(text) + int(exponent)
    if not text:
        return 0
    if 0 <= zeros <= _UINT64_DIGITS - len(text):
        number = int(text + "0" * zeros) * (-1 if sign else 1)
        if _INT64 <= number < _UINT64:
            return number
    return f"\0{'-' * sign}{text}e{zeros}"
