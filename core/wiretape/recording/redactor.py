"""Redaction: replaces secrets by fingerprints before anything is written.

A fingerprint is `[redacted:xxxxxxxxxxxxxxxx]`, keyed with the salt of the recording. Within a recording, the same
secret has the same fingerprint, so that clients can be told apart; in every other recording it has another one.

If a secret of a head appears again in a body, for example in an error message, it is overwritten there with
asterisks. Its length, and so every offset, stays the same.
"""

import hmac
import re
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

from wiretape.bounded_dict import put_bounded
from wiretape.credential_names import COOKIE_HEADERS, CREDENTIAL_HEADERS, is_credential_parameter, is_parameter
from wiretape.json_path import JsonPath
from wiretape.observations import Headers, RequestStarted, ResponseStarted
from wiretape.recording.secret_finder import (
    KEPT,
    SHORTEST,
    DecodedText,
    SecretFinder,
    Span,
    join_spans,
    spellings,
)

_FINGERPRINT = r"\[redacted:[0-9a-f]{16}\]"
_FINGERPRINTS = re.compile(f"({_FINGERPRINT})")
REDACTED_PATTERN = rf"{_FINGERPRINT}|\*{{8,}}"
"""Pattern of what replaces a secret in a recording: a fingerprint, or asterisks in a body."""
_IS_REDACTED = re.compile(REDACTED_PATTERN)
_REDACTED_CREDENTIAL = re.compile(rf"(?:[A-Za-z0-9-]{{1,20}} )?{_FINGERPRINT}")
"""Of a recording that is copied."""
_MOST_HEADERS = 1000
_MOST_LENGTH = 1000
"""Longer headers are not kept."""
SHORTEST_WORD = 4
"""A secret that is too short to be remembered, but has so many characters, is replaced in the heads of its exchange."""
_MOST_WORDS = 100
"""Most of these secrets in one exchange."""
_MOST_EXCHANGES = 1000
"""Most exchanges with such secrets."""

_SCHEME = re.compile(
    r"((?:apikey|aws4-hmac-sha256|basic|bearer|digest|dpop|gnap|hoba|key|mutual|negotiate|ntlm|oauth|"
    r"scram-sha-1|scram-sha-256|token|vapid)[ \t]+)(.*)",
    re.IGNORECASE | re.DOTALL,
)
# What follows a colon and is not a port belongs to a password, even if a slash in it is not encoded.
_USERINFO = re.compile(r"(?<=//)(?:[^/?#]*|[^/?#@:\[\s]*:(?!\d+(?:[/?#]|$))[^\s<>\"]{0,200})(?=@|%40)")
_QUERY = re.compile(r"[?#]")
_PATH_PARAMETER = re.compile(r"(;)([^=;/]+)(=)([^;/]*)")
# A semicolon or number sign ends a value only if another parameter follows.
# A lazy class takes no memory.  Python 3.11.2 continues at a wrong place after a possessive group with a lookahead.
_PARAMETER = re.compile(r"([?&;#])([^=&;#?]+)(=)([^&]*?)(?=&|[;#][^=&;#]+=|\Z)")
# In other headers, a value may be quoted, and white space, `<`, `>` and `"` end it, as they end a URL.
_PATH_PARAMETER_IN_HEADER = re.compile(r"(;)([^=;/]+)(=[\"']?)((?<=\")[^\"]*+|[^;/\s<>\"]*)")
_PARAMETER_IN_HEADER = re.compile(
    r"([?&;#])([^=&;#?]+)(=[\"']?)((?<=\")[^\"]*+|[^&\s<>\"]*?(?=[&\s<>\"]|[;#][^=&;#]+=|\Z))"
)
_IN_URL = (_PATH_PARAMETER, _PARAMETER)
_IN_HEADER = (_PATH_PARAMETER_IN_HEADER, _PARAMETER_IN_HEADER)
_AFTER_URL = ",;')]}"
"""Characters that belong to the text of a header if they are at the end of a URL in it."""
_NEXT_IN_LIST = re.compile(r"(?<=,)(?=[A-Za-z][A-Za-z0-9+.-]*+://)")
# Parts of a URL in which another URL can be percent-encoded.
_ENCODED_PART = re.compile(r"[^/?&;#=\s<>\"]+")
_MAY_HIDE_SECRET = re.compile(r"%(?:3[Dd]|40|25)")
"""Codes of `=` and `@`, and of the percent sign itself."""
_MOST_NESTED = 5
"""URLs within URLs; deeper ones are replaced as a whole."""
_SEPARATOR = re.compile(r"[\s,]+")
_IN_CREDENTIAL = re.compile(r'(?<![\w-])([\w-]++)="?([^",\s]+)')
_URL_CHARACTERS = re.compile(r"[^\s'\"<>]+")


@dataclass(frozen=True, slots=True)
class RedactionPolicy:
    """What to redact besides the usual credentials."""

    headers: tuple[str, ...] = ()
    """Names of headers."""
    parameters: tuple[str, ...] = ()
    """Names of parameters of URLs."""
    paths: tuple[str, ...] = ()
    """JSON paths of values in bodies and events that are overwritten."""
    texts: tuple[str, ...] = ()
    """Texts of at least `SHORTEST_WORD` characters that are redacted wherever they are."""


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
    """Redacts requests and responses, finds secrets in bodies, and counts what it replaced.

    It remembers the secrets of heads, and finds them in everything that follows.
    """

    def __init__(self, salt: bytes, policy: RedactionPolicy | None = None, kept: int = KEPT) -> None:
        """`kept` is how many secrets are always remembered."""
        self.policy = policy or RedactionPolicy()
        self._chosen_headers = {name.lower() for name in self.policy.headers}
        self.paths = [JsonPath.of(path) for path in self.policy.paths]
        self.count = 0
        self.unreadable = 0
        """How many JSON texts were overwritten as a whole, as they could not be read."""
        self.matched: set[str] = set()
        """What was found of the policy, as `header:NAME`, `query:NAME`, `json:PATH` or `text:TEXT`."""
        self._salt = salt
        self._secrets = SecretFinder(kept=kept)
        self._texts = {f"text:{text}": _text_finder(text) for text in self.policy.texts}
        self._found: list[bytes] = []
        """Secrets in the text that is redacted at this moment."""
        self._in_head: list[bytes] = []
        """Secrets in the head that is redacted at this moment."""
        self._words: dict[int, list[bytes]] = {}
        """For each exchange, the secrets that are too short to be remembered."""
        self._headers: dict[tuple[str, str], _RedactedText] = {}
        """Headers seen before, as most requests have the same ones."""

    @property
    def has_secrets(self) -> bool:
        """Whether there are secrets to search for."""
        return bool(self._secrets or self._texts)

    def redact_request(self, seen: RequestStarted) -> RequestStarted:
        """Return the request without its secrets."""
        headers = self._redact_headers(seen.headers)
        target = self._redact_header("", seen.target)
        authority = self._redact_header("", f"//{seen.authority}")[2:]
        self._remember_head(seen.exchange)
        # Now all secrets of the request are known, wherever it repeats them.
        if self._find_in_head("\n".join((target, authority, *(value for _, value in headers))), seen.exchange):
            headers, target = self._mask_headers(headers, seen.exchange), self.mask_text(target, seen.exchange)
            authority = self.overwrite_text(authority, seen.exchange)
        return replace(seen, headers=headers, target=target, authority=authority)

    def redact_response(self, seen: ResponseStarted) -> ResponseStarted:
        """Return the response without its secrets."""
        headers, reason = self._redact_headers(seen.headers), seen.reason
        self._remember_head(seen.exchange)
        if self._find_in_head("\n".join((reason, *(value for _, value in headers))), seen.exchange):
            headers, reason = self._mask_headers(headers, seen.exchange), self.mask_text(reason, seen.exchange)
        return replace(seen, headers=headers, reason=reason)

    def redact_upstream(self, url: str) -> str:
        """Return the address that is proxied, without user name and password."""
        return _USERINFO.sub(self._replace_userinfo, url) if "@" in url or "%40" in url else url

    def mask_text(self, text: str, exchange: int) -> str:
        """Replace the secrets in a text about an exchange by their fingerprints."""
        if not text or not self._find_in_head(text, exchange):
            return text
        parts = _FINGERPRINTS.split(text)
        parts[::2] = [self._mask_part(part, exchange, self.fingerprint) for part in parts[::2]]
        return "".join(parts)

    def overwrite_text(self, text: str, exchange: int) -> str:
        """Overwrite the secrets in an address: the brackets of a fingerprint would be an IPv6 address."""
        return self._mask_part(text, exchange, lambda secret: "*" * len(secret))

    def find_secrets(self, data: bytes) -> list[Span]:
        """Return where secrets are in `data`, and count them."""
        spans = self._find(data)
        self.count += len(spans)
        return spans

    def partial_secret(self, data: bytes) -> int:
        """Return how many bytes at the end of `data` may be the beginning of a secret."""
        return max(finder.partial(data) for finder in (self._secrets, *self._texts.values()))

    def fingerprint(self, secret: str) -> str:
        """Return the fingerprint of `secret` in this recording."""
        digest = hmac.digest(self._salt, DecodedText(_encode(secret)).text, "sha256")
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

    def _remember_head(self, exchange: int) -> None:
        if not self._in_head:
            return
        newest_first = dict.fromkeys(reversed(self._in_head))
        self._in_head.clear()
        self._secrets.add(spelling for secret in newest_first for spelling in spellings(secret))
        words = [secret for secret in newest_first if len(secret) < SHORTEST]
        if words:
            words = [*words, *self._words.get(exchange, ())][:_MOST_WORDS]
            put_bounded(self._words, exchange, words, _MOST_EXCHANGES)

    def _redact_value(self, name: str, value: str) -> str:
        is_chosen = name in self._chosen_headers
        if is_chosen:
            self.matched.add(f"header:{name}")
        if name in COOKIE_HEADERS:
            return self._redact_cookies(name, value)
        if is_chosen or name in CREDENTIAL_HEADERS:
            return self._redact_credential(value)
        if not name:
            return self.redact_url(value)
        return "".join(self.redact_url(part, in_header=True) for part in _NEXT_IN_LIST.split(value))

    def _redact_credential(self, value: str) -> str:
        if _REDACTED_CREDENTIAL.fullmatch(value):
            return value
        scheme, credential = found.groups() if (found := _SCHEME.fullmatch(value)) else ("", value)
        credential = credential.strip()
        for each in _SEPARATOR.split(credential):
            if each != credential:  # the whole is remembered below
                self._remember_part(each)
        if scheme.lower().startswith("basic"):
            self._remember_password(_decode_base64(credential))
        for name, each in _IN_CREDENTIAL.findall(credential) if "=" in credential else ():
            if name == "response" or is_credential_parameter(name):  # `response` of Digest
                self._remember(each)
        return scheme + self._replace(credential) if credential else value

    def _redact_cookies(self, name: str, value: str) -> str:
        pairs = value.split(";")[:1] if name == "set-cookie" else value.split(";")
        for pair in pairs:
            before, equals, cookie = pair.partition("=")
            self._remember_part((cookie if equals else before).strip(' \t"'))
        if _IS_REDACTED.fullmatch(value):
            return value
        self.count += 1
        return self.fingerprint(value)

    def redact_url(self, text: str, depth: int = 0, *, in_header: bool = False) -> str:
        """Redact the user information and the parameters of URLs in a text, and of URLs in these URLs."""
        text = self.redact_upstream(text)
        if "=" in text:
            query = _QUERY.search(text)
            end = query.start() if query else len(text)
            replace_parameter = partial(self._replace_parameter, depth)
            in_path, in_query = _IN_HEADER if in_header else _IN_URL
            text = in_path.sub(replace_parameter, text[:end]) + in_query.sub(replace_parameter, text[end:])
        if _MAY_HIDE_SECRET.search(text):
            text = _ENCODED_PART.sub(lambda part: self._redact_encoded(part.group(), depth), text)
        return text

    def _redact_encoded(self, text: str, depth: int) -> str:
        """Redact URLs and parameters in a percent-encoded part of a URL."""
        if not _MAY_HIDE_SECRET.search(text):
            return text
        encoded = text.rstrip(_AFTER_URL)
        decoded = unquote_to_bytes(_encode(encoded)).decode("latin-1")
        redacted = self._redact_nested(decoded, depth)
        if redacted == decoded:
            return text
        parts = _FINGERPRINTS.split(redacted)
        parts[::2] = [quote(part.encode("latin-1"), safe="+*") for part in parts[::2]]
        return "".join((*parts, text[len(encoded) :]))

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
        mark, name, equals, found = match.groups()
        value = found.rstrip(_AFTER_URL) if match.re in _IN_HEADER else found
        after = found[len(value) :]
        chosen = [f"query:{each}" for each in self.policy.parameters if is_parameter(name, (each,))]
        self.matched.update(chosen)
        if value and (chosen or is_credential_parameter(name)):
            if "+" in value:  # a space, as forms encode it
                self._remember(value.replace("+", " "))
            value = self._replace(value)
        elif "=" in value:
            value = self._redact_nested(value, depth)
        return f"{mark}{name}{equals}{value}{after}"

    def _replace(self, secret: str) -> str:
        """Return the fingerprint of a secret, and remember it."""
        if _IS_REDACTED.fullmatch(secret):
            return secret
        self.count += 1
        self._remember(secret)
        return self.fingerprint(secret)

    def _remember_password(self, userinfo: str) -> None:
        """Remember the password of `user:password`, or the user if the password is too short to be the secret."""
        user, _, password = userinfo.partition(":")
        self._remember(password)
        if len(password) < SHORTEST:
            self._remember_part(user)

    def _remember_part(self, secret: str) -> None:
        """Remember what may be an ordinary word, unless it is short."""
        if len(secret) >= SHORTEST:
            self._remember(secret)

    def _remember(self, secret: str) -> None:
        if len(secret) >= SHORTEST_WORD and not _IS_REDACTED.fullmatch(secret):
            self._found.append(_encode(secret))

    def _find(self, data: bytes) -> list[Span]:
        spans = self._secrets.find(data) if self._secrets else []
        for text, finder in self._texts.items():
            if found := finder.find(data):
                self.matched.add(text)
                spans = join_spans([*spans, *found])
        return spans

    def _find_in_head(self, text: str, exchange: int) -> list[Span]:
        """Return where secrets are in a head, and as words the short ones of the exchange."""
        data, words = _encode(text), self._words.get(exchange)
        spans = self._find(data)
        if words:
            finder = SecretFinder(SHORTEST_WORD, as_words=True)
            finder.add(words)
            spans = join_spans([*spans, *finder.find(data)])
        return spans

    def _mask_headers(self, headers: Headers, exchange: int) -> Headers:
        return tuple((name, self.mask_text(value, exchange)) for name, value in headers)

    def _mask_part(self, text: str, exchange: int, replacement: Callable[[str], str]) -> str:
        data, masked, at = _encode(text), list[str](), 0
        charset = "latin-1" if len(data) == len(text) else "utf-8"
        for start, end in self._find_in_head(text, exchange):
            masked += [data[at:start].decode(charset), replacement(data[start:end].decode("latin-1"))]
            at = end
            self.count += 1
        return "".join((*masked, data[at:].decode(charset)))


def _text_finder(text: str) -> SecretFinder:
    finder = SecretFinder(SHORTEST_WORD)
    finder.add(spellings(text.encode("utf-8", "surrogateescape")) | spellings(_encode(text)))
    return finder


def _encode(text: str) -> bytes:
    """Return the bytes of a head, or of another text in UTF-8 if not all its characters are in Latin-1."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _decode_base64(text: str) -> str:
    """Return the decoded text; empty if it is not base64."""
    try:
        return b64decode(f"{text}==").decode("latin-1")
    except ValueError:
        return ""


def overwrite(data: bytes, spans: Iterable[Span]) -> bytes:
    """Return `data` with asterisks in place of the spans; digits become `1`, as they may be a JSON number."""
    masked = bytearray(data)
    for start, end in spans:
        masked[start:end] = (b"1" if data[start:end].isdigit() else b"*") * (end - start)
    return bytes(masked)
