"""Redaction: replaces secrets by fingerprints before anything is written.

A fingerprint is `[redacted:xxxxxxxxxxxxxxxx]`, keyed with the salt of the recording. Within a recording, the same
secret has the same fingerprint, so that clients can be told apart; in every other recording it has another one.

If a credential from a header appears again in a body, for example in an error message, it is overwritten there with
asterisks. Its length, and so every offset, stays the same.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass, replace

from wiretape.credential_names import CREDENTIAL_HEADERS, CREDENTIAL_PARAMETERS
from wiretape.observations import BytesArrived, Headers, RequestStarted, ResponseStarted, Side

_FINGERPRINT = r"\[redacted:[0-9a-f]{16}\]"
_IS_FINGERPRINT = re.compile(_FINGERPRINT)
REDACTED_PATTERN = rf"{_FINGERPRINT}|\*{{8,}}"
"""Pattern of what replaces a secret in a recording: a fingerprint, or asterisks in a body."""
_MIN_LENGTH = 8
"""Shorter credentials are redacted in their header, but not searched for in bodies."""


@dataclass(frozen=True, slots=True)
class RedactionPolicy:
    """Names of the headers and parameters that hold secrets, in lower case."""

    credential_headers: tuple[str, ...] = CREDENTIAL_HEADERS
    """Headers whose credential is redacted (their scheme, such as `Bearer`, is kept) and searched for in bodies."""
    secret_headers: tuple[str, ...] = ("cookie", "set-cookie")
    """Headers whose whole value is redacted."""
    query_parameters: tuple[str, ...] = CREDENTIAL_PARAMETERS
    """Parameters of the request target whose value is redacted."""


class Redactor:
    """Redacts requests, responses and bodies, and counts the secrets it replaced."""

    def __init__(self, salt: bytes, policy: RedactionPolicy | None = None) -> None:
        self.policy = policy or RedactionPolicy()
        self.count = 0
        self._salt = salt
        self._fingerprints: dict[str, str] = {}
        self._credentials: list[bytes] = []
        self._letters: frozenset[int] = frozenset()
        self._secrets: re.Pattern[bytes] | None = None

    @property
    def has_credentials(self) -> bool:
        """Whether there are credentials to search for in bodies."""
        return self._secrets is not None

    def redact_request(self, seen: RequestStarted) -> RequestStarted:
        """Return the request without its secrets."""
        headers = self._redact_headers(seen.headers)
        return replace(seen, headers=headers, target=self._redact_text(self._redact_target(seen.target)))

    def redact_response(self, seen: ResponseStarted) -> ResponseStarted:
        """Return the response without its secrets."""
        return replace(seen, headers=self._redact_headers(seen.headers), reason=self._redact_text(seen.reason))

    def mask_body(self, data: bytes) -> bytes:
        """Return `data` with every known credential overwritten; the length stays the same."""
        if self._secrets is None:
            return data
        data, count = self._secrets.subn(lambda match: b"*" * len(match.group()), data)
        self.count += count
        return data

    def partial_credential(self, data: bytes) -> int:
        """Return how many bytes at the end of `data` may be the beginning of a credential."""
        if not data or data[-1] not in self._letters:
            return 0
        return max(_overlap(data, secret) for secret in self._credentials)

    def fingerprint(self, secret: str) -> str:
        """Return the fingerprint of `secret` in this recording."""
        found = self._fingerprints.get(secret)
        if found is None:
            digest = hmac.new(self._salt, secret.encode("latin-1", "replace"), hashlib.sha256).hexdigest()
            found = self._fingerprints[secret] = f"[redacted:{digest[:16]}]"
        return found

    def _redact_headers(self, headers: Headers) -> Headers:
        return tuple((name, self._redact_value(name.lower(), value)) for name, value in headers)

    def _redact_value(self, name: str, value: str) -> str:
        if name in self.policy.credential_headers:
            scheme, space, credential = value.partition(" ")
            if not space:
                scheme, credential = "", value
            self._remember(credential.strip())
            return scheme + space + self._replace(credential.strip()) if credential.strip() else value
        if name in self.policy.secret_headers:
            return self._replace(value)
        return self._redact_text(value)

    def _replace(self, secret: str) -> str:
        if _IS_FINGERPRINT.fullmatch(secret):
            return secret
        self.count += 1
        return self.fingerprint(secret)

    def _redact_target(self, target: str) -> str:
        path, mark, query = target.partition("?")
        if not mark:
            return target
        pairs = (self._redact_parameter(*pair.partition("=")) for pair in query.split("&"))
        return f"{path}?{'&'.join(pairs)}"

    def _redact_parameter(self, name: str, equals: str, value: str) -> str:
        if value and name.lower() in self.policy.query_parameters:
            return name + equals + self._replace(value)
        return name + equals + value

    def _redact_text(self, text: str) -> str:
        """Replace known credentials in a text where none is expected."""
        if self._secrets is None or self._secrets.search(text.encode("latin-1", "replace")) is None:
            return text
        for secret in self._fingerprints:
            if len(secret) >= _MIN_LENGTH and secret in text:
                text = text.replace(secret, self._replace(secret))
        return text

    def _remember(self, credential: str) -> None:
        if len(credential) < _MIN_LENGTH or credential in self._fingerprints or _IS_FINGERPRINT.fullmatch(credential):
            return
        self.fingerprint(credential)
        self._credentials.append(credential.encode("latin-1", "replace"))
        # The longest first: otherwise a credential would hide another one that it is the beginning of.
        self._credentials.sort(key=len, reverse=True)
        self._secrets = re.compile(b"|".join(map(re.escape, self._credentials)))
        self._letters = frozenset().union(*self._credentials)


class BodyMasker:
    """Overwrites credentials in bodies before anything is stored or indexed, even if chunks or commits split them.

    Bytes at the end of a run that may be the beginning of a credential are held back until more of the body arrives.
    They then count as part of the chunk that completed them.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: dict[tuple[int, Side], tuple[int, bytes]] = {}

    def mask(self, run: BytesArrived) -> BytesArrived | None:
        """Return the run without credentials, up to the bytes that are held back."""
        if not self._redactor.has_credentials:
            return run
        body = (run.exchange, run.side)
        start, held = self._held.pop(body, (run.start, b""))
        data = self._redactor.mask_body(held + run.data)
        partial = self._redactor.partial_credential(data)
        if not (held or partial):
            return run if data == run.data else BytesArrived(*body, run.start, data, run.ends, run.times)
        passing = data[: len(data) - partial]
        end = start + len(passing)
        if partial:
            self._held[body] = (end, data[len(passing) :])
        if not passing:
            return None
        ends = [*(before for before in run.ends if before < end), end]
        return BytesArrived(*body, start, passing, ends, run.times[: len(ends)])

    def release(self, exchange: int, after_ns: int) -> list[BytesArrived]:
        """Return the held bytes of an exchange whose bodies are complete, with times just after `after_ns`."""
        released = []
        for side in Side:
            start, held = self._held.pop((exchange, side), (0, b""))
            if held:
                after_ns += 1
                released.append(BytesArrived(exchange, side, start, held, (start + len(held),), (after_ns,)))
        return released

    def release_all(self, after_ns: int) -> list[BytesArrived]:
        """Return the held bytes of all exchanges."""
        released: list[BytesArrived] = []
        for exchange in dict.fromkeys(exchange for exchange, _ in self._held):
            released += self.release(exchange, after_ns + len(released))
        return released


def _overlap(data: bytes, secret: bytes) -> int:
    """Return the length of the longest end of `data` that is a beginning, but not all, of `secret`."""
    at = max(0, len(data) - len(secret) + 1)
    while (at := data.find(secret[:1], at)) >= 0:
        if secret.startswith(data[at:]):
            return len(data) - at
        at += 1
    return 0
