"""Patterns of contracts: globs, JSON pointers and paths.  Matching takes linear time, whoever wrote the pattern."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from wiretape.bounded_dict import put_bounded

MISSING: Final = ...
"""Stands for a value that does not exist."""
LONGEST = 300
"""Longest pattern, and longest type of an event that can match one, in characters."""
_MOST_CACHED = 1000
_MOST_STEPS = 20
_MOST_ASTERISKS = 5
_MOST_PARAMETERS = 1000
_PARAMETER = re.compile(r"\{.+\}")


def list_of(texts: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return one text, some or none as a tuple."""
    return (texts,) if isinstance(texts, str) else tuple(texts or ())


class Globs:
    """Texts that match one of some globs: `*` stands for any characters, everything else for itself."""

    def __init__(self, patterns: str | Iterable[str]) -> None:
        """Raises ValueError."""
        self.patterns = list_of(patterns)
        if unfit := [each for each in self.patterns if each.count("*") > _MOST_ASTERISKS]:
            raise ValueError(f"expected at most {_MOST_ASTERISKS} asterisks, got {unfit[0][:60]!r}")
        self._parts = [pattern.split("*") for pattern in self.patterns]
        self._has_all = "*" in self.patterns
        self._cached: dict[str, bool] = {}

    def __str__(self) -> str:
        quoted = [f"`{pattern}`" for pattern in self.patterns[:5]]
        if len(self.patterns) > len(quoted):
            quoted.append(f"{len(self.patterns) - len(quoted)} more")
        return " or ".join(quoted) or "none"

    def matches(self, text: str) -> bool:
        """Whether the text matches; one that is too long matches `*` alone."""
        if self._has_all or len(text) > LONGEST:
            return self._has_all
        found = self._cached.get(text)
        if found is None:
            found = any(_matches(parts, text) for parts in self._parts)
            put_bounded(self._cached, text, found, _MOST_CACHED)
        return found


def _matches(parts: list[str], text: str) -> bool:
    first, *middle = parts
    if not middle:
        return text == first
    last = middle.pop()
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    # The leftmost place of each part leaves the most for the others, so nothing is tried twice.
    begin, end = len(first), len(text) - len(last)
    for part in middle:
        at = text.find(part, begin, end)
        if at < 0:
            return False
        begin = at + len(part)
    return True


class Pointer:
    """A JSON pointer (RFC 6901)."""

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        if not text.startswith("/"):
            raise ValueError(f"expected a JSON pointer such as /response/id, got {text!r}")
        if len(text) > LONGEST or text.count("/") > _MOST_STEPS:
            raise ValueError(f"expected a JSON pointer of at most {_MOST_STEPS} steps and {LONGEST} characters")
        if re.search(r"~(?![01])", text):
            raise ValueError(f"expected 0 or 1 after each ~ in a JSON pointer, got {text!r}")
        self.text = text
        self.steps = [step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")]
        self._steps = [(step, int(step) if step.isascii() and step.isdigit() else None) for step in self.steps]

    def __str__(self) -> str:
        return self.text

    @property
    def key(self) -> str | None:
        """The key of an object, if the pointer is nothing else."""
        return self._steps[0][0] if len(self._steps) == 1 and self._steps[0][1] is None else None

    @property
    def name(self) -> str:
        """How it is written with dots: `error.details[0].path`."""
        return "".join(f".{step}" if index is None else f"[{index}]" for step, index in self._steps).removeprefix(".")

    def read(self, value: Any) -> Any:
        """Return the value that the pointer points to, or MISSING."""
        for step, index in self._steps:
            if type(value) is dict:
                value = value.get(step, MISSING)
            elif type(value) is list and index is not None and index < len(value):
                value = value[index]
            else:
                return MISSING
        return value

    def holder(self, document: Any) -> tuple[Any, Any]:
        """Return the object or list with the value, which exists, and its key or index."""
        *outer, last = self.steps
        for step in outer:
            document = document[int(step) if isinstance(document, list) else step]
        return document, int(last) if isinstance(document, list) else last


def set_value(document: dict[str, Any], steps: Sequence[str], value: Any) -> None:
    """Set the value at the steps of a pointer, in objects that are made as needed."""
    *outer, last = steps
    for step in outer:
        document = document.setdefault(step, {})
    document[last] = value


class RequestPattern:
    """A method and a path: `GET /tickets/{ticket}/events`.

    `{name}` stands for one segment, a `*` at the beginning or the end for any number, and `*` instead of the method for
    every method.
    """

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        method, _, path = text.partition(" ")
        self.text = text
        self.method = method
        self._segments = path.split("/")[1:]
        is_valid = method == "*" or (method.isascii() and method.isalpha() and method.isupper())
        if not is_valid or not path.startswith("/") or not path.isprintable() or set(" ?#") & set(path):
            raise ValueError(f"expected a method and a path, such as GET /tickets/{{ticket}}, got {text!r}")
        begins, ends = self._segments[0] == "*", self._segments[-1] == "*"
        if "*" in self._segments[1:-1] or (begins and ends and len(self._segments) > 1):
            raise ValueError(f"expected * only as the first or the last part of the path, got {text!r}")
        self._begins_anywhere, self._ends_anywhere = begins and not ends, ends
        fixed = self._segments[1:] if self._begins_anywhere else self._segments[:-1] if ends else self._segments
        self._fixed = [(segment, segment[1:-1] if _PARAMETER.fullmatch(segment) else None) for segment in fixed]
        """The segments, and the names of those in braces."""
        self.parameters = [name for _, name in self._fixed if name is not None]
        """The names in braces."""
        if len(set(self.parameters)) < len(self.parameters):
            raise ValueError(f"expected each name in braces once, got {text!r}")

    def match(self, method: str, target: str) -> Mapping[str, str] | None:
        """Return the segments that the names in braces stand for, decoded; None if the request does not match."""
        if self.method not in {"*", method}:
            return None
        segments = path_of(target).split("/")[1:]
        others = len(segments) - len(self._fixed)
        if others != 0 if not (self._begins_anywhere or self._ends_anywhere) else others < self._ends_anywhere:
            return None
        found: dict[str, str] = {}
        for (expected, name), segment in zip(self._fixed, segments[others * self._begins_anywhere :], strict=False):
            text = decode_segment(segment)
            if name is not None and text:
                found[name] = text
            elif expected != text:
                return None
        return found

    @property
    def route(self) -> str:
        """The path, without what may be before it."""
        return "/".join(["", *(segment for segment, _ in self._fixed), *("*",) * self._ends_anywhere])

    def base_of(self, target: str) -> str:
        """Return what precedes the path in a request that matches; empty unless the pattern begins with a `*`."""
        segments = path_of(target).split("/")[1:]
        others = (len(segments) - len(self._fixed)) * self._begins_anywhere
        return "".join(f"/{segment}" for segment in segments[:others])

    def find_parameter(self, name: str, target: str) -> tuple[str, str] | None:
        """Return the base path, and what a name stands for, in any path that begins as the pattern does up to it."""
        before = self._fixed[: next(at for at, (_, each) in enumerate(self._fixed) if each == name)]
        segments = path_of(target).split("/")[1:]
        places = len(segments) - len(before)
        for start in range(places if self._begins_anywhere else min(1, places)):
            pairs = zip(before, segments[start:], strict=False)
            found = decode_segment(segments[start + len(before)])
            if found and all(each is not None or text == decode_segment(segment) for (text, each), segment in pairs):
                return "".join(f"/{each}" for each in segments[:start]), found
        return None

    def example(self) -> str:
        """Return a request that matches."""
        method = "GET" if self.method == "*" else self.method
        parts = [name or text for text, name in self._fixed] + ["stream"] * self._ends_anywhere
        return f"{method} /{'/'.join(parts)}"


class RequestFlag:
    """A query parameter with which a request asks for something: `query:NAME=VALUE`."""

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        place, _, flag = text.partition(":")
        self.name, _, self._value = flag.partition("=")
        if place != "query" or not self.name or not self._value:
            raise ValueError(f"expected query:NAME=VALUE, for example query:deltas=true, got {text!r}")

    def __str__(self) -> str:
        return f"{self.name}={self._value}"

    def is_in(self, target: str) -> bool:
        """Whether a request has it, whatever the case of its value."""
        pairs = query_pairs(target)
        return any(name == self.name and value.lower() == self._value.lower() for name, value in pairs)


def query_pairs(target: str) -> list[tuple[str, str]]:
    """Return the names and values of the query parameters of a request; none if there are very many."""
    try:
        return parse_qsl(target.partition("#")[0].partition("?")[2], max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        return []


def path_of(target: str) -> str:
    """Return the path of a request target, which may be a whole URL."""
    path = target.partition("#")[0].partition("?")[0]
    scheme, separator, rest = path.partition("://")
    return "/" + rest.partition("/")[2] if separator and "/" not in scheme else path


def decode_segment(segment: str) -> str:
    """Resolve the percent escapes of a path segment, in which each character stands for one byte."""
    if "%" not in segment and segment.isascii():
        return segment
    return unquote_to_bytes(segment.encode("latin-1", "replace")).decode("utf-8", "replace")
