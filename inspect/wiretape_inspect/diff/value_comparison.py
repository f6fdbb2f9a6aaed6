"""Decide whether two values are equal, with ids and timestamps normalized if the options say so."""

import re
from functools import lru_cache
from typing import Any

from wiretape.http_headers import RETRY_AFTER
from wiretape.json_path import Difference, differences
from wiretape.recording import REDACTED_PATTERN
from wiretape.recording.varying_values import is_id_name
from wiretape_inspect.diff.diff_model import DiffOptions

_FINGERPRINT = re.compile(REDACTED_PATTERN)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII)
_WAIT = RETRY_AFTER.lower()
_TIME_NAMES = frozenset({"time", "timestamp", "date", _WAIT, _WAIT.replace("-", "_")})
_WORD_BOUNDARY = re.compile(r"([^\w-]+)")
_WORDS_OR_VERSION = re.compile(r"v\d+|[A-Za-z]+(?:[_.-][A-Za-z]+)*")


def may_be_id(segment: str) -> bool:
    """Whether a path segment may be an id: it is neither made of words only nor a version."""
    return _WORDS_OR_VERSION.fullmatch(segment) is None


class ValueComparison:
    """Compares values of two recordings, and remembers which id of the second stands for which id of the first.

    Two ids are bound when they first appear in the same place.  So ids are equal if they were created in the same order
    and are referred to from the same places.  Memory grows with the number of ids.
    """

    def __init__(self, options: DiffOptions) -> None:
        self.options = options
        self._forward: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def counterpart(self, first: str | None) -> str | None:
        """The id of the second recording for an id of the first; None if it is not known."""
        return None if first is None else self._forward.get(first)

    def differences(self, first: Any, second: Any) -> list[Difference]:
        """The paths at which two JSON values differ; `$` if they are nested too deeply to be compared in parts."""
        try:
            found = list(differences(first, second, self._is_same_value))
        except RecursionError:
            return [] if _is_equal(first, second) else [Difference("$", first, second)]
        # A text may name ids that are bound only after it.
        return [each for each in found if not self._is_same_by_now(each)]

    def is_same_id(self, first: str | None, second: str | None) -> bool:
        """Whether two ids are equal, or stand for each other; normalized ids are bound if both are new."""
        if not self.options.ids or not first or not second:
            return first == second
        if first not in self._forward and second not in self._back:
            self._forward[first], self._back[second] = second, first
        return self._forward.get(first) == second

    def is_same_text(self, first: str | None, second: str | None, name: str = "") -> bool:
        """Whether two texts are equal; `name` is that of their JSON member or header."""
        if first is None or second is None or first == second:
            return first == second
        if self.options.times and (is_time(first, name) and is_time(second, name)):
            return True
        return self._has_same_words(first, second) or without_fingerprints(first) == without_fingerprints(second)

    def _is_same_value(self, first: Any, second: Any, name: str) -> bool:
        if isinstance(first, str) and isinstance(second, str):
            return self.is_same_id(first, second) if is_id_name(name) else self.is_same_text(first, second, name)
        if self.options.times and is_time(first, name) and is_time(second, name):
            return True
        return _json_type(first) is _json_type(second) and bool(first == second)

    def _is_same_by_now(self, found: Difference) -> bool:
        are_texts = isinstance(found.first, str) and isinstance(found.second, str)
        return are_texts and self._has_same_words(found.first, found.second)

    def _has_same_words(self, first: str, second: str) -> bool:
        """Whether two texts are equal except for ids that are known to stand for each other."""
        if not self._forward:
            return False
        here, there = _WORD_BOUNDARY.split(first), _WORD_BOUNDARY.split(second)
        return len(here) == len(there) and all(
            self._forward.get(one, one) == other for one, other in zip(here, there, strict=True)
        )


def is_time(value: Any, name: str) -> bool:
    """Whether a JSON value is a timestamp or a waiting time: strings by their form, numbers by their name."""
    if isinstance(value, str):
        if not "0" <= value[:1] <= "9":
            return False
        return bool(_TIMESTAMP.fullmatch(value)) or (name == _WAIT and value.isdecimal())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return _is_time_name(name)


@lru_cache(4096)
def _is_time_name(name: str) -> bool:
    return name in _TIME_NAMES or name.endswith("_at")


def without_fingerprints(text: str) -> str:
    """`text` with every fingerprint replaced by one word, because each recording has its own fingerprints."""
    return _FINGERPRINT.sub("[redacted]", text)


def _json_type(value: Any) -> Any:
    """The type of a value; JSON has one type of number, and booleans are not numbers."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _is_equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except RecursionError:
        return False
