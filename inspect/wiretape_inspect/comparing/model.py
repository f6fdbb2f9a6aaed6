"""What a comparison finds."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from wiretape.json_diff import Difference
from wiretape.recording import Exchange

Kind = Literal["missing", "added", "changed", "moved", "time"]
"""missing: only in the first.  added: only in the second.  changed: in both, with other values.
moved: in both, but not in the same order.  time: in both, but later or sooner than the tolerance allows.
"""
KINDS: tuple[Kind, ...] = ("missing", "added", "changed", "moved", "time")
What = Literal["exchange", "event", "text"]
"""exchange: a request and its answer, but for the events of its stream.  event: one of these that is no delta.
text: what the deltas of one type and run join to.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a recording."""

    exchange: int
    event: int | None
    """None: it is about the exchange."""
    time_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """One difference."""

    kind: Kind
    what: What
    places: tuple[Place | None, Place | None]
    type: str = ""
    """The type of an event, or of deltas."""
    id: str | None = None
    """The SSE id of an event, of the first recording's if it is there."""
    sequence: int | None = None
    run_id: str | None = None
    """Of a text: the run that it belongs to."""
    fields: tuple[Difference, ...] = ()
    """Of something changed: where, and what stands there.

    Paths that begin with `$` lie in the JSON of an event; others are named as in docs/diff.md.
    """
    later_ns: int | None = None
    """Of a time: how much later it came in the second recording."""

    @property
    def first(self) -> Place | None:
        """Where it stands in the first recording; None: it does not."""
        return self.places[0]

    @property
    def second(self) -> Place | None:
        """Where it stands in the second recording; None: it does not."""
        return self.places[1]


@dataclass(slots=True)
class Compared:
    """Two exchanges that were compared, or one that has no partner."""

    first: Exchange | None
    second: Exchange | None
    most: int = 0
    """How many of each kind are kept; 0: all."""
    counts: Counter[Kind] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)
    events: int = 0
    """Messages of both streams that were compared."""

    def add(self, found: Found) -> None:
        """Count a difference, and keep it if there is room."""
        if self.has_room(found.kind):
            self.found.append(found)
        self.counts[found.kind] += 1

    def has_room(self, kind: Kind) -> bool:
        """Whether one more difference of a kind would be kept."""
        return not self.most or self.counts[kind] < self.most

    @property
    def omitted(self) -> int:
        """How many differences were counted but not kept."""
        return self.counts.total() - len(self.found)

    def sort(self) -> None:
        """Put what was found in the order of the first stream, what only the second has at its place in that."""
        self.found.sort(key=_order)


def _order(found: Found) -> tuple[int, int, int]:
    place = found.first or found.second
    event = place.event if place else None
    return (-1 if event is None else event, KINDS.index(found.kind), 0 if found.first else 1)
