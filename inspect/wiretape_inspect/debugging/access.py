"""Who may see the recording: whoever was shown the address with its token, and no web page but our own.

A recording's file can be read by its owner only, but a port is open to every user of the machine, and to every
page in a browser on it: one of somebody else betrays itself by its Origin, and one that had its own name point
here (DNS rebinding) by the Host.  A browser sends cookies to every port of a host, so ours is called by the port.
"""

import hmac
import secrets
from dataclasses import dataclass, field

from aiohttp import web

from wiretape.addresses import is_loopback, is_loopback_host

MARK = "X-Wiretape-Debug"
"""The header without which nothing is changed: no form can send it, and no page of another origin."""
_CHANGING = frozenset({"POST", "DELETE"})
_OURS = frozenset({"same-origin", "none"})


def _secret() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Access:
    """The two secrets of one run: what the address holds, and what the browser keeps in its place."""

    token: str = field(default_factory=_secret)
    cookie: str = field(default_factory=_secret)

    def refusal(self, request: web.Request) -> tuple[int, str] | None:
        """The status and the sentence to refuse a request with, or None."""
        return foreign(request) or self._stranger(request)

    def _stranger(self, request: web.Request) -> tuple[int, str] | None:
        if not _same(request.cookies.get(cookie_name(request), ""), self.cookie):
            return 401, "Open the address that `wiretape debug` said when it began: it holds a token."
        return None

    def opens(self, request: web.Request) -> bool:
        """Whether the address holds the token."""
        return _same(request.query.get("token", ""), self.token)

    def let_in(self, request: web.Request, response: web.StreamResponse) -> None:
        """Give the browser what it shows from now on."""
        response.set_cookie(cookie_name(request), self.cookie, httponly=True, samesite="Strict", path="/")


def cookie_name(request: web.Request) -> str:
    """What the cookie of this server is called."""
    transport = request.transport
    name = transport.get_extra_info("sockname") if transport is not None else None
    return f"wiretape-{name[1]}" if name else "wiretape"


def foreign(request: web.Request) -> tuple[int, str] | None:
    """The status and the sentence for a request that is not from this machine, or from somebody else's page."""
    hosts, origins = request.headers.getall("Host", []), request.headers.getall("Origin", [])
    if not is_loopback(request.remote or ""):
        return 403, "The debugger serves this machine only."
    if len(hosts) != 1 or not is_loopback_host(hosts[0]):
        return 403, "The debugger answers to loopback names only, such as 127.0.0.1 or localhost."
    if origins and origins != [f"http://{hosts[0]}"]:
        return 403, "The debugger serves no pages of other origins."
    if request.path.startswith("/api/") and request.headers.get("Sec-Fetch-Site", "none") not in _OURS:
        return 403, "The debugger serves no pages of other origins."
    if request.method in _CHANGING and request.headers.get(MARK) != "1":
        return 403, f"Without the header {MARK}: 1 nothing is changed."
    return None


def _same(one: str, other: str) -> bool:
    # aiohttp keeps bytes that are no UTF-8 as lone surrogates.
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())
