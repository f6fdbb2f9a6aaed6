"""The head of an answer, and how its body is framed."""

import re
from dataclasses import dataclass, replace
from enum import Enum

from wiretape.observations import Headers

_UNSAFE = re.compile(r"\r?\n(?![ \t])|\r(?!\n)|(?<!\r)\n|\0")
"""What would end a header early.  A folded line (CRLF and a space) is left: it was one header on the wire."""


class Framing(Enum):
    """How a client can tell where the body ends."""

    CHUNKED = "chunked"
    LENGTH = "content-length"
    CLOSE = "close"
    EMPTY = "no body"


@dataclass(frozen=True, slots=True)
class Head:
    """Status line, headers and framing of an answer; nothing is added to what stands here."""

    status: int
    reason: str
    headers: Headers
    framing: Framing
    keep_alive: bool = True
    """Whether the connection can be used again after an answer that ended as it should."""
    http_version: str = "HTTP/1.1"

    @property
    def raw(self) -> bytes:
        """The bytes on the wire, with the blank line."""
        version = self.http_version if self.http_version in {"HTTP/1.0", "HTTP/1.1"} else "HTTP/1.1"
        lines = [f"{version} {self.status} {one_line(self.reason)}"]
        lines += [f"{one_line(name)}: {one_line(value)}" for name, value in self.headers if not name.startswith(":")]
        return "\r\n".join([*lines, "\r\n"]).encode("latin-1", "replace")

    def unchunked(self) -> "Head":
        """The same for a client that knows no chunks: the body ends with the connection."""
        headers = tuple(pair for pair in self.headers if pair[0].lower() != "transfer-encoding")
        return replace(self, headers=headers, framing=Framing.CLOSE, keep_alive=False)


def one_line(text: str) -> str:
    """The text with everything that would end a header early replaced by spaces."""
    return _UNSAFE.sub(" ", text)
