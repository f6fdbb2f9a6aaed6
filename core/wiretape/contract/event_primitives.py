"""Primitives about the facts of single events: match, require, forbid, schema, keys, unique, same."""

import re
from calendar import isleap
from collections.abc import Sequence
from datetime import date, datetime
from hashlib import blake2b
from typing import Any, Literal

from msgspec import field
from msgspec.structs import replace

from wiretape.bounded_dict import put_bounded
from wiretape.contract.contract_stream import ContractStream
from wiretape.contract.facts import Fact, format_key
from wiretape.contract.json_schema import JsonSchema
from wiretape.contract.json_types import AllowedValues
from wiretape.contract.primitive import LARGE_DATA, EventPrimitive, RequiredFact, SeenValues, is_damaged, unless_damaged
from wiretape.event import Event
from wiretape.event_format import Entity, shorten_value
from wiretape.patterns import LONGEST, MISSING
from wiretape.rules.catalogue import DROPPED_STATE, HELD, Check, Outcome, Problem, Scope, mismatch
from wiretape.rules.finding import describe, quote

_MOST_KEYS = 20
_MOST_TYPES = 1000
_FRACTION = r"(?:[.,][0-9]+)?"
_HOUR, _MINUTE, _SECOND = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]", "(?:[0-5][0-9]|60)"
_TIME = (
    rf"(?:{_HOUR}(?::{_MINUTE}(?::{_SECOND})?|{_MINUTE}(?:{_SECOND})?)?{_FRACTION}"
    r"|24(?::00(?::00)?|00(?:00)?)?(?:[.,]0+)?)"
)
_DATE = r"[0-9]{4}-?(?:[0-9]{2}-?[0-9]{2}|W[0-9]{2}-?[1-7])"
_ORDINAL_DATE = r"([0-9]{4})-?([0-9]{3})"
_TIMESTAMP = re.compile(rf"(?:({_DATE})|{_ORDINAL_DATE})[Tt]{_TIME}(?:[Zz]|\+00(?::?00)?)")
_COMMON = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|\+00:00)")


class Facts(tuple[Fact, ...]):
    """Several facts."""

    __slots__ = ()

    def __str__(self) -> str:
        return " or ".join(f"`{fact}`" for fact in self)


class Match(EventPrimitive, frozen=True):
    """Facts of an event agree in pairs, if it has both, or one agrees with the channel in the path of the request."""

    pairs: Sequence[tuple[Fact, Fact | None]]
    """None for the channel."""
    is_required: bool
    """Whether an event that has the first fact has the second one, too."""
    placeholders = ("channel", "name", "value", "wanted")

    def describe(self) -> str:
        """Return what breaks it."""
        first, second = self.pairs[0]
        if second is None:
            return f"The fact `{first}` of an event is not the channel in the path of the request."
        return f"The facts `{first}` and `{second}` of an event differ."

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Compare them."""
        outcome: Outcome = None
        problems: list[Problem] | None = None
        for first, second in self.pairs:
            value = first.read(event)
            if second is None:
                other = stream.channel_name
                if other is None or type(value) is not str:
                    continue
            else:
                other = second.read(event)
                if value is MISSING or (other is MISSING and not self.is_required):
                    continue
            if value == other if type(value) is str else shorten_value(value) == shorten_value(other):
                outcome = HELD
            elif not is_damaged(event, value, other):
                problems = [*(problems or ()), _differ(first, second, value, other, event)]
        return problems or outcome


def _differ(first: Fact, second: Fact | None, value: Any, other: Any, event: Event) -> Problem:
    if second is None:
        expected = f"`{first}` to be {quote(other)}, the channel of the request"
        return mismatch(expected, describe(value), event=event, channel=other)
    expected, values = f"`{second}` to be {describe(value)} as `{first}`", {"name": second.name, "wanted": value}
    return mismatch(expected, describe(other), subject=str(second), event=event, value=other, **values)


class Require(EventPrimitive, frozen=True):
    """An event has all of these facts; those inside one that it lacks are not checked."""

    required: tuple[RequiredFact, ...]
    _by_type: dict[str, tuple[RequiredFact, ...]] = field(default_factory=dict)
    """Those of events of a type, once they were asked for."""
    placeholders = ("fact", "name", "wanted", "value")

    def describe(self) -> str:
        """Return what breaks it."""
        return f"An event lacks {Facts(each.fact for each in self.required)}."

    def check(self, event: Event, _stream: ContractStream) -> Outcome:
        """Find those that are missing."""
        problems: list[Problem] = []
        lacking: tuple[str, ...] = ()
        required = self._by_type.get(event.type)
        for each in self._select(event.type) if required is None else required:
            if each.elements is None and type(each.read(event)) in each.classes:
                continue
            unfit = each.find_unfit(event)
            if unfit is not None and not str(each.fact).startswith(lacking):
                lacking += (f"{each.fact}/",)
                problems.append(self._report(each, event, *unfit))
        return problems

    def _select(self, type_: str) -> tuple[RequiredFact, ...]:
        found = tuple(each for each in self.required if each.of is None or each.of.matches(type_))
        if len(type_) <= LONGEST:
            put_bounded(self._by_type, type_, found, _MOST_TYPES)
        return found

    def _report(self, lacking: RequiredFact, event: Event, name: str, wanted: str, value: Any) -> Problem:
        """Return the problem of an event that lacks it."""
        fact = str(lacking.fact)
        is_missing = not lacking.types and value in (MISSING, "")
        shown = fact if lacking.elements is None else name
        expected = f"`{shown}`" if is_missing else f"`{shown}` to be {wanted}"
        got = describe(value) if not is_missing else "none" if value is MISSING else "an empty one"
        return mismatch(expected, got, subject=fact, event=event, fact=fact, name=name, wanted=wanted, value=value)


class Forbid(EventPrimitive, frozen=True):
    """An event has none of these facts."""

    facts: Facts
    summary = "An event has {0.facts}."
    placeholders = ("fact", "value")

    def check(self, event: Event, _stream: ContractStream) -> Outcome:
        """Find those that are there."""
        found = [(fact, value) for fact in self.facts if (value := fact.read(event)) not in (MISSING, None)]
        return [
            mismatch(f"no `{fact}`", describe(value), subject=str(fact), event=event, fact=str(fact), value=value)
            for fact, value in found
        ]


class OneOf(EventPrimitive, frozen=True):
    """A fact has one of some values, or several facts have them together."""

    allowed: AllowedValues
    placeholders = ("value",)

    def describe(self) -> str:
        """Return what breaks it."""
        return f"The values of {' and '.join(f'`{fact}`' for fact in self.allowed.facts)} are not allowed."

    def check(self, event: Event, _stream: ContractStream) -> Outcome:
        """Check the values."""
        outcome = self.allowed.check(event, event=event)
        return None if outcome and is_damaged(event, *(fact.read(event) for fact in self.allowed.facts)) else outcome


class UtcTime(EventPrimitive, frozen=True):
    """A fact that is a text is a time in UTC."""

    fact: Fact
    summary = "The fact `{0.fact}` is not an ISO 8601 timestamp in UTC, with `Z` or `+00:00`."
    placeholders = ("value",)

    def check(self, event: Event, _stream: ContractStream) -> Outcome:
        """Check the text."""
        text = self.fact.read(event)
        if type(text) is not str:
            return None
        if is_utc_time(text):
            return HELD
        expected = f"`{self.fact}` to be an ISO 8601 timestamp in UTC"
        return unless_damaged(event, [text], mismatch(expected, quote(text), event=event, value=text))


class MatchesSchema(EventPrimitive, frozen=True):
    """The data of an event matches a JSON schema: one for all, or that of its type."""

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


class KnownKeys(EventPrimitive, frozen=True):
    """The data of an event has only the keys that the JSON schema of its type names."""

    keys: dict[str, frozenset[str]]
    summary = "The data of an event has a key that the schema of its type does not define."
    placeholders = ("name", "value")

    def concerns(self, type_: str) -> bool:
        """Whether a type has a schema."""
        return type_ in self.keys

    def check(self, event: Event, _stream: ContractStream) -> Outcome:
        """Find the other keys."""
        unknown = [key for key in event.document if key not in self.keys[event.type]][:_MOST_KEYS]
        return [
            mismatch(f"only keys of {quote(event.type)}", quote(key), subject=key, event=event, name=key, value=value)
            for key in unknown
            if not is_damaged(event, key) and (value := event.document[key]) is not MISSING
        ]


class Unique(EventPrimitive, frozen=True):
    """A fact has each value once on a stream, or for one event of a channel."""

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
            got = f"{describe(value)}, which {where} already has"
            return [mismatch(f"a new `{self.fact}`", got, event=event, value=value, where=where)]
        return DROPPED_STATE if known is None and seen.may_lack_some else HELD


class Same(EventPrimitive, frozen=True):
    """A fact has the same value in all events of a stream, a channel or an entity that have it."""

    fact: Fact
    over: Entity | str
    """An entity, `stream` or `channel`."""
    summary = "The events of one {0.over} have different values of the fact `{0.fact}`."
    placeholders = ("value", "before", "where")

    @property
    def scope(self) -> Scope:
        """What has to be known to decide it."""
        return Scope.CHANNEL if self.over == "channel" else Scope.STREAM

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Compare an event with the first one that has the fact."""
        value = self.fact.read(event)
        if value is MISSING:
            return None
        holder, name, key = stream.memory, self.over, None
        if name == "channel":
            holder = stream.channel.memory
        elif name != "stream" and isinstance(name, Entity):
            key = name.read_key(event.json)
            if key is None:
                return None
            name = format_key(name, key)
        seen = holder.get(self, SeenValues)
        known = seen.find(key)
        if known is not None and known[0] == value and type(value) is str:
            # Nearly all events.
            return HELD
        if self.over == "channel" and self._names_other(event, stream):
            return None
        short = shorten_value(value)
        if known is None:
            seen.add(key, (short, value, event.exchange, event.number))
            return None
        if known[0] == short:
            return HELD
        where = f"event {known[3]} of exchange {known[2]}"
        expected = f"the same `{self.fact}` for all events of the {name}, {describe(known[1])} as in {where}"
        values = {"value": value, "before": known[1], "where": where}
        return unless_damaged(event, [value], mismatch(expected, describe(value), subject=short, event=event, **values))

    def _names_other(self, event: Event, stream: ContractStream) -> bool:
        """Whether an event names another channel than the path of the request."""
        pointer = event.format.channel
        named = None if pointer is None or stream.channel_name is None else pointer.read(event.value)
        return type(named) is str and named != stream.channel_name


class RequestedDeltas(EventPrimitive, frozen=True):
    """A stream has deltas only if its request asks for them."""

    scope = Scope.STREAM
    summary = "Deltas arrive although the request does not ask for them."

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions."""
        of_events, loss = EventPrimitive.checks(self)
        return (replace(of_events, steady=True), loss)

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Check that a delta was asked for."""
        if stream.deltas_requested is None:
            return None
        if stream.deltas_requested:
            return HELD if event.is_delta else None
        if not event.is_delta:
            return HELD
        return [mismatch("no deltas, which the request does not ask for", quote(event.type), event=event)]


def is_utc_time(text: str) -> bool:
    """Whether a text is an ISO 8601 timestamp in UTC.

    Accepts every form: basic ones, dates by week or by day of the year, fractions of any length, leap seconds,
    midnight as 24:00, and `t` and `z` as in RFC 3339; but not a space instead of the `T`.
    """
    if _COMMON.fullmatch(text):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return True
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return False
    day, year, day_of_year = found.groups()
    if day is None:
        return 1 <= int(day_of_year) <= 365 + isleap(int(year))
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True
