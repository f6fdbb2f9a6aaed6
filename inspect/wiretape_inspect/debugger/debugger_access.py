"""Access control of the debugger: who may read the recording, and what browsers may do with the responses.

Only the owner can read a recording's file, but every user of the machine can connect to a port, and so can every
page that a browser on this machine shows.  So a request needs the cookie that the URL with the token sets.  A page
of another site is recognized by its Origin; a site whose name points here (DNS rebinding) by the Host.  Browsers
send cookies to every port of a host, so the name of the cookie contains the port.
"""

import hmac
import secrets
from dataclasses import dataclass, field

from aiohttp import web

from wiretape.addresses import is_loopback, is_loopback_host

WRITE_HEADER = "X-Wiretape-Debug"
"""Requests that change something need this header: no form and no page of another origin can send it."""
NO_CONTENT_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The Content-Security-Policy of responses other than the page."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": NO_CONTENT_POLICY,
}
_WRITING = frozenset({"POST", "DELETE"})
_OWN_SITE = frozenset({"same-origin", "none"})


@dataclass(frozen=True, slots=True)
class Access:
    """The secrets of one debugger: the token in its URL, and the cookie that the browser gets for it."""

    token: str = field(default_factory=lambda: secrets.token_hex(16))
    cookie: str = field(default_factory=lambda: secrets.token_hex(16))

    def has_token(self, request: web.Request) -> bool:
        """Whether the URL contains the token."""
        return _is_equal(request.query.get("token", ""), self.token)

    def has_cookie(self, request: web.Request) -> bool:
        """Whether the browser was let in before."""
        return _is_equal(request.cookies.get(_cookie_name(request), ""), self.cookie)

    def set_cookie(self, request: web.Request, response: web.StreamResponse) -> None:
        """Let the browser in from now on."""
        response.set_cookie(_cookie_name(request), self.cookie, httponly=True, samesite="Strict", path="/")


def find_refusal(request: web.Request) -> str | None:
    """Return why a request is refused with status 403, whatever its cookie; None if it is not."""
    hosts, origins = request.headers.getall("Host", []), request.headers.getall("Origin", [])
    if not is_loopback(request.remote or ""):
        return "The debugger serves only this machine."
    if len(hosts) != 1 or not is_loopback_host(hosts[0]):
        return "The debugger responds only to loopback host names, such as 127.0.0.1 or localhost."
    if origins and origins != [f"http://{hosts[0]}"]:
        return "The debugger does not serve pages of other origins."
    if request.path.startswith("/api/") and request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITE:
        return "The debugger does not serve pages of other origins."
    if request.method in _WRITING and request.headers.get(WRITE_HEADER) != "1":
        return f"{request.method} requests need the header {WRITE_HEADER}: 1."
    return None


async def add_security_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Forbid caching, framing and use by other sites; an `on_response_prepare` signal of aiohttp."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _cookie_name(request: web.Request) -> str:
    transport = request.transport
    name = transport.get_extra_info("sockname") if transport is not None else None
    return f"wiretape-{name[1]}" if name else "wiretape"


def _is_equal(given: str, secret: str) -> bool:
    # aiohttp keeps bytes that are not UTF-8 as lone surrogates.
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())
