"""Primitives about the facts of single events: match, require, forbid, schema, unique, same."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from wiretape.contract.contract_traffic import ContractStream
from wiretape.contract.facts import Fact, format_key
from wiretape.contract.json_schema import JsonSchema
from wiretape.contract.primitive import LARGE_DATA, EventPrimitive, EventSelection, SeenValues
from wiretape.event import Event
from wiretape.event_format import Entity, shorten_value
from wiretape.patterns import MISSING
from wiretape.rules.catalogue import DROPPED_STATE, HELD, Outcome, Problem, Scope, mismatch
from wiretape.rules.finding import describe


class Facts(tuple[Fact, ...]):
    """Several facts."""

    __slots__ = ()

    def __str__(self) -> str:
        return " or ".join(f"`{fact}`" for fact in self)


@dataclass(frozen=True, slots=True, eq=False)
class Match(EventPrimitive):
    """Two facts of an event agree, if it has both."""

    on: EventSelection
    first: Fact
    second: Fact
    summary = "The facts `{0.first}` and `{0.second}` of an event differ."

    def check(self, event: Event, _stream: ContractStream) -> Outcome:
        """Compare them."""
        first, second = self.first.read(event), self.second.read(event)
        if first is MISSING or second is MISSING:
            return None
        if shorten_value(first) == shorten_value(second):
            return HELD
        return [mismatch(f"`{self.second}` to be {describe(first)} as `{self.first}`", describe(second), event=event)]


@dataclass(frozen=True, slots=True, eq=False)
class Require(EventPrimitive):
    """An event has all of these facts."""

    on: EventSelection
    facts: Facts
    summary = "An event lacks {0.facts}."

    def check(self, event: Event, _stream: ContractStream) -> Outcome:
        """Find those that are missing."""
        missing = [fact for fact in self.facts if fact.read(event) is MISSING]
        return [Problem(fact.describe_lack(event), subject=str(fact)) for fact in missing]


@dataclass(frozen=True, slots=True, eq=False)
class Forbid(EventPrimitive):
    """An event has none of these facts."""

    on: EventSelection
    facts: Facts
    summary = "An event has {0.facts}."
    placeholders = ("fact", "value")

    def check(self, event: Event, _stream: ContractStream) -> Outcome:
        """Find those that are there."""
        found = [(fact, value) for fact in self.facts if (value := fact.read(event)) is not MISSING]
        return [
            mismatch(f"no `{fact}`", describe(value), subject=str(fact), event=event, fact=str(fact), value=value)
            for fact, value in found
        ]


@dataclass(frozen=True, slots=True, eq=False)
class MatchesSchema(EventPrimitive):
    """The data of an event matches a JSON schema: one for all, or that of its type."""

    on: EventSelection
    schemas: "JsonSchema | dict[str, JsonSchema]"
    share: float
    """The share of a second that it may take for an event."""
    summary = "The data of an event does not match its JSON schema."

    def concerns(self, type_: str) -> bool:
        """Whether a type has a schema."""
        return not isinstance(self.schemas, dict) or type_ in self.schemas

    def check(self, event: Event, _stream: ContractStream) -> Outcome:
        """Validate the data."""
        schema = self.schemas[event.type] if isinstance(self.schemas, dict) else self.schemas
        if not schema.is_quick(len(event.data), self.share):
            return LARGE_DATA
        return [Problem(each, subject=each) for each in schema.find_violations(event.json)]


@dataclass(frozen=True, slots=True, eq=False)
class Unique(EventPrimitive):
    """A fact has each value once on a stream, or for one event of a channel."""

    on: EventSelection
    fact: Fact
    over: Literal["stream", "channel"]
    summary = "Two events of a {0.over} have the same `{0.fact}`; on a channel, they also differ."
    placeholders = ("value", "where")

    @property
    def scope(self) -> Scope:
        """What has to be known to decide it."""
        return Scope(self.over)

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Compare an event with the first one that has the value."""
        value = self.fact.read(event)
        if value is MISSING:
            return None
        digest = blake2b(event.data, digest_size=16).digest()
        if self.over == "stream":
            seen = stream.memory.get(self, SeenValues)
        else:
            seen = stream.channel.memory.get(self, lambda: SeenValues(may_lack_some=stream.channel.may_be_known))
        known = seen.add(shorten_value(value), (digest, event.exchange, event.number))
        if known is not None and (self.over == "stream" or known[0] != digest):
            where = f"event {known[2]} of exchange {known[1]}"
            got = f"{describe(value)}, which {where} has"
            return [mismatch(f"a new `{self.fact}`", got, event=event, value=value, where=where)]
        return DROPPED_STATE if known is None and seen.may_lack_some else HELD


@dataclass(frozen=True, slots=True, eq=False)
class Same(EventPrimitive):
    """A fact has the same value in all events of a stream, a channel or an entity that have it."""

    on: EventSelection
    fact: Fact
    over: Entity | str
    """An entity, `stream` or `channel`."""
    summary = "The fact `{0.fact}` changes within one {0.over}."
    placeholders = ("value", "where")

    @property
    def scope(self) -> Scope:
        """What has to be known to decide it."""
        return Scope.CHANNEL if self.over == "channel" else Scope.STREAM

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Compare an event with the first one that has the fact."""
        value = self.fact.read(event)
        if value is MISSING:
            return None
        holder, name, key = stream.memory, str(self.over), None
        if isinstance(self.over, Entity):
            key = self.over.read_key(event.json)
            if key is None:
                return None
            name = format_key(self.over, key)
        elif self.over == "channel":
            holder = stream.channel.memory
        item = (shorten_value(value), describe(value), event.exchange, event.number)
        known = holder.get(self, SeenValues).add(key, item)
        if known is None or known[0] == item[0]:
            return HELD
        where = f"event {known[3]} of exchange {known[2]}"
        expected = f"the same `{self.fact}` for all events of the {name}, {known[1]} as in {where}"
        return [mismatch(expected, describe(value), event=event, value=value, where=where)]
