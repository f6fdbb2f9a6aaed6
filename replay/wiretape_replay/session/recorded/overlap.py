"""Joins what several connections carried between the same two durable events.  Pure: no I/O, no clock.

Connections that are open at the same time receive the same live output; it belongs into the log once.
"""

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter

from wiretape.contract import DELTA_TYPES
from wiretape_replay.session.recorded.draft_entry import DraftEntry
from wiretape_replay.session.recorded.recorded_connection import Stretch

_BY_TIME = attrgetter("time_ns")
_LATER_NS = 1_000_000_000
"""How much later than on one connection the same event may come on another."""


def merge_stretches(stretches: Sequence[Stretch]) -> Iterator[DraftEntry]:
    """The pieces of stretches between the same two durable events, in the order of the log.

    Of stretches that overlap in time each event comes once; others come one after the other.
    """
    for together in _overlapping(stretches):
        whole = together[0]
        for stretch in together[1:]:
            whole = _joined(whole, stretch)
        comments = sorted((piece for stretch in together for piece in stretch.comments), key=_BY_TIME)
        yield from heapq.merge(whole.pieces, comments, key=_BY_TIME)
        for stretch in together:
            yield from stretch.last


def _overlapping(stretches: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    """Groups of stretches each of which begins before one of its group has ended."""
    together: list[Stretch] = []
    end_ns = 0
    for stretch in sorted(stretches, key=attrgetter("begin_ns")):
        if together and stretch.begin_ns >= end_ns:
            yield together
            together = []
        together.append(stretch)
        end_ns = max(end_ns, stretch.end_ns)
    if together:
        yield together


def _joined(first: Stretch, second: Stretch) -> Stretch:
    """What was carried by either; the one with deltas tells their places."""
    if first.deltas != second.deltas:
        rich, poor = (first, second) if first.deltas else (second, first)
    else:
        rich, poor = (first, second) if len(first.pieces) >= len(second.pieces) else (second, first)
    joined = Stretch(rich.deltas, first.after, first.begin_ns, max(first.end_ns, second.end_ns))
    joined.pieces = _with_missing(rich, poor)
    return joined


def _with_missing(rich: Stretch, poor: Stretch) -> list[DraftEntry]:
    """The pieces of `rich`, and those of `poor` that it lacks."""
    shared = rich.pieces
    if rich.deltas != poor.deltas:
        shared = [piece for piece in shared if piece.type not in DELTA_TYPES]
    known, more = [piece.data for piece in shared], [piece.data for piece in poor.pieces]
    outlives = poor.end_ns > rich.end_ns + _LATER_NS
    if not outlives and _is_within(more, known):
        return rich.pieces
    behind, ahead = _overlap(known, more), 0 if outlives else _overlap(more, known)
    if behind == ahead == 0:
        if rich.deltas == poor.deltas:
            both = sorted((rich, poor), key=attrgetter("begin_ns"))
            return both[0].pieces + both[1].pieces
        return list(heapq.merge(rich.pieces, poor.pieces, key=_BY_TIME))
    if behind >= ahead:
        # The end of `rich` is the beginning of `poor`, which has more behind it.
        cut = rich.pieces.index(shared[-1]) + 1
        return rich.pieces[:cut] + list(heapq.merge(rich.pieces[cut:], poor.pieces[behind:], key=_BY_TIME))
    cut = rich.pieces.index(shared[0])
    return list(heapq.merge(rich.pieces[:cut], poor.pieces[:-ahead], key=_BY_TIME)) + rich.pieces[cut:]


def _is_within(some: Sequence[bytes], all_of_them: Sequence[bytes]) -> bool:
    """Whether `some` come in the other sequence too, in the same order."""
    rest = iter(all_of_them)
    return all(data in rest for data in some)


def _overlap(before: Sequence[bytes], after: Sequence[bytes]) -> int:
    """How many items at most both end `before` and begin `after`."""
    # For each beginning of `after`, how much of its end is a beginning of `after` too (Knuth, Morris and Pratt).
    borders = [0] * len(after)
    length = 0
    for at in range(1, len(after)):
        length = _extended(after, borders, length, after[at])
        borders[at] = length
    length = 0
    for data in before[-len(after) :] if after else ():
        length = _extended(after, borders, length, data)
    return length


def _extended(items: Sequence[bytes], borders: Sequence[int], length: int, data: bytes) -> int:
    """The longest beginning of `items` that ends with `data` behind one of `length` items."""
    while length and (length == len(items) or items[length] != data):
        length = borders[length - 1]
    return length + 1 if length < len(items) and items[length] == data else length
