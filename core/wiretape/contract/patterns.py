"""Patterns of contracts: globs, JSON pointers and paths.  Matching takes linear time, whoever wrote the pattern."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from wiretape.bounded_dict import put_bounded

MISSING: Final = ...
"""Stands for a value that does not exist."""
LONGEST = 300
"""Longest pattern, and longest type of an event that can match one, in characters."""
_MOST_CACHED = 1000
_MOST_STEPS = 20
_MOST_ASTERISKS = 5
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
        self.text = text
        steps = [step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")]
        self._steps = [(step, int(step) if step.isascii() and step.isdigit() else None) for step in steps]

    def __str__(self) -> str:
        return self.text

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


class RequestPattern:
    """A method and a path: `GET /tickets/{ticket}/events`.

    `{name}` stands for one segment, a `*` at the end for any number, and `*` instead of the method for every method.
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
        if "*" in self._segments[:-1]:
            raise ValueError(f"expected * only as the last part of the path, got {text!r}")
        self.parameters = [segment[1:-1] for segment in self._segments if _PARAMETER.fullmatch(segment)]
        """The names in braces."""
        # Each part ends at a slash, so nothing is tried twice.
        self._path = re.compile("".join(f"/{_part(segment)}" for segment in self._segments), re.DOTALL)

    def match(self, method: str, target: str) -> Mapping[str, str] | None:
        """Return the segments that the names in braces stand for; None if the request does not match."""
        found = self._path.fullmatch(target.partition("?")[0].partition("#")[0])
        if found is None or self.method not in {"*", method}:
            return None
        return dict(zip(self.parameters, found.groups(), strict=True))

    def example(self) -> str:
        """Return a request that matches."""
        method = "GET" if self.method == "*" else self.method
        parts = [segment.strip("{}").replace("*", "stream") for segment in self._segments]
        return f"{method} /{'/'.join(parts)}"


def _part(segment: str) -> str:
    return ".*" if segment == "*" else "([^/]+)" if _PARAMETER.fullmatch(segment) else re.escape(segment)
