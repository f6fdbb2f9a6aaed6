"""Parse and format network addresses.

The upstream of a recording is the URL of the service that the user named, or several of them; empty if none.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

from wiretape.errors import InputError

_ADDRESS = re.compile(r"(?:(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]\s]+))?:)?([0-9]{1,5})", re.ASCII)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
_LAST_PORT = 65535
_SEPARATOR = ", "
"""Between the URLs of an upstream."""


def parse_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, with brackets around an IPv6 host; without a host it is 127.0.0.1.  Raises InputError."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise InputError(f"Invalid address {text!r}: expected HOST:PORT, for example 127.0.0.1:8090, [::1]:0 or 8090.")
    if int(match[3]) > _LAST_PORT:
        raise InputError(f"Invalid address {text!r}: ports go up to {_LAST_PORT}.")
    return match[1] or match[2] or "127.0.0.1", int(match[3])


def is_loopback(host: str) -> bool:
    """Whether an IP address is a loopback address, including IPv4 addresses mapped to IPv6."""
    try:
        parsed = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped or parsed).is_loopback


def is_loopback_host(host: str) -> bool:
    """Whether the value of a Host header is `localhost` or a loopback address."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].strip("[]").lower()
    return name == "localhost" or is_loopback(name)


def origin_of(host: str, port: int) -> str:
    """Return `http://HOST:PORT`, with brackets around an IPv6 host."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def join_upstreams(upstreams: Iterable[str]) -> str:
    """Return the upstream for several of them, each URL once; empty if none names a URL."""
    return _SEPARATOR.join(dict.fromkeys(url for upstream in upstreams for url in split_upstreams(upstream) if url))


def split_upstreams(upstream: str) -> list[str]:
    """Return the URLs of an upstream, which may be any text."""
    return upstream.split(_SEPARATOR)
