"""Routes: which operation a request is for.  Pure: no I/O, no clock."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from wiretape.control_protocol import CONTROL_ROOT
from wiretape.input_validation import choices_hint

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""The methods that an operation can have; HEAD, OPTIONS, TRACE and CONNECT have their own meaning."""
_ROUTE = re.compile(r"([A-Z]+) (/\S*)")
_NAME = re.compile(r"\{([a-z_]+)\}")
_SEGMENT = re.compile(r"[A-Za-z0-9._~!$&'()+,;=:@-]+")
_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


@dataclass(frozen=True, slots=True)
class Route:
    """The method and path of an operation; a segment such as `{session_id}` matches any text."""

    name: str
    method: str
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, name: str, text: str) -> "Route":
        """Parse `METHOD /path/{session_id}`.  Raises ValueError, with the reason."""
        match = _ROUTE.fullmatch(text)
        segments = match[2].removeprefix("/").split("/") if match is not None else []
        if match is None or not all(map(_is_segment, segments)):
            raise ValueError("expected a method and a path, for example POST /v1/sessions")
        return cls(name, match[1], tuple(segments))

    @property
    def parameters(self) -> frozenset[str]:
        """The names in braces."""
        return frozenset(match[1] for match in map(_NAME.fullmatch, self.segments) if match is not None)

    @property
    def shape(self) -> tuple[object, ...]:
        """Equal for routes that match the same requests."""
        return (self.method, *(None if _NAME.fullmatch(segment) else segment for segment in self.segments))

    @property
    def conflict(self) -> str | None:
        """Why an operation cannot have this method and path; None if it can."""
        if self.method not in METHODS:
            return f"{self.method} is not a method for an operation{choices_hint(self.method, METHODS)}"
        if self.segments[0] == CONTROL_ROOT.strip("/"):
            return f"paths under {CONTROL_ROOT} belong to the control API"
        return None

    def match(self, segments: Sequence[str]) -> Mapping[str, str] | None:
        """The values of the parameters if a path of these segments matches; None otherwise."""
        if len(segments) != len(self.segments):
            return None
        ids = {}
        for expected, segment in zip(self.segments, segments, strict=True):
            match = _NAME.fullmatch(expected)
            if match is not None and segment:
                ids[match[1]] = _decoded(segment)
            elif expected != segment:
                return None
        return ids


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
    segments = path.removeprefix("/").split("/")
    matching = [(route, ids) for route in routes if (ids := route.match(segments)) is not None]
    for route, ids in matching:
        if route.method == method:
            return RouteMatch(route, ids)
    return RouteMatch(None, {}, tuple(dict.fromkeys(route.method for route, _ in matching)))


def _is_segment(text: str) -> bool:
    return bool(_SEGMENT.fullmatch(text) or _NAME.fullmatch(text))


def _decoded(segment: str) -> str:
    return unquote_to_bytes(segment.encode("latin-1", "replace")).decode("utf-8", "replace")
