"""Who may use the control API: programs of this machine that know the control token, and no foreign web page.

A browser on this machine can be made to send requests to any address, so a loopback address alone proves nothing.  A
foreign page is recognised by its `Origin`; a page whose own host name was made to resolve to this machine (DNS
rebinding) is recognised by the `Host`.
"""

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from wiretape.addresses import is_loopback, is_loopback_host
from wiretape.control_protocol import TOKEN_HEADER
from wiretape.errors import InputError


@dataclass(frozen=True, slots=True)
class Caller:
    """The address of a caller, and all values of the headers that identify it."""

    address: str | None
    hosts: Sequence[str]
    origins: Sequence[str]
    tokens: Sequence[str]


def find_refusal(caller: Caller, token: str) -> tuple[int, str] | None:
    """The status and the message of the error response for a caller who may not use the API; None for others."""
    if not is_loopback(caller.address or ""):
        return 403, "The control API is only available to programs of the same machine."
    if len(caller.hosts) != 1 or not is_loopback_host(caller.hosts[0]):
        return 403, "The control API is only available at a loopback address, such as 127.0.0.1 or localhost."
    if caller.origins and list(caller.origins) != [f"http://{caller.hosts[0]}"]:
        return 403, "The control API is not available to web pages of other origins."
    if not caller.tokens:
        return 401, f"The header {TOKEN_HEADER} is missing: send the control token that the replay printed."
    if len(caller.tokens) != 1 or not _is_equal(caller.tokens[0], token):
        return 401, f"The token in {TOKEN_HEADER} is not the control token of this replay."
    return None


def _is_equal(one: str, other: str) -> bool:
    # aiohttp keeps bytes that are not UTF-8 as lone surrogates.
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode("utf-8", "surrogateescape"))


def create_token() -> str:
    """A new control token, of characters that are safe on every command line and in every header."""
    return secrets.token_hex(16)


def check_token(token: str) -> str:
    """Return a token that was chosen by a person if a header can carry it.  Raises InputError."""
    if not token or not token.isascii() or not token.isprintable() or token != token.strip():
        raise InputError("Invalid control token: expected printable ASCII without leading or trailing spaces.")
    return token


def control_command_line(url: str, token: str | None) -> str | None:
    """The command that controls the replay at `url`; None if no loopback address reaches it.

    Without `token`, the command leaves the token out.
    """
    local_url = loopback_url(url)
    option = f" --token {token}" if token else ""
    return f"wiretape control {local_url} state{option}" if local_url else None


def loopback_url(url: str) -> str | None:
    """The URL at which this machine reaches the replay at `url` by a loopback address; None if there is none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host not in {"localhost", "127.0.0.1"}:
        address = ip_address(host)
        if address.is_unspecified:
            host = "127.0.0.1" if address.version == 4 else "[::1]"
        elif is_loopback(host):
            host = f"[{host}]" if address.version == 6 else host
        else:
            return None
    return f"http://{host}:{parts.port}"
