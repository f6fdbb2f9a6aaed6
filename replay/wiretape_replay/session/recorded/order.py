"""Puts the durable events of a session in order.  Pure: no I/O, no clock."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from wiretape.rules import format_number
from wiretape_replay.session.recorded.draft_entry import DraftEntry


def in_order(carried: Sequence[Sequence[DraftEntry]]) -> tuple[list[DraftEntry], str]:
    """Every event of `carried` once, and why that is not the order of their sequences (empty when it is).

    `carried` are the events of each connection, in the order in which it carried them and each once; the
    connections in the order of their beginning.
    """
    every = list(dict.fromkeys(piece for pieces in carried for piece in pieces))
    trouble = _trouble(carried, every)
    ordered = _as_first_seen(carried) if trouble else sorted(every, key=attrgetter("sequence"))
    for place, piece in enumerate(ordered):
        piece.place = place
    return ordered, trouble


def _trouble(carried: Sequence[Sequence[DraftEntry]], every: Sequence[DraftEntry]) -> str:
    """Why the sequences give no order; empty when they do."""
    bare = sum(piece.sequence is None for piece in every)
    if bare:
        return f"{bare} of its {len(every)} durable events carry no sequence"
    for pieces in carried:
        for before, after in pairwise(pieces):
            if _number(after) <= _number(before):
                return f"on one connection sequence {_shown(after)} comes after sequence {_shown(before)}"
    if len({piece.sequence for piece in every}) < len(every):
        return "different events carry the same sequence"
    return ""


def _number(piece: DraftEntry) -> int:
    return piece.sequence or 0


def _shown(piece: DraftEntry) -> str:
    return format_number(_number(piece))


def _as_first_seen(carried: Sequence[Sequence[DraftEntry]]) -> list[DraftEntry]:
    """By time, but what a connection replayed in front of an event that was known stays in front of it."""
    known: set[DraftEntry] = set()
    in_front: dict[DraftEntry, list[DraftEntry]] = {}
    free: list[DraftEntry] = []
    for pieces in carried:
        new: list[DraftEntry] = []
        for piece in pieces:
            if piece not in known:
                new.append(piece)
            elif new:
                in_front.setdefault(piece, []).extend(new)
                new = []
        free += new
        known.update(pieces)
    free.sort(key=attrgetter("time_ns"))
    return list(_unfolded(free, in_front))


def _unfolded(pieces: Sequence[DraftEntry], in_front: dict[DraftEntry, list[DraftEntry]]) -> Iterator[DraftEntry]:
    """Each piece after those that belong in front of it."""
    ahead = list(reversed(pieces))
    while ahead:
        front = in_front.pop(ahead[-1], None)
        if front is None:
            yield ahead.pop()
        else:
            ahead += reversed(front)
