"""Facts of events: what a contract reads from an event, each where a rule needs it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from wiretape.contract.contract_tables import EntityTable, EventTable
from wiretape.contract.patterns import MISSING, Globs, Pointer, list_of
from wiretape.event import Event
from wiretape.rules.exchange import Located
from wiretape.rules.finding import Location, describe, quote

Key = tuple[str | int, ...]
"""The key of an entity: the values of its pointers."""
_INT64 = 2**63
_LONGEST_TEXT = 200
"""Texts up to this length are kept as they are; of longer ones, a hash."""
_DURABLE: dict[tuple[str, ...], tuple[str, ...]] = {("always",): ("*",), ("never",): ()}
"""The types that words stand for."""
_DEFAULT_TYPE = "message"
"""The type of events without an `event` line, as the HTML standard names it."""


class Entity:
    """Something that events open, continue and close."""

    def __init__(self, name: str, table: EntityTable) -> None:
        """Raises ValueError."""
        self.name = name
        self.key = tuple(map(Pointer, list_of(table.key)))
        """Where events have its key; empty if a stream has one such entity at a time."""
        self.opens, self.closes = Globs(table.opens), Globs(table.closes)
        # By default, all events that have its key.
        self.continues = Globs(table.continues or ("*" if self.key else ()))
        self.within = table.within
        """The name of the entity that it is in."""
        self.parent: Entity | None = None
        """The entity that it is in; set once all are known."""

    def __str__(self) -> str:
        return self.name

    def concerns(self, type_: str) -> bool:
        """Whether events of a type open, continue or close it."""
        return any(types.matches(type_) for types in (self.opens, self.continues, self.closes))

    def is_checked_at(self, type_: str) -> bool:
        """Whether events of a type can show something about it: those that concern it, or close its parent."""
        return self.concerns(type_) or (self.parent is not None and self.parent.closes.matches(type_))

    def read_key(self, json: Any) -> Key | None:
        """Return the key in the JSON of an event; None if it is incomplete."""
        key: list[str | int] = []
        for pointer in self.key:
            value = pointer.read(json)
            if type(value) is not int and type(value) is not str:
                return None
            key.append(shorten_value(value))
        return tuple(key)


@dataclass(frozen=True, slots=True)
class EventType:
    """What a contract says about the events of one type."""

    name: str
    is_delta: bool
    """Whether they are fragments of a text."""
    is_durable: bool | None
    """Whether the service stores and replays them; None if those with a cursor are."""
    text: Pointer | None = None
    """Where deltas have their text."""


class EventFormat:
    """How the facts of events are read.  Without pointers, the lines of the event have them."""

    def __init__(self, table: EventTable, durable_types: Mapping[str, bool]) -> None:
        """`durable_types` are those whose durability is declared one by one.  Raises ValueError."""
        self.type, self.cursor = _pointer(table.type, "event"), _pointer(table.cursor, "id")
        self.channel = _pointer(table.channel, "url")
        self.sequence = _pointer(table.sequence)
        durable = list_of(table.durable or "id")
        if len(durable) > 1 and (words := {"id", "always", "never"}.intersection(durable)):
            raise ValueError(f"{min(words)} stands alone, without types, as what is durable")
        self.durable = None if durable == ("id",) else Globs(_DURABLE.get(durable, durable))
        """The types of durable events; None if those with a cursor are."""
        self.deltas = Globs(table.delta.types if table.delta is not None else ())
        texts = (table.delta and table.delta.text) or {}
        by_type = {"*": texts} if isinstance(texts, str) else texts
        self.texts = tuple((Globs(types), Pointer(text)) for types, text in by_type.items())
        """Where deltas of which types have their text; the first one that fits counts."""
        self._durable_types = durable_types

    def describe(self, name: str) -> EventType:
        """Return what is known about a type of events."""
        is_durable = None if self.durable is None else self.durable.matches(name)
        is_delta = self.deltas.matches(name)
        text = next((pointer for types, pointer in self.texts if types.matches(name)), None) if is_delta else None
        return EventType(name, is_delta, self._durable_types.get(name, is_durable), text)

    def read_type(self, event: Event) -> str:
        """Return the type of an event."""
        if self.type is not None:
            value = self.type.read(event.value)
            if type(value) is str:
                return value
        if event.event_line:
            return event.name
        if self.type is not None and type(event.value) not in {dict, list} and len(event.data) <= _LONGEST_TEXT:
            # Literals such as [DONE] are types of their own.
            return event.data.decode("utf-8", "replace")
        return _DEFAULT_TYPE


class EventFacts(Located):
    """What a contract reads from an event."""

    __slots__ = ("_format", "event", "event_type", "json", "type")

    def __init__(self, event: Event, event_format: EventFormat, event_type: EventType) -> None:
        self.event = event
        self.event_type = event_type
        self.type = event_type.name
        self.json = event.value if type(event.value) is dict else event.json
        self._format = event_format

    @property
    def sequence(self) -> int | None:
        """The number of the event."""
        value = self._format.sequence.read(self.json) if self._format.sequence is not None else None
        return value if type(value) is int else None

    @property
    def cursor(self) -> str | None:
        """What a client sends to resume after the event; None if it cannot."""
        if self._format.cursor is None:
            return self.event.cursor
        value = self._format.cursor.read(self.json)
        return str(value) if type(value) in {str, int} and value != "" else None

    @property
    def text(self) -> str | None:
        """The text of a delta."""
        value = self.event_type.text.read(self.json) if self.event_type.text is not None else None
        return value if type(value) is str else None

    def read_unfit(self, name: str) -> Any:
        """Return the value that is where the event should have a fact, but is of another type; otherwise MISSING."""
        pointers = {"sequence": self._format.sequence, "cursor": self._format.cursor, "text": self.event_type.text}
        pointer = pointers.get(name)
        return MISSING if pointer is None else pointer.read(self.json)

    @property
    def is_durable(self) -> bool:
        """Whether the service stores and replays it."""
        is_durable = self.event_type.is_durable
        return self.cursor is not None if is_durable is None else is_durable

    @property
    def kinds(self) -> tuple[str, ...]:
        """Its kinds: durable, delta, or both; otherwise ephemeral."""
        kinds = ("durable",) * self.is_durable + ("delta",) * self.event_type.is_delta
        return kinds or ("ephemeral",)

    @property
    def location(self) -> Location:
        """Where it is, with the sequence that the contract reads."""
        sequence, event = self.sequence, self.event
        if sequence is not None and not -_INT64 <= sequence < _INT64:
            sequence = None
        return Location(event.exchange, event.time_ns, event.number, sequence, event.frame.start)


class Fact:
    """A fact of events, by its name or a JSON pointer."""

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        if text not in _NAMED and not text.startswith("/"):
            names = ", ".join(_NAMED)
            raise ValueError(f"expected {names}, or a JSON pointer such as /response/id, got {text!r}")
        self._text = text
        self.read: Callable[[EventFacts], Any]
        """Returns its value in an event, or MISSING."""
        if (named := _NAMED.get(text)) is not None:
            self.read = lambda facts: MISSING if (value := named(facts)) is None else value
        else:
            pointer = Pointer(text)
            self.read = lambda facts: pointer.read(facts.json)

    def __str__(self) -> str:
        return self._text

    def describe_lack(self, facts: EventFacts) -> str:
        """Return what an event that lacks the fact has instead, as a sentence for people."""
        unfit = facts.read_unfit(self._text)
        if unfit is MISSING:
            return f"Expected `{self}`, got none."
        return f"Expected `{self}` to be {_TYPES[self._text]}, got {describe(unfit)}."


_TYPES = {"sequence": "an integer", "cursor": "a string or an integer", "text": "a string"}
_NAMED: dict[str, Callable[[EventFacts], Any]] = {
    "event": lambda facts: None if facts.event.event_line is None else facts.event.name,
    "id": lambda facts: facts.event.id,
    "type": lambda facts: facts.type,
    "cursor": lambda facts: facts.cursor,
    "sequence": lambda facts: facts.sequence,
    "text": lambda facts: facts.text,
}


def _pointer(text: str | None, line: str | None = None) -> Pointer | None:
    """Return a pointer; None for the name of a line, which needs none."""
    return None if text is None or text == line else Pointer(text)


def shorten_value(value: Any) -> str | int:
    """Return a JSON value as a small key: strings and integers as they are, a hash of anything else."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int or (type(value) is str and len(value) <= _LONGEST_TEXT):
        return value
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # A lone surrogate, or an integer beyond 64 bits.
        data = repr(value).encode("utf-8", "surrogatepass")
    return f"hash {blake2b(data, digest_size=16).hexdigest()}"


def format_key(entity: Entity, key: Sequence[str | int]) -> str:
    """Return how messages name one entity: `item 0`."""
    return " ".join([entity.name, *(quote(str(part)) for part in key)])
