"""Compare two streams: their events, paired by id, or by content if ids are normalized, and their joined deltas."""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from os.path import commonprefix
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

from wiretape.json_diff import Difference
from wiretape_inspect.diff.alignment import Key, find_delays, out_of_order, pair_items
from wiretape_inspect.diff.diff_model import DiffEntry, DiffLocation, DiffOptions, ExchangeDiff, Kind
from wiretape_inspect.diff.stream_items import MAX_TEXT_LENGTH, DeltaText, EventItem, StreamItems
from wiretape_inspect.diff.value_comparison import ValueComparison

_MAX_WAITING = 1000
"""How many events may wait for their counterpart in memory; the data of others is in an unnamed temporary file."""
_SPOOL_MEMORY = 32 * 1024 * 1024
"""Bytes of that file that are still kept in memory."""
_EXCERPT = 200
"""Characters of a text that are kept from its first difference."""


def compare_events(first: StreamItems, second: StreamItems, values: ValueComparison, diff: ExchangeDiff) -> None:
    """Add the differences of all events but deltas to `diff`.

    Memory grows with the number of differences, and by 32 bytes for each pair.
    """
    options, unpaired, pairs = values.options, (list[EventItem](), list[EventItem]()), EventPairs()
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
            pairs.add(here, there)
            here.restore(spool, options.ignored)
            there.restore(spool, options.ignored)
            if fields := _changed_fields(values, here, there):
                diff.add(_entry("changed", exchanges, (here, there), fields))
            here.release()
            there.release()
    for item in unpaired[0]:
        diff.add(_entry("missing", exchanges, (item, None)))
    for item in unpaired[1]:
        diff.add(_entry("added", exchanges, (None, item)))
    _add_moved_and_delayed(first, second, pairs, options, diff)
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


def _changed_fields(values: ValueComparison, first: EventItem, second: EventItem) -> tuple[Difference, ...]:
    data = [] if _is_surely_same(values, first, second) else values.differences(first.document, second.document)
    lines = [] if values.is_same_id(first.id, second.id) else [Difference("SSE id", first.id, second.id)]
    if first.lines != second.lines:
        lines += [
            Difference(f"SSE {name}", here, there)
            for name in ("event", "retry")
            if (here := _line_values(first, name)) != (there := _line_values(second, name))
        ]
    return (*lines, *data)


def _is_surely_same(values: ValueComparison, first: EventItem, second: EventItem) -> bool:
    if not values.options.ids and first.data == second.data:
        return True
    return first.sequence == second.sequence and first.content.is_surely_same(second.content, values)


def _line_values(item: EventItem, name: str) -> str:
    return ", ".join(value.decode("utf-8", "replace") for key, value in item.lines if key == name.encode())


def _add_moved_and_delayed(
    first: StreamItems, second: StreamItems, pairs: "EventPairs", options: DiffOptions, diff: ExchangeDiff
) -> None:

    def add(kind: Kind, here: int, there: int, later_ns: int | None = None) -> None:
        items = (first.event(here), second.event(there)) if diff.has_room(kind) else (None, None)
        diff.add(_entry(kind, (first.exchange.number, second.exchange.number), items, later_ns=later_ns))

    moved = pairs.moved()
    for here, there in moved:
        add("moved", here, there)
    if options.tolerance_ns is not None:
        starts = (first.exchange.began_ns, second.exchange.began_ns)
        for here, there, later in pairs.delayed({here for here, _ in moved}, starts, options.tolerance_ns):
            add("time", here, there, later)


class EventPairs:
    """The event numbers and times of pairs; 32 bytes a pair."""

    def __init__(self) -> None:
        self._events = (array("q"), array("q"))
        self._times = (array("q"), array("q"))

    def add(self, first: EventItem, second: EventItem) -> None:
        """Append a pair."""
        for side, item in enumerate((first, second)):
            self._events[side].append(item.event)
            self._times[side].append(item.time_ns)

    def moved(self) -> list[tuple[int, int]]:
        """The event numbers of the fewest pairs without which both streams have the same order."""
        first, second = self._events
        if _is_increasing(first) and _is_increasing(second):
            return []
        order = _order(first)
        return [(first[order[index]], second[order[index]]) for index in out_of_order([second[at] for at in order])]

    def delayed(
        self, moved: Collection[int], starts: tuple[int, int], tolerance_ns: int
    ) -> Iterator[tuple[int, int, int]]:
        """The event numbers of pairs whose times differ by more than the tolerance, and how much later (ns).

        Leaves out the events in `moved`, which are numbers of the first stream.  `starts` is when the streams started.
        """
        first, second = self._events
        kept = [at for at in _order(first) if first[at] not in moved]
        times = ((self._times[0][at] - starts[0], self._times[1][at] - starts[1]) for at in kept)
        for index, later in find_delays(times, tolerance_ns):
            yield first[kept[index]], second[kept[index]], later


def _order(events: Sequence[int]) -> list[int]:
    return sorted(range(len(events)), key=events.__getitem__)


def _is_increasing(events: Sequence[int]) -> bool:
    return all(here < there for here, there in pairwise(events))


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
    item = items[0] or items[1]
    return DiffEntry(
        kind,
        "event",
        (here, there),
        type=item.type if item else "",
        id=item.id if item else None,
        sequence=item.sequence if item else None,
        fields=fields,
        later_ns=later_ns,
    )


class _Text(NamedTuple):
    side: int
    position: int
    delta_text: DeltaText


def compare_texts(first: StreamItems, second: StreamItems, values: ValueComparison, diff: ExchangeDiff) -> None:
    """Add the differences of the joined deltas of each type and run to `diff`; with `pieces` also how they are cut."""
    streams = (first, second)
    unpaired: tuple[list[_Text], list[_Text]] = ([], [])
    here, there = (
        [_Text(side, index, text) for index, text in enumerate(stream.texts.values())]
        for side, stream in enumerate(streams)
    )
    pairs = pair_items(here, there, _text_keys(values), lambda text: text.position, unpaired=unpaired)
    for first_text, second_text in pairs:
        one, other = first_text.delta_text, second_text.delta_text
        is_same_run = values.is_same_id(one.run_id, other.run_id)
        run = () if is_same_run else (Difference("run_id", one.run_id, other.run_id),)
        offset, fields = _compare(values, one, other)
        if run or fields:
            locations = (_location(streams, first_text, offset), _location(streams, second_text, offset))
            diff.add(DiffEntry("changed", "text", locations, one.type, run_id=one.run_id, fields=(*run, *fields)))
    for text in (*unpaired[0], *unpaired[1]):
        one, location = text.delta_text, _location(streams, text, 0)
        kind: Kind = "added" if text.side else "missing"
        both = (None, location) if text.side else (location, None)
        diff.add(DiffEntry(kind, "text", both, one.type, run_id=one.run_id))


def _text_keys(values: ValueComparison) -> list[Key[_Text]]:
    ids = values.options.ids

    def by_run(text: _Text) -> tuple[str, str | None]:
        run = text.delta_text.run_id
        return (text.delta_text.type, values.ids.get(run) if ids and text.side == 0 else run)

    return [by_run, lambda text: text.delta_text.type] if ids else [by_run]


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


def _location(streams: tuple[StreamItems, StreamItems], text: _Text, offset: int) -> DiffLocation:
    """The delta that holds a character, or the last one."""
    delta_text, number = text.delta_text, streams[text.side].exchange.number
    at = min(bisect_right(delta_text.ends, offset), len(delta_text.events) - 1)
    return DiffLocation(number, delta_text.events[at], delta_text.times[at])
