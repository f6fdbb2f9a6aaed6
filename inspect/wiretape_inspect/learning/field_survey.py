"""Where events have their type, and then what holds about the types, the fields and the streams of recordings."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import log2
from typing import Any

from wiretape.event import Event
from wiretape.event_format import read_number, shorten_value
from wiretape.observations import header
from wiretape.patterns import RequestPattern
from wiretape_inspect.learning.path_templates import FoundOperation
from wiretape_inspect.learning.recorded_streams import RecordedStream, Scalar, is_name, leaves
from wiretape_inspect.learning.value_shape import ShapeBudget, ValueShape

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


_MOST_TYPES = 1_000
_MOST_FIELDS = 2_000
_MOST_PARTS = 6_000
"""Parts of all shapes."""
_MOST_PAIRS = 20_000
_MOST_CURSORS = 100


@dataclass(slots=True)
class TypeSurvey:
    """The events of one type."""

    shape: ValueShape
    events: int = 0
    with_id: int = 0
    most_in_row: int = 0
    """The largest number of them that follow each other on a stream."""
    objects: int = 0
    """How many have a JSON object as data."""
    fields: Counter[tuple[str, type]] = field(default_factory=Counter)
    """How many have a value of a Python type at a pointer."""


@dataclass(slots=True)
class FieldSurvey:
    """The values at one pointer, or of the line `id`."""

    kinds: set[type] = field(default_factory=set)
    events: int = 0
    streams: int = 0
    compared: int = 0
    """How many values were compared with the first of their stream."""
    is_same: bool = True
    """Whether each stream has one value."""
    firsts: set[str | int] = field(default_factory=set)
    """At most some of the first values of streams."""
    steps: int = 0
    """How many values were compared with the one before."""
    is_counter: bool = True
    """Whether each value is one more than that before on its stream."""
    starts: Counter[int] = field(default_factory=Counter)
    """The first numbers of the streams that begin at the start of their channel."""
    matches: Counter[str] = field(default_factory=Counter)
    """How often it is the value of the line `event` or `id`, or of the channel in the path."""
    differs: set[str] = field(default_factory=set)
    """The names of those that it is not."""


@dataclass(slots=True)
class EndSurvey:
    """The first or the last events of streams."""

    streams: int = 0
    types: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Progress:
    """What is remembered about an open stream."""

    operation: FoundOperation | None
    channel: str | None
    cursors: list[tuple[str, str]]
    """The parameters of the query that may be a cursor."""
    has_cursor: bool
    """Whether the request may have a cursor."""
    values: dict[str, tuple[Scalar, Scalar]] = field(default_factory=dict)
    """The first and the last value of each field."""
    last_type: str = ""
    in_row: int = 0


class Survey:
    """Collects what holds about the events of all streams."""

    def __init__(self, operations: list[FoundOperation]) -> None:
        self._operations = [(RequestPattern(each.request), each) for each in operations]
        self.events = 0
        self.streams = 0
        self.types: dict[str, TypeSurvey] = {}
        self.fields: dict[str, FieldSurvey] = {}
        self.line_matches = Counter[bool]()
        """How often the line `event` is the type that the data has, and how often not."""
        self.begins: dict[str, EndSurvey] = {}
        """The first events of streams without a cursor, by operation."""
        self.ends = EndSurvey()
        """The last events of streams that the service ended."""
        self.inner: set[str] = set()
        """The types of events that are not the first one of their stream."""
        self.followed: set[str] = set()
        """The types of events that are not the last one of their stream."""
        self.with_header: set[str] = set()
        """The operations with a `Last-Event-ID` in a request."""
        self.with_ids: set[str] = set()
        """The operations with ids in streams."""
        self.cursors: dict[tuple[str, str, str], bool] = {}
        """Whether a parameter of a query of an operation always names the number before the first one of a field."""
        self._budget = ShapeBudget(_MOST_PARTS)
        self._pairs = 0

    def add(self, stream: RecordedStream, event: Event) -> None:
        """Add an event of a stream."""
        progress: _Progress | None = stream.memory.get(self)
        if progress is None:
            progress = stream.memory[self] = self._begin(stream)
        self.events += 1
        known = self.types.get(event.type)
        if known is None and len(self.types) < _MOST_TYPES:
            known = self.types[event.type] = TypeSurvey(ValueShape(self._budget))
        values = dict(leaves(event.value))
        if stream.events == 1:
            self._compare_cursors(progress, event, values)
        else:
            self.inner.add(event.type)
            self.followed.add(progress.last_type)
        progress.in_row = progress.in_row + 1 if progress.last_type == event.type else 1
        progress.last_type = event.type
        if known is not None:
            known.most_in_row = max(known.most_in_row, progress.in_row)
            self._add_to_type(known, event, values)
        if event.id is not None:
            number = read_number(event.id)
            values["id"] = event.id if number is None else number
            if progress.operation is not None:
                self.with_ids.add(progress.operation.name)
        if event.event_line is not None and event.format.type is not None:
            self.line_matches[event.name == event.format.type.read(event.value)] += 1
        for pointer, value in values.items():
            self._add_field(pointer, value, event, progress, stream)

    def end(self, stream: RecordedStream) -> None:
        """End a stream."""
        progress: _Progress | None = stream.memory.get(self)
        if progress is not None and stream.is_complete:
            self.ends.streams += 1
            self.ends.types[progress.last_type] += 1

    def _begin(self, stream: RecordedStream) -> _Progress:
        self.streams += 1
        request = stream.request
        for pattern, operation in self._operations:
            if (parameters := pattern.match(request.method, request.target)) is None:
                continue
            has_header = header(request.headers, "last-event-id") is not None
            if has_header:
                self.with_header.add(operation.name)
            pairs = (part.partition("=") for part in request.target.partition("?")[2].split("&"))
            cursors = [(name, value) for name, _, value in pairs if read_number(value) is not None]
            channel = list(parameters.values())[-1] if parameters else None
            return _Progress(operation, channel, cursors, has_header or bool(cursors))
        return _Progress(None, None, [], has_cursor=True)

    def _compare_cursors(self, progress: _Progress, event: Event, values: dict[str, Scalar]) -> None:
        """Compare the first event of a stream with what its request may ask for."""
        operation = progress.operation
        if operation is None:
            return
        for name, number in progress.cursors:
            for pointer, value in values.items():
                key = operation.name, name, pointer
                if type(value) is int and (key in self.cursors or len(self.cursors) < _MOST_CURSORS):
                    self.cursors[key] = self.cursors.get(key, True) and value == int(number) + 1
        if not progress.has_cursor:
            begins = self.begins.setdefault(operation.name, EndSurvey())
            begins.streams += 1
            begins.types[event.type] += 1

    def _add_to_type(self, known: TypeSurvey, event: Event, values: dict[str, Scalar]) -> None:
        known.events += 1
        known.with_id += event.id is not None
        if type(event.value) is dict:
            known.objects += 1
            known.shape.add(event.value)
        for pointer, value in values.items():
            key = pointer, type(value)
            if key in known.fields or self._pairs < _MOST_PAIRS:
                self._pairs += key not in known.fields
                known.fields[key] += 1

    def _add_field(
        self, pointer: str, value: Scalar, event: Event, progress: _Progress, stream: RecordedStream
    ) -> None:
        found = self.fields.get(pointer)
        if found is None:
            if len(self.fields) >= _MOST_FIELDS:
                return
            found = self.fields[pointer] = FieldSurvey()
        found.events += 1
        found.kinds.add(type(value))
        if type(value) is str and len(value) > 200:
            value = shorten_value(value)
        kept = progress.values.get(pointer)
        if kept is None:
            found.streams += 1
            if len(found.firsts) < 2 and isinstance(value, str | int):
                found.firsts.add(value)
            if type(value) is int and stream.is_whole and not progress.has_cursor and len(found.starts) < 5:
                found.starts[value] += 1
            progress.values[pointer] = value, value
        else:
            first, before = kept
            found.compared += 1
            found.is_same = found.is_same and value == first and type(value) is type(first)
            found.steps += 1
            found.is_counter = found.is_counter and type(value) is type(before) is int and value == before + 1
            progress.values[pointer] = first, value
        if type(value) is str and pointer != "id":
            _compare_with(found, value, {"event": event.name or None, "id": event.id, "channel": progress.channel})


def _compare_with(found: FieldSurvey, value: str, others: Mapping[str, str | None]) -> None:
    for name, other in others.items():
        if other is not None and value == other:
            found.matches[name] += 1
        elif other is not None:
            found.differs.add(name)
