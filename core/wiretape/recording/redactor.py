"""Redaction: replaces secrets by fingerprints before anything is written.

A fingerprint is `[redacted:xxxxxxxxxxxxxxxx]`, keyed with the salt of the recording. Within a recording, the same
secret has the same fingerprint, so that clients can be told apart; in every other recording it has another one.

If a secret of a head appears again in a body, for example in an error message, it is overwritten there with
asterisks. Its length, and so every offset, stays the same.
"""

import hmac
import json
import re
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

from wiretape.bounded_dict import cache_short, put_bounded
from wiretape.credential_names import CREDENTIAL_HEADERS, CREDENTIAL_PARAMETERS, is_credential_parameter
from wiretape.observations import BytesArrived, Headers, RequestStarted, ResponseStarted, Side
from wiretape.recording.remembered_secrets import SHORTEST, RememberedSecrets, Span

_FINGERPRINT = r"\[redacted:[0-9a-f]{16}\]"
_FINGERPRINTS = re.compile(f"({_FINGERPRINT})")
REDACTED_PATTERN = rf"{_FINGERPRINT}|\*{{8,}}"
"""Pattern of what replaces a secret in a recording: a fingerprint, or asterisks in a body."""
_IS_REDACTED = re.compile(REDACTED_PATTERN)
_REDACTED_CREDENTIAL = re.compile(rf"(?:[A-Za-z0-9-]{{1,20}} )?{_FINGERPRINT}")
"""Of a recording that is copied; earlier versions kept every scheme."""
_MOST_HEADERS = 1000
_MOST_LENGTH = 1000
"""Longer headers are not kept."""
_CUT_LENGTH = SHORTEST // 2
"""If a body ends within a secret, this many characters of it are overwritten."""

_SCHEME = re.compile(
    r"((?:apikey|aws4-hmac-sha256|basic|bearer|digest|dpop|gnap|hoba|key|mutual|negotiate|ntlm|oauth|"
    r"scram-sha-1|scram-sha-256|token|vapid)[ \t]+)(.*)",
    re.IGNORECASE | re.DOTALL,
)
_USERINFO = re.compile(r"(?<=//)[^/?#]*(?=@|%40)")
_QUERY = re.compile(r"[?#]")
_PATH_PARAMETER = re.compile(r"(;)([^=;/]+)=([^;/]*)")
# A semicolon or number sign ends a value only if another parameter follows.
# Possessive: otherwise, `re` remembers each character of a long value, in 200 times its memory.
_PARAMETER = re.compile(r"([?&;#])([^=&;#?]+)=((?:[^&;#]++|[;#](?![^=&;#]++=))*+)")
_URL_PARTS = tuple(map(re.compile, (r"[^/?&;=#\s]+", r"[^/?&;#\s]+", r"\S+", r".+")))
"""Parts that a percent-encoded secret can be in, the smallest first."""
# Parts of a URL in which another URL can be percent-encoded.
_ENCODED_PART = re.compile(r"[^/?&;#=\s<>\"]*%[^/?&;#=\s<>\"]*")
_MAY_HIDE_SECRET = re.compile(r"%(?:3[Dd]|40|25)")
"""Codes of `=` and `@`, and of the percent sign itself."""
_MOST_NESTED = 5
"""URLs within URLs; deeper ones are replaced as a whole."""
_SEPARATOR = re.compile(r"[\s,]+")
_IN_CREDENTIAL = re.compile(r'(?<![\w-])([\w-]++)="?([^",\s]+)')
_NEEDS_NO_ESCAPE = re.compile(rb"[A-Za-z0-9_.-]*")
_ESCAPED_IN_JSON = ("<>&", "<>&'=", "\"'<>&", "\"'<>&+`")
"""Characters that some writers of JSON escape as `\\u....` without need: those of Go, Gson, PHP and .NET."""
_PLAIN_IN_URLS = ("", "/", "*", "!*'()", "$&+=:@", "!*'()$&+=:@/;,?#")
"""Characters that some writers of URLs keep: Python, forms, `encodeURIComponent`, paths in Go, `encodeURI`."""
_PERCENT_CODE = re.compile("%..")
_JSON_CODE = re.compile(r"\\u[0-9a-f]{4}")


_URL_CHARACTERS = re.compile(r"[^\s'\"<>]+")


@dataclass(frozen=True, slots=True)
class RedactionPolicy:
    """Names of the headers and parameters that hold secrets, in lower case."""

    credential_headers: tuple[str, ...] = CREDENTIAL_HEADERS
    """Headers whose credential is redacted; a known scheme, such as `Bearer`, is kept."""
    secret_headers: tuple[str, ...] = ("cookie", "set-cookie")
    """Headers with cookies, whose whole value is redacted."""
    query_parameters: tuple[str, ...] = CREDENTIAL_PARAMETERS
    """Parameters of URLs whose value is redacted."""
    body_paths: tuple[str, ...] = ()
    """JSON paths of values in bodies and events that are overwritten."""


def redaction_policy(headers: Iterable[str], parameters: Iterable[str], paths: Iterable[str]) -> RedactionPolicy:
    """Return a policy with more headers and parameters, and with JSON paths."""
    return RedactionPolicy(
        credential_headers=(*CREDENTIAL_HEADERS, *(name.lower() for name in headers)),
        query_parameters=(*CREDENTIAL_PARAMETERS, *parameters),
        body_paths=tuple(paths),
    )


def redact_urls(text: str) -> str:
    """Return a text with `[redacted]` for the credentials in its URLs: user name, password, secret parameters."""
    redactor = Redactor(b"")
    redacted = _URL_CHARACTERS.sub(lambda match: redactor.redact_url(match.group()), text)
    return _IS_REDACTED.sub("[redacted]", redacted)


class _RedactedText(NamedTuple):
    text: str
    secrets: list[bytes]
    replaced: int


class Redactor:
    """Redacts requests, responses and bodies, and counts the secrets it replaced.

    It remembers the secrets of heads, as long as they are not too many (`remembered_secrets.MOST`), and finds them in
    everything that follows.
    """

    def __init__(self, salt: bytes, policy: RedactionPolicy | None = None) -> None:
        self.policy = policy or RedactionPolicy()
        self.count = 0
        self._salt = salt
        self._secrets = RememberedSecrets()
        self._found: list[bytes] = []
        """Secrets in the text that is redacted at this moment."""
        self._in_head: list[bytes] = []
        """Secrets in the head that is redacted at this moment."""
        self._headers: dict[tuple[str, str], _RedactedText] = {}
        """Headers seen before, as most requests have the same ones."""

    @property
    def has_secrets(self) -> bool:
        """Whether there are secrets to search for."""
        return bool(self._secrets)

    def redact_request(self, seen: RequestStarted) -> RequestStarted:
        """Return the request without its secrets."""
        headers = self._redact_headers(seen.headers)
        target = self._redact_header("", seen.target)
        authority = self._redact_header("", f"//{seen.authority}")[2:]
        self._remember_head()
        # Now all secrets of the request are known, wherever it repeats them.
        if self._contains_secret("\n".join((target, authority, *(value for _, value in headers)))):
            headers, target = self._mask_headers(headers), self.mask_text(target)
            authority = self._overwrite_text(authority)
        return replace(seen, headers=headers, target=target, authority=authority)

    def redact_response(self, seen: ResponseStarted) -> ResponseStarted:
        """Return the response without its secrets."""
        headers, reason = self._redact_headers(seen.headers), seen.reason
        self._remember_head()
        if self._contains_secret("\n".join((reason, *(value for _, value in headers)))):
            headers, reason = self._mask_headers(headers), self.mask_text(reason)
        return replace(seen, headers=headers, reason=reason)

    def redact_upstream(self, url: str) -> str:
        """Return the address that is proxied, without user name and password."""
        return _USERINFO.sub(self._replace_userinfo, url) if "@" in url or "%40" in url else url

    def mask_text(self, text: str) -> str:
        """Replace remembered secrets in a text by their fingerprints, also if they are percent-encoded."""
        for url_part in _URL_PARTS:
            if not self._contains_secret(text):
                break
            parts = _FINGERPRINTS.split(text)
            parts[::2] = [self._mask_part(url_part.sub(self._mask_encoded, part)) for part in parts[::2]]
            text = "".join(parts)
        return text

    def find_secrets(self, data: bytes) -> list[Span]:
        """Return where remembered secrets are in `data`, and count them."""
        spans = self._secrets.find(data)
        if spans:
            self.count += len(spans)
        return spans

    def partial_secret(self, data: bytes) -> int:
        """Return how many bytes at the end of `data` may be the beginning of a secret."""
        return self._secrets.partial(data)

    def fingerprint(self, secret: str) -> str:
        """Return the fingerprint of `secret` in this recording."""
        digest = hmac.digest(self._salt, _decode_percent(secret), "sha256")
        return f"[redacted:{digest[:8].hex()}]"

    def _redact_headers(self, headers: Headers) -> Headers:
        return tuple((name, self._redact_header(name, value)) for name, value in headers)

    def _redact_header(self, name: str, value: str) -> str:
        """Redact the value of a header, or a URL without a name, and note its secrets."""
        known = self._headers.get((name, value))
        if known is None:
            count, self._found = self.count, []
            known = _RedactedText(self._redact_value(name.strip().lower(), value), self._found, self.count - count)
            self.count = count
            if len(value) <= _MOST_LENGTH:
                put_bounded(self._headers, (name, value), known, _MOST_HEADERS)
        self.count += known.replaced
        self._in_head += known.secrets
        return known.text

    def _remember_head(self) -> None:
        newest_first = dict.fromkeys(reversed(self._in_head))
        self._secrets.add(spelling for secret in newest_first for spelling in spellings(secret))
        self._in_head.clear()

    def _redact_value(self, name: str, value: str) -> str:
        if name in self.policy.credential_headers:
            return self._redact_credential(value)
        if name in self.policy.secret_headers:
            return self._redact_cookies(name, value)
        return self.redact_url(value)

    def _redact_credential(self, value: str) -> str:
        if _REDACTED_CREDENTIAL.fullmatch(value):
            return value
        scheme, credential = found.groups() if (found := _SCHEME.fullmatch(value)) else ("", value)
        credential = credential.strip()
        for each in _SEPARATOR.split(credential):
            if each != credential:  # the whole is remembered below
                self._remember(each)
        if scheme.lower().startswith("basic"):
            self._remember_password(_decode_base64(credential))
        for name, each in _IN_CREDENTIAL.findall(credential) if "=" in credential else ():
            if name == "response" or is_credential_parameter(name):  # `response` of Digest
                self._remember(each)
        return scheme + self._replace(credential) if credential else value

    def _redact_cookies(self, name: str, value: str) -> str:
        pairs = value.split(";")[:1] if name == "set-cookie" else value.split(";")
        for pair in pairs:
            self._remember(pair.partition("=")[2].strip(' \t"'))
        return self._replace(value)

    def redact_url(self, text: str, depth: int = 0) -> str:
        """Redact the user information and the parameters of URLs in a text, and of URLs in these URLs."""
        text = self.redact_upstream(text)
        if "=" in text:
            query = _QUERY.search(text)
            end = query.start() if query else len(text)
            replace_parameter = partial(self._replace_parameter, depth)
            path = _PATH_PARAMETER.sub(replace_parameter, text[:end])
            text = path + _PARAMETER.sub(replace_parameter, text[end:])
        if _MAY_HIDE_SECRET.search(text):
            text = _ENCODED_PART.sub(lambda part: self._redact_encoded(part.group(), depth), text)
        return text

    def _redact_encoded(self, text: str, depth: int) -> str:
        """Redact URLs and parameters in a percent-encoded part of a URL."""
        if not _MAY_HIDE_SECRET.search(text):
            return text
        decoded = _decode_percent(text).decode("latin-1")
        redacted = self._redact_nested(decoded, depth)
        if redacted == decoded:
            return text
        parts = _FINGERPRINTS.split(redacted)
        parts[::2] = [quote(part.encode("latin-1"), safe="+*") for part in parts[::2]]
        return "".join(parts)

    def _redact_nested(self, text: str, depth: int) -> str:
        """Redact a URL, or parameters without a URL, in a URL."""
        if depth == _MOST_NESTED:
            return self._replace(text)
        return self.redact_url(f"?{text}", depth + 1)[1:]

    def _replace_userinfo(self, match: re.Match[str]) -> str:
        if not match.group() or _IS_REDACTED.fullmatch(match.group()):
            return match.group()
        self.count += 1
        self._remember_password(unquote(match.group(), "latin-1"))
        return "*" * SHORTEST  # the brackets of a fingerprint would be an IPv6 address

    def _replace_parameter(self, depth: int, match: re.Match[str]) -> str:
        mark, name, value = match.groups()
        if value and is_credential_parameter(name, self.policy.query_parameters):
            if "+" in value:  # a space, as forms encode it
                self._remember(value.replace("+", " "))
            value = self._replace(value)
        elif "=" in value:
            value = self._redact_nested(value, depth)
        return f"{mark}{name}={value}"

    def _replace(self, secret: str) -> str:
        """Return the fingerprint of a secret, and remember it."""
        if _IS_REDACTED.fullmatch(secret):
            return secret
        self.count += 1
        self._remember(secret)
        return self.fingerprint(secret)

    def _remember_password(self, userinfo: str) -> None:
        """Remember the password of `user:password`, or the user if there is no password."""
        user, _, password = userinfo.partition(":")
        self._remember(password or user)

    def _remember(self, secret: str) -> None:
        if len(secret) >= SHORTEST and not _IS_REDACTED.fullmatch(secret):
            self._found.append(_encode(secret))
            if "%" in secret:
                self._found.append(_decode_percent(secret))

    def _contains_secret(self, text: str) -> bool:
        if not self._secrets:
            return False
        return bool(self._secrets.find(_encode(text)) or ("%" in text and self._secrets.find(_decode_percent(text))))

    def _mask_headers(self, headers: Headers) -> Headers:
        return tuple((name, self.mask_text(value)) for name, value in headers)

    def _mask_part(self, text: str) -> str:
        masked, at = [], 0
        for start, end in self.find_secrets(_encode(text)):
            masked += [text[at:start], self.fingerprint(text[start:end])]
            at = end
        return "".join((*masked, text[at:]))

    def _mask_encoded(self, match: re.Match[str]) -> str:
        part = match.group()
        return self.fingerprint(part) if "%" in part and self.find_secrets(_decode_percent(part)) else part

    def _overwrite_text(self, text: str) -> str:
        data = _encode(text)
        return overwrite(data, self.find_secrets(data)).decode("latin-1")


def _encode(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _decode_percent(text: str) -> bytes:
    return unquote_to_bytes(_encode(text))


def _decode_base64(text: str) -> str:
    """Return the decoded text; empty if it is not base64."""
    try:
        return b64decode(f"{text}==").decode("latin-1")
    except ValueError:
        return ""


def overwrite(data: bytes, spans: Iterable[Span]) -> bytes:
    """Return `data` with asterisks in place of the spans."""
    masked = bytearray(data)
    for start, end in spans:
        masked[start:end] = b"*" * (end - start)
    return bytes(masked)


@cache_short
def spellings(text: bytes) -> frozenset[bytes]:
    """Return the spellings of a text: as it is, as JSON escapes it, and as URLs encode it."""
    if _NEEDS_NO_ESCAPE.fullmatch(text):
        return frozenset({text})
    found = {text} | _spellings_in_urls(text)
    plain = text.decode("utf-8", "surrogateescape")
    found |= _spellings_in_json(plain)
    if not text.isascii():  # most services read headers as Latin-1
        found |= _spellings_in_json(text.decode("latin-1"))
    return frozenset(found)


def _spellings_in_json(plain: str) -> set[bytes]:
    escaped = {json.dumps(plain, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)}
    escaped |= {_escape_in_json(spelling, characters) for spelling in escaped for characters in _ESCAPED_IN_JSON}
    escaped |= {spelling.replace("/", "\\/") for spelling in escaped}
    escaped |= {_JSON_CODE.sub(lambda code: f"\\u{code.group()[2:].upper()}", spelling) for spelling in escaped}
    return {spelling.encode("utf-8", "surrogateescape") for spelling in escaped}


def _escape_in_json(spelling: str, characters: str) -> str:
    for character in characters:
        plain = '\\"' if character == '"' else character
        spelling = spelling.replace(plain, f"\\u{ord(character):04x}")
    return spelling


def _spellings_in_urls(text: bytes) -> set[bytes]:
    encoded = {quote(text, safe=characters) for characters in _PLAIN_IN_URLS}
    encoded |= {spelling.replace("%20", "+") for spelling in encoded}
    encoded |= {spelling.replace("~", "%7E") for spelling in encoded}
    encoded |= {_PERCENT_CODE.sub(lambda code: code.group().lower(), spelling) for spelling in encoded}
    return {spelling.encode() for spelling in encoded}


class BodyMasker:
    """Overwrites secrets in bodies before anything is stored or indexed, even if chunks or commits split them.

    Bytes at the end of a run that may be the beginning of a secret are held back until more of the body arrives.
    They then count as part of the chunk that completed them.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: dict[tuple[int, Side], _Held] = {}

    def mask(self, run: BytesArrived) -> BytesArrived | None:
        """Return the run without secrets, up to the bytes that are held back."""
        if not self._redactor.has_secrets:
            return run
        body = (run.exchange, run.side)
        held = self._held.pop(body, None) if self._held else None
        start, data = (held.start, held.data + run.data) if held else (run.start, run.data)
        spans = self._redactor.find_secrets(data)
        partial = self._redactor.partial_secret(data)
        if not (spans or partial or held):
            return run
        masked = overwrite((held.masked if held else b"") + run.data, spans)
        end = start + len(data) - partial
        if partial:
            self._held[body] = _Held(end, data[-partial:], masked[-partial:])
        if end == start:
            return None
        ends = [*(before for before in run.ends if before < end), end]
        return BytesArrived(*body, start, masked[: end - start], ends, run.times[: len(ends)])

    def release(self, exchange: int, after_ns: int) -> list[BytesArrived]:
        """Return the held bytes of an exchange whose bodies are complete, with times just after `after_ns`."""
        released = []
        for side in Side:
            held = self._held.pop((exchange, side), None)
            if held is not None:
                after_ns += 1
                count = len(held.data)
                data = b"*" * count if count >= _CUT_LENGTH else held.masked
                released.append(BytesArrived(exchange, side, held.start, data, (held.start + count,), (after_ns,)))
        return released

    def release_all(self, after_ns: int) -> list[BytesArrived]:
        """Return the held bytes of all exchanges."""
        released: list[BytesArrived] = []
        for exchange in dict.fromkeys(exchange for exchange, _ in self._held):
            released += self.release(exchange, after_ns + len(released))
        return released


@dataclass(frozen=True, slots=True)
class _Held:
    """Bytes at the end of a body that may be the beginning of a secret."""

    start: int
    data: bytes
    masked: bytes
    """The same with asterisks where they are the end of another secret."""
