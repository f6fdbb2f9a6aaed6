"""Secrets replaced by fingerprints before anything is written.

A fingerprint is `[redacted:xxxxxxxxxxxxxxxx]`, made with the recording's own salt: the same
secret gives the same fingerprint within a recording, so that a client can be told from
another, and a different one in every other recording.

A credential that was seen in a header and comes again in a body, say in an error message,
is overwritten there with as many asterisks, so that offsets stay what they were.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass, replace

from wiretape.credential_names import CREDENTIAL_PARAMETERS
from wiretape.observations import Headers, RequestStarted, ResponseStarted

_FINGERPRINT = r"\[redacted:[0-9a-f]{16}\]"
_REDACTED = re.compile(_FINGERPRINT)
REPLACED = rf"{_FINGERPRINT}|\*{{8,}}"
"""A pattern of what stands in a recording where a secret stood: a fingerprint, or asterisks in a body."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What counts as a secret.  All names in lower case."""

    credential_headers: tuple[str, ...] = ("authorization", "proxy-authorization", "x-api-key", "api-key")
    """Headers whose credential is redacted, its scheme (`Bearer`) kept, and looked for in bodies too."""
    secret_headers: tuple[str, ...] = ("cookie", "set-cookie")
    """Headers whose whole value is redacted."""
    query_parameters: tuple[str, ...] = CREDENTIAL_PARAMETERS
    """Parameters of the request target whose value is redacted."""


_SHORTEST = 8
"""Credentials shorter than this are redacted in their header but not looked for elsewhere."""


class Redactor:
    """Redacts heads and bodies, and counts what it redacted."""

    def __init__(self, salt: bytes, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.count = 0
        self._salt = salt
        self._fingerprints: dict[str, str] = {}
        self._credentials: list[bytes] = []
        self._letters: frozenset[int] = frozenset()
        self._secrets: re.Pattern[bytes] | None = None
        self.longest = 0
        """Length in bytes of the longest credential that is looked for in bodies."""

    def request(self, seen: RequestStarted) -> RequestStarted:
        """The request head without its secrets."""
        headers = self._headers(seen.headers)
        return replace(seen, headers=headers, target=self._text(self._target(seen.target)))

    def response(self, seen: ResponseStarted) -> ResponseStarted:
        """The response head without its secrets."""
        return replace(seen, headers=self._headers(seen.headers), reason=self._text(seen.reason))

    def body(self, data: bytes) -> bytes:
        """`data`, of the same length, with every credential seen so far overwritten."""
        if self._secrets is None:
            return data
        data, count = self._secrets.subn(lambda match: b"*" * len(match.group()), data)
        self.count += count
        return data

    def begun(self, data: bytes) -> int:
        """How many bytes at the end of `data` may be the beginning of a credential."""
        if not data or data[-1] not in self._letters:
            return 0
        return max(_overlap(data, secret) for secret in self._credentials)

    def fingerprint(self, secret: str) -> str:
        """What stands for `secret` in this recording."""
        found = self._fingerprints.get(secret)
        if found is None:
            digest = hmac.new(self._salt, secret.encode("latin-1", "replace"), hashlib.sha256).hexdigest()
            found = self._fingerprints[secret] = f"[redacted:{digest[:16]}]"
        return found

    def _headers(self, headers: Headers) -> Headers:
        return tuple((name, self._value(name.lower(), value)) for name, value in headers)

    def _value(self, name: str, value: str) -> str:
        if name in self.policy.credential_headers:
            scheme, space, credential = value.partition(" ")
            if not space:
                scheme, credential = "", value
            self._remember(credential.strip())
            return scheme + space + self._replace(credential.strip()) if credential.strip() else value
        if name in self.policy.secret_headers:
            return self._replace(value)
        return self._text(value)

    def _replace(self, secret: str) -> str:
        if _REDACTED.fullmatch(secret):
            return secret
        self.count += 1
        return self.fingerprint(secret)

    def _target(self, target: str) -> str:
        path, mark, query = target.partition("?")
        if not mark:
            return target
        pairs = (self._pair(*pair.partition("=")) for pair in query.split("&"))
        return f"{path}?{'&'.join(pairs)}"

    def _pair(self, name: str, equals: str, value: str) -> str:
        if value and name.lower() in self.policy.query_parameters:
            return name + equals + self._replace(value)
        return name + equals + value

    def _text(self, text: str) -> str:
        """A head's text with credentials that do not belong there replaced."""
        if self._secrets is None or self._secrets.search(text.encode("latin-1", "replace")) is None:
            return text
        for secret in self._fingerprints:
            if len(secret) >= _SHORTEST and secret in text:
                text = text.replace(secret, self._replace(secret))
        return text

    def _remember(self, credential: str) -> None:
        if len(credential) < _SHORTEST or credential in self._fingerprints or _REDACTED.fullmatch(credential):
            return
        self.fingerprint(credential)
        self._credentials.append(credential.encode("latin-1", "replace"))
        # The longest first, so that one which begins another does not hide it.
        self._credentials.sort(key=len, reverse=True)
        self._secrets = re.compile(b"|".join(map(re.escape, self._credentials)))
        self._letters = frozenset().union(*self._credentials)
        self.longest = len(self._credentials[0])


def _overlap(data: bytes, secret: bytes) -> int:
    """The length of the longest end of `data` that is a beginning of `secret`, but not all of it."""
    at = max(0, len(data) - len(secret) + 1)
    while (at := data.find(secret[:1], at)) >= 0:
        if secret.startswith(data[at:]):
            return len(data) - at
        at += 1
    return 0
