"""Responses: status line, headers, framing, and responses with a body of known length.  Pure: no I/O."""

import re
from dataclasses import dataclass, replace
from enum import Enum

import orjson

from wiretape.observations import Headers, reason_phrase

_LINE_BREAK = re.compile(r"\r?\n(?![ \t])|\r(?!\n)|(?<!\r)\n|\0")
"""Characters that would end a header.  A folded line (CRLF and a space) stays: it was one header on the wire."""


class Framing(Enum):
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
    framing: Framing
    keep_alive: bool = True
    """Whether the connection can be reused after a complete response."""
    http_version: str = "HTTP/1.1"

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
        return replace(self, headers=headers, framing=Framing.CLOSE, keep_alive=False)


@dataclass(frozen=True, slots=True)
class Response:
    """A status, headers and a body of known length."""

    status: int
    body: bytes
    headers: Headers = ()
    """Headers besides Content-Type and Content-Length."""
    content_type: str = "application/json"

    @classmethod
    def from_json(cls, status: int, document: object, headers: Headers = ()) -> "Response":
        """Return a response with a JSON document; equal documents give equal bytes."""
        return cls(status, orjson.dumps(document) + b"\n", headers)

    def head(self, framing: Framing = Framing.LENGTH) -> ResponseHead:
        """The head of the response."""
        about = (("Content-Type", self.content_type), ("Content-Length", str(len(self.body))))
        return ResponseHead(self.status, reason_phrase(self.status), (*about, *self.headers), framing)


def single_line(text: str) -> str:
    """Replace everything that would end a header by spaces."""
    return _LINE_BREAK.sub(" ", text)
