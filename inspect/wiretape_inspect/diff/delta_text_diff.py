"""Compare the texts that deltas join to."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from wiretape.json_diff import Difference
from wiretape_inspect.diff.alignment import Key, pair_items
from wiretape_inspect.diff.diff_model import DiffEntry, ExchangeDiff, Location
from wiretape_inspect.diff.stream_items import MAX_TEXT_LENGTH, DeltaText, StreamItems
from wiretape_inspect.diff.value_comparison import ValueComparison, common_prefix_length

_EXCERPT = 200
"""Characters of a text that are kept from its first difference."""


class _Text(NamedTuple):
    side: int
    position: int
    delta_text: DeltaText


def compare_texts(first: StreamItems, second: StreamItems, values: ValueComparison, diff: ExchangeDiff) -> None:
    """Add the differences of the joined deltas of each type and run to `diff`; with `pieces` also how they are cut."""
    streams = (first, second)
    unpaired: tuple[list[_Text], list[_Text]] = ([], [])
    pairs = pair_items(
        _texts(0, first), _texts(1, second), _keys(values), lambda text: text.position, unpaired=unpaired
    )
    for here, there in pairs:
        one, other = here.delta_text, there.delta_text
        is_same_run = values.is_same_id(one.run_id, other.run_id)
        run = () if is_same_run else (Difference("run_id", one.run_id, other.run_id),)
        offset, fields = _compare(values, one, other)
        if run or fields:
            locations = (_location(streams, here, offset), _location(streams, there, offset))
            diff.add(DiffEntry("changed", "text", locations, one.type, run_id=one.run_id, fields=(*run, *fields)))
    for text in unpaired[0]:
        location = _location(streams, text, 0)
        diff.add(DiffEntry("missing", "text", (location, None), text.delta_text.type, run_id=text.delta_text.run_id))
    for text in unpaired[1]:
        location = _location(streams, text, 0)
        diff.add(DiffEntry("added", "text", (None, location), text.delta_text.type, run_id=text.delta_text.run_id))


def _texts(side: int, stream: StreamItems) -> Iterator[_Text]:
    return (_Text(side, index, delta_text) for index, delta_text in enumerate(stream.texts.values()))


def _keys(values: ValueComparison) -> list[Key[_Text]]:
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
        offset = common_prefix_length(here, there)
        excerpts = (text[offset : offset + _EXCERPT] for text in (here, there))
        return offset, (Difference(f"text[{offset}:]", *excerpts),)
    if is_cut and first.length != second.length:
        return MAX_TEXT_LENGTH, (Difference("characters", first.length, second.length),)
    if values.options.deltas == "pieces" and first.ends != second.ends:
        pairs = zip(first.ends, second.ends, strict=False)
        offset = next((min(pair) for pair in pairs if pair[0] != pair[1]), 0)
        return offset, (Difference("pieces", len(first.ends), len(second.ends)),)
    return 0, ()


def _location(streams: tuple[StreamItems, StreamItems], text: _Text, offset: int) -> Location:
    """The delta that holds a character, or the last one."""
    delta_text, number = text.delta_text, streams[text.side].exchange.number
    at = min(bisect_right(delta_text.ends, offset), len(delta_text.events) - 1)
    return Location(number, delta_text.events[at], delta_text.times[at])
