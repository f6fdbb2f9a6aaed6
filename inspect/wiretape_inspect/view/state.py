"""What a client knew at an event: the text so far, what was open, and the cursor it would send now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from wiretape.content_encoding import is_identity
from wiretape.contract import (
    DELTA_TYPES,
    MESSAGE_COMPLETED,
    MESSAGE_DELTA,
    MESSAGE_STARTED,
    REASONING_DELTA,
    REASONING_MESSAGE,
    RUN_STARTED,
)
from wiretape.frame_reader import SeenFrame
from wiretape.recording import Exchange, Recording
from wiretape_inspect.facts import Facts, facts_of, final_text
from wiretape_inspect.view.work import Moment, SessionState, Span, Work, asked_after

KEPT = 100_000
"""Characters of a text that are kept: its last ones."""
NAMED = 50
"""How many open tool calls are looked up to tell what they call."""
_END = 2**62
_DELTA = {"text": MESSAGE_DELTA, "reasoning": REASONING_DELTA}
_FINAL = {"text": MESSAGE_COMPLETED, "reasoning": REASONING_MESSAGE}
_FROM_THE_FIRST = {"text": 0, "reasoning": 0}
_ANEW = {MESSAGE_STARTED: ("text",), RUN_STARTED: ("text", "reasoning")}


@dataclass(frozen=True, slots=True)
class Spoken:
    """A text as a client has it that puts deltas together."""

    text: str = ""
    """Its last `KEPT` characters."""
    characters: int = 0
    """How long it is in all."""
    final: bool = False
    """Whether it came whole, in an event that is stored; what comes next begins a new one."""

    def longer(self, text: str) -> "Spoken":
        """The text with a delta."""
        if self.final:
            return Spoken(text[-KEPT:], len(text))
        return Spoken((self.text + text)[-KEPT:], self.characters + len(text))


@dataclass(frozen=True, slots=True)
class State:
    """What a client knew just after an event."""

    exchange: int
    event: int
    time_ns: int
    text: Spoken
    reasoning: Spoken
    open_calls: tuple[Span, ...]
    """Tool calls that were told of and have not ended; the longest open first."""
    runs: tuple[Span, ...]
    """Runs that were told of, in that order."""
    session: SessionState
    last_event_id: str | None
    """The `Last-Event-ID` that a client would send now to go on; None: none."""
    last_sequence: int | None
    """The highest `sequence` so far."""
    connections: tuple[int, ...]
    """The exchanges that this was learned from: those that led up to this one, by the cursors, then this one."""


def state_at(recording: Recording, exchange: Exchange, event: int) -> State:
    """The state just after a message of a stream, which must exist.

    What the connections before told counts, as far as the client says by `Last-Event-ID` that it knows them.
    Deltas are not read but those of the text and the reasoning that are under way.
    """
    knowledge, chain = known_before(recording, exchange)
    return replace(knowledge.learn(exchange, event), connections=chain)


def known_before(recording: Recording, exchange: Exchange) -> tuple["Knowledge", tuple[int, ...]]:
    """What a client knew before a connection, and the connections that it learned it from, with this one."""
    knowledge = Knowledge(recording)
    chain = list(reversed(list(_before(recording, exchange))))
    for earlier in chain:
        knowledge.learn(earlier, None)
    return knowledge, (*(link.number for link in chain), exchange.number)


def cursor_after(seen: SeenFrame, cursor: str | None) -> str | None:
    """The cursor that a client has after a message, if it had `cursor` before."""
    if seen.frame.id is None and not seen.frame.last_event_id:
        return cursor
    return seen.frame.last_event_id.decode("utf-8", "replace")


def _before(recording: Recording, exchange: Exchange) -> Iterator[Exchange]:
    """The connections that a client resumed from, the latest first."""
    cursor = asked_after(exchange)
    while cursor:
        earlier = [
            other
            for other in recording.exchanges()
            if other.is_stream and other.session_id == exchange.session_id and other.number < exchange.number
        ]
        found = next((other for other in reversed(earlier) if recording.has_event_id(other.number, cursor)), None)
        if found is None:
            return
        yield found
        exchange, cursor = found, asked_after(found)


class Knowledge:
    """What is learned from one connection after the other."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.work = Work()
        self.spoken = {"text": Spoken(), "reasoning": Spoken()}
        self.sequence: int | None = None

    def learn(self, exchange: Exchange, until: int | None) -> State:
        """Take a connection in, up to a message or to its end."""
        number = exchange.number
        indexed, begins = self._index(exchange, until)
        cursor, heard, time_ns = asked_after(exchange), 0, exchange.request.time_ns
        for seen in self._recording.frames(number, min(*begins.values(), max(indexed, 1))):
            if seen.event is None:
                continue
            if until is not None and seen.event > until:
                break
            heard, time_ns = seen.event, seen.time_ns
            cursor = cursor_after(seen, cursor)
            self._hear(number, seen, indexed, begins)
        return self._state(number, heard, time_ns, cursor or None)

    def hear(self, exchange: int, seen: SeenFrame) -> Facts:
        """Take one more message in, and tell what it says of itself."""
        return self._hear(exchange, seen, 0, _FROM_THE_FIRST)

    def _index(self, exchange: Exchange, until: int | None) -> tuple[int, dict[str, int]]:
        """Learn from the index: up to which message that was, and from which on each text has to be read."""
        number, last, begins = exchange.number, 0, dict(_FROM_THE_FIRST)
        if not is_identity(exchange.content_encoding):
            return last, begins
        place = self._recording.position_of_event(number, until) if until is not None else None
        for told in self._recording.indexed_events(number, place.start if place else _END, DELTA_TYPES):
            if until is not None and told.event > until:
                break
            last = told.event
            self._add(told.type, told.run_id, told.tool_call_id, told.sequence, Moment(number, last, told.time_ns))
            for what in begins:
                if told.type == _FINAL[what] or what in _ANEW.get(told.type, ()):
                    begins[what] = last
        return last, {what: min(self._skip(number, what, begin), last + 1) for what, begin in begins.items()}

    def _skip(self, number: int, what: str, begin: int) -> int:
        """Read what began a text, and tell where its first delta behind that is, or some place beyond the end."""
        seen = next(self._recording.frames(number, begin), None) if begin else None
        if seen is not None:
            self._speak(what, seen, facts_of(seen.frame))
        return self._recording.first_event_of_type(number, begin + 1, _DELTA[what]) or _END

    def _hear(self, number: int, seen: SeenFrame, indexed: int, begins: Mapping[str, int]) -> Facts:
        facts, event = facts_of(seen.frame), seen.event or 0
        if event > indexed and facts.type not in DELTA_TYPES:
            self._add(facts.type, facts.run_id, facts.tool_call_id, facts.sequence, Moment(number, event, seen.time_ns))
        for what, begin in begins.items():
            if event >= begin:
                self._speak(what, seen, facts)
        return facts

    def _speak(self, what: str, seen: SeenFrame, facts: Facts) -> None:
        if facts.type == _DELTA[what]:
            self.spoken[what] = self.spoken[what].longer(facts.text if facts.characters else "")
        elif facts.type == _FINAL[what]:
            text = final_text(seen.frame)
            self.spoken[what] = Spoken(text[-KEPT:], len(text), final=True)
        elif what in _ANEW.get(facts.type, ()):
            self.spoken[what] = Spoken()

    def _add(self, type_: str, run_id: str | None, call: str | None, sequence: int | None, at: Moment) -> None:
        self.work.add(type_, run_id, call, at)
        if sequence is not None and (self.sequence is None or sequence > self.sequence):
            self.sequence = sequence

    def _state(self, number: int, event: int, time_ns: int, cursor: str | None) -> State:
        return State(
            exchange=number,
            event=event,
            time_ns=time_ns,
            text=self.spoken["text"],
            reasoning=self.spoken["reasoning"],
            open_calls=tuple(named(self._recording, (c for c in self.work.calls.values() if c.open))),
            runs=tuple(self.work.runs.values()),
            session=self.work.session,
            last_event_id=cursor,
            last_sequence=self.sequence,
            connections=(number,),
        )


def named(recording: Recording, calls: Iterator[Span]) -> Iterator[Span]:
    """The calls with what they call, as their first events say; the first `NAMED` of them."""
    for call in islice(calls, NAMED):
        began = call.began
        seen = next(recording.frames(began.exchange, began.event), None) if began else None
        yield replace(call, name=facts_of(seen.frame).text) if seen is not None else call
    yield from calls
