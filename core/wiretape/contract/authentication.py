"""The key that every request carries (part *Authentication*)."""

AUTHORIZATION = "Authorization"
"""The request header that carries it."""

_SCHEME = "bearer"


def bearer_key(value: str) -> str | None:
    """The key in the value of an Authorization header, or what a recording holds in its place; None without one."""
    scheme, _, key = value.strip().partition(" ")
    return key.strip() or None if scheme.lower() == _SCHEME else None
