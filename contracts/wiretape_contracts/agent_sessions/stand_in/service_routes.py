"""Routes: which operation a request is for.  Pure: no I/O, no clock."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote_to_bytes

from wiretape.input_validation import choices_hint

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""The methods that an operation can have; HEAD, OPTIONS, TRACE and CONNECT have their own meaning."""
_PARAMETER = re.compile(r"\{([a-z_]+)\}")
_ROUTE = re.compile(r"([A-Z]+) ((?:/(?:[A-Za-z0-9._~!$&'()+,;=:@-]+|\{[a-z_]+\}))+)")
_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


@dataclass(frozen=True)
class Route:
    """The method and path of an operation; a segment such as `{session_id}` matches any text."""

    name: str
    method: str
    path: str

    @classmethod
    def parse(cls, name: str, text: str) -> "Route":
        """Parse `METHOD /path/{session_id}`.  Raises ValueError, with the reason."""
        match = _ROUTE.fullmatch(text)
        if match is None:
            raise ValueError("expected a method and a path, for example POST /v1/sessions")
        method, path = match.groups()
        if method not in _METHODS:
            raise ValueError(f"{method} is not a method for an operation{choices_hint(method, _METHODS)}")
        return cls(name, method, path)

    @property
    def parameters(self) -> Sequence[str]:
        """The names in braces."""
        return _PARAMETER.findall(self.path)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches paths; the groups are the parameters."""
        parts = _PARAMETER.split(self.path)
        return re.compile("".join(f"(?P<{part}>[^/]+)" if at % 2 else re.escape(part) for at, part in enumerate(parts)))

    @property
    def shape(self) -> tuple[str, str]:
        """Equal for routes that match the same requests."""
        return self.method, _PARAMETER.sub("{}", self.path)


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """The route of a request."""

    route: Route | None
    """None: the request does not match any route."""
    ids: Mapping[str, str]
    allowed_methods: tuple[str, ...] = ()
    """The methods of the path, if only the method does not match."""


def find_route(routes: Sequence[Route], method: str, target: str) -> RouteMatch:
    """Find the route of a request; `target` is as sent, each character one byte."""
    path = _ORIGIN.sub("", target, count=1).partition("?")[0].partition("#")[0]
    matches = [(route, match) for route in routes if (match := route.pattern.fullmatch(path)) is not None]
    for route, match in matches:
        if route.method == method:
            return RouteMatch(route, {name: _decoded(value) for name, value in match.groupdict().items()})
    return RouteMatch(None, {}, tuple(dict.fromkeys(route.method for route, _ in matches)))


def _decoded(segment: str) -> str:
    return unquote_to_bytes(segment.encode("latin-1", "replace")).decode("utf-8", "replace")
