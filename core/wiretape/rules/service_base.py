"""Where the paths of a service begin, if the user says so."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from wiretape.bounded_dict import cache_short
from wiretape.observations import RequestStarted

_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class ServiceBase:
    """Where the paths of the service begin."""

    path: str
    """The path before `/v1`; empty, or with a slash at its beginning and none at its end."""
    origin: str | None = None
    """`http://host:port`; None for every origin."""

    def __str__(self) -> str:
        return f"{self.origin or ''}{self.path}" or "/"

    def includes(self, request: RequestStarted) -> bool:
        """Whether a request is to the origin."""
        return self.origin is None or self.origin == _origin_of(request.scheme, request.authority)


def parse_service_base(text: str) -> ServiceBase:
    """Parse a path or a URL.  Raises ValueError."""
    expected = "expected the path before /v1, such as /api/agents, or a URL such as https://service.test/api/agents"
    try:
        parts = urlsplit(text)
        is_valid = not (parts.query or parts.fragment) and text.isprintable() and " " not in text
        if is_valid and parts.scheme in _PORTS and parts.hostname and parts.port != 0 and "@" not in parts.netloc:
            return ServiceBase(parts.path.rstrip("/"), _origin_of(parts.scheme, parts.netloc))
    except ValueError as error:
        raise ValueError(f"invalid base {text!r} ({error}): {expected}") from None
    if not is_valid or parts.scheme or parts.netloc or not text.startswith("/"):
        raise ValueError(f"invalid base {text!r}: {expected}")
    return ServiceBase(text.rstrip("/"))


@cache_short
def _origin_of(scheme: str, authority: str) -> str:
    """Return `http://host:port`, in lower case and with a port."""
    host = authority.lower()
    has_port = host.rpartition(":")[2].isdigit() and not host.endswith("]")
    return f"{scheme}://{host}" if has_port else f"{scheme}://{host}:{_PORTS.get(scheme, '')}"
