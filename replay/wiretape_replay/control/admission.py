"""Who may use the control interface: programs of this machine that know the token, and no web page but our own.

A browser on this machine can be made to send requests anywhere, so that the address alone proves nothing: a page
of somebody else betrays itself by its Origin, and one that had its own name point here (DNS rebinding) by the Host.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from wiretape.addresses import is_loopback, is_loopback_host
from wiretape.control_protocol import TOKEN_HEADER


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
    if len(caller.hosts) != 1 or not is_loopback_host(caller.hosts[0]):
        return 403, "The control interface answers to loopback names only, such as 127.0.0.1 or localhost."
    if caller.origins and list(caller.origins) != [f"http://{caller.hosts[0]}"]:
        return 403, "The control interface serves no pages of other origins."
    if not caller.tokens:
        return 401, f"The header {TOKEN_HEADER} is missing: it carries the token that the replay said when it began."
    if len(caller.tokens) != 1 or not _same(caller.tokens[0], token):
        return 401, f"The token in {TOKEN_HEADER} is not that of this replay."
    return None


def _same(one: str, other: str) -> bool:
    # aiohttp keeps bytes that are no UTF-8 as lone surrogates.
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode("utf-8", "surrogateescape"))
