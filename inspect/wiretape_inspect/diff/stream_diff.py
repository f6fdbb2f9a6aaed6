"""Compare two streams: their events, paired by id, or by content if ids are normalized, and their joined deltas."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from io import SEEK_END
from os.path import commonprefix
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import orjson

from wiretape.event import Event, TimedFrame
from wiretape.json_codec import UnreadableJson, members_of, read_json
from wiretape.json_path import Difference, JsonPath
from wiretape.observations import BytesArrived, Side
from wiretape.recording import Exchange, Recording
from wiretape.recording.varying_values import is_id_name
from wiretape.sse import FrameKind
from wiretape_inspect.diff.alignment import Key, find_delays, out_of_order, pair_items
from wiretape_inspect.diff.diff_model import DiffEntry, DiffLocation, DiffOptions, ExchangeDiff, Kind
from wiretape_inspect.diff.value_comparison import ValueComparison, is_time
from wiretape_inspect.view.timeline_rows import Keys

MAX_TEXT_LENGTH = 1_000_000
"""Characters of a delta text that are kept; the rest is compared by its length."""
_MAX_WAITING = 1000
"""How many events may wait for their counterpart in memory; the data of others is in an unnamed temporary file."""
_SPOOL_MEMORY = 32 * 1024 * 1024
"""Bytes of that file that are still kept in memory."""
_EXCERPT = 200
"""Characters of a text that are kept from its first difference."""
_COMPARED_FIELDS = frozenset({b"event", b"retry"})
_shared = lru_cache(1000)(tuple[tuple[bytes, bytes], ...])
"""Returns the same tuple for equal ones: most events of a stream have one of a few."""
_ID, _TIME = "\0id", "\0time"
"""Stand for any id, and any time, in what is hashed."""


@dataclass(slots=True, eq=False)
class EventItem:
    """An event to compare with one of another stream, without its bytes."""

    event: int
    time_ns: int
    type: str
    id: str | None
    sequence: int | None
    lines: tuple[tuple[bytes, bytes], ...]
    """The `event` and `retry` fields."""
    data: bytes
    document: Any
    """The JSON that is compared, or the text."""
    spooled: tuple[int, int] | None = None
    """Offset and size of `data` in the file while neither it nor `document` is in memory."""
    ids: list[str] | None = None
    """Those in `document`, by the names of their members, if `content_hash` covers all else but times and sequence."""
    _content_hash: int | None = None

    @classmethod
    def of(cls, event: Event, ignored: tuple[JsonPath, ...]) -> "EventItem":
        """Return what is compared of an event."""
        lines = _shared(tuple([line for line in event.frame.fields if line[0] in _COMPARED_FIELDS]))
        document = _without(event.value, event.data, ignored)
        return cls(event.number, event.time_ns, event.type, event.id, event.sequence, lines, event.data, document)

    @property
    def content_hash(self) -> int:
        """Equal for events with equal content, whatever their ids, timestamps and sequences."""
        if self._content_hash is None:
            self._content_hash = hash(self.type)
            content, ids = self.document, list[str]()
            if isinstance(content, dict):
                content = {key: value for key, value in content.items() if key != "sequence"}
            with suppress(orjson.JSONEncodeError, RecursionError):
                self._content_hash = hash(orjson.dumps([self.type, _masked(content, "", ids)]))
                self.ids = ids
        return self._content_hash

    def spool(self, file: IO[bytes]) -> None:
        """Move the data to a file until it is restored."""
        self._content_hash, ids = self.content_hash, self.ids
        self.spooled = (file.seek(0, SEEK_END), len(self.data))
        file.write(self.data)
        self.release()
        # Most events differ only in their ids, and need not be restored.
        self.ids = ids

    def restore(self, file: IO[bytes], ignored: tuple[JsonPath, ...]) -> None:
        """Read the data back from the file, if it is there."""
        if self.spooled is not None:
            start, size = self.spooled
            file.seek(start)
            self.data = file.read(size)
            self.document, self.spooled = comparable_document(self.data, ignored), None

    def release(self) -> None:
        """Drop the data."""
        self.data, self.document, self.ids = b"", None, None


def _masked(value: Any, name: str, ids: list[str]) -> Any:
    """Return a JSON value with its members in order, without its timestamps, and without its ids, which go to `ids`."""
    if isinstance(value, dict):
        return {key: _masked(value[key], key, ids) for key in sorted(value)}
    if isinstance(value, list):
        return [_masked(item, name, ids) for item in value]
    if isinstance(value, str) and is_id_name(name):
        ids.append(value)
        return _ID
    return _TIME if is_time(value, name) else value


def comparable_document(data: bytes, ignored: tuple[JsonPath, ...]) -> Any:
    """What is compared of `data`: its JSON without the ignored values, or its text."""
    return _without(read_json(data), data, ignored)


def _without(value: Any, data: bytes, ignored: tuple[JsonPath, ...]) -> Any:
    if isinstance(value, UnreadableJson):
        value = data.decode("utf-8", "backslashreplace")
    for path in ignored:
        if path.is_root:
            return None
        try:
            path.remove_from(value)
        except RecursionError:
            return value
    return value


@dataclass(slots=True, eq=False)
class DeltaText:
    """The joined deltas of one type, about the same entities, of an exchange."""

    exchange: int
    type: str
    keys: Keys
    length: int = 0
    events: "array[int]" = field(default_factory=lambda: array("q"))
    """The event number of each delta."""
    ends: "array[int]" = field(default_factory=lambda: array("q"))
    """The offset in the text at which each delta ends."""
    times: "array[int]" = field(default_factory=lambda: array("q"))
    """When each delta arrived (ns)."""
    _parts: list[str] = field(default_factory=list)

    def add(self, event: Event, text: str) -> None:
        """Append a delta."""
        if self.length < MAX_TEXT_LENGTH:
            self._parts.append(text[: MAX_TEXT_LENGTH - self.length])
        self.length += len(text)
        self.events.append(event.number)
        self.times.append(event.time_ns)
        self.ends.append(self.length)

    @property
    def text(self) -> str:
        """Its first million characters."""
        self._parts = ["".join(self._parts)]
        return self._parts[0]

    def location(self, offset: int) -> DiffLocation:
        """The delta that holds a character, or the last one."""
        at = min(bisect_right(self.ends, offset), len(self.events) - 1)
        return DiffLocation(self.exchange, self.events[at], self.times[at])


class StreamItems:
    """Reads a stream.  All other attributes are complete once `events` is exhausted."""

    def __init__(self, recording: Recording, exchange: Exchange, options: DiffOptions) -> None:
        self.exchange = exchange
        self.texts: dict[tuple[str, tuple[tuple[str, str], ...]], DeltaText] = {}
        self.event_count = 0
        self.is_cut = False
        """Whether the stream ends in the middle of an event."""
        self.undecodable: str | None = None
        self._recording = recording
        self._options = options

    def events(self) -> Iterator[EventItem]:
        """Its events in order, without plain deltas."""
        reader = self.exchange.make_reader()
        for part in self._recording.body(self.exchange.number, Side.RESPONSE):
            yield from self._items(reader.feed(part) if isinstance(part, BytesArrived) else reader.skip(part))
        yield from self._items(last := reader.close())
        self.is_cut = any(seen.frame.kind is FrameKind.TAIL for seen in last)
        self.undecodable = reader.undecodable

    def event(self, number: int) -> EventItem | None:
        """The event of this number, read again."""
        event = next(self._recording.events(self.exchange.number, number), None)
        return None if event is None else EventItem.of(event, ())

    def _items(self, frames: list[TimedFrame]) -> Iterator[EventItem]:
        for event in frames:
            if not isinstance(event, Event):
                continue
            self.event_count += 1
            text = event.text
            if text is not None and self._options.deltas != "none":
                keys = event.keys
                found = self.texts.setdefault(
                    (event.type, tuple(keys.items())), DeltaText(self.exchange.number, event.type, keys)
                )
                found.add(event, text)
            # A delta with an id or a sequence breaks a rule; it is compared as an event as well.
            if text is None or event.id is not None or event.sequence is not None:
                yield EventItem.of(event, self._options.ignored)


def compare_events(first: StreamItems, second: StreamItems, values: ValueComparison, diff: ExchangeDiff) -> None:
    """Add the differences of all events but deltas to `diff`."""
    options, unpaired = values.options, (list[EventItem](), list[EventItem]())
    pairs = array("q")
    """The numbers and times of both events of each pair, one after another: there may be very many."""
    exchanges = (first.exchange.number, second.exchange.number)
    with SpooledTemporaryFile(max_size=_SPOOL_MEMORY) as spool:

        def on_wait(item: EventItem, waiting: int) -> None:
            if waiting >= _MAX_WAITING:
                item.spool(spool)

        for here, there in pair_items(
            first.events(),
            second.events(),
            _event_keys(options),
            lambda item: item.event,
            unpaired=unpaired,
            on_wait=on_wait,
        ):
            pairs.extend((here.event, there.event, here.time_ns, there.time_ns))
            if not (is_same := _is_surely_same(here, there, values)):
                here.restore(spool, options.ignored)
                there.restore(spool, options.ignored)
            data = [] if is_same else values.differences(here.document, there.document)
            if fields := (*_changed_lines(values, here, there), *data):
                diff.add(_entry("changed", exchanges, (here, there), fields))
            here.release()
            there.release()
    for item in unpaired[0]:
        diff.add(_entry("missing", exchanges, (item, None)))
    for item in unpaired[1]:
        diff.add(_entry("added", exchanges, (None, item)))
    _add_moved_and_delayed(first, second, pairs, options.tolerance_ns, diff)
    diff.events = (first.event_count, second.event_count)


def _event_keys(options: DiffOptions) -> list[Key[EventItem]]:
    """What identifies an event, the most reliable first."""
    keys: list[Key[EventItem]] = [
        lambda item: (item.sequence, item.content_hash),
        lambda item: item.content_hash,
        lambda item: (item.sequence, item.type),
        lambda item: item.sequence,
    ]
    return keys if options.ids else [lambda item: item.id or None, *keys]


def _changed_lines(values: ValueComparison, first: EventItem, second: EventItem) -> Iterator[Difference]:
    if not values.is_same_id(first.id, second.id):
        yield Difference("SSE id", first.id, second.id)
    if first.lines != second.lines:
        for name in ("event", "retry"):
            if (here := _line_values(first, name)) != (there := _line_values(second, name)):
                yield Difference(f"SSE {name}", here, there)


def _is_surely_same(first: EventItem, second: EventItem, values: ValueComparison) -> bool:
    """Whether two events have the same data, which may be known without a comparison of all values."""
    if not values.options.ids:
        return first.spooled is None and second.spooled is None and first.data == second.data
    if not values.options.times or first.ids is None or second.ids is None or first.sequence is None:
        return False
    # With equal hashes, both have their ids in the same places.
    is_same_rest = (first.sequence, first.content_hash) == (second.sequence, second.content_hash)
    return is_same_rest and all(map(values.is_same_id, first.ids, second.ids))


def _line_values(item: EventItem, name: str) -> str:
    return ", ".join(value.decode("utf-8", "replace") for key, value in item.lines if key == name.encode())


def _add_moved_and_delayed(
    first: StreamItems, second: StreamItems, pairs: "array[int]", tolerance_ns: int | None, diff: ExchangeDiff
) -> None:
    """Add the fewest pairs without which both streams have the same order, and pairs whose times differ too much."""

    def add(kind: Kind, at: int, later_ns: int | None = None) -> None:
        items = (first.event(pairs[at]), second.event(pairs[at + 1])) if diff.has_room(kind) else (None, None)
        diff.add(_entry(kind, (first.exchange.number, second.exchange.number), items, later_ns=later_ns))

    order = array("q", sorted(range(0, len(pairs), 4), key=pairs.__getitem__))
    moved = [order[index] for index in out_of_order(array("q", (pairs[at + 1] for at in order)))]
    for at in moved:
        add("moved", at)
    if tolerance_ns is not None:
        starts = (first.exchange.began_ns, second.exchange.began_ns)
        out = set(moved)
        kept = [at for at in order if at not in out]
        times = ((pairs[at + 2] - starts[0], pairs[at + 3] - starts[1]) for at in kept)
        for index, later in find_delays(times, tolerance_ns):
            add("time", kept[index], later)


def _entry(
    kind: Kind,
    exchanges: tuple[int, int],
    items: tuple[EventItem | None, EventItem | None],
    fields: tuple[Difference, ...] = (),
    later_ns: int | None = None,
) -> DiffEntry:
    here, there = (
        None if item is None else DiffLocation(number, item.event, item.time_ns)
        for number, item in zip(exchanges, items, strict=True)
    )
    about = members_of(items[0] or items[1], "type", "id", "sequence") if any(items) else {}
    return DiffEntry(kind, "event", (here, there), fields=fields, later_ns=later_ns, **about)


def compare_texts(first: StreamItems, second: StreamItems, values: ValueComparison, diff: ExchangeDiff) -> None:
    """Add the differences of the joined deltas of each type and entities to `diff`; with `pieces` also their cuts."""
    unpaired: tuple[list[DeltaText], list[DeltaText]] = ([], [])
    # The texts of the first stream are looked up by the counterparts of their keys.
    own = {
        id(text): {name: values.counterpart(key) or key for name, key in text.keys.items()}
        for text in first.texts.values()
    }
    keys: list[Key[DeltaText]] = [lambda text: (text.type, tuple(own.get(id(text), text.keys).items()))]
    if values.options.ids:
        keys.append(lambda text: text.type)
    pairs = pair_items(
        first.texts.values(), second.texts.values(), keys, lambda text: text.events[0], unpaired=unpaired
    )
    for one, other in pairs:
        changed = [
            Difference(f"{name}_id", one.keys.get(name), other.keys.get(name))
            for name in dict.fromkeys([*one.keys, *other.keys])
            if not values.is_same_id(one.keys.get(name), other.keys.get(name))
        ]
        offset, fields = _compare(values, one, other)
        if changed or fields:
            locations = (one.location(offset), other.location(offset))
            diff.add(DiffEntry("changed", "text", locations, one.type, keys=one.keys, fields=(*changed, *fields)))
    for text in unpaired[0]:
        diff.add(DiffEntry("missing", "text", (text.location(0), None), text.type, keys=text.keys))
    for text in unpaired[1]:
        diff.add(DiffEntry("added", "text", (None, text.location(0)), text.type, keys=text.keys))


def _compare(values: ValueComparison, first: DeltaText, second: DeltaText) -> tuple[int, tuple[Difference, ...]]:
    """The offset of the first difference, and the differences."""
    here, there = first.text, second.text
    is_cut = max(first.length, second.length) > MAX_TEXT_LENGTH
    if not values.is_same_text(here, there):
        offset = len(commonprefix((here, there)))  # noqa: RUF071 - of texts, not paths
        excerpts = (text[offset : offset + _EXCERPT] for text in (here, there))
        return offset, (Difference(f"text[{offset}:]", *excerpts),)
    if is_cut and first.length != second.length:
        return MAX_TEXT_LENGTH, (Difference("characters", first.length, second.length),)
    if values.options.deltas == "pieces" and first.ends != second.ends:
        pairs = zip(first.ends, second.ends, strict=False)
        offset = next((min(pair) for pair in pairs if pair[0] != pair[1]), 0)
        return offset, (Difference("pieces", len(first.ends), len(second.ends)),)
    return 0, ()
