"""What makes two requests the same to a tape: method, path, query, and the body where it matters.

A recording holds fingerprints where there were secrets.  A kind that holds one is *hidden
in part*: it matches every request that is the same around it.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from urllib.parse import parse_qsl, quote

from wiretape_replay.asked import Body

_SECRET = r"\[redacted:[0-9a-f]{16}\]|\*{8,}"  # noqa: S105 - what wiretape.recording.redact writes in its place
_SECRET_TEXT = re.compile(_SECRET)
_SECRET_BYTES = re.compile(_SECRET.encode())
_HIDDEN = "--wiretape-hidden--"
"""Stands where a secret was: characters that percent-coding leaves alone."""

_ESCAPED = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ASCII = "".join(map(chr, range(0x21, 0x7F)))

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Kind:
    """A comparable request head, and the digest of its body where the body matters."""

    method: str
    path: str
    query: Pairs
    """Sorted by name; the values of one name in their order."""
    body: bytes | None = None

    @cached_property
    def text(self) -> str:
        """Path and query in one way of writing, a line each."""
        return "\n".join([self.path, *(f"{_quoted(name)}={_quoted(value)}" for name, value in self.query)])


@dataclass(frozen=True, slots=True)
class Shape:
    """Matches the requests that a kind hidden in part stands for."""

    head: re.Pattern[str]
    body: re.Pattern[bytes] | bytes | None
    """A pattern of its text, its digest, or None where any body will do."""

    def matches(self, kind: Kind, body: Body) -> bool:
        """Whether a request of `kind` with `body` could be the recorded one.  The method is not looked at."""
        if self.head.fullmatch(kind.text) is None:
            return False
        if isinstance(self.body, re.Pattern):
            return body.text is not None and self.body.fullmatch(body.text) is not None
        return self.body is None or self.body == body.digest


def kind_of(method: str, target: str, body: bytes | None = None) -> Kind:
    """The kind of a request whose target is given as it crossed the wire, in origin or absolute form."""
    path, _, query = quote(_origin_form(target), safe=_ASCII, encoding="latin-1", errors="replace").partition("?")
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    # Clients order parameters as they like, but the values of one parameter have an order.
    return Kind(method, _ESCAPED.sub(_unescape, path), tuple(sorted(pairs, key=lambda pair: pair[0])), body)


def recorded_kind(method: str, target: str, body: Body | None) -> tuple[Kind, Shape | None]:
    """The kind of a recorded request; and its shape, when it is hidden in part.

    `body` is None when any body will do.
    """
    text = body.text if body else None
    shown = _SECRET_BYTES.sub(_HIDDEN.encode(), text) if text is not None else None
    digest = body.digest if body and shown == text else sha256(shown).digest() if shown is not None else None
    kind = kind_of(method, _SECRET_TEXT.sub(_HIDDEN, target), digest)
    if _HIDDEN not in kind.text and shown == text:
        return kind, None
    head = re.compile(r"[^\n]*".join(map(re.escape, kind.text.split(_HIDDEN))))
    if shown is None or shown == text:
        return kind, Shape(head, digest)
    around = map(re.escape, shown.split(_HIDDEN.encode()))
    return kind, Shape(head, re.compile(b".*".join(around), re.DOTALL))


def _origin_form(target: str) -> str:
    """`http://host/path?query`, as sent to a proxy, without scheme and host."""
    scheme, mark, rest = target.partition("://")
    if target.startswith("/") or not mark or not scheme.isalnum():
        return target
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    return rest[end:] if rest[end:].startswith("/") else "/" + rest[end:]


def _unescape(match: re.Match[str]) -> str:
    """`%7E` and `~` are the same; `%2F` and `/` are not."""
    escaped = match.group().upper()
    character = chr(int(escaped[1:], 16))
    return character if character in _UNRESERVED else escaped


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogateescape")
