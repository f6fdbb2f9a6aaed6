"""The durable events seen in one session, on any connection: what a replay is compared with.

An event is identified by its id.  If it has none (DUR002), or the id of another event (SEQ003), its sequence
identifies it as well.

If there are very many, the oldest are dropped; rules about those are then inconclusive.
"""

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from wiretape.event import Event
from wiretape.json_equality import hash_json, json_hash

MOST_EVENTS = 50_000
"""Events kept for each session."""
LEAST_EVENTS = 200
"""Events kept for a session even if there are too many in all sessions."""
# Calling `KnownEvent` takes three times as long.
_new_tuple = tuple.__new__


class KnownEvent(NamedTuple):
    """What is kept of a durable event."""

    sequence: int | None
    first_ns: int
    """When it was first seen."""
    json_hash: int | None
    """Hash of its JSON; None if that cannot be compared."""


class EventBudget(Struct):
    """The number of events kept in all sessions together, and of ids kept for all open streams."""

    most: int = 200_000
    events: int = 0
    ids: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether events have to be dropped."""
        return self.events > self.most

    @property
    def has_spent_ids(self) -> bool:
        """Whether ids of streams have to be dropped."""
        return self.ids > self.most


class EventLog:
    """The durable events of one session by id, in the order in which they were first seen."""

    def __init__(self, budget: EventBudget) -> None:
        self.events: dict[str, KnownEvent] = {}
        self.other_events: dict[tuple[str | None, int], KnownEvent] = {}
        """By id and sequence the events without an id, and those with the id of another event."""
        self.first_ids: dict[int, str] = {}
        """For each sequence the first id seen with it."""
        self.dropped = False
        """Whether events were dropped."""
        self.has_disorder = False
        """Whether sequences do not show the order of the session: one was reused, or not above the one before it."""
        self.dropped_up_to: int | None = None
        """The highest sequence of the dropped events."""
        self.budget = budget
        self._highest: int | None = None
        self._ascending = True

    def find(self, event: Event) -> KnownEvent | None:
        """Return what is kept of the event from the first time that it was seen, with another id or none if need be."""
        identity, sequence = event.cursor, event.sequence
        known = None if identity is None else self.events.get(identity)
        if known is None:
            if sequence not in self.first_ids and not self.other_events:
                return None
        elif sequence is None or known[0] == sequence or not self.has_other_event(event):
            return known
        if sequence is None:
            return None
        return self.other_events.get((None if known is None else identity, sequence)) or self._find_renamed(event)

    def has_other_event(self, event: Event) -> bool:
        """Whether another event has the id of this one (SEQ003): one that differs not only in its sequence."""
        known = None if event.cursor is None else self.events.get(event.cursor)
        if known is None or event.sequence is None or known.sequence is None or known.sequence == event.sequence:
            return False
        json_hash = hash_json(event, {"sequence": known.sequence})
        return json_hash is not None and known.json_hash is not None and json_hash != known.json_hash

    def has_other_number(self, event: Event) -> bool:
        """Whether the id of an event is known with another sequence (SEQ003 or RES003)."""
        known = None if event.cursor is None else self.events.get(event.cursor)
        return known is not None and known.sequence is not None and known.sequence != event.sequence

    def is_ambiguous(self, identity: str) -> bool:
        """Whether several events have an id."""
        return any(identity == other for other, _ in self.other_events)

    def is_new(self, event: Event, known: KnownEvent | None) -> bool:
        """Whether the event, of which `known` was found, is certainly seen for the first time."""
        if known is not None:
            return False
        if event.sequence is None:
            return event.cursor is not None and not self.dropped
        return self.dropped_up_to is None or event.sequence > self.dropped_up_to

    def add(self, event: Event) -> None:
        """Add an event that is new, or whose id is."""
        identity, sequence = event.cursor, event.sequence
        if sequence is not None:
            if self._highest is None or sequence > self._highest:
                self._highest = sequence
            else:
                self._ascending = False
        known = _new_tuple(KnownEvent, (sequence, event.time_ns, json_hash(event)))
        if identity is not None and identity not in self.events:
            self.events[identity] = known
        elif sequence is not None:
            self.other_events[identity, sequence] = known
        if identity is not None and sequence is not None:
            self.first_ids.setdefault(sequence, identity)
        budget, count = self.budget, len(self.events) + len(self.other_events)
        budget.events += 1
        if count > MOST_EVENTS or (count > LEAST_EVENTS and budget.is_spent):
            self._drop(count // 2)

    def after(self, cursor: KnownEvent, before_ns: int) -> dict[str, tuple[int, int]]:
        """Return, for each event after a cursor first seen before `before_ns`, its id, its sequence and that time.

        They are in ascending order of their sequences.
        """
        return dict(sorted(self._after(cursor, before_ns), key=itemgetter(1)))

    def _find_renamed(self, event: Event) -> KnownEvent | None:
        """Return the event that has the sequence of this one, and differs from it only in its id (SEQ002, DUR002)."""
        sequence = event.sequence
        first = None if sequence is None else self.first_ids.get(sequence)
        if sequence is None or first is None or first == event.cursor:
            return None
        known = self.other_events.get((first, sequence)) or self.events.get(first)
        if known is None or event.cursor is None:
            return known
        json_hash = hash_json(event, {"id": first})
        return known if json_hash is not None and json_hash == known.json_hash else None

    def release(self) -> None:
        """Return the events to the budget, because the session is dropped."""
        self.budget.events -= len(self.events) + len(self.other_events)

    def _after(self, cursor: KnownEvent, before_ns: int) -> Iterator[tuple[str, tuple[int, int]]]:
        if cursor.sequence is None:
            return
        for identity, known in reversed(self.events.items()):
            if known.sequence is not None and known.sequence > cursor.sequence:
                # In a session out of order, what was seen before the cursor may precede it.
                if known.first_ns < before_ns and not (self.has_disorder and known.first_ns < cursor.first_ns):
                    yield identity, (known.sequence, known.first_ns)
            elif self._ascending and known.sequence is not None:
                return

    def _drop(self, count: int) -> None:
        dropped = [self.events.pop(identity).sequence for identity in list(islice(self.events, count))]
        others = list(islice(self.other_events, count - len(dropped)))
        dropped += [self.other_events.pop(key).sequence for key in others]
        for sequence in dropped:
            if sequence is not None:
                self.dropped_up_to = sequence if self.dropped_up_to is None else max(self.dropped_up_to, sequence)
                self.first_ids.pop(sequence, None)
        self.budget.events -= len(dropped)
        self.dropped = True
