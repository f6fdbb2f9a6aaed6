"""The format of events: where a contract says that events have their facts, and what their types mean."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, Literal

import orjson
from msgspec import Struct

from wiretape.bounded_dict import put_bounded
from wiretape.patterns import LONGEST, Globs, Pointer, list_of

EventKind = Literal["durable", "delta", "ephemeral"]
Key = tuple[str | int, ...]
"""The key of an entity: the values of its pointers."""
_LONGEST_TEXT = 200
"""Texts up to this length are kept as they are; of longer ones, a hash."""
_DURABLE: dict[tuple[str, ...], tuple[str, ...]] = {("always",): ("*",), ("never",): ()}
"""The types that words stand for."""
_DEFAULT_TYPE = "message"
"""The type of events without an `event` line, as the HTML standard names it."""
_MOST_TYPES = 1000


class Entity:
    """Something that events open, continue and close."""

    def __init__(
        self,
        name: str,
        *,
        opens: str | Sequence[str],
        closes: str | Sequence[str],
        key: str | Sequence[str] | None = None,
        continues: str | Sequence[str] | None = None,
        within: str | None = None,
        short: str | None = None,
        title: str | None = None,
        optional_key: str | None = None,
        reopens: bool = False,
        single: bool = False,
        parameter: str | None = None,
    ) -> None:
        """Raises ValueError."""
        self.name = name
        self.short = short or name
        """The name in filters and narrow columns."""
        self.title = None if title is None else Pointer(title)
        """Where the event that opens it has what people call it."""
        self._parameters = (parameter,) if parameter else (f"{name}_id", name)
        """The names that paths may have for its key; the first one that a path has counts."""
        self.key = tuple(map(Pointer, list_of(key)))
        """Where events have its key; empty if a stream has one such entity at a time."""
        self.optional_key = None if optional_key is None else Pointer(optional_key)
        """What its key has at its end as well, in events that have it."""
        self.reopens = reopens
        """Whether it can be opened again after it was closed."""
        self.single = single
        """Whether a stream has one such entity at a time: events without its key belong to the one that is open."""
        self.opens, self.closes = Globs(opens), Globs(closes)
        # By default, all events that have its key.
        self.continues = Globs(continues or ("*" if self.key else ()))
        self.within = within
        """The name of the entity that it is in."""
        self.parent: Entity | None = None
        """The entity that it is in; set once all are known."""

    def __str__(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        """What people call it."""
        return self.name.replace("_", " ")

    def is_named_in(self, parameters: Collection[str]) -> bool:
        """Whether a path with segments of these names has its key."""
        return not set(parameters).isdisjoint(self._parameters)

    def find_in_path(self, parameters: Mapping[str, str]) -> str | None:
        """Return its key in the named segments of a path; None without any."""
        return next((parameters[name] for name in self._parameters if name in parameters), None)

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
        if self.optional_key is not None and type(value := self.optional_key.read(json)) in {int, str}:
            key.append(shorten_value(value))
        return tuple(key)


class EventType(Struct, frozen=True):
    """What a contract says about the events of one type."""

    name: str
    is_delta: bool
    """Whether they are fragments of a text."""
    is_durable: bool | None
    """Whether the service stores and replays them; None if those with a cursor are."""
    text: Pointer | None = None
    """Where deltas have their text."""
    entities: tuple[Entity, ...] = ()
    """The entities that they can be about."""


class EventFormat:
    """How the facts of events are read.  Without pointers, the lines of the event have them."""

    def __init__(
        self,
        *,
        type: str | None = None,  # noqa: A002 - the key of the contract file
        cursor: str | None = None,
        sequence: str | None = None,
        channel: str | None = None,
        durable: str | Sequence[str] | None = None,
        deltas: str | Sequence[str] = (),
        texts: Mapping[str, str] | None = None,
        durable_types: Mapping[str, bool] | None = None,
        entities: Sequence[Entity] = (),
        envelope: str | Sequence[str] | None = None,
        event_class: type | None = None,
    ) -> None:
        """`durable_types` are those whose durability is declared one by one.  Raises ValueError."""
        self.type, self.cursor = _pointer(type, "event"), _pointer(cursor, "id")
        self.channel, self.sequence = _pointer(channel, "url"), _pointer(sequence)
        declared = list_of(durable or "id")
        if len(declared) > 1 and (words := {"id", "always", "never"}.intersection(declared)):
            raise ValueError(f"{min(words)} stands alone, without types, as what is durable")
        self.durable = None if declared == ("id",) else Globs(_DURABLE.get(declared, declared))
        """The types of durable events; None if those with a cursor are."""
        self.deltas = Globs(deltas)
        self.texts = tuple((Globs(types), Pointer(text)) for types, text in (texts or {}).items())
        """Where deltas of which types have their text; the first one that fits counts."""
        self.entities = tuple(entities)
        """The entities whose keys events have, those inside others after them."""
        self.envelope = frozenset(list_of(envelope))
        """Fields that previews leave out."""
        self._durable_types = durable_types or {}
        self.event_class = event_class
        """The class of its events, if their facts are read in Python."""
        self._types: dict[str, EventType] = {}

    def declares(self, name: str) -> bool:
        """Whether the durability of a type is declared, as that of a literal such as `[DONE]`."""
        return name in self._durable_types

    def describe(self, name: str) -> EventType:
        """Return what is known about a type of events."""
        known = self._types.get(name)
        if known is not None:
            return known
        is_durable = None if self.durable is None else self.durable.matches(name)
        is_delta = self.deltas.matches(name)
        text = next((pointer for types, pointer in self.texts if types.matches(name)), None) if is_delta else None
        entities = tuple(each for each in self.entities if each.concerns(name))
        found = EventType(name, is_delta, self._durable_types.get(name, is_durable), text, entities)
        if len(name) <= LONGEST:
            put_bounded(self._types, name, found, _MOST_TYPES)
        return found

    def read_type(self, line: str, value: Any, data: bytes) -> str:
        """Return the type of an event with this `event` line and data, which has this JSON value."""
        if self.type is not None:
            found = self.type.read(value)
            if type(found) is str:
                return found
        if line:
            return line
        if self.type is not None and type(value) not in {dict, list} and len(data) <= _LONGEST_TEXT:
            # Literals such as [DONE] are types of their own.
            return data.decode("utf-8", "replace")
        return _DEFAULT_TYPE


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
        # A lone surrogate, an integer beyond 64 bits, or a value that is nested too deeply.
        data = " ".join(_flatten(value)).encode("utf-8", "surrogatepass")
    return f"hash {blake2b(data, digest_size=16).hexdigest()}"


def _flatten(value: Any) -> Iterator[str]:
    """Yield the parts of a JSON value, however deeply it is nested."""
    left = [value]
    while left:
        each = left.pop()
        if type(each) is dict or type(each) is list:
            left += chain(*each.items()) if type(each) is dict else each
            yield f"{type(each).__name__} {len(each)}"
        else:
            yield repr(each)


def read_number(value: Any) -> int | None:
    """Return an integer, or the one that a text of at most 18 digits stands for; otherwise None."""
    if type(value) is str and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return value if type(value) is int else None


def join_key(key: Key) -> str | None:
    """Return the key of an entity as one text; None if it is empty."""
    return "/".join(map(str, key)) or None


PLAIN = EventFormat()
"""The format of events under the HTML standard: everything is in their lines."""
