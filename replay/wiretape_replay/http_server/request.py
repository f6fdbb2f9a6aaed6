"""HTTP requests, bodies in a comparable form, and patterns that match requests.  Pure: no I/O."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from wiretape.contract import OPERATIONS
from wiretape.observations import Headers
from wiretape.safe_text import shorten

LARGEST_BODY = 4 * 1024 * 1024
"""Request bodies over this many bytes are not kept: they are compared by their hash."""

_EXACT_INTEGERS = 2**53
_PATTERN = re.compile(r"([A-Z]+) (/\S*)")
_ANY_SEGMENT = re.compile(r"\*|\{[^{}/]*\}")


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request body; equal JSON documents have equal digests."""

    digest: bytes
    text: bytes | None
    """JSON documents in canonical form, anything else unchanged; None over LARGEST_BODY."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request."""

    method: str
    target: str
    """Path and query, one character for each byte on the wire."""
    body: RequestBody
    headers: Headers = ()
    http_version: str = "HTTP/1.1"
    client: str = ""
    """The client's address, without its port."""

    @property
    def label(self) -> str:
        """Method and path for log lines, without the query, which may contain secrets."""
        return shorten(f"{self.method} {self.target.partition('?')[0]}")


@dataclass(slots=True)
class BodyReader:
    """Reads a request body chunk by chunk.  Holds at most LARGEST_BODY and one chunk."""

    _hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    _chunks: list[bytes] = field(default_factory=list)
    _size: int = 0

    def feed(self, data: bytes) -> None:
        """Add a chunk."""
        self._hash.update(data)
        self._size += len(data)
        if self._size > LARGEST_BODY:
            self._chunks.clear()
        else:
            self._chunks.append(data)

    def finish(self) -> RequestBody:
        """Return the body."""
        if self._size > LARGEST_BODY:
            return RequestBody(self._hash.digest(), None)
        text = canonical_body(b"".join(self._chunks))
        return RequestBody(hashlib.sha256(text).digest(), text)


def read_body(chunks: Iterable[bytes]) -> RequestBody:
    """Return the body that consists of `chunks`."""
    reader = BodyReader()
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def canonical_body(body: bytes) -> bytes:
    """Write a JSON object or array in canonical form (sorted keys, `1.0` as `1`); return anything else unchanged."""
    try:
        value = normalized_json(body)
        return body if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, RecursionError):
        # Nested too deeply to be compared by value.
        return body


def normalized_json(body: bytes) -> dict[str, Any] | list[Any] | None:
    """Parse a JSON object or array, with equal numbers made identical; None for anything else.

    Raises RecursionError if it is nested too deeply.
    """
    if not re.match(rb"\s*[\[{]", body):
        return None
    try:
        value = _normalize_numbers(orjson.loads(body))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict | list) else None


def _normalize_numbers(value: object) -> object:
    """JSON has one number type, so 1 and 1.0 are equal."""
    if isinstance(value, dict):
        return {key: _normalize_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_normalize_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGERS:
        return int(value)
    return value


NO_BODY = read_body(())


@dataclass(frozen=True, slots=True)
class RequestPattern:
    """Matches requests by their method and the last segments of their path."""

    name: str
    """The pattern as it was written."""
    method: str
    segments: tuple[str | None, ...]
    """None matches any segment."""

    @classmethod
    def of(cls, name: str) -> "RequestPattern":
        """Parse the name of an operation (`stream`) or `METHOD /path/{any}/*`.  Raises ValueError."""
        operation = OPERATIONS.get(name)
        pattern = f"{operation.method} {operation.path}" if operation else name
        match = _PATTERN.fullmatch(pattern)
        if match is None or "?" in match[2]:
            raise ValueError(f"expected {', '.join(OPERATIONS)} or METHOD /path, for example POST /v1/sessions")
        segments = match[2].removeprefix("/").split("/")
        return cls(name, match[1], tuple(None if _ANY_SEGMENT.fullmatch(segment) else segment for segment in segments))

    def matches(self, method: str, target: str) -> bool:
        """Whether a request matches.  The path may have any prefix, such as the path of a base URL."""
        segments = target.partition("?")[0].partition("#")[0].split("/")[1:][-len(self.segments) :]
        if method != self.method or len(segments) != len(self.segments):
            return False
        pairs = zip(self.segments, segments, strict=True)
        return all(segment if expected is None else segment == expected for expected, segment in pairs)
