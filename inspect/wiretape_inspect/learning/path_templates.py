"""The operations of an API, found in the paths of its requests."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wiretape.observations import RequestStarted
from wiretape.patterns import LONGEST, path_of

_MOST_PATHS = 5_000
_MOST_OPERATIONS = 100
_FEW_NAMES = 5
"""Segments with the same continuation that may all be fixed; of more, each is the value of a parameter."""
_VERSION = re.compile(r"v\d{1,3}([a-z]+\d*)?")
_VALUE = re.compile(r"\d+|[A-Za-z]{1,20}[_-][A-Za-z0-9_-]*\d[A-Za-z0-9_-]*|(?=.*\d)[A-Za-z0-9_.~%-]{8,}")
"""Segments that are names of single things, such as `7`, `ses_1` or a UUID."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PLAIN = re.compile(r"[\x21-\x7e]+")
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundOperation:
    """Requests with one method and one kind of path."""

    name: str
    request: str
    """The method and the path, with parameters in braces."""
    requests: int
    streams: int
    """How many of the responses are event streams."""

    @property
    def method(self) -> str:
        """The method."""
        return self.request.partition(" ")[0]


class PathTemplates:
    """Collects requests, and finds their operations."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, _Path]] = Counter()
        self._streams: Counter[tuple[str, _Path]] = Counter()

    def add(self, request: RequestStarted, *, is_stream: bool) -> None:
        """Add a request that was successful."""
        path = path_of(request.target)
        key = request.method, tuple(path.split("/")[1:])
        is_known = key in self._requests or len(self._requests) < _MOST_PATHS
        is_usable = request.method.isascii() and request.method.isalpha() and request.method.isupper()
        if (
            is_known
            and is_usable
            and len(path) < LONGEST - 20
            and _PLAIN.fullmatch(path)
            and not set("{}*") & set(path)
        ):
            self._requests[key] += 1
            self._streams[key] += is_stream

    def find(self) -> list[FoundOperation]:
        """Return the operations: those with streams first, and fixed paths before parameters."""
        rows: Counter[str] = Counter()
        streams: Counter[str] = Counter()
        for method in sorted({method for method, _ in self._requests}):
            paths = sorted(path for each, path in self._requests if each == method)
            for path, template in _templates(paths, ()):
                request = f"{method} /{'/'.join(template)}"
                rows[request] += self._requests[method, path]
                streams[request] += self._streams[method, path]
        order = sorted(rows, key=lambda request: (not streams[request], request.count("{"), request))
        found: dict[str, FoundOperation] = {}
        for request in order[:_MOST_OPERATIONS]:
            name = unique_name(_operation_name(request), found)
            found[name] = FoundOperation(name, request, rows[request], streams[request])
        return list(found.values())


def _templates(paths: Iterable[_Path], before: _Path) -> Iterator[tuple[_Path, _Path]]:
    """Yield each path with its template; all begin with segments whose template is `before`."""
    depth = len(before)
    inner: dict[str, list[_Path]] = {}
    for path in paths:
        if len(path) == depth:
            yield path, before
        else:
            inner.setdefault(path[depth], []).append(path)
    rests = {segment: frozenset(path[depth + 1 :] for path in within) for segment, within in inner.items()}
    alike = Counter(rests.values())
    values = {segment for segment in inner if _VALUE.fullmatch(segment) and not _VERSION.fullmatch(segment)}
    values |= {segment for segment, rest in rests.items() if alike[rest] > _FEW_NAMES and segment}
    # One that goes on as a value does is a value as well, unless that is the end of the path.
    ends = {rest for segment in values for rest in rests[segment]} - {()}
    values |= {segment for segment, rest in rests.items() if segment and ends.intersection(rest)}
    for segment in sorted(inner.keys() - values):
        yield from _templates(inner[segment], (*before, segment))
    merged = [path for segment in sorted(values) for path in inner[segment]]
    if merged:
        yield from _templates(merged, (*before, f"{{{_parameter_name(before)}}}"))


def _parameter_name(before: _Path) -> str:
    """Return a name for the segment after some others: that of one thing, if these end with a plural."""
    fixed = next((segment for segment in reversed(before) if not segment.startswith("{")), "")
    name = re.sub(r"[^a-z0-9]+", "_", fixed.lower()).strip("_")[:30]
    if name.endswith("ies") and len(name) > 4:
        name = name[:-3] + "y"
    elif name.endswith("s") and not name.endswith("ss") and len(name) > 3:
        name = name[:-1]
    name = name if re.match("[a-z]", name) else "id"
    return unique_name(name, [segment[1:-1] for segment in before])


def _operation_name(request: str) -> str:
    method, _, path = request.partition(" ")
    words = [word for word in path.split("/") if word and not word.startswith("{") and not _VERSION.fullmatch(word)]
    return slug(f"{method} {' '.join(words[-2:])}")


def slug(text: str) -> str:
    """Return the letters and digits of a text in lower case, with hyphens between them, and at most 40 characters."""
    words = _CAMEL.sub("-", text).lower()
    return re.sub(r"[^a-z0-9]+", "-", words)[:40].strip("-") or "other"


def unique_name(name: str, taken: "Iterable[str] | Mapping[str, Any]", separator: str = "") -> str:
    """Return a name, with a number if it is taken."""
    known = set(taken)
    number = 2
    found = name
    while found in known:
        found, number = f"{name}{separator}{number}", number + 1
    return found
