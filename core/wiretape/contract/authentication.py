"""The key that every request carries (part *Authentication*)."""

from collections.abc import Iterable

AUTHORIZATION = "Authorization"
"""The request header that carries it."""

_SCHEME = "bearer"
_PREFLIGHT_HEADER = "access-control-request-method"


def bearer_key(value: str) -> str | None:
    """The key in the value of an Authorization header, or what a recording holds in its place; None without one."""
    scheme, _, key = value.strip().partition(" ")
    return key.strip() or None if scheme.lower() == _SCHEME else None


def bearer_keys(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The keys in the headers of a request: one, unless something is wrong."""
    keys = (bearer_key(value) for name, value in headers if name.lower() == AUTHORIZATION.lower())
    return [key for key in keys if key is not None]


def is_preflight(method: str, headers: Iterable[tuple[str, str]]) -> bool:
    """Whether a browser asks what it may send; the Fetch standard has it do so without credentials."""
    return method == "OPTIONS" and any(name.lower() == _PREFLIGHT_HEADER for name, _ in headers)
