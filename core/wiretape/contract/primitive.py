"""Primitives: what a rule of a contract can declare.  A primitive has the functions that the engine runs.

What a primitive has to remember is in the memory of a stream or a channel, so that it ends with them.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Final

from msgspec import Struct

from wiretape.bounded_dict import put_bounded
from wiretape.contract.contract_stream import ContractStream
from wiretape.contract.facts import FACT_NAMES, Fact
from wiretape.contract.json_types import RequiredFields, classes_of, name_types
from wiretape.event import Event, Shape
from wiretape.input_validation import choices_hint
from wiretape.patterns import Globs
from wiretape.rules.catalogue import EVENT, LOSS, LOST_EVENTS, WITH_DATA, Check, Inconclusive, Outcome, Problem, Scope
from wiretape.rules.finding import Party
from wiretape.rules.wording import Reader, Values

UNKNOWN_BEGINNING: Final = Inconclusive("the recording does not show the stream from its beginning, without losses")
UNKNOWN_TEXT: Final = Inconclusive("a delta has no text where the contract says that it is")
UNKNOWN_REQUEST: Final = Inconclusive("the recording does not have the whole body of a request")
LARGE_DATA: Final = Inconclusive("the data of an event is too large for the size of its JSON schema")
_MOST_VALUES = 50_000


class Primitive:
    """What a rule requires."""

    __slots__ = ()

    summary: ClassVar[str]
    """What breaks it; `{0}` stands for the primitive."""
    placeholders: ClassVar[tuple[str, ...]] = ()
    """The names of the values that its words can have."""

    @property
    def scope(self) -> Scope:
        """What has to be known to decide it."""
        return self.checks()[0].trigger.scope

    @property
    def side(self) -> Party:
        """The side that breaks it."""
        return Party.SERVICE

    def describe(self) -> str:
        """Return what breaks it, in one sentence."""
        return self.summary.format(self)

    def reader_of(self, name: str) -> Reader:
        """Return what reads a value for its words.  Raises ValueError if it has none with that name."""
        if name not in self.placeholders:
            known = ", ".join(self.placeholders) or "none"
            raise ValueError(f"unknown placeholder {name!r}; this primitive has {known}")
        return lambda values: values.get(name)

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions, and when they run."""
        raise NotImplementedError


class RequiredFact:
    """A fact that events have, of one of some JSON types, or of any."""

    def __init__(self, fact: Fact, types: Sequence[str] = (), of: Globs | None = None) -> None:
        """Only events of the types `of` have it; None for all."""
        self.fact = fact
        self.types, self.of = types, of
        self.read = fact.read_required if str(fact) == "id" else fact.read
        self.elements = RequiredFields({str(fact): types}) if "/*" in str(fact) else None
        """The elements of an array, if it stands for each of them."""
        self.classes = classes_of(types)
        """The Python types of its values."""

    def find_unfit(self, event: Event) -> tuple[str, str, Any] | None:
        """Return the name of what does not fit, the expected type and the value, if an event lacks the fact."""
        if self.elements is not None:
            return next(self.elements.find_unfit(event.value), None)
        return self.fact.name, name_types(self.types or self.fact.types), self.fact.read_unfit(event)


class EventSelection(Struct, frozen=True):
    """The events that a rule is about."""

    types: Globs
    kinds: frozenset[str]
    """Empty for all."""
    having: tuple[RequiredFact, ...] = ()
    """The facts that they have."""

    @property
    def is_every_event(self) -> bool:
        """Whether it selects all events."""
        return not (self.kinds or self.having) and self.types.patterns == ("*",)

    def check(self, function: Callable[..., Outcome], concerns: Callable[[str], bool]) -> Check[Any]:
        """Return the check with which a function runs on these events, if it concerns their type."""
        types, kinds, having = self.types, self.kinds, self.having

        def has_facts(event: Event, _stream: object) -> bool:
            for each in having:  # noqa: SIM110 - this is faster
                if type(each.read(event)) not in each.classes:
                    return False
            return True

        return Check(
            EVENT,
            function,
            shapes={Shape[kind.upper()] for kind in kinds} or WITH_DATA,
            types=None if any("*" in each for each in types.patterns) else types.patterns,
            when=has_facts if having else None,
            concerns=lambda name, of: types.matches(name) and not (kinds and kinds.isdisjoint(of)) and concerns(name),
        )


class EventPrimitive(Primitive, Struct, frozen=True, eq=False):
    """A primitive that is decided on events."""

    on: EventSelection

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions: one for events, and one for lost bytes, in which there may have been events."""
        return (self.on.check(self.check, self.concerns), Check(LOSS, self.lose))

    def reader_of(self, name: str) -> Reader:
        """Return what reads a value for its words: one of its own, or a fact of the event."""
        if name in self.placeholders:
            return super().reader_of(name)
        if name not in FACT_NAMES and not name.startswith("/"):
            raise ValueError(f"unknown placeholder {name!r}{choices_hint(name, (*self.placeholders, *FACT_NAMES))}")
        fact = Fact(name)

        def read(values: Values) -> Any:
            event = values.get("event")
            return None if event is None else fact.read(event)

        return read

    def concerns(self, _type: str) -> bool:
        """Whether it can have an outcome for events of a type."""
        return True

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Return the outcome for one of the events that the rule is about."""
        raise NotImplementedError

    def lose(self, _stream: ContractStream) -> Outcome:
        """Return the outcome for lost bytes."""
        return LOST_EVENTS


def is_damaged(event: Event, *values: Any) -> bool:
    """Whether one of these values of an event may have been damaged by bytes that are not UTF-8 (SSE001)."""
    return any(type(value) is str and event.is_damaged(value) for value in values)


def unless_damaged(event: Event, values: Iterable[Any], found: Problem) -> Outcome:
    """Return a problem with values of an event, if they are not damaged; see `is_damaged`."""
    return None if is_damaged(event, *values) else [found]


class SeenValues:
    """The first item for each value; if there are very many, the oldest are dropped."""

    def __init__(self, *, may_lack_some: bool = False) -> None:
        self.may_lack_some = may_lack_some
        """Whether values may have been dropped."""
        self._items: dict[Hashable, Any] = {}

    def find(self, value: Hashable) -> Any:
        """Return the item of a value that was seen before; otherwise None."""
        return self._items.get(value)

    def add(self, value: Hashable, item: Any) -> Any:
        """Return the item of a value that was seen before; otherwise store this one and return None."""
        if (known := self._items.get(value)) is not None:
            return known
        self.may_lack_some |= len(self._items) >= _MOST_VALUES
        put_bounded(self._items, value, item, _MOST_VALUES)
        return None
