"""JSON as RFC 8259 has it, quickly where the text is ordinary and carefully where it is not."""

import json
from enum import Enum
from typing import Any

import orjson


class Unread(Enum):
    """Why a text gave no value."""

    NOT_JSON = "not JSON"
    TOO_MUCH = "JSON, perhaps, but nested too deep or with numbers too long to read"


def read(data: bytes) -> Any:
    """The value of a JSON text, or an `Unread`; undecodable bytes are read as U+FFFD.

    Of a key that comes twice the last value counts.  Integers keep their full length.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return Unread.TOO_MUCH if _is_depth(error) else _read_with_care(data.decode("utf-8", "replace"))


def read_long_integers(data: bytes) -> Any:
    """As `read`, for a text in which orjson would turn integers beyond 64 bits into floats."""
    return _read_with_care(data.decode("utf-8", "replace"))


def _is_depth(error: orjson.JSONDecodeError) -> bool:
    # Beyond this fixed depth the json module gives up at one that depends on the caller's stack.
    return "depth" in error.msg or "recursion" in error.msg.lower()


def _read_with_care(text: str) -> Any:
    """Read what orjson cannot: lone surrogates in escapes, floats out of range, text that was not UTF-8."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError:
        return Unread.NOT_JSON
    except (RecursionError, ValueError):
        return Unread.TOO_MUCH


def _refuse(constant: str) -> None:
    """NaN and the infinities, which the json module takes, are no JSON."""
    raise json.JSONDecodeError("no JSON value", constant, 0)
