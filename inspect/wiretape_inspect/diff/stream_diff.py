"""Compare the events of two streams: pair them by id, or by content if ids are normalized."""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from wiretape.json_diff import Difference
from wiretape_inspect.diff.alignment import Key, out_of_order, pair_items
from wiretape_inspect.diff.diff_model import DiffEntry, DiffOptions, ExchangeDiff, Kind, Location
from wiretape_inspect.diff.stream_items import EventItem, Spool, StreamItems
from wiretape_inspect.diff.value_comparison import ValueComparison

_MAX_WAITING = 1000
"""How many events may wait for their counterpart in memory."""


def compare_events(first: StreamItems, second: StreamItems, values: ValueComparison, diff: ExchangeDiff) -> None:
    """Add the differences of all events but deltas to `diff`.

    Memory grows with the number of differences, and by 32 bytes for each pair.
    """
    options, unpaired, pairs = values.options, (list[EventItem](), list[EventItem]()), EventPairs()
    entries = _EntryFactory(first.exchange.number, second.exchange.number)
    with Spool() as spool:
        paired = pair_items(
            first.events(), second.events(), _keys(options), _event_number, unpaired=unpaired, on_wait=_spooler(spool)
        )
        for here, there in paired:
            pairs.add(here, there)
            here.restore(spool, options.ignored)
            there.restore(spool, options.ignored)
            if fields := _changed_fields(values, here, there):
                diff.add(entries.entry("changed", here, there, fields))
            here.release()
            there.release()
    for item in unpaired[0]:
        diff.add(entries.entry("missing", item, None))
    for item in unpaired[1]:
        diff.add(entries.entry("added", None, item))
    _add_moved_and_delayed(first, second, pairs, options, diff)
    diff.events += first.event_count + second.event_count


def _keys(options: DiffOptions) -> list[Key[EventItem]]:
    """What identifies an event, the most reliable first."""
    keys: list[Key[EventItem]] = [
        lambda item: (item.sequence, item.content_hash),
        lambda item: item.content_hash,
        lambda item: (item.sequence, item.type),
        lambda item: item.sequence,
    ]
    return keys if options.ids else [lambda item: item.id or None, *keys]


def _event_number(item: EventItem) -> int:
    return item.event


def _spooler(spool: Spool) -> Callable[[EventItem, int], None]:
    def on_wait(item: EventItem, waiting: int) -> None:
        if waiting >= _MAX_WAITING:
            item.spool(spool)

    return on_wait


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
    entries = _EntryFactory(first.exchange.number, second.exchange.number)

    def add(kind: Kind, here: int, there: int, later_ns: int | None = None) -> None:
        items = (first.event(here), second.event(there)) if diff.has_room(kind) else (None, None)
        diff.add(entries.entry(kind, *items, later_ns=later_ns))

    moved = pairs.moved()
    for here, there in moved:
        add("moved", here, there)
    if options.tolerance_ns is not None:
        starts = (_start_ns(first), _start_ns(second))
        for here, there, later in pairs.delayed({here for here, _ in moved}, starts, options.tolerance_ns):
            add("time", here, there, later)


def _start_ns(stream: StreamItems) -> int:
    response = stream.exchange.response
    return response.time_ns if response else stream.exchange.request.time_ns


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


def find_delays(times: Iterable[tuple[int, int]], tolerance_ns: int) -> Iterator[tuple[int, int]]:
    """Which of the times, given for both recordings, are later in the second, and by how much (ns).

    Times count from a common start.  A delay does not make everything after it late: the next is late only if it
    differs both from the delay before it and from the delay before that.
    """
    settled = last = 0
    for index, (first, second) in enumerate(times):
        drift = second - first
        if abs(drift - last) <= tolerance_ns:
            # Two in a row: from here on this is the normal distance.
            settled = last = drift
        elif abs(drift - settled) <= tolerance_ns:
            last = settled = drift
        else:
            yield index, drift - last
            last = drift


class _EntryFactory:
    """Creates the entries about two exchanges."""

    def __init__(self, first: int, second: int) -> None:
        self._numbers = (first, second)

    def entry(
        self,
        kind: Kind,
        first: EventItem | None,
        second: EventItem | None,
        fields: tuple[Difference, ...] = (),
        later_ns: int | None = None,
    ) -> DiffEntry:
        here, there = (self._location(*pair) for pair in zip(self._numbers, (first, second), strict=True))
        item = first or second
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

    @staticmethod
    def _location(number: int, item: EventItem | None) -> Location | None:
        return None if item is None else Location(number, item.event, item.time_ns)
