"""Merges what several connections carried between the same two durable events.  Pure: no I/O, no clock.

Connections that are open at the same time receive the same live output, which belongs into the log once.
"""

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter

from wiretape.contract import DELTA_TYPES
from wiretape_replay.session.recorded.draft_entry import DraftEntry
from wiretape_replay.session.recorded.recorded_connection import Stretch

_BY_TIME = attrgetter("time_ns")
_TOLERANCE_NS = 1_000_000_000
"""How much later the same event may arrive on another connection."""


def merge_stretches(stretches: Sequence[Stretch]) -> Iterator[DraftEntry]:
    """The entries of stretches between the same two durable events, in the order of the log.

    Of stretches that overlap in time, each event is taken once; others follow one another.
    """
    for group in _group_overlapping(stretches):
        merged = group[0]
        for stretch in group[1:]:
            merged = _merge(merged, stretch)
        comments = sorted((comment for stretch in group for comment in stretch.comments), key=_BY_TIME)
        yield from heapq.merge(merged.events, comments, key=_BY_TIME)
        for stretch in group:
            yield from stretch.last


def _group_overlapping(stretches: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    """Groups in which each stretch begins before another of the group has ended."""
    group: list[Stretch] = []
    end_ns = 0
    for stretch in sorted(stretches, key=attrgetter("begin_ns")):
        if group and stretch.begin_ns >= end_ns:
            yield group
            group = []
        group.append(stretch)
        end_ns = max(end_ns, stretch.end_ns)
    if group:
        yield group


def _merge(first: Stretch, second: Stretch) -> Stretch:
    """Everything that either carried; the one with deltas determines the order."""
    if first.deltas != second.deltas:
        rich, poor = (first, second) if first.deltas else (second, first)
    else:
        rich, poor = (first, second) if len(first.events) >= len(second.events) else (second, first)
    merged = Stretch(rich.deltas, first.after, first.begin_ns, max(first.end_ns, second.end_ns))
    merged.events = _add_missing(rich, poor)
    return merged


def _add_missing(rich: Stretch, poor: Stretch) -> list[DraftEntry]:
    """The events of `rich`, and those of `poor` that it lacks."""
    shared = rich.events
    if rich.deltas != poor.deltas:
        shared = [event for event in shared if event.type not in DELTA_TYPES]
    rich_data, poor_data = [event.data for event in shared], [event.data for event in poor.events]
    poor_outlives = poor.end_ns > rich.end_ns + _TOLERANCE_NS
    if not poor_outlives and _is_subsequence(poor_data, rich_data):
        return rich.events
    behind, ahead = _count_overlap(rich_data, poor_data), 0 if poor_outlives else _count_overlap(poor_data, rich_data)
    if behind == ahead == 0:
        if rich.deltas == poor.deltas:
            both = sorted((rich, poor), key=attrgetter("begin_ns"))
            return both[0].events + both[1].events
        return list(heapq.merge(rich.events, poor.events, key=_BY_TIME))
    if behind >= ahead:
        # The end of `rich` is the beginning of `poor`, which continues after it.
        cut = rich.events.index(shared[-1]) + 1
        return rich.events[:cut] + list(heapq.merge(rich.events[cut:], poor.events[behind:], key=_BY_TIME))
    cut = rich.events.index(shared[0])
    return list(heapq.merge(rich.events[:cut], poor.events[:-ahead], key=_BY_TIME)) + rich.events[cut:]


def _is_subsequence(some: Sequence[bytes], others: Sequence[bytes]) -> bool:
    """Whether all of `some` occur in `others` in the same order."""
    remaining = iter(others)
    return all(data in remaining for data in some)


def _count_overlap(before: Sequence[bytes], after: Sequence[bytes]) -> int:
    """The length of the longest end of `before` that is a beginning of `after` (Knuth, Morris and Pratt)."""
    borders = [0] * len(after)
    length = 0
    for at in range(1, len(after)):
        length = _extend_border(after, borders, length, after[at])
        borders[at] = length
    length = 0
    for data in before[-len(after) :] if after else ():
        length = _extend_border(after, borders, length, data)
    return length


def _extend_border(items: Sequence[bytes], borders: Sequence[int], length: int, data: bytes) -> int:
    """The longest beginning of `items` that ends with `data`, after a beginning of `length` items."""
    while length and (length == len(items) or items[length] != data):
        length = borders[length - 1]
    return length + 1 if length < len(items) and items[length] == data else length
