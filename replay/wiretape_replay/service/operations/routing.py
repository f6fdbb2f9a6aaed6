"""Which operation a request asks for.  Pure: no I/O, no clock."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

_WRITTEN = re.compile(r"([A-Z]+) (/\S*)")
_NAME = re.compile(r"\{([a-z_]+)\}")
_SEGMENT = re.compile(r"[A-Za-z0-9._~!$&'()+,;=:@-]+")
_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


@dataclass(frozen=True, slots=True)
class Route:
    """An operation's method and path; segments such as `{session_id}` take any text."""

    name: str
    method: str
    segments: tuple[str, ...]

    @classmethod
    def of(cls, name: str, text: str) -> "Route":
        """From `METHOD /path/{session_id}`.  Raises ValueError, saying what is wrong."""
        match = _WRITTEN.fullmatch(text)
        segments = match[2].removeprefix("/").split("/") if match is not None else []
        if match is None or not all(map(_is_segment, segments)):
            raise ValueError("it has to be a METHOD and a /path, such as POST /v1/sessions")
        return cls(name, match[1], tuple(segments))

    @property
    def names(self) -> frozenset[str]:
        """What stands in braces."""
        return frozenset(match[1] for match in map(_NAME.fullmatch, self.segments) if match is not None)

    @property
    def shape(self) -> tuple[object, ...]:
        """The same for routes that the same requests fit."""
        return (self.method, *(None if _NAME.fullmatch(segment) else segment for segment in self.segments))

    def ids(self, segments: Sequence[str]) -> Mapping[str, str] | None:
        """The texts in braces, when a path of these segments fits."""
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
class Found:
    """What a request asks for."""

    route: Route | None
    """None: nothing that there is."""
    ids: Mapping[str, str]
    allowed: tuple[str, ...] = ()
    """The methods that the path has; empty where no path is like it."""


def find(routes: Sequence[Route], method: str, target: str) -> Found:
    """What a request asks for; `target` is as it crossed the wire, each character one byte."""
    path = _ORIGIN.sub("", target, count=1).partition("?")[0].partition("#")[0]
    segments = path.removeprefix("/").split("/")
    fitting = [(route, ids) for route in routes if (ids := route.ids(segments)) is not None]
    for route, ids in fitting:
        if route.method == method:
            return Found(route, ids)
    return Found(None, {}, tuple(dict.fromkeys(route.method for route, _ in fitting)))


def _is_segment(text: str) -> bool:
    return bool(_SEGMENT.fullmatch(text) or _NAME.fullmatch(text))


def _decoded(segment: str) -> str:
    return unquote_to_bytes(segment.encode("latin-1", "replace")).decode("utf-8", "replace")
