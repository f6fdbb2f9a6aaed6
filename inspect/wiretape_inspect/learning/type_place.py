"""Where the events of an API have their type: the line `event`, or a text in the data."""

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from math import log2
from typing import Any

from wiretape.event import Event
from wiretape_inspect.learning.recorded_streams import RecordedStream, is_name, leaves

_MOST_POINTERS = 100
_MOST_VALUES = 1_000
_MOST_KEY_SETS = 10_000
_LINE = "event"
_TYPE = re.compile(r"[A-Za-z_\[][\w.:/\[\]-]{0,99}")
_USUAL = {_LINE: 0.3, "/type": 0.3, "/event": 0.2, "/kind": 0.2, "/event_type": 0.2, "/eventType": 0.2, "/object": 0.1}
"""Places where types often are, and what they have ahead of others."""
_LEAST_SHARE = 0.9
"""The share of the events with data in objects that have their type in the place."""


class TypePlaces:
    """Collects the texts that can be types, with the keys of the events that have them."""

    def __init__(self) -> None:
        self.events = 0
        self._counts: dict[str, Counter[str]] = {}
        self._pairs: dict[str, Counter[tuple[str, int]]] = {}
        self._keys: dict[str, Counter[int]] = {}
        self._agreeing: Counter[str] = Counter()
        """How often each text is the event line."""

    def end(self, stream: RecordedStream) -> None:
        """End a stream, which needs nothing."""

    def add(self, _stream: RecordedStream, event: Event) -> None:
        """Add an event that was read without a contract."""
        if type(event.value) is not dict:
            return
        self.events += 1
        line = event.name if event.event_line else None
        keys = hash_of(sorted(event.value))
        if line is not None:
            self._add(_LINE, line, keys)
        for pointer, value in leaves(event.value):
            if type(value) is str and pointer.count("/") <= 2 and "/0" not in pointer:
                self._add(pointer, value, keys)
                self._agreeing[pointer] += value == line

    def _add(self, place: str, value: str, keys: int) -> None:
        if place not in self._counts:
            if len(self._counts) >= _MOST_POINTERS:
                return
            self._counts[place], self._pairs[place], self._keys[place] = Counter(), Counter(), Counter()
        counts, pairs = self._counts[place], self._pairs[place]
        if not _TYPE.fullmatch(value) or not is_name(value) or (len(counts) >= _MOST_VALUES and value not in counts):
            value = ""
        counts[value] += 1
        if len(pairs) < _MOST_KEY_SETS:
            pairs[value, keys] += 1
            self._keys[place][keys] += 1

    def choose(self) -> str:
        """Return the place that says most about what events have: `event`, or a pointer."""
        fit = [place for place in self._counts if self._is_fit(place)]
        lines = self._counts.get(_LINE)
        if lines is not None:
            same = [place for place in fit if place != _LINE and self._agreeing[place] == lines.total()]
            if same and len(lines) > 1:
                return min(same, key=lambda place: (place.count("/"), place))
        return max(sorted(fit), key=self._score, default=_LINE)

    def _is_fit(self, place: str) -> bool:
        counts = self._counts[place]
        are_few = len(counts) <= max(3, counts.total() // 3) or (place in _USUAL and len(counts) < _MOST_VALUES)
        return counts.total() >= self.events * _LEAST_SHARE and not counts[""] and are_few and self._score(place) > 0

    def _score(self, place: str) -> float:
        """Return how well the values agree with the keys of the events, between 0 and 1, and what is usual."""
        values, keys, pairs = (_entropy(each[place].values()) for each in (self._counts, self._keys, self._pairs))
        shared = max(0.0, values + keys - pairs)
        agreement = 2 * shared / (values + keys) if values and keys else 0.0
        return agreement + _USUAL.get(place, 0.0) - 0.05 * (place.count("/") - 1)


def hash_of(value: Any) -> int:
    """Return a hash that is the same in each process."""
    return int.from_bytes(blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _entropy(counts: Iterable[int]) -> float:
    numbers = list(counts)
    total = sum(numbers)
    return -sum(number / total * log2(number / total) for number in numbers) if total else 0.0
