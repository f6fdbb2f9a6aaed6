"""What the replay and the clients of its control API both need to know."""

import hmac
from contextlib import suppress
from urllib.parse import urlsplit

from wiretape.addresses import is_loopback_host
from wiretape.errors import InputError
from wiretape.recording import redact_urls
from wiretape.safe_text import shorten

CONTROL_ROOT = "/_wiretape/"
"""The beginning of every path of the control API."""
TOKEN_HEADER = "X-Wiretape-Token"  # noqa: S105 - a name
DEFAULT_WAIT_S = 30.0
LONGEST_WAIT_S = 600.0
MOST_STEPS = 100_000


def parse_replay_url(url: str, *, needs_loopback: bool = False) -> tuple[str, int]:
    """Return the host and the port of the replay at a URL.  Raises InputError."""
    with suppress(ValueError):
        parts = urlsplit(url)
        port, is_allowed = parts.port or 80, is_loopback_host(parts.netloc) or not needs_loopback
        if is_allowed and parts.scheme == "http" and parts.hostname and parts.path in {"", "/"} and not parts.query:
            return parts.hostname, port
    shown = shorten(redact_urls(url))
    raise InputError(
        f"Invalid replay URL '{shown}': expected the URL printed by the replay, such as http://127.0.0.1:8090."
    )


def is_secret(given: str, secret: str) -> bool:
    """Return whether a caller knows a token or a cookie; the time that this takes tells nothing about it."""
    # aiohttp keeps bytes that are not UTF-8 as lone surrogates.
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode("utf-8", "surrogateescape"))


def check_token(token: str) -> str:
    """Return a control token if a header can carry it.  Raises InputError."""
    if not token or not token.isascii() or not token.isprintable() or token != token.strip():
        raise InputError("Invalid control token: expected printable ASCII without leading or trailing spaces.")
    return token
