"""The token of the control interface, and the command line that carries it."""

import secrets
from ipaddress import ip_address
from urllib.parse import urlsplit

from wiretape.addresses import is_loopback
from wiretape.debugger_process import TOKEN_VARIABLE
from wiretape.errors import InputError

VARIABLE = TOKEN_VARIABLE
"""The environment variable that commands take it from."""


def new_token() -> str:
    """Another one for each replay; of characters that are safe on every command line and in every header."""
    return secrets.token_hex(16)


def check_token(token: str) -> str:
    """The token that somebody chose, if it can be sent in a header.  Raises InputError."""
    if not token or not token.isascii() or not token.isprintable() or token != token.strip():
        raise InputError("A control token is printable ASCII without space at its ends, and not empty.")
    return token


def control_command_line(url: str, token: str | None) -> str | None:
    """What controls the replay at `url`; None where it cannot be reached by a loopback address.

    Without `token`, whoever runs it has to know it.
    """
    here = loopback_url(url)
    carried = f" --token {token}" if token else ""
    return f"wiretape control {here} state{carried}" if here else None


def loopback_url(url: str) -> str | None:
    """Where this machine reaches the replay at `url`; None where it cannot by a loopback address."""
    where = urlsplit(url)
    host = where.hostname or ""
    if host not in {"localhost", "127.0.0.1"}:
        address = ip_address(host)
        if address.is_unspecified:
            host = "127.0.0.1" if address.version == 4 else "[::1]"
        elif is_loopback(host):
            host = f"[{host}]" if address.version == 6 else host
        else:
            return None
    return f"http://{host}:{where.port}"
