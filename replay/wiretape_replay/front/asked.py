"""What a client asks: the head of its request, and its body in a form that can be compared."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from wiretape.observations import Headers

LARGEST_COMPARED = 4 * 1024 * 1024
"""Request bodies over this many bytes are compared byte for byte, by their hash."""

_EXACT_INTEGERS = 2**53


@dataclass(frozen=True, slots=True)
class Body:
    """A request body, comparable: two bodies that say the same have the same `digest`."""

    digest: bytes
    text: bytes | None
    """The canonical text: JSON documents written in one way, anything else as it is; None when over the limit."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request."""

    method: str
    target: str
    """Path and query, each character one byte as it crossed the wire."""
    body: Body
    headers: Headers = ()
    http_version: str = "HTTP/1.1"
    client: str = ""
    """The client's address, without its port."""


@dataclass(slots=True)
class BodyReader:
    """Takes a request body piece by piece.  Holds no more of it than LARGEST_COMPARED and one piece."""

    _sum: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0

    def feed(self, data: bytes) -> None:
        """The next piece."""
        self._sum.update(data)
        self._size += len(data)
        if self._size > LARGEST_COMPARED:
            self._parts.clear()
        else:
            self._parts.append(data)

    def finish(self) -> Body:
        """The body that was fed."""
        if self._size > LARGEST_COMPARED:
            return Body(self._sum.digest(), None)
        text = canonical(b"".join(self._parts))
        return Body(hashlib.sha256(text).digest(), text)


def body_of(parts: Iterable[bytes]) -> Body:
    """The body that `parts` make when joined."""
    reader = BodyReader()
    for part in parts:
        reader.feed(part)
    return reader.finish()


def canonical(body: bytes) -> bytes:
    """A JSON object or array written in one way (keys sorted, `1.0` as `1`); anything else as it is."""
    try:
        value = plain_json(body)
        return body if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, RecursionError):
        # Nested deeper than anything that is worth comparing by value.
        return body


def plain_json(body: bytes) -> dict[str, Any] | list[Any] | None:
    """The JSON object or array that `body` is, numbers that are the same made the same; None for anything else.

    Raises RecursionError for one that is nested too deep.
    """
    if not re.match(rb"\s*[\[{]", body):
        return None
    try:
        value = _plain_numbers(orjson.loads(body))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict | list) else None


def _plain_numbers(value: object) -> object:
    """JSON has one kind of number, so that 1 and 1.0 are the same value."""
    if isinstance(value, dict):
        return {key: _plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGERS:
        return int(value)
    return value


NO_BODY = body_of(())
