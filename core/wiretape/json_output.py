"""JSON for other programs that is also safe to print to a terminal."""

import json
import re
from dataclasses import fields, is_dataclass
from typing import Any

import orjson

from wiretape.safe_text import escape_json

_SURROGATE = re.compile("[\ud800-\udfff]")


def dump_json(value: Any, *, indent: bool = False) -> str:
    """Encode `value` as JSON in which every control and text direction character is escaped."""
    option = orjson.OPT_INDENT_2 if indent else 0
    try:
        text = orjson.dumps(value, option=option)
    except orjson.JSONEncodeError:
        text = orjson.dumps(_encodable(value), option=option)
    return escape_json(text.decode())


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
