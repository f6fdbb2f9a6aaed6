"""What can be compared, and what a comparison finds."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from wiretape.json_path import Difference, JsonPath
from wiretape.recording import Exchange
from wiretape_inspect.view.timeline_rows import Keys

DeltaComparison = Literal["text", "pieces", "none"]
"""text: the text that deltas join to.  pieces: also where it is cut.  none: deltas are not compared."""
Kind = Literal["missing", "added", "changed", "moved", "time"]
"""missing: only in the first.  added: only in the second.  changed: in both, with other values.
moved: in both, but not in the same order.  time: in both, but later or earlier than the tolerance allows.
"""
KINDS: tuple[Kind, ...] = ("missing", "added", "changed", "moved", "time")
Subject = Literal["exchange", "event", "text"]
"""exchange: a request and its response, without the events of its stream.  event: an event that is not a delta.
text: the joined deltas of one type and run.
"""

TOLERANCE_NS = 200_000_000
"""How much later or earlier an event may come in the comparisons of the page, and of two connections."""


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """What counts as a difference; by default everything that is compared has to be equal."""

    ids: bool = False
    """Normalize ids: they may differ, but have to appear in the same places."""
    times: bool = False
    """Normalize timestamps in JSON: they have to be present, with any value."""
    ignored: tuple[JsonPath, ...] = ()
    """Values in JSON that are not compared."""
    headers: tuple[str, ...] = ()
    """Lower-case names of headers to compare besides those that always are."""
    deltas: DeltaComparison = "text"
    tolerance_ns: int | None = None
    """How much later or earlier something may come; None: times are not compared."""
    limit: int = 100
    """How many differences of each kind to keep for a pair of exchanges, 0: all; the others are counted."""


@dataclass(frozen=True, slots=True)
class DiffLocation:
    """Where something is in a recording."""

    exchange: int
    event: int | None
    """None: the whole exchange."""
    time_ns: int


@dataclass(frozen=True, slots=True)
class DiffEntry:
    """One difference."""

    kind: Kind
    subject: Subject
    locations: tuple[DiffLocation | None, DiffLocation | None]
    """The locations in the first and in the second recording, if it is there."""
    type: str = ""
    """The type of an event, or of deltas."""
    id: str | None = None
    """The SSE id of an event; that of the first recording if it is there."""
    sequence: int | None = None
    keys: Keys = field(default_factory=dict)
    """The keys of the entities of a text."""
    fields: tuple[Difference, ...] = ()
    """The values that changed.

    Paths that begin with `$` are in the JSON of an event; docs/diff.md lists the others.
    """
    later_ns: int | None = None
    """How much later it came in the second recording."""


@dataclass(slots=True)
class ExchangeDiff:
    """The differences between two exchanges, or one exchange without a counterpart."""

    first: Exchange | None
    second: Exchange | None
    limit: int = 0
    """How many differences of each kind to keep; 0: all."""
    counts: Counter[Kind] = field(default_factory=Counter)
    entries: list[DiffEntry] = field(default_factory=list)
    events: tuple[int, int] = (0, 0)
    """How many events of each stream were compared."""

    def add(self, entry: DiffEntry) -> None:
        """Count a difference, and keep it unless the limit is reached."""
        if self.has_room(entry.kind):
            self.entries.append(entry)
        self.counts[entry.kind] += 1

    def has_room(self, kind: Kind) -> bool:
        """Whether another difference of a kind would be kept."""
        return not self.limit or self.counts[kind] < self.limit

    @property
    def omitted(self) -> int:
        """How many differences were counted but not kept."""
        return self.counts.total() - len(self.entries)

    def sort(self) -> None:
        """Sort the entries in the order of the first stream; those of the second only go to the same event number."""
        self.entries.sort(key=_sort_key)


def _sort_key(entry: DiffEntry) -> tuple[int, int, int]:
    first, second = entry.locations
    location = first or second
    event = location.event if location else None
    return (-1 if event is None else event, KINDS.index(entry.kind), 0 if first else 1)


@dataclass(slots=True)
class DiffTotal:
    """The sum of a comparison."""

    exchanges: int = 0
    """Pairs of exchanges that were compared."""
    events: tuple[int, int] = (0, 0)
    """Events of their streams, of each recording."""
    counts: Counter[Kind] = field(default_factory=Counter)
    omitted: int = 0
    unpaired: Counter[Kind] = field(default_factory=Counter)
    """Exchanges that only one recording has."""

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return not self.counts

    def add(self, diff: ExchangeDiff) -> None:
        """Add the result of one pair of exchanges."""
        self.exchanges += diff.first is not None and diff.second is not None
        self.events = (self.events[0] + diff.events[0], self.events[1] + diff.events[1])
        self.counts += diff.counts
        self.omitted += diff.omitted
        self.unpaired.update(
            entry.kind for entry in diff.entries if entry.subject == "exchange" and None in entry.locations
        )
