"""HTTP requests and responses: heads, framing, comparable bodies, and patterns that match requests.  Pure: no I/O."""

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import IO, Any

import orjson

from wiretape.observations import Headers, ResponseStarted, header, reason_phrase

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
    content: IO[bytes] | None = field(default=None, compare=False)
    """The body as it was sent, until the response ends, if the server keeps bodies; None if there is none."""

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever the case of its name; None if it is missing."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


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
    """Matches requests by the name of their operation, or by their method and the last segments of their path."""

    name: str
    """The pattern as it was written."""
    method: str = ""
    segments: tuple[str | None, ...] = ()
    """None matches any segment; empty for the name of an operation."""

    @classmethod
    def of(cls, name: str, operations: Collection[str]) -> "RequestPattern":
        """Parse the name of one of the operations, or `METHOD /path/{any}/*`.  Raises ValueError."""
        if name in operations:
            return cls(name)
        match = _PATTERN.fullmatch(name)
        if match is None or "?" in match[2]:
            raise ValueError(f"expected {', '.join(operations)} or METHOD /path, for example POST /v1/items")
        segments = match[2].removeprefix("/").split("/")
        return cls(name, match[1], tuple(None if _ANY_SEGMENT.fullmatch(segment) else segment for segment in segments))

    def matches(self, method: str, target: str, operation: str | None = None) -> bool:
        """Whether a request matches.  The path may have any prefix, such as the path of a base URL."""
        if not self.segments:
            return self.name == operation
        segments = target.partition("?")[0].partition("#")[0].split("/")[1:][-len(self.segments) :]
        if method != self.method or len(segments) != len(self.segments):
            return False
        pairs = zip(self.segments, segments, strict=True)
        return all(segment if expected is None else segment == expected for expected, segment in pairs)

    def overlaps(self, operation: str, request: str) -> bool:
        """Whether it may match a request of an operation, such as `GET /items/{item}`."""
        method, _, path = request.partition(" ")
        if not self.segments or method == "*":
            return self.name == operation or method == "*"
        segments = path.split("/")[1:][-len(self.segments) :]
        pairs = zip(reversed(self.segments), reversed(segments), strict=False)
        return method == self.method and all(
            expected in {None, segment} or _ANY_SEGMENT.fullmatch(segment) for expected, segment in pairs
        )


_LINE_BREAK = re.compile(r"\r?\n(?![ \t])|\r(?!\n)|(?<!\r)\n|\0")
"""Characters that would end a header.  A folded line (CRLF and a space) stays: it was one header on the wire."""


class BodyFraming(Enum):
    """How the client detects the end of the body."""

    CHUNKED = "chunked"
    LENGTH = "content-length"
    CLOSE = "close"
    EMPTY = "no body"


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Status line, headers and framing of a response, sent without additions."""

    status: int
    reason: str
    headers: Headers
    framing: BodyFraming
    keep_alive: bool = True
    """Whether the connection can be reused after a complete response."""
    http_version: str = "HTTP/1.1"

    @classmethod
    def of(cls, method: str, response: ResponseStarted) -> "ResponseHead":
        """Return the head with which to send an observed response to a request; those of HTTP/2 become chunked."""
        headers, framing = response.headers, _framing(method, response)
        if framing is BodyFraming.CHUNKED and header(headers, "transfer-encoding") is None:
            headers = (*headers, ("Transfer-Encoding", "chunked"))
        keep_alive = framing is not BodyFraming.CLOSE and _keeps_alive(response)
        return cls(response.status, response.reason, headers, framing, keep_alive, response.http_version)

    @property
    def length(self) -> int | None:
        """Bytes of the body of a complete response; None if only its end shows that it is complete."""
        return {BodyFraming.EMPTY: 0, BodyFraming.LENGTH: _content_length(self.headers)}.get(self.framing)

    @property
    def raw(self) -> bytes:
        """The bytes on the wire, including the blank line."""
        version = self.http_version if self.http_version in {"HTTP/1.0", "HTTP/1.1"} else "HTTP/1.1"
        lines = [f"{version} {self.status} {single_line(self.reason)}"]
        lines += [
            f"{single_line(name)}: {single_line(value)}" for name, value in self.headers if not name.startswith(":")
        ]
        return "\r\n".join([*lines, "\r\n"]).encode("latin-1", "replace")

    def without_chunks(self) -> "ResponseHead":
        """The same head for an HTTP/1.0 client: closing the connection ends the body."""
        headers = tuple(pair for pair in self.headers if pair[0].lower() != "transfer-encoding")
        return replace(self, headers=headers, framing=BodyFraming.CLOSE, keep_alive=False)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A status, headers and a body of known length."""

    status: int
    body: bytes
    headers: Headers = ()
    """Headers besides Content-Type and Content-Length."""
    content_type: str = "application/json"
    code: str | None = None
    """The code of an error, for the log."""

    @property
    def outcome(self) -> str:
        """What the log says about it."""
        return str(self.status) if self.code is None else f"{self.status} {self.code}"

    @classmethod
    def from_json(cls, status: int, document: object, headers: Headers = (), code: str | None = None) -> "HttpResponse":
        """Return a response with a JSON document; equal documents give equal bytes."""
        return cls(status, orjson.dumps(document) + b"\n", headers, code=code)

    def head(self, framing: BodyFraming = BodyFraming.LENGTH) -> ResponseHead:
        """The head of the response."""
        about = (("Content-Type", self.content_type), ("Content-Length", str(len(self.body))))
        return ResponseHead(self.status, reason_phrase(self.status), (*about, *self.headers), framing)


def single_line(text: str) -> str:
    """Replace everything that would end a header by spaces."""
    return _LINE_BREAK.sub(" ", text)


def _framing(method: str, response: ResponseStarted) -> BodyFraming:
    """Apply RFC 9112, 6.3."""
    if method == "HEAD" or response.status in {204, 304} or response.status < 200:
        return BodyFraming.EMPTY
    codings = [value for name, value in response.headers if name.lower() == "transfer-encoding"]
    if codings:
        return BodyFraming.CHUNKED if codings[-1].lower().rstrip().endswith("chunked") else BodyFraming.CLOSE
    if _content_length(response.headers) is not None:
        return BodyFraming.LENGTH
    return BodyFraming.CHUNKED if response.http_version.startswith("HTTP/2") else BodyFraming.CLOSE


def _content_length(headers: Headers) -> int | None:
    value = (header(headers, "content-length") or "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None


def _keeps_alive(response: ResponseStarted) -> bool:
    options = (header(response.headers, "connection") or "").lower()
    if response.status < 200:
        return False  # after a switch of protocols, the connection no longer carries HTTP
    if response.http_version == "HTTP/1.0":
        return "keep-alive" in options
    return "close" not in options
