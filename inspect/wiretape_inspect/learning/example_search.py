"""Examples of learned rules: changed copies of recorded streams, which the checker has seen to break one rule."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from wiretape.checker.contract_examples import find_in_example
from wiretape.contract.contract_model import Contract
from wiretape.event import Event
from wiretape.event_format import Key, read_number
from wiretape.json_codec import dump_json
from wiretape.patterns import MISSING, Pointer, RequestPattern, path_of
from wiretape.rules.vectors import Vector
from wiretape_inspect.learning.path_templates import FoundOperation
from wiretape_inspect.learning.recorded_streams import RecordedStream, leaves
from wiretape_inspect.learning.rule_drafts import RuleDraft

_MOST_SAMPLES = 40
_MOST_EVENTS = 40
"""Events of a stream that are kept; of those after them, only some of each type, and the last one."""
_MOST_OF_TYPE = 2
_MOST_BYTES = 30_000
_LARGEST_EVENT = 5_000
"""Bytes of an event; the texts of larger ones are shortened."""
_MOST_CHECKS = 4_000
"""Streams that are checked to find examples, and as many more to make these smaller."""
_MOST_LEAVES = 12
_LONGEST_TEXT = 40
_OTHER = "something-else"
Codes = frozenset[str]
"""Codes of rules."""


@dataclass(frozen=True, slots=True)
class SampleEvent:
    """An event that can be changed."""

    id: str | None
    event: str | None
    data: Any
    """JSON, or the text itself if it is none."""
    is_json: bool
    type: str

    @property
    def text(self) -> str:
        """Its lines."""
        data = dump_json(self.data) if self.is_json else self.data
        lines = [f"{name}: {value}\n" for name, value in (("id", self.id), ("event", self.event)) if value is not None]
        return "".join([*lines, *(f"data: {line}\n" for line in data.split("\n")), "\n"])


@dataclass(frozen=True, slots=True)
class Sample:
    """A stream that can be changed, or a changed one."""

    request: str
    events: tuple[SampleEvent, ...]
    is_complete: bool
    """Whether it ends as its response does."""

    @property
    def body(self) -> str:
        """The body of the response."""
        return "".join(event.text for event in self.events)

    def exchange(self) -> dict[str, Any]:
        """Return the exchange of an example."""
        ending = {} if self.is_complete else {"ending": "client-closed"}
        return {"request": self.request, **ending, "body": self.body}


class Samples:
    """Keeps the smallest stream for each set of types."""

    def __init__(self, operations: Sequence[FoundOperation], *, names_channel: bool) -> None:
        """With `names_channel`, requests keep the segments of their paths."""
        self._patterns = [RequestPattern(each.request) for each in operations if each.streams]
        self._names_channel = names_channel
        self._kept: dict[frozenset[str], tuple[tuple[bool, int, int], Sample]] = {}

    def add(self, stream: RecordedStream, event: Event) -> None:
        """Add an event of a stream."""
        kept = stream.memory.get(self)
        if kept is None:
            kept = stream.memory[self] = _Kept()
        kept.add(event)

    def end(self, stream: RecordedStream) -> None:
        """End a stream."""
        kept: _Kept | None = stream.memory.get(self)
        request = self._request(stream)
        if kept is None or request is None:
            return
        events = kept.finish()
        sample = Sample(request, events, stream.is_complete and not kept.is_cut)
        types = frozenset(event.type for event in events)
        is_part = kept.is_cut or not (stream.is_whole and stream.is_from_start)
        row = (is_part, len(events), len(sample.body)), sample
        known = self._kept.get(types)
        if events and (known is not None or len(self._kept) < _MOST_SAMPLES):
            self._kept[types] = row if known is None else min(known, row, key=lambda each: each[0])

    def _request(self, stream: RecordedStream) -> str | None:
        method, target = stream.request.method, stream.request.target
        pattern = next((each for each in self._patterns if each.match(method, target) is not None), None)
        if pattern is None:
            return None
        return f"{method} {path_of(target)}" if self._names_channel else pattern.example()

    def all(self) -> list[Sample]:
        """Return the streams, the whole ones and the smallest first."""
        return [sample for _, sample in sorted(self._kept.values(), key=lambda row: (row[0], row[1].body))]


class _Kept:
    """The events of an open stream that are kept."""

    def __init__(self) -> None:
        self.is_cut = False
        """Whether an event could not be kept."""
        self._events: list[SampleEvent] = []
        self._last: Event | None = None
        """The last one, if it was not kept."""
        self._types: dict[str, int] = {}
        self._left = _MOST_BYTES

    def add(self, event: Event) -> None:
        number = self._types[event.type] = self._types.get(event.type, 0) + 1
        is_needed = len(self._events) < _MOST_EVENTS or number <= _MOST_OF_TYPE
        self._last = None if self._left > 0 and is_needed and self._keep(event) else event

    def finish(self) -> tuple[SampleEvent, ...]:
        """Return the events, with the last one."""
        self.is_cut |= self._last is not None and not self._keep(self._last)
        return tuple(self._events)

    def _keep(self, event: Event) -> bool:
        is_json = event.json is not None
        data = event.json if is_json else event.data.decode("utf-8", "replace")
        name = event.name if event.event_line is not None else None
        is_large = is_json and len(event.raw) > _LARGEST_EVENT
        sample = SampleEvent(event.id, name, _shorten(data) if is_large else data, is_json, event.type)
        try:
            size = len(sample.text.encode())
        except (UnicodeEncodeError, TypeError):
            # A lone surrogate, in a text or a key.
            return False
        if size <= _LARGEST_EVENT:
            self._events.append(sample)
            self._left -= size
        return size <= _LARGEST_EVENT


_IsFit = Callable[[Codes, Codes], bool]
"""Whether a stream can be an example, from the codes of the rules that it breaks and that it keeps."""


@dataclass(frozen=True, slots=True)
class _Breaks:
    code: str
    most: Codes

    def __call__(self, broken: Codes, _held: Codes) -> bool:
        return self.code in broken and broken <= self.most


@dataclass(frozen=True, slots=True)
class _Keeps:
    codes: AbstractSet[str]

    def __call__(self, broken: Codes, held: Codes) -> bool:
        return not broken and held >= self.codes


class ExampleSearch:
    """Looks for examples of the rules of a contract."""

    def __init__(self, contract: Contract, drafts: Sequence[RuleDraft]) -> None:
        self._contract = contract
        self._drafts = {draft.code: draft for draft in drafts}
        self._weak = {draft.code for draft in drafts if draft.is_weak}
        self._type = contract.format.type
        self._default = contract.operations[0].pattern.example()
        self._left = _MOST_CHECKS
        self._clean: list[Sample] = []
        """The streams that break no rule."""
        facts = [draft.value["fact"] for draft in drafts if draft.primitive == "counter"]
        self._counters = [str(contract.format.sequence) if fact == "sequence" else fact for fact in facts]

    def run(self, samples: Sequence[Sample]) -> None:
        """Give each rule a stream that breaks it, and one that keeps it, as far as they are found."""
        keeping: dict[str, Sample] = {}
        breaking: dict[str, tuple[tuple[int, int], Sample, Codes]] = {}
        for sample in samples:
            smaller = self._find_keeping(sample, keeping)
            for changed in self._changes(smaller):
                if self._left <= 0 or all(code in breaking and breaking[code][0] == (0, 1) for code in self._drafts):
                    break
                broken, _ = self._check(changed)
                for code in sorted(broken & self._drafts.keys()):
                    score = len(broken - self._weak - {code}), len(broken)
                    if code not in breaking or score < breaking[code][0]:
                        breaking[code] = score, changed, broken
        for code, (_, sample, most) in breaking.items():
            draft = self._drafts[code]
            smaller = self._shrink(sample, _Breaks(code, most))
            broken, _ = self._check(smaller)
            draft.breaks, draft.also = self._example(smaller), sorted(broken - self._weak - {code})
        for code, sample in keeping.items():
            # One example shows as many types as it can.
            is_typical = self._drafts[code].primitive == "one_of"
            smaller = max(self._clean, key=_count_types) if is_typical else self._shrink(sample, _Keeps({code}))
            self._drafts[code].keeps = self._example(smaller)

    def _find_keeping(self, sample: Sample, keeping: dict[str, Sample]) -> Sample:
        """Note which rules a stream keeps, if it breaks none, and return a smaller one that keeps them as well."""
        broken, held = self._check(sample)
        if broken:
            return sample
        self._clean.append(sample)
        smaller = self._shrink(sample, _Keeps(held))
        for code in self._drafts:
            if code in held:
                keeping.setdefault(code, smaller)
        return smaller

    def _check(self, sample: Sample) -> tuple[Codes, Codes]:
        """Return the codes of the rules that a stream breaks, and of those that it keeps."""
        self._left -= 1
        exchange = {**sample.exchange(), "headers": []}
        vector = msgspec.convert({"code": "", "name": "breaks", "exchange": [exchange]}, Vector)
        findings, checker = find_in_example(self._contract, vector)
        held = (code for code, tally in checker.tallies().items() if tally.held)
        return frozenset(finding.code for finding in findings), frozenset(held)

    def _example(self, sample: Sample) -> Any:
        is_usual = sample.is_complete and sample.request == self._default
        return sample.body if is_usual else [sample.exchange()]

    def _shrink(self, sample: Sample, is_fit: _IsFit) -> Sample:
        """Return a stream with fewer events and shorter texts that is still fit."""
        # All events of an entity at once: one of them alone would be missing.
        for key in dict.fromkeys(key for event in sample.events for key in self._keys(event)):
            removed = {index for index, event in enumerate(sample.events) if key in self._keys(event)}
            sample = self._try_without(sample, removed, is_fit)
        for index in range(len(sample.events) - 1, -1, -1):
            sample = self._try_without(sample, {index}, is_fit)
        shorter = tuple(
            replace(event, data=_shorten(event.data)) if event.is_json else event for event in sample.events
        )
        shortened = replace(sample, events=shorter)
        return shortened if shortened != sample and is_fit(*self._check(shortened)) else sample

    def _keys(self, event: SampleEvent) -> list[tuple[str, Key]]:
        """Return the keys of the entities that an event is about."""
        entities = [each for each in self._contract.entities.values() if event.is_json and each.concerns(event.type)]
        return [(each.name, key) for each in entities if (key := each.read_key(event.data)) is not None]

    def _try_without(self, sample: Sample, removed: set[int], is_fit: _IsFit) -> Sample:
        """Return a stream without some events, in which counters go on as before, if it is fit."""
        kept: list[SampleEvent] = []
        counts = dict.fromkeys(self._counters, 0)
        for index, event in enumerate(sample.events):
            changed = event
            for fact, count in counts.items():
                if (number := _read_number(event, fact)) is not None:
                    counts[fact] += index in removed
                    changed = _with_number(changed, fact, number - count) if count else changed
            if index not in removed:
                kept.append(changed)
        smaller = replace(sample, events=tuple(kept))
        may_check = kept and self._left > -_MOST_CHECKS
        return smaller if may_check and is_fit(*self._check(smaller)) else sample

    def _changes(self, sample: Sample) -> Iterator[Sample]:
        """Yield copies of a stream with one change."""
        events = sample.events
        for index in range(len(events)):
            before, after = events[:index], events[index + 1 :]
            for changed in (before + after, (*before, events[index], *events[index:])):
                if changed:
                    yield replace(sample, events=changed)
            if after:
                yield replace(sample, events=before + after[:1] + events[index : index + 1] + after[1:])
                yield Sample(sample.request, events[: index + 1], is_complete=True)
        seen: set[tuple[str, str]] = set()
        # The last event of a type first: what it has to be is known by then.
        for index in range(len(events) - 1, -1, -1):
            for what, changed_event in self._change_event(events[index]):
                if (events[index].type, what) not in seen or index == 0:
                    seen.add((events[index].type, what))
                    yield replace(sample, events=(*events[:index], changed_event, *events[index + 1 :]))

    def _change_event(self, event: SampleEvent) -> Iterator[tuple[str, SampleEvent]]:
        yield "id", replace(event, id=None if event.id is not None else "x")
        if event.id is not None and event.id.isascii() and event.id.isdigit():
            yield "number", replace(event, id=str(int(event.id[:18]) + 5))
        yield "event", replace(event, event=_OTHER)
        if self._type is None:
            yield "type", replace(event, event=_OTHER)
        elif not event.is_json or self._type.read(event.data) is MISSING:
            yield "type", replace(event, data=_OTHER, is_json=False)
        else:
            line = None if event.event is None else _OTHER
            yield "type", replace(event, data=_with_value(event.data, self._type.text, _OTHER), event=line)
        pointers = list(leaves(event.data))[:_MOST_LEAVES] if event.is_json else []
        for pointer, value in pointers:
            for number, other in enumerate(_other_values(value)):
                yield f"{pointer} {number}", replace(event, data=_with_value(event.data, pointer, other))


def _count_types(sample: Sample) -> int:
    return len({event.type for event in sample.events})


def _read_number(event: SampleEvent, fact: str) -> int | None:
    if fact == "id":
        return read_number(event.id)
    return read_number(Pointer(fact).read(event.data)) if event.is_json else None


def _with_number(event: SampleEvent, fact: str, number: int) -> SampleEvent:
    if fact == "id":
        return replace(event, id=str(number))
    return replace(event, data=_with_value(event.data, fact, number))


def _other_values(value: Any) -> Iterable[Any]:
    """Return what may stand for a value, or MISSING for none."""
    if type(value) is str:
        return f"{value}x", 7, MISSING
    if type(value) is int:
        return value + 5, "x", MISSING
    return "x", MISSING


def _with_value(document: Any, pointer: str, value: Any) -> Any:
    """Return a copy with another value at a pointer that exists."""
    copied = deepcopy(document)
    holder, key = Pointer(pointer).holder(copied)
    if value is MISSING:
        del holder[key]
    else:
        holder[key] = value
    return copied


def _shorten(value: Any) -> Any:
    """Return JSON with shorter texts and lists."""
    if isinstance(value, Mapping):
        return {key: _shorten(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shorten(inner) for inner in value[:1]]
    return value[:_LONGEST_TEXT] if isinstance(value, str) else value
