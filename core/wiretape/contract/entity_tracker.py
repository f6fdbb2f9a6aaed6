"""Entities of one stream: which are open, which are closed, and which events do not fit."""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice

from msgspec import Struct, field

from wiretape.bounded_dict import put_bounded
from wiretape.contract.contract_tables import Aspect
from wiretape.contract.facts import format_key
from wiretape.event import Event
from wiretape.event_format import Entity, Key

_MOST_ENTITIES = 10_000
"""Entities of one kind that are remembered for each stream, open or closed."""


_MOST_BREACHES = 100
"""Breaches that are reported for one event."""


class OpenEntity(Struct, eq=False):
    """One entity that was opened on a stream."""

    key: Key
    parent: Key | None
    """The key of the entity that it is in, if the event had one."""
    joined: dict[int, "JoinedText"] = field(default_factory=dict)
    """The texts of its deltas, for each rule that joins them."""


class JoinedText:
    """The length and a hash of texts that were joined."""

    __slots__ = ("hash", "is_whole", "length")

    def __init__(self) -> None:
        self.hash = blake2b(digest_size=16)
        self.is_whole = True
        """Whether every event that was added has a text."""
        self.length = 0

    def add(self, text: str | None) -> None:
        """Append a text; None if an event has none where the contract says."""
        if text is None:
            self.is_whole = False
            return
        self.hash.update(text.encode("utf-8", "surrogatepass"))
        self.length += len(text)


class Breach(Struct, frozen=True):
    """An event that does not fit the life of its entity."""

    aspect: Aspect
    key: Key
    expected: str
    got: str


class EntityTracker:
    """Follows the entities of one kind on one stream."""

    def __init__(self, entity: Entity, *, is_complete: bool) -> None:
        self.entity = entity
        self.open: dict[Key, OpenEntity] = {}
        self._inside: dict[Key | None, dict[Key, None]] = {}
        """The keys of those that are open, by the key of the entity that they are in."""
        self.closed: dict[Key, None] = {}
        self.is_complete = is_complete
        """Whether every event of the channel up to now was seen on this stream."""
        self.breaches: list[Breach] = []
        """Those of the current event."""
        self.current: OpenEntity | None = None
        """The entity of the current event, if its opening was seen; also if the event closes it."""
        self.is_concerned = False
        """Whether the current event is one of an entity."""
        self.is_uncertain = False
        """Whether the stream does not show the life of the current event's entity from its beginning."""
        self.parent: EntityTracker | None = None
        self.children: list[EntityTracker] = []

    def lose(self) -> None:
        """Forget the entities, because any events may have been lost."""
        self.forget()
        self.is_complete = False

    def forget(self) -> None:
        """Begin with no entity, open or closed."""
        self.open.clear()
        self._inside.clear()
        self.closed.clear()

    def begin_event(self) -> None:
        """Forget what was noted about the event before."""
        self.breaches, self.current, self.is_concerned, self.is_uncertain = [], None, False, False

    def add(self, event: Event) -> None:
        """Add the current event, after all trackers that it concerns have begun it."""
        entity, type_ = self.entity, event.type
        opens, closes = entity.opens.matches(type_), entity.closes.matches(type_)
        is_concerned = opens or closes or entity.continues.matches(type_)
        key = self.read_key(event) if is_concerned else None
        if key is None:
            return
        self.is_concerned = True
        if opens:
            self._open(event, key)
        if closes:
            self._close(key)
        elif not opens:
            self._continue(key)

    def read_key(self, event: Event) -> Key | None:
        """Return the key of an event; that of the only one that is open, if the event has none."""
        key = self.entity.read_key(event.json)
        return next(iter(self.open), None) if key is None and self.entity.single else key

    def close_parent(self, parent: Entity, key: Key) -> None:
        """Report the entities that are open inside one that the current event closes."""
        for inside in islice(self._inside.pop(key, {}), _MOST_BREACHES):
            self.is_concerned = True
            expected = f"to be closed before {format_key(parent, key)}"
            self._breach(Aspect.CLOSES_BEFORE_PARENT, inside, expected, "it still open")

    def unclosed(self) -> Iterator[Breach]:
        """Yield the entities that are open although the stream has ended."""
        for key in islice(self.open, _MOST_BREACHES):
            expected = f"{format_key(self.entity, key)} to be closed before the stream ends"
            yield Breach(Aspect.CLOSES, key, expected, "no event")

    def _open(self, event: Event, key: Key) -> None:
        if self.entity.single:
            self._replace(key)
        if key in self.open or (key in self.closed and not self.entity.reopens):
            again = "opened again" if key in self.open else "opened again after it was closed"
            self._breach(Aspect.OPENS_ONCE, key, "to be opened once", f"it {again}")
        elif not self.is_complete:
            self.is_uncertain = True
        parent = self.parent
        parent_key = None if parent is None else parent.read_key(event)
        self.current = OpenEntity(key, parent_key)
        if len(self.open) >= _MOST_ENTITIES:
            self.lose()
        self._remove(key)
        self.open[key] = self.current
        self._inside.setdefault(parent_key, {})[key] = None
        self.closed.pop(key, None)
        if parent is None or parent_key is None or parent_key in parent.open:
            return
        if parent.is_complete or parent_key in parent.closed:
            when = "after it was closed" if parent_key in parent.closed else "before it was opened"
            self._breach(Aspect.INSIDE_PARENT, key, f"inside {format_key(parent.entity, parent_key)}", f"it {when}")
        else:
            self.is_uncertain = True

    def _replace(self, key: Key) -> None:
        """Begin with nothing open, because a stream has one such entity at a time."""
        for other in list(self.open):
            got = f"it opened while {format_key(self.entity, other)} was open"
            self._breach(Aspect.ONE_AT_A_TIME, key, "to be opened after the previous one was closed", got)
            self._remove(other)
        for child in self.children:
            child.forget()

    def _close(self, key: Key) -> None:
        if self.entity.single and key not in self.open and self.open:
            got, (key,) = format_key(self.entity, key), self.open
            self._breach(Aspect.ONE_AT_A_TIME, key, "to be closed", got)
        self.current = self._remove(key)
        if self.current is None:
            self._miss(key, Aspect.CLOSES_ONCE, "to be closed once", "it closed again")
        if len(self.closed) >= _MOST_ENTITIES:
            self.is_complete = False
        put_bounded(self.closed, key, None, _MOST_ENTITIES)
        for child in self.children:
            child.close_parent(self.entity, key)

    def _remove(self, key: Key) -> OpenEntity | None:
        """Return an entity that is no longer open; None if it was not."""
        removed = self.open.pop(key, None)
        if removed is not None:
            siblings = self._inside.get(removed.parent, {})
            siblings.pop(key, None)
            if not siblings:
                self._inside.pop(removed.parent, None)
        return removed

    def _continue(self, key: Key) -> None:
        self.current = self.open.get(key)
        if self.current is None:
            self._miss(key, Aspect.NOTHING_AFTER, "to have no events after it was closed", "one")

    def _miss(self, key: Key, aspect: Aspect, expected: str, got: str) -> None:
        """Report an event of an entity that is not open."""
        if key in self.closed:
            self._breach(aspect, key, expected, got)
        elif self.is_complete:
            self._breach(Aspect.OPENS_FIRST, key, f"to be opened by {self.entity.opens} first", "no such event")
        else:
            self.is_uncertain = True

    def _breach(self, aspect: Aspect, key: Key, expected: str, got: str) -> None:
        self.breaches.append(Breach(aspect, key, f"{format_key(self.entity, key)} {expected}", got))
