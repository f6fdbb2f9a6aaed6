"""Who may use the control interface: programs of this machine that know the token, and no web page but our own.

A browser on this machine can be made to send requests anywhere, so that the address alone proves nothing: a page
of somebody else betrays itself by its Origin, and one that had its own name point here (DNS rebinding) by the Host.
"""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from wiretape_replay.control.words import TOKEN_HEADER

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the address, and the values of every header of these names."""

    address: str | None
    hosts: Sequence[str]
    origins: Sequence[str]
    tokens: Sequence[str]


def refusal(caller: Caller, token: str) -> tuple[int, str] | None:
    """The status and the sentence to refuse the caller with, or None."""
    if not is_loopback(caller.address or ""):
        return 403, "The control interface serves this machine only."
    if len(caller.hosts) != 1 or not _names_loopback(caller.hosts[0]):
        return 403, "The control interface answers to loopback names only, such as 127.0.0.1 or localhost."
    if caller.origins and list(caller.origins) != [f"http://{caller.hosts[0]}"]:
        return 403, "The control interface serves no pages of other origins."
    if not caller.tokens:
        return 401, f"The header {TOKEN_HEADER} is missing: it carries the token that the replay said when it began."
    if len(caller.tokens) != 1 or not _same(caller.tokens[0], token):
        return 401, f"The token in {TOKEN_HEADER} is not that of this replay."
    return None


def is_loopback(address: str) -> bool:
    """Whether an IP address is one of the machine itself, also as IPv6 writes those of IPv4."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped or parsed).is_loopback


def _names_loopback(host: str) -> bool:
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].strip("[]").lower()
    return name == "localhost" or is_loopback(name)


def _same(one: str, other: str) -> bool:
    # aiohttp keeps bytes that are no UTF-8 as lone surrogates.
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode("utf-8", "surrogateescape"))
