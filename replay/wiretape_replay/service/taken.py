"""Names that mean something already: settings that would take them cannot work.  Pure: no I/O, no clock."""

import re

from wiretape.contract import CURSOR_HEADER, RETRY_AFTER
from wiretape.control_protocol import CONTROL_ROOT, TOKEN_HEADER
from wiretape.toml import hint
from wiretape_replay.service.operations.routing import Route

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""Those that an operation can have; HEAD, OPTIONS, TRACE and CONNECT mean something else."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What the name of a header is made of (RFC 9110)."""
_HEADERS = (
    *("Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Allow", "Authorization", "Cache-Control"),
    *("Connection", "Cookie", "Date", "Expect", "Forwarded", "From", "Host", "Keep-Alive", "Last-Modified"),
    *("Max-Forwards", "Origin", "Pragma", "Proxy-Authorization", "Proxy-Connection", "Range", "Referer", "TE"),
    *("Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via", CURSOR_HEADER, RETRY_AFTER, TOKEN_HEADER),
)
_BEGINNINGS = ("access-control-", "content-", "if-", "sec-", "x-forwarded-")


def why_no_header(name: str) -> str | None:
    """Why a header of this name cannot carry an idempotency key; None where it can."""
    if not _TOKEN.fullmatch(name):
        return "it has to be the name of a header"
    lower = name.lower()
    if lower in {header.lower() for header in _HEADERS} or lower.startswith(_BEGINNINGS):
        return "this header means something else; take another, such as Idempotency-Key"
    return None


def why_no_operation(route: Route) -> str | None:
    """Why no operation can have this method and path; None where one can."""
    if route.method not in METHODS:
        return f"there is no method {route.method} for it{hint(route.method, METHODS)}"
    if route.segments[0] == CONTROL_ROOT.strip("/"):
        return f"what begins with {CONTROL_ROOT} is the control interface's"
    return None
