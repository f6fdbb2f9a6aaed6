"""When two requests match: by method, path, query, selected headers, and the body if recorded bodies differ.

A recording contains fingerprints in place of secrets.  A redacted part of a recorded request matches anything.
"""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import AnyStr
from urllib.parse import parse_qsl, quote

import orjson

from wiretape.json_path import JsonPath
from wiretape.observations import Headers
from wiretape.recording import REDACTED_PATTERN
from wiretape_replay.http_server.http_messages import NO_BODY, RequestBody, normalized_json

REDACTED = "--wiretape-redacted--"
"""Stands for a redacted part of a recorded request; percent-coding does not change these characters."""

_REDACTED_TEXT = re.compile(REDACTED_PATTERN)
_REDACTED_BYTES = re.compile(rf"{REDACTED_PATTERN}|1{{8,}}".encode())
"""In a body, a secret of digits is overwritten with `1`."""
_ESCAPED = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ASCII = "".join(map(chr, range(0x21, 0x7F)))

Pairs = tuple[tuple[str, str], ...]
"""Names and values of query parameters or headers."""


class Order(StrEnum):
    """In which order recorded responses are served."""

    KIND = "kind"
    """In recorded order within each kind of request."""
    STRICT = "strict"
    """In recorded order of all requests."""


class RepeatMode(StrEnum):
    """What a request gets after all recorded responses of its kind are used up."""

    REFUSE = "refuse"
    LAST = "last"
    """The last response again."""
    CYCLE = "cycle"
    """All responses again, from the first."""


@dataclass(frozen=True, slots=True)
class Matching:
    """How requests are compared."""

    ignored_query: frozenset[str] = frozenset()
    """Names of query parameters to ignore."""
    ignored_body: tuple[JsonPath, ...] = ()
    """JSON paths to ignore in bodies."""
    headers: tuple[str, ...] = ()
    """Names of headers to match on, in lower case, without duplicates."""
    order: Order = Order.KIND
    repeat: RepeatMode = RepeatMode.REFUSE
    always_bodies: bool = False
    """Whether bodies are compared even if all recorded ones of a method and path are equal."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The part of a request that is compared.  Requests with equal keys are of the same kind."""

    method: str
    path: str
    query: Pairs
    """Sorted by name; values of the same name keep their order."""
    headers: Pairs = ()
    """The headers to match on: names in lower case, values joined by commas."""
    body: bytes | None = None
    """Digest of the body; None matches any body."""
    redacted_body: bytes | None = field(default=None, compare=False)
    """The text of a recorded body that is partly redacted."""

    @property
    def is_redacted(self) -> bool:
        """Whether a part is redacted."""
        values = (value for _, value in (*self.query, *self.headers))
        return self.redacted_body is not None or REDACTED in self.path or any(REDACTED in value for value in values)

    def differences(self, other: "RequestKey", body: RequestBody) -> list[str]:
        """Name the parts in which a request with the key `other` and this body differs from the recorded request."""
        different = [] if other.method == self.method else ["method"]
        different += [] if _matches(self.path, other.path, REDACTED) else ["path"]
        different += [] if _all_match(self.query, other.query) else ["query"]
        different += [] if _all_match(self.headers, other.headers) else ["headers"]
        return different + ([] if self._matches_body(body) else ["body"])

    def _matches_body(self, body: RequestBody) -> bool:
        if self.redacted_body is not None:
            return body.text is not None and _matches(self.redacted_body, body.text, REDACTED.encode())
        return self.body is None or self.body == body.digest


def request_key(method: str, target: str, headers: Headers, matching: Matching) -> RequestKey:
    """Return the key of a request, without its body; `target` is in origin or absolute form."""
    path, _, query = quote(_origin_form(target), safe=_ASCII, encoding="latin-1", errors="replace").partition("?")
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    # The order of parameters has no meaning, but that of several values of one parameter does.
    compared = sorted((pair for pair in pairs if pair[0] not in matching.ignored_query), key=lambda pair: pair[0])
    path = _ESCAPED.sub(_unescape_unreserved, path)
    return RequestKey(method, path, tuple(compared), _selected(headers, matching.headers))


def recorded_key(method: str, target: str, headers: Headers, matching: Matching) -> RequestKey:
    """Return the key of a recorded request, without its body."""
    marked = tuple((name, _REDACTED_TEXT.sub(REDACTED, value)) for name, value in headers)
    return request_key(method, _REDACTED_TEXT.sub(REDACTED, target), marked, matching)


def with_body(key: RequestKey, body: RequestBody) -> RequestKey:
    """Return the key of a recorded request with its body."""
    if not has_redactions(body):
        return replace(key, body=body.digest)
    text = _REDACTED_BYTES.sub(REDACTED.encode(), body.text or b"")
    return replace(key, body=sha256(text).digest(), redacted_body=text)


def without_paths(body: RequestBody, paths: tuple[JsonPath, ...]) -> RequestBody:
    """Remove JSON paths from a JSON object or array; `$` ignores the whole body, whatever it is."""
    if any(path.is_root for path in paths):
        return NO_BODY
    if not paths or body.text is None:
        return body
    try:
        value = normalized_json(body.text)
        if value is None:
            return body
        for path in paths:
            path.remove_from(value)
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, RecursionError):
        return body
    return RequestBody(sha256(text).digest(), text)


def has_redactions(body: RequestBody) -> bool:
    """Whether a part of a recorded body is redacted."""
    return body.text is not None and _REDACTED_BYTES.search(body.text) is not None


def matches_pair(recorded: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether a query parameter or header matches a recorded one."""
    return recorded[0] == other[0] and _matches(recorded[1], other[1], REDACTED)


def matches_text(recorded: str, other: str) -> bool:
    """Whether a string matches a recorded one."""
    return _matches(_REDACTED_TEXT.sub(REDACTED, recorded), other, REDACTED)


def _all_match(recorded: Pairs, others: Pairs) -> bool:
    return len(recorded) == len(others) and all(map(matches_pair, recorded, others))


def _matches(recorded: AnyStr, other: AnyStr, redacted: AnyStr) -> bool:
    """Whether the texts are equal apart from the redacted parts."""
    parts = recorded.split(redacted)
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return recorded == other
    at, end = len(first), len(other) - len(last)
    if at > end or not other.startswith(first) or not other.endswith(last):
        return False
    for part in parts[1:-1]:
        found = other.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _selected(headers: Headers, names: tuple[str, ...]) -> Pairs:
    """The headers with these names, each once, several values joined as in RFC 9110, 5.3."""
    values = ((name, [value.strip() for key, value in headers if key.lower() == name]) for name in names)
    return tuple((name, ", ".join(found)) for name, found in values if found)


def _origin_form(target: str) -> str:
    """Remove scheme and host from `http://host/path?query`, which proxies receive."""
    scheme, mark, rest = target.partition("://")
    if target.startswith("/") or not mark or not scheme.isalnum():
        return target
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    return rest[end:] if rest[end:].startswith("/") else "/" + rest[end:]


def _unescape_unreserved(match: re.Match[str]) -> str:
    """`%7E` equals `~`, but `%2F` does not equal `/`."""
    escaped = match.group().upper()
    character = chr(int(escaped[1:], 16))
    return character if character in _UNRESERVED else escaped
