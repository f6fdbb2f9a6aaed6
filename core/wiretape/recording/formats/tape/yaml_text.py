"""YAML as tapes have it: plain where that is safe, quoted where not, and JSON where that is shorter."""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from wiretape.recording.formats.tape.values import looks_like_text
from wiretape.safe_text import escape_json

WIDTH = 120
"""How long a line gets before a mapping is written over several."""
_PLAIN = re.compile(r"[A-Za-z0-9/_(][A-Za-z0-9 _./:;,=+*&?%@~()<>\[\]{}|!$^'\"-]*")
_QUOTABLE = re.compile(
    r"[ -~\xa0-\u061b\u061d-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd]*"
)
_LITERAL_LINE = re.compile(rf"(?:{_QUOTABLE.pattern[:-1]}*[^ ])?")
_INTEGER = re.compile(r"0|[1-9][0-9]{0,17}")
_MOST_BRACKETS = 60
_LONGEST_KEY = 900


def flow(value: Any) -> str:
    """A JSON value on one line, as JSON.  Raises ValueError for what cannot be said so."""
    return escape_json(orjson.dumps(value).decode())


def scalar(text: str, *, number: bool = False) -> str:
    """A text on one line; `number` says that a whole number is read as that text, too."""
    if number and _INTEGER.fullmatch(text):
        return text
    if _PLAIN.fullmatch(text) and looks_like_text(text) and not _means_something(text):
        return text
    if '"' in text and _QUOTABLE.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return flow(text)


def block(value: Any, indent: str, key: str) -> Iterator[str]:
    """The lines of `key: value`, the first of them without its indent, on one line where that is short enough."""
    inline = flow(value) if isinstance(value, dict | list) else _inline(value)
    if len(indent) + len(key) + 2 + len(inline) <= WIDTH or not value or not isinstance(value, dict | list | str):
        yield f"{key}: {inline}"
    elif isinstance(value, str):
        yield from literal(value, indent, key)
    else:
        yield f"{key}:"
        yield from _inner(value, indent + "  ")


def literal(text: str, indent: str, key: str) -> Iterator[str]:
    """The lines of `key: text`, each line of the text on its own where that keeps it exact."""
    body = text.removesuffix("\n")
    lines = body.split("\n")
    if len(lines) < 2 or not lines[-1] or lines[0][:1] in {"", " "} or not all(map(_LITERAL_LINE.fullmatch, lines)):
        yield f"{key}: {scalar(text)}"
        return
    yield f"{key}: {'|-' if body == text else '|'}"
    yield from (f"{indent}  {line}" if line else "" for line in lines)


def _inner(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            first, *rest = block(item, indent, scalar(name))
            yield indent + first
            yield from rest
        return
    for item in value:
        lines = _inner(item, indent + "  ") if _is_long(item, indent) else iter((indent + "  " + _short(item),))
        yield f"{indent}- {next(lines)[len(indent) + 2 :]}"
        yield from lines


def _is_long(item: Any, indent: str) -> bool:
    return isinstance(item, dict | list) and bool(item) and len(indent) + 2 + len(flow(item)) > WIDTH


def _short(item: Any) -> str:
    return flow(item) if isinstance(item, dict | list) else _inline(item)


def _inline(value: Any) -> str:
    return scalar(value) if isinstance(value, str) else flow(value)


def _means_something(text: str) -> bool:
    return ": " in text or " #" in text or text[-1] in ": "


def readable(text: bytes) -> bool:
    """Whether JSON can stand in a tape as data: YAML parsers take no key of any length, and no depth."""
    if text.count(b"{") + text.count(b"[") > _MOST_BRACKETS and _depth(text) > _MOST_BRACKETS:
        return False
    return len(text) <= _LONGEST_KEY or not _LONG_KEY.search(text)


_LONG_KEY = re.compile(rb'"[^"\\]{%d,}":|\\[^"]*":' % _LONGEST_KEY)


def _depth(text: bytes) -> int:
    deepest = depth = 0
    for byte in re.findall(rb"[\[{]|[\]}]", re.sub(rb'"(?:[^"\\]|\\.)*"', b"", text)):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest
