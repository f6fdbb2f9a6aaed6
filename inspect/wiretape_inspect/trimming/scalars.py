"""Where in a JSON text its strings, numbers and words stand."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import orjson

_TOKEN = re.compile(
    rb'[ \t\r\n]*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<other>-?[0-9][0-9.eE+-]*|true|false|null)|(?P<mark>[{}\[\],:]))',
    re.DOTALL,
)


class Scalar(NamedTuple):
    """A value that holds no others."""

    keys: tuple[str | int, ...]
    """The names and indices that lead to it, from the outermost on."""
    start: int
    """Offset in the text."""
    end: int


def scalars(text: bytes) -> Iterator[Scalar]:
    """The scalars of a JSON text, in order.  Raises ValueError where it is none that can be read."""
    orjson.loads(text)
    keys: list[str | int] = []
    naming = False
    at = 0
    while match := _TOKEN.match(text, at):
        at = match.end()
        mark = match["mark"]
        if mark is None:
            name = match["string"]
            if naming and name is not None:
                keys[-1], naming = orjson.loads(name), False
            else:
                yield Scalar(tuple(keys), match.end() - len(name or match["other"]), match.end())
        elif mark in b"{[":
            keys.append("" if mark == b"{" else 0)
            naming = mark == b"{"
        elif mark in b"}]":
            keys.pop()
            naming = False
        elif mark == b",":
            last = keys[-1]
            naming = isinstance(last, str)
            keys[-1] = last if isinstance(last, str) else last + 1


def blanked(scalar: bytes) -> bytes:
    """A scalar of the same kind and length that says nothing."""
    if scalar[:1] == b'"':
        return b'"' + b"*" * (len(scalar) - 2) + b'"'
    return (b"null" if scalar[:1] in b"tfn" else b"0").ljust(len(scalar))
