"""The tape: the n-th request of a kind is given the n-th recorded exchange of that kind.  Pure: no I/O, no clock."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from wiretape_replay.front.asked import Asked, Body
from wiretape_replay.tape.kind import Kind, kind_of, recorded_kind


@dataclass(frozen=True, slots=True)
class Entry:
    """A recorded request, as far as matching needs it."""

    number: int
    """Of its exchange."""
    method: str
    target: str
    body: Body | None
    """None when it was not recorded whole: then any body will do."""


@dataclass(slots=True)
class Lane:
    """The recorded exchanges of one kind, in recorded order."""

    kind: Kind
    entries: list[Entry] = field(default_factory=list)
    given: int = 0

    @property
    def first(self) -> Entry:
        """The first recorded request of this kind, which stands for all."""
        return self.entries[0]

    @property
    def spent(self) -> bool:
        """Whether every recorded answer was given."""
        return self.given == len(self.entries)

    def take(self) -> Entry:
        """The next recorded exchange."""
        self.given += 1
        return self.entries[self.given - 1]


class Tape:
    """Matches requests to recorded exchanges, giving each exchange once."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """`entries` in recorded order."""
        self.lanes: list[Lane] = []
        self._exact: dict[Kind, Lane] = {}
        self._hidden: list[Lane] = []
        everything = list(entries)
        matter = _places_where_bodies_matter(everything)
        for entry in everything:
            self._add(entry, _place(entry) in matter)

    def take(self, asked: Asked) -> Entry | None:
        """The exchange to answer with; None when nothing like it was recorded or all such answers were given."""
        for lane in self.matching(asked):
            if not lane.spent:
                return lane.take()
        return None

    def matching(self, asked: Asked) -> Iterator[Lane]:
        """The lanes that the request belongs to, spent or not, the closest first."""
        kind = kind_of(asked.method, asked.target)
        for candidate in (replace(kind, body=asked.body.digest), kind):
            lane = self._exact.get(candidate)
            if lane is not None:
                yield lane
        for lane in self._hidden:
            if not lane.kind.differences(kind, asked.body):
                yield lane

    @property
    def size(self) -> int:
        """How many exchanges were recorded."""
        return sum(len(lane.entries) for lane in self.lanes)

    @property
    def unconsumed(self) -> list[Entry]:
        """The recorded requests that were never asked, in recorded order."""
        left = [entry for lane in self.lanes for entry in lane.entries[lane.given :]]
        return sorted(left, key=lambda entry: entry.number)

    def _add(self, entry: Entry, body_matters: bool) -> None:
        kind = recorded_kind(entry.method, entry.target, entry.body if body_matters else None)
        lane = self._exact.get(kind)
        if lane is None:
            lane = self._exact[kind] = Lane(kind)
            self.lanes.append(lane)
            if kind.hidden:
                self._hidden.append(lane)
        lane.entries.append(entry)


def _place(entry: Entry) -> tuple[str, str]:
    kind = kind_of(entry.method, entry.target)
    return kind.method, kind.path


def _places_where_bodies_matter(entries: Iterable[Entry]) -> set[tuple[str, str]]:
    """Methods and paths whose recorded bodies differ, so that a body says which answer is meant."""
    digests: defaultdict[tuple[str, str], set[bytes]] = defaultdict(set)
    for entry in entries:
        if entry.body is not None:
            digests[_place(entry)].add(entry.body.digest)
    return {place for place, different in digests.items() if len(different) > 1}
