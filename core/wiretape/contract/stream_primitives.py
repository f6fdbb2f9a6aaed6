"""Primitives about the order of streams: what is first, next and last, counters, entities, cursors and silence."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from msgspec import Struct, field

from wiretape.bounded_dict import make_room
from wiretape.contract.contract_stream import ContractChannel, ContractStream
from wiretape.contract.contract_tables import Aspect
from wiretape.contract.entity_tracker import Breach, JoinedText
from wiretape.contract.facts import Fact, format_key
from wiretape.contract.primitive import (
    UNKNOWN_BEGINNING,
    UNKNOWN_REQUEST,
    UNKNOWN_TEXT,
    EventPrimitive,
    Primitive,
    SeenValues,
    unless_damaged,
)
from wiretape.event import Event
from wiretape.event_format import Entity, read_number, shorten_value
from wiretape.observations import Ending, header
from wiretape.patterns import MISSING, Globs, Pointer
from wiretape.rules.catalogue import (
    HELD,
    LOST_EVENTS,
    SILENCE,
    STREAM_END,
    Check,
    Inconclusive,
    Outcome,
    Problem,
    Scope,
    mismatch,
)
from wiretape.rules.exchange import EventStream, Silence, SilenceLimit, StreamEnd, may_be_unread
from wiretape.rules.finding import Location, Party, describe, quote, quote_or_none

_CUT_BY_OTHERS = Inconclusive("the stream was still open when the client, the proxy or the recording ended it")
_CUT_IN_EVENT = Inconclusive("the stream ended in the middle of an event (SSE002)")
_UNKNOWN_CURSOR = Inconclusive("the recording does not show the event that a cursor names")
_MOST_STEPS = 10_000
_MOST_SUCCESSORS = 50_000
_MOST_READERS = 1000


class First(EventPrimitive, frozen=True):
    """A stream that begins at the start of its channel begins with one of these types."""

    types: Globs
    scope = Scope.STREAM
    summary = "The first event of a stream is not {0.types}."

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Check the first event of a stream."""
        state = stream.memory.get(self, dict[str, bool])
        if state or not stream.is_from_start:
            return None
        state["begun"] = True
        if not stream.is_complete:
            return UNKNOWN_BEGINNING
        if self.types.matches(event.type):
            return HELD
        return [mismatch(f"{self.types} first", _type(event), event=event)]

    def lose(self, stream: ContractStream) -> Outcome:
        """Lost bytes matter only before the first event."""
        return None if stream.memory.get(self, dict[str, bool]) or not stream.is_from_start else LOST_EVENTS


class Next(EventPrimitive, frozen=True):
    """Only events of these types directly follow some others."""

    after: Globs
    types: Globs
    scope = Scope.STREAM
    summary = "The event after {0.after} is not {0.types}."
    placeholders = ("before",)

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Check the event after one of the others."""
        state = stream.memory.get(self, dict[str, Event])
        before, state["last"] = state.get("last"), event
        if before is None or not self.after.matches(before.type):
            return None
        if self.types.matches(event.type):
            return HELD
        return [mismatch(f"{self.types} after {_type(before)}", _type(event), event=event, before=before.type)]

    def lose(self, stream: ContractStream) -> Outcome:
        """After lost bytes, it is unknown what an event follows."""
        stream.memory.get(self, dict[str, Event]).clear()
        return LOST_EVENTS


class Echo(EventPrimitive, frozen=True):
    """A fact of events is what the JSON body of their request has, in all of a stream or in the last one."""

    fact: Fact
    pointer: Pointer
    is_last: bool
    scope = Scope.STREAM
    summary = "The fact `{0.fact}` of an event differs from `{0.pointer}` of the request."
    placeholders = ("value", "wanted")

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions: one for the end, if only the last event counts."""
        of_events = EventPrimitive.checks(self)
        return (Check(STREAM_END, self.check_end), of_events[0]) if self.is_last else of_events

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Compare an event with the request, or remember it as the last one."""
        if self.is_last:
            stream.memory.get(self, dict[str, Event])["last"] = event
            return None
        return self._compare(event, stream)

    def check_end(self, end: StreamEnd[ContractStream]) -> Outcome:
        """Compare the last event."""
        last = end.stream.memory.get(self, dict[str, Event]).get("last")
        if end.stream.has_unknown_end or end.ended_by_service is None:
            return LOST_EVENTS if end.stream.has_unknown_end else _CUT_BY_OTHERS
        return None if last is None else self._compare(last, end.stream)

    def _compare(self, event: Event, stream: ContractStream) -> Outcome:
        wanted, value = self.pointer.read(stream.request_json), self.fact.read(event)
        if stream.request_json is MISSING:
            return UNKNOWN_REQUEST
        if wanted is MISSING or value is MISSING:
            return None
        if shorten_value(wanted) == shorten_value(value):
            return HELD
        expected = f"`{self.fact}` to be {describe(wanted)} as in the request"
        found = mismatch(expected, describe(value), at=Location.of(event), event=event, value=value, wanted=wanted)
        return unless_damaged(event, [value], found)


class Ends(EventPrimitive, frozen=True):
    """The response ends soon after the last event of some types."""

    after: Globs
    seconds: float
    summary = "A response stays open for more than {0.seconds:g} seconds after {0.after} as its last event."
    placeholders = ("seconds",)

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions."""
        return (Check(STREAM_END, self.check_end), *EventPrimitive.checks(self)[:1])

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Remember the last event."""
        stream.memory.get(self, dict[str, Event])["last"] = event
        return None

    def check_end(self, end: StreamEnd[ContractStream]) -> Outcome:
        """Check when the stream ended, whoever ended it."""
        last = end.stream.memory.get(self, dict[str, Event]).get("last")
        if last is None or not self.after.matches(last.type):
            return None
        if end.stream.has_unknown_end:
            return LOST_EVENTS
        seconds = (end.time_ns - last.time_ns) / 1e9
        if seconds <= self.seconds:
            return HELD if end.ended_by_service else _CUT_BY_OTHERS
        expected, got = f"the response to end within {self.seconds:g} s after {_type(last)}", f"{seconds:.1f} s"
        return [mismatch(expected, got, at=Location.of(last), event=last, seconds=f"{seconds:.1f}")]


class Last(EventPrimitive, frozen=True):
    """A stream that the service ends has one of these types last, and nothing after it."""

    types: Globs
    repeats: bool = False
    """Whether other events can follow one of these types."""
    summary = "A stream ends without {0.types}, or continues after it."

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions: lost bytes matter only at the end of the stream."""
        return (Check(STREAM_END, self.check_end), *EventPrimitive.checks(self)[:1])

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Check that no event follows the last one."""
        state = stream.memory.get(self, dict[str, Event])
        before, state["last"] = state.get("last"), event
        if before is None or self.repeats or not self.types.matches(before.type):
            return None
        return [mismatch(f"no event after {_type(before)}", _type(event), event=event)]

    def check_end(self, end: StreamEnd[ContractStream]) -> Outcome:
        """Check the last event of a stream that has ended."""
        stream = end.stream
        last = stream.memory.get(self, dict[str, Event]).get("last")
        if last is not None and self.types.matches(last.type):
            return HELD
        if end.ended_by_service is None:
            return _CUT_BY_OTHERS
        if stream.has_unknown_end:
            return LOST_EVENTS
        if end.tail is not None:
            return _CUT_IN_EVENT
        got = "no event" if last is None else _type(last)
        # It is about the last event, but shows only when the stream ends: a fault may have ended it.
        at = None if last is None else replace(Location.of(last), time_ns=end.time_ns)
        return [mismatch(f"{self.types} last", f"{got} before {end.ended_by_service}", at=at, event=last)]


class _Count(Struct):
    last: int | None = None
    has_gap: bool = False


class Counter(EventPrimitive, frozen=True):
    """A number, or a text of digits, increases from event to event of a stream."""

    fact: Fact
    by_one: bool = False
    """Whether it increases by exactly one."""
    starts_at: int | None = None
    """The first number of a channel; None for any."""
    scope = Scope.STREAM
    summary = "The number `{0.fact}` does not increase as required."
    placeholders = ("value", "before")

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Compare the number with the one before."""
        value = read_number(self.fact.read(event))
        if value is None:
            return None
        state = stream.memory.get(self, _Count)
        before, has_gap = state.last, state.has_gap
        state.last, state.has_gap = value, False
        if before is None:
            return self._check_first(value, event, stream)
        if value <= before:
            return self._problem(f"above {before}", value, event, before)
        if self.by_one and value != before + 1:
            return LOST_EVENTS if has_gap else self._problem(f"{before + 1}", value, event, before)
        return HELD

    def _problem(self, expected: str, value: int, event: Event, before: int | None = None) -> Outcome:
        return [mismatch(f"`{self.fact}` to be {expected}", f"{value}", event=event, value=value, before=before)]

    def _check_first(self, value: int, event: Event, stream: ContractStream) -> Outcome:
        cursor = read_number(stream.cursor)
        if cursor is not None and event.cursor == str(value):
            # The cursor names a number of the same kind.
            if value <= cursor:
                return self._problem(f"above the cursor {cursor}", value, event, cursor)
            return HELD
        if self.starts_at is None or not stream.is_from_start:
            return None
        if not stream.is_complete:
            return UNKNOWN_BEGINNING
        if value != self.starts_at:
            expected = f"`{self.fact}` to start at {self.starts_at}"
            return [mismatch(expected, f"{value}", event=event, value=value)]
        return HELD

    def lose(self, stream: ContractStream) -> Outcome:
        """Numbers after lost bytes need not follow by one."""
        stream.memory.get(self, _Count).has_gap = True
        return LOST_EVENTS


class Lifecycle(EventPrimitive, frozen=True):
    """Entities open before they continue, close once, and are inside their parents."""

    entity: Entity
    aspects: frozenset[Aspect]
    scope = Scope.STREAM
    summary = "An event comes before its {0.entity.name} opens or after it closes, or opens or closes it twice."
    placeholders = ("key",)

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions: also one for the end, if entities have to close."""
        at_end = (Check(STREAM_END, self.check_end),) if Aspect.CLOSES in self.aspects else ()
        return (*EventPrimitive.checks(self), *at_end)

    def concerns(self, type_: str) -> bool:
        """Whether events of a type can show something about the entity."""
        return self.entity.is_checked_at(type_)

    def check(self, _event: Event, stream: ContractStream) -> Outcome:
        """Report the breaches of an event."""
        tracker = stream.trackers[self.entity.name]
        if problems := self._problems(tracker.breaches):
            return problems
        if tracker.is_uncertain:
            return UNKNOWN_BEGINNING
        return HELD if tracker.is_concerned and self.aspects != {Aspect.CLOSES} else None

    def check_end(self, end: StreamEnd[ContractStream]) -> Outcome:
        """Report the entities that are open at the end of a stream."""
        stream = end.stream
        tracker = stream.trackers[self.entity.name]
        if end.ending is not Ending.COMPLETE:
            return _CUT_BY_OTHERS if tracker.open else None
        if stream.has_unknown_end:
            return LOST_EVENTS
        if not stream.is_complete:
            return UNKNOWN_BEGINNING
        if problems := self._problems(list(tracker.unclosed())):
            return problems
        return HELD if tracker.closed else None

    def _problems(self, breaches: list[Breach]) -> list[Problem]:
        return [
            mismatch(each.expected, each.got, subject=each.key, key=" ".join(map(str, each.key)))
            for each in breaches
            if each.aspect in self.aspects
        ]


class Joined(EventPrimitive, frozen=True):
    """The texts of the deltas of an entity, joined, are the text of its final event."""

    entity: Entity
    deltas: Globs
    final: Globs
    texts: tuple[tuple[Globs, Pointer], ...]
    """Where events of which types have the whole text; the first that fits counts."""
    scope = Scope.STREAM
    summary = "The joined texts of {0.deltas} differ from the text of {0.final}."

    def concerns(self, type_: str) -> bool:
        """Whether events of a type are about the entity, and have one of the texts."""
        return self.entity.concerns(type_) and (self.final.matches(type_) or self.deltas.matches(type_))

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Add the text of a delta, or compare the whole text."""
        is_final = self.final.matches(event.type)
        if not is_final and not event.event_type.is_delta:
            return None
        tracker = stream.trackers[self.entity.name]
        if tracker.current is None:
            return UNKNOWN_BEGINNING if tracker.is_uncertain else None
        joined = tracker.current.joined.get(id(self))
        if joined is None:
            joined = tracker.current.joined[id(self)] = JoinedText()
        if not is_final:
            joined.add(event.text)
            return None
        pointer = next((each for types, each in self.texts if types.matches(event.type)), None)
        whole = None if pointer is None else pointer.read(event.json)
        if type(whole) is not str:
            return None
        if not joined.is_whole:
            return UNKNOWN_TEXT
        final = JoinedText()
        final.add(whole)
        if final.hash.digest() == joined.hash.digest():
            return HELD
        got = f"{final.length:,} characters" if final.length != joined.length else "a different text of that length"
        name = format_key(self.entity, tracker.current.key)
        expected = f"`{pointer}` to be the {joined.length:,} characters that the deltas of {name} have"
        return [mismatch(expected, f"{got}: {quote(whole)}", event=event)]


class _Successors:
    """Which durable event follows which on a channel, by their cursors."""

    def __init__(self) -> None:
        self.next: dict[str, str] = {}
        """For each cursor that of the event that follows."""
        self.known: set[str] = set()
        """The cursors of all events."""
        self.is_complete = False
        """Whether these are all events that the channel has and will have."""
        self.has_dropped = False
        """Whether some were dropped, because there were very many."""

    def add(self, before: str | None, cursor: str) -> None:
        """Add an event, and the one that it directly follows, if that is known."""
        if len(self.known) >= _MOST_SUCCESSORS:
            self.next.clear()
            self.known.clear()
            self.is_complete, self.has_dropped = False, True
        self.known.add(cursor)
        if before is not None and before != cursor:
            self.next.setdefault(before, cursor)

    def leads(self, cursor: str, to: str) -> bool:
        """Whether an event is at or before another one."""
        for _ in range(_MOST_STEPS):
            if cursor == to:
                return True
            if cursor not in self.next:
                break
            cursor = self.next[cursor]
        return False


class _Position(Struct):
    """Where a stream is in its channel."""

    before: str | None
    """The cursor of the last durable event; None if it is unknown."""
    is_cursor: bool
    """Whether `before` is the cursor of the request."""
    channel: ContractChannel
    """The channel of its first event."""


class Resume(EventPrimitive, frozen=True):
    """After a cursor come exactly the durable events behind it, as far as other streams of the channel show them."""

    unknown: int | None = None
    """The status of the response to a cursor that does not exist; None if it is not checked."""
    final: Globs = field(default_factory=lambda: Globs(()))
    """The types of the last event of a channel."""
    scope = Scope.CHANNEL
    summary = "A stream with a cursor does not begin with the event after the cursor, or omits a stored event."
    placeholders = ("before", "value")

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions: also one for the end, because a stream after an unknown cursor may have no event."""
        at_end = (Check(STREAM_END, self.check_end),) if self.unknown is not None else ()
        return (*EventPrimitive.checks(self), *at_end)

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Compare a durable event with the one that followed on another stream."""
        successors = stream.channel.memory.get(self, _Successors)
        position = self._position(stream)
        outcome: Outcome = None
        if (full := event.cursor) is not None and event.is_durable:
            cursor = str(shorten_value(full))
            before, is_first = position.before, position.is_cursor
            position.before, position.is_cursor = cursor, False
            if stream.cursor is not None:
                outcome = self._compare(successors, before, cursor, is_first=is_first)
            successors.add(None if outcome else before, cursor)
        if stream.is_complete and position.channel is stream.channel and self.final.matches(event.type):
            successors.is_complete = self.on.is_every_event and not successors.has_dropped
        return outcome

    def check_end(self, end: StreamEnd[ContractStream]) -> Outcome:
        """Check the cursor of a stream without a durable event."""
        position, successors = self._position(end.stream), end.stream.channel.memory.get(self, _Successors)
        if not position.is_cursor or position.before is None or position.before in successors.known:
            return None
        return self._check_cursor(successors, position.before)

    def _position(self, stream: ContractStream) -> _Position:
        cursor = None if stream.cursor is None else str(shorten_value(stream.cursor))
        position: _Position = stream.memory.get(self, lambda: _Position(cursor, cursor is not None, stream.channel))
        return position

    def _check_cursor(self, successors: _Successors, cursor: str) -> Outcome:
        """Return the outcome for a cursor that no event is known to have."""
        if self.unknown is None or not successors.is_complete:
            return _UNKNOWN_CURSOR
        expected = f"the status {self.unknown} after the cursor {quote(cursor)}, which no event has"
        return [mismatch(expected, "a stream", before=cursor)]

    def _compare(self, successors: _Successors, before: str | None, cursor: str, *, is_first: bool) -> Outcome:
        if before is None:
            return None
        if is_first and before not in successors.known:
            return self._check_cursor(successors, before)
        expected = successors.next.get(before)
        if cursor == expected:
            return HELD
        verb, last = ("begin", f"the cursor {quote(before)}") if is_first else ("continue", quote(before))
        if expected is not None:
            wanted = f"the resumed stream to {verb} with the event {quote(expected)}, which follows {last}"
            return [mismatch(wanted, f"the event {quote(cursor)}", before=before, value=cursor)]
        if successors.leads(cursor, before):
            wanted = f"the resumed stream to {verb} with an event after {last}"
            return [mismatch(wanted, f"the earlier event {quote(cursor)}", before=before, value=cursor)]
        return None

    def lose(self, stream: ContractStream) -> Outcome:
        """After lost bytes, it is unknown which event comes next."""
        self._position(stream).before = None
        return LOST_EVENTS if stream.cursor is not None else None


class _Reader(Struct):
    """A client as a reader of one channel."""

    streams: int = 0
    """Its streams that are open."""
    last: str | None = None
    """The cursor of the last event that it received."""
    has_final: bool = False
    """Whether its last stream had the last event of the channel."""
    is_done: bool = False
    """Whether it certainly received that event."""


class _Readers:
    """The clients that read a channel, and the cursors that they received."""

    def __init__(self) -> None:
        self.clients: dict[Hashable, _Reader] = {}
        self.cursors = SeenValues()


class _ReaderStream(Struct):
    """One stream of a reader."""

    reader: _Reader
    channel: ContractChannel
    final_ns: int | None = None
    """When the last event of the channel arrived."""


class Reconnect(EventPrimitive, frozen=True):
    """A client that reads a channel again sends the cursor of an event that it received, until it has the last one.

    Requests from one address, with the same credentials and the same program, are from one client.
    """

    final: Globs
    """The types of the last event of a channel."""
    scope = Scope.CLIENT
    side = Party.CLIENT
    summary = "A client resumes without a cursor, with a cursor that it did not receive, or after the last event."
    placeholders = ("before", "value")

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions: also one for the end, because a stream may have no event."""
        return (Check(STREAM_END, self.check_end), *EventPrimitive.checks(self))

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Compare the cursor of the request when the first event arrives, and remember what the client received."""
        state, outcome = self._begin(stream)
        if event.cursor is not None:
            cursor = str(shorten_value(event.cursor))
            stream.channel.memory.get(self, _Readers).cursors.add(cursor, event)
            state.reader.last = cursor
        if self.final.matches(event.type):
            state.final_ns = event.time_ns
        state.reader.has_final, state.reader.is_done = state.final_ns is not None, False
        return outcome

    def check_end(self, end: StreamEnd[ContractStream]) -> Outcome:
        """Remember how a stream ended; compare the cursor if it had no event."""
        state, outcome = self._begin(end.stream)
        state.reader.streams -= 1
        if state.final_ns is not None:
            state.reader.is_done = not may_be_unread(state.final_ns, end.ending, end.time_ns)
        return outcome

    def lose(self, stream: ContractStream) -> Outcome:
        """After lost bytes, it is unknown which cursors the client received."""
        stream.channel.memory.get(self, _Readers).cursors.may_lack_some = True
        return None

    def _begin(self, stream: ContractStream) -> tuple[_ReaderStream, Outcome]:
        state: _ReaderStream | None = stream.memory.get(self)
        if state is not None and state.channel is stream.channel:
            return state, None
        readers, request = stream.channel.memory.get(self, _Readers), stream.request
        names = ("authorization", "cookie", "user-agent")
        client = (request.client, *(shorten_value(header(request.headers, name)) for name in names))
        make_room(readers.clients, _MOST_READERS, lambda each: not each.streams)
        reader = readers.clients.setdefault(client, _Reader())
        reader.streams += 1
        stream.memory[self] = begun = _ReaderStream(reader, stream.channel)
        return begun, self._compare(stream, reader, readers.cursors) if state is None else None

    def _compare(self, stream: ContractStream, reader: _Reader, cursors: SeenValues) -> Outcome:
        last = reader.last
        if last is None or reader.streams > 1 or stream.request.is_invented or not stream.can_resume:
            return None
        cursor = None if stream.cursor is None else str(shorten_value(stream.cursor))
        at = Location(stream.exchange, stream.request.time_ns)
        if reader.has_final:
            if not reader.is_done or cursor != last:
                return None
            return [mismatch(f"no request after the last event {quote(last)}", "one", at=at, before=last, value=cursor)]
        if cursor is not None and cursors.find(cursor) is not None:
            return HELD
        if cursors.may_lack_some:
            return _UNKNOWN_CURSOR
        expected = f"the cursor of an event that the client received, such as {quote(last)}"
        return [mismatch(expected, quote_or_none(cursor), at=at, before=last, value=cursor)]


class LongestSilence(Primitive, Struct, frozen=True, eq=False):
    """No silence on a stream is longer than this."""

    limit: SilenceLimit
    summary = "A stream is silent for more than {0.limit.seconds:g} seconds."
    placeholders = ("seconds",)

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions."""
        return (Check(SILENCE, self.check),)

    def check(self, silence: Silence, _stream: EventStream) -> Outcome:
        """Check one silence, or the end of a stream without any."""
        if silence.limit != self.limit:
            return None
        if not silence.is_too_long:
            return HELD
        if silence.has_losses:
            return LOST_EVENTS
        seconds, longest = f"{silence.length_ns / 1e9:.1f}", f"{self.limit.seconds:g} s"
        if self.limit.is_interval:
            return [mismatch(f"a byte at least every {longest}", f"none for {seconds} s", seconds=seconds)]
        return [mismatch(f"no more than {longest} without bytes", f"{seconds} s", seconds=seconds)]


def _type(event: Event) -> str:
    return quote(event.type)
