"""Find what JSON paths select in JSON texts, and what replaces it: same length, same type, no content."""

import json
import re
from bisect import bisect_right
from codecs import BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import orjson

from wiretape.json_path import JsonPath

_LINE = re.compile(rb"[^\r\n]+")
_DATA = re.compile(rb"data(?:: ?)?")
_JSON_TOKEN = re.compile(
    rb'[ \t\r\n]*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<other>-?[0-9][0-9.eE+-]*|true|false|null)|(?P<mark>[{}\[\],:]))',
    re.DOTALL,
)
Offsets = list[tuple[int, int]]
"""For the pieces of a text, in order: the offset in the text and the offset in the frame."""
WHOLE: Offsets = [(0, 0)]
"""A text that is not in pieces."""


class Selected(NamedTuple):
    """A JSON string, number, boolean or null that paths select."""

    start: int
    """Offset in the frame or body."""
    before: bytes
    blank: bytes
    """What replaces it."""
    paths: Sequence[JsonPath]


def find_selected(text: bytes, offsets: Offsets, paths: Sequence[JsonPath]) -> Iterator[Selected]:
    """Yield what paths select in a JSON text.  Raises ValueError and RecursionError if it cannot be read."""
    codec, start = _codec(text)
    plain = _convert(text[start:], codec, "utf-8")
    scalars = list(find_scalars(plain))
    value = orjson.loads(plain)
    selected = {path: path.locations(value) for path in paths}
    at = 0
    for scalar in scalars:
        outer = {scalar.keys[:length] for length in range(len(scalar.keys) + 1)}
        if matched := [path for path, locations in selected.items() if not outer.isdisjoint(locations)]:
            start += len(_convert(plain[at : scalar.start], "utf-8", codec))
            at = scalar.start
            before = _convert(plain[at : scalar.end], "utf-8", codec)
            blank = blank_scalar(plain[at : scalar.end], len(before) // len("*".encode(codec)))
            begin, offset = offsets[bisect_right(offsets, start, key=itemgetter(0)) - 1]
            yield Selected(offset + start - begin, before, _convert(blank, "utf-8", codec), matched)


def _codec(text: bytes) -> tuple[str, int]:
    """Return the encoding of a JSON text, and the length of its byte order mark."""
    encoding = json.detect_encoding(text)
    if encoding == "utf-8-sig":
        return "utf-8", 3
    if encoding in {"utf-16", "utf-32"}:
        return f"{encoding}-{'le' if text.startswith(BOM_UTF16_LE) else 'be'}", 2 if encoding == "utf-16" else 4
    return encoding, 0


def _convert(text: bytes, codec: str, other: str) -> bytes:
    return text if codec == other else text.decode(codec).encode(other)


def event_data(raw: bytes) -> tuple[bytes, Offsets]:
    """The data of an event, and the offsets of its lines."""
    values, offsets, at = [], [], 0
    for line in _LINE.finditer(raw):
        name = _DATA.match(line.group())
        if name is None or (name.end() == 4 and len(line.group()) > 4):
            continue
        values.append(line.group()[name.end() :])
        offsets.append((at, line.start() + name.end()))
        at += len(values[-1]) + 1
    return b"\n".join(values), offsets


def json_text(raw: bytes) -> tuple[bytes, Offsets]:
    """The data of an event, or all of its bytes if it has none: JSON may be served as an event stream."""
    data, offsets = event_data(raw)
    return (data, offsets) if data else (raw, WHOLE)


class Scalar(NamedTuple):
    """A JSON string, number, boolean or null in a text."""

    keys: tuple[str | int, ...]
    """Member names and indexes that lead to it, from the outside in."""
    start: int
    """Offset in the text."""
    end: int


def find_scalars(text: bytes) -> Iterator[Scalar]:
    """The scalars of a JSON text, in order.  Raises ValueError if it is not readable JSON."""
    orjson.loads(text)
    keys: list[str | int] = []
    expects_name = False
    at = 0
    while match := _JSON_TOKEN.match(text, at):
        at = match.end()
        mark = match["mark"]
        if mark is None:
            string = match["string"]
            if expects_name and string is not None:
                keys[-1], expects_name = orjson.loads(string), False
            else:
                yield Scalar(tuple(keys), match.end() - len(string or match["other"]), match.end())
        elif mark in b"{[":
            keys.append("" if mark == b"{" else 0)
            expects_name = mark == b"{"
        elif mark in b"}]":
            keys.pop()
            expects_name = False
        elif mark == b",":
            last = keys[-1]
            expects_name = isinstance(last, str)
            keys[-1] = last if isinstance(last, str) else last + 1


def blank_scalar(scalar: bytes, length: int) -> bytes:
    """A scalar of the same type without content."""
    if scalar[:1] == b'"':
        return b'"' + b"*" * (length - 2) + b'"'
    return (b"null" if scalar[:1] in b"tfn" else b"0").ljust(length)
