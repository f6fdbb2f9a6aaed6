"""What makes two requests the same to a tape: method, path, query, chosen headers, and the body where it matters.

A recording holds fingerprints where there were secrets.  A recorded kind that holds one is
*hidden in part*: it stands for every request that is the same around it.
"""

import re
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import AnyStr
from urllib.parse import parse_qsl, quote

import orjson

from wiretape.json_path import JsonPath
from wiretape.observations import Headers
from wiretape.recording import REDACTED_PATTERN
from wiretape_replay.http_server.request import NO_BODY, RequestBody, normalized_json
from wiretape_replay.verbatim.matching_options import Matching

_SECRET_TEXT = re.compile(REDACTED_PATTERN)
_SECRET_BYTES = re.compile(REDACTED_PATTERN.encode())
HIDDEN = "--wiretape-hidden--"
"""Stands where a secret was: characters that percent-coding leaves alone."""

_ESCAPED = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ASCII = "".join(map(chr, range(0x21, 0x7F)))

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A comparable request.  Recorded requests of equal kinds are asked for alike."""

    method: str
    path: str
    query: Pairs
    """Sorted by name; the values of one name in their order."""
    headers: Pairs = ()
    """Those that count, in the order in which they were chosen: name in lower case, values joined by commas."""
    body: bytes | None = None
    """Digest of the body; None where any body will do."""
    hidden_body: bytes | None = field(default=None, compare=False)
    """The text of a recorded body that is hidden in part."""

    @property
    def hidden(self) -> bool:
        """Whether a secret hides a part."""
        values = (value for _, value in (*self.query, *self.headers))
        return self.hidden_body is not None or HIDDEN in self.path or any(HIDDEN in value for value in values)

    def differences(self, asked: "RequestKey", body: RequestBody) -> list[str]:
        """What keeps a request of the kind `asked` with this body from being the recorded one."""
        different = [] if asked.method == self.method else ["method"]
        different += [] if _fits(self.path, asked.path, HIDDEN) else ["path"]
        different += [] if _same_pairs(self.query, asked.query) else ["query"]
        different += [] if _same_pairs(self.headers, asked.headers) else ["headers"]
        return different + ([] if self._same_body(body) else ["body"])

    def _same_body(self, body: RequestBody) -> bool:
        if self.hidden_body is not None:
            return body.text is not None and _fits(self.hidden_body, body.text, HIDDEN.encode())
        return self.body is None or self.body == body.digest


def same_pair(recorded: tuple[str, str], asked: tuple[str, str]) -> bool:
    """Whether two query parameters or headers are the same, as far as the recorded one is not hidden."""
    return recorded[0] == asked[0] and _fits(recorded[1], asked[1], HIDDEN)


def request_key(method: str, target: str, headers: Headers, matching: Matching) -> RequestKey:
    """The kind of a request, whatever its body; its target as it crossed the wire, in origin or absolute form."""
    path, _, query = quote(_origin_form(target), safe=_ASCII, encoding="latin-1", errors="replace").partition("?")
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    counted = [pair for pair in pairs if pair[0] not in matching.ignored_query]
    # Clients order parameters as they like, but the values of one parameter have an order.
    counted.sort(key=lambda pair: pair[0])
    return RequestKey(method, _ESCAPED.sub(_unescape, path), tuple(counted), _chosen(headers, matching.headers))


def recorded_key(method: str, target: str, headers: Headers, matching: Matching) -> RequestKey:
    """The kind of a recorded request, whatever its body."""
    known = tuple((name, _SECRET_TEXT.sub(HIDDEN, value)) for name, value in headers)
    return request_key(method, _SECRET_TEXT.sub(HIDDEN, target), known, matching)


def with_body(kind: RequestKey, body: RequestBody) -> RequestKey:
    """A recorded kind as that of requests with this recorded body."""
    if not is_redacted(body):
        return replace(kind, body=body.digest)
    text = _SECRET_BYTES.sub(HIDDEN.encode(), body.text or b"")
    return replace(kind, body=sha256(text).digest(), hidden_body=text)


def is_redacted(body: RequestBody) -> bool:
    """Whether a secret was replaced in a recorded body."""
    return body.text is not None and _SECRET_BYTES.search(body.text) is not None


def same_text(recorded: str, asked: str) -> bool:
    """Whether two pieces of text are the same, as far as no secret was replaced in the recorded one."""
    return _fits(_SECRET_TEXT.sub(HIDDEN, recorded), asked, HIDDEN)


def _same_pairs(recorded: Pairs, asked: Pairs) -> bool:
    return len(recorded) == len(asked) and all(map(same_pair, recorded, asked))


def _chosen(headers: Headers, names: tuple[str, ...]) -> Pairs:
    """The headers of these names, each once: values of one name are joined, as RFC 9110 (5.3) allows."""
    values = ((name, [value.strip() for key, value in headers if key.lower() == name]) for name in names)
    return tuple((name, ", ".join(found)) for name, found in values if found)


def _fits(recorded: AnyStr, asked: AnyStr, hidden: AnyStr) -> bool:
    """Whether the texts are the same but for what is hidden in the recorded one."""
    parts = recorded.split(hidden)
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return recorded == asked
    at, end = len(first), len(asked) - len(last)
    if at > end or not asked.startswith(first) or not asked.endswith(last):
        return False
    for part in parts[1:-1]:
        found = asked.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


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


def without_paths(body: RequestBody, paths: tuple[JsonPath, ...]) -> RequestBody:
    """`body` as far as it counts: a JSON object or list without `paths`; anything else as it is, but for `$`."""
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
