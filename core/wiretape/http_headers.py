"""Headers of requests and responses that several parts of the program read."""

from collections.abc import Iterable

AUTHORIZATION = "Authorization"
"""The request header that carries the credentials."""

LAST_EVENT_ID = "Last-Event-ID"
"""The request header with which clients resume a stream: the last SSE id that they received (WHATWG HTML)."""

RETRY_AFTER = "Retry-After"
"""The response header with the number of seconds to wait after too many requests."""

_AUTHORIZATION = AUTHORIZATION.lower()


def cursor_in(value: str | None) -> str | None:
    """Return the cursor in the value of a header such as Last-Event-ID; None if it is empty."""
    # Headers are decoded as latin-1, events as UTF-8.
    return (value or "").encode("latin-1", "replace").decode("utf-8", "replace") or None


def bearer_key(value: str) -> str | None:
    """Return the key, or its fingerprint, in the value of an Authorization header; None if it has none."""
    scheme, _, key = value.strip().partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def bearer_keys(headers: Iterable[tuple[str, str]]) -> list[str]:
    """Return the keys in the headers of a request: normally one."""
    values = [value for name, value in headers if name.lower() == _AUTHORIZATION]
    return [key for value in values if (key := bearer_key(value)) is not None]


def is_preflight(method: str, headers: Iterable[tuple[str, str]]) -> bool:
    """Whether a request is a CORS preflight, which browsers send without credentials."""
    return method == "OPTIONS" and any(name.lower() == "access-control-request-method" for name, _ in headers)
