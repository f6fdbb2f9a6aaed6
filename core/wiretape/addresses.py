"""Parse and format network addresses.

The upstream of a recording is the URL of the service that the user named, or several of them; empty if none.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from wiretape.errors import InputError

_ADDRESS = re.compile(r"(?:(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]\s]+))?:)?([0-9]{1,5})", re.ASCII)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
_BASE = re.compile(r"(?:/[!$&-;=@-Z_a-z~%]+)*")
_WITHOUT_SCHEME = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/.*)?")
_PORTS = {"http": 80, "https": 443}
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


def refuse_caller(server: str, remote: str, hosts: Sequence[str], origins: Sequence[str]) -> str | None:
    """Return why a local server refuses a request, whatever its secrets; None if it does not.

    `server` is what messages call it, `remote` the address of the client, and the others are the values of the headers
    `Host` and `Origin`.  A browser on this machine can be made to send requests to any address.  A foreign page is
    recognised by its `Origin`; one whose own host name was made to resolve to this machine (DNS rebinding), by `Host`.
    """
    if not is_loopback(remote):
        return f"{server} serves only this machine."
    if len(hosts) != 1 or not is_loopback_host(hosts[0]):
        return f"{server} responds only to loopback host names, such as 127.0.0.1 or localhost."
    if origins and origins != [f"http://{hosts[0]}"]:
        return f"{server} does not serve pages of other origins."
    return None


def origin_of(host: str, port: int) -> str:
    """Return `http://HOST:PORT`, with brackets around an IPv6 host."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def join_upstreams(upstreams: Iterable[str]) -> str:
    """Return the upstream for several of them, each URL once; empty if none names a URL."""
    return _SEPARATOR.join(dict.fromkeys(url for upstream in upstreams for url in split_upstreams(upstream) if url))


def split_upstreams(upstream: str) -> list[str]:
    """Return the URLs of an upstream, which may be any text."""
    return upstream.split(_SEPARATOR)


class Upstream(Struct, frozen=True):
    """The address of a service."""

    scheme: str
    host: str
    port: int
    base: str = ""
    """The path before all paths of the service, such as `/agents`; may be empty."""

    @property
    def authority(self) -> str:
        """Host and port; an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL."""
        return f"{self.origin}{self.base}"

    @property
    def origin(self) -> str:
        """The URL without the base path."""
        return f"{self.scheme}://{self.authority}"

    def contains(self, path: str) -> bool:
        """Whether a path (or target) is below the base path."""
        return path == self.base or path.startswith((f"{self.base}/", f"{self.base}?"))


def parse_upstream(text: str, name: str = "upstream") -> Upstream:
    """Parse the URL of a service; messages call it `name`.  Raises ValueError."""
    example = text if _WITHOUT_SCHEME.fullmatch(text) else "127.0.0.1:9000"
    expected = f"expected an http or https URL, for example http://{example}"
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"invalid {name} {text!r} ({error}): {expected}") from None
    if scheme not in _PORTS or not host or port == 0:
        raise ValueError(f"invalid {name} {text!r}: {expected}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"invalid {name} {scheme}://{host}: remove the user name, query and fragment")
    base = parts.path.rstrip("/")
    if not _BASE.fullmatch(base):
        raise ValueError(f"invalid {name} path {base!r}: percent-encode special characters")
    return Upstream(scheme, host, port or _PORTS[scheme], base)


def require_upstream(text: str) -> Upstream:
    """Parse the URL of a service that the user named.  Raises InputError."""
    try:
        return parse_upstream(text)
    except ValueError as error:
        message = str(error)
        raise InputError(f"{message[0].upper()}{message[1:]}.") from None
