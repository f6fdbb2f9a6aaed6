"""What a client knows after an event: the text so far, open runs and tool calls, and its cursor."""

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
from wiretape.event import Event
from wiretape.recording import Exchange, Recording
from wiretape_inspect.view.runs_and_calls import EventLocation, RunsAndCalls, SessionState, Span, request_cursor

MAX_TEXT = 100_000
"""Characters of a text that are kept: the last ones."""
MAX_NAMED_CALLS = 50
"""Number of open tool calls whose tool name is looked up."""
_END = 2**62
_DELTA = {"text": MESSAGE_DELTA, "reasoning": REASONING_DELTA}
_FINAL = {"text": MESSAGE_COMPLETED, "reasoning": REASONING_MESSAGE}
_FROM_THE_FIRST = {"text": 0, "reasoning": 0}
_RESETS = {MESSAGE_STARTED: ("text",), RUN_STARTED: ("text", "reasoning")}


@dataclass(frozen=True, slots=True)
class JoinedText:
    """The text that a client has after joining deltas."""

    text: str = ""
    """The last `MAX_TEXT` characters."""
    characters: int = 0
    """Length of the whole text."""
    final: bool = False
    """Whether a durable event carried the whole text; the next delta then starts a new one."""

    def with_delta(self, text: str) -> "JoinedText":
        """The text after one more delta."""
        if self.final:
            return JoinedText(text[-MAX_TEXT:], len(text))
        return JoinedText((self.text + text)[-MAX_TEXT:], self.characters + len(text))


@dataclass(frozen=True, slots=True)
class State:
    """What a client knows just after an event."""

    exchange: int
    event: int
    time_ns: int
    text: JoinedText
    reasoning: JoinedText
    open_calls: tuple[Span, ...]
    """Tool calls that have not ended; the longest open first."""
    runs: tuple[Span, ...]
    """All runs, in the order in which they appeared."""
    session: SessionState
    cursor: str | None
    """The `Last-Event-ID` that the client would send to resume now; None if it has none."""
    last_sequence: int | None
    """The highest `sequence` so far."""
    connections: tuple[int, ...]
    """The exchanges that the state comes from: those the client resumed from, then this one."""


def state_at(recording: Recording, exchange: Exchange, event: int) -> State:
    """Return the state just after an event of a stream, which must exist.

    Includes earlier connections if the client resumed from them with `Last-Event-ID`.
    Reads no deltas except those of the current text and reasoning.
    """
    history, connections = _history_before(recording, exchange)
    return replace(history.read(exchange, event), connections=connections)


class FollowedState:
    """The states of a client on one connection, to which each event is added."""

    def __init__(self, recording: Recording, exchange: Exchange, most_runs: int | None = None) -> None:
        """Begin before the first event.  `most_runs` limits the runs of each state to the last ones."""
        self._history, self._connections = _history_before(recording, exchange)
        self._history.most_runs = most_runs
        self._cursor = request_cursor(exchange)

    def add(self, event: Event) -> None:
        """Add the next event."""
        self._history.add_event(event)
        self._history.note_name(event)
        self._cursor = cursor_after(event, self._cursor)

    def state_after(self, event: Event) -> State:
        """Return the state just after the event that was added last."""
        state = self._history.state(event.exchange, event.number, event.time_ns, self._cursor or None)
        return replace(state, connections=self._connections)


def _history_before(recording: Recording, exchange: Exchange) -> tuple["ClientHistory", tuple[int, ...]]:
    """Return what a client knows before a connection, and the numbers of that connection and those it resumed from."""
    history = ClientHistory(recording)
    chain = list(reversed(list(_resumed_from(recording, exchange))))
    for earlier in chain:
        history.read(earlier, None)
    return history, (*(link.number for link in chain), exchange.number)


def cursor_after(event: Event, cursor: str | None) -> str | None:
    """Return the cursor that a client has after an event, if it had `cursor` before."""
    if event.id is None and not event.frame.last_event_id:
        return cursor
    return event.frame.last_event_id.decode("utf-8", "replace")


def _resumed_from(recording: Recording, exchange: Exchange) -> Iterator[Exchange]:
    """Yield the connections that a client resumed from, the latest first."""
    cursor = request_cursor(exchange)
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
        exchange, cursor = found, request_cursor(found)


class ClientHistory:
    """What a client learned from one connection after another."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.activity = RunsAndCalls()
        self.texts = {"text": JoinedText(), "reasoning": JoinedText()}
        self.sequence: int | None = None
        self.most_runs: int | None = None
        """The most runs of a state: the last ones."""
        self._names: dict[str, str] = {}
        """The tool names of calls that were open."""

    def read(self, exchange: Exchange, until: int | None) -> State:
        """Read a connection up to an event, or to its end."""
        number = exchange.number
        indexed, begins = self._read_index(exchange, until)
        cursor, last_event, time_ns = request_cursor(exchange), 0, exchange.request.time_ns
        for event in self._recording.events(number, min(*begins.values(), max(indexed, 1))):
            if until is not None and event.number > until:
                break
            last_event, time_ns = event.number, event.time_ns
            cursor = cursor_after(event, cursor)
            self.add_event(event, indexed, begins)
        return self.state(number, last_event, time_ns, cursor or None)

    def _read_index(self, exchange: Exchange, until: int | None) -> tuple[int, dict[str, int]]:
        """Read what the index holds; return its last event, and the event from which each text must be read."""
        number, last, begins = exchange.number, 0, dict(_FROM_THE_FIRST)
        if not is_identity(exchange.content_encoding):
            return last, begins
        position = self._recording.position_of_event(number, until) if until is not None else None
        before = position.start if position else _END
        facts = self._recording.indexed_facts(number, before, DELTA_TYPES)
        for event, time_ns, type_, run_id, call, sequence in facts:
            if until is not None and event > until:
                break
            last = event
            self._add(type_, run_id, call, sequence, EventLocation(number, event, time_ns))
            for name in begins:
                if type_ == _FINAL[name] or name in _RESETS.get(type_, ()):
                    begins[name] = last
        return last, {name: min(self._first_delta(number, name, begin), last + 1) for name, begin in begins.items()}

    def _first_delta(self, number: int, name: str, begin: int) -> int:
        """Read the event that began a text; return the number of its first delta, or one beyond the end."""
        event = next(self._recording.events(number, begin), None) if begin else None
        if event is not None:
            self._add_text(name, event)
        return self._recording.first_event_of_type(number, begin + 1, _DELTA[name]) or _END

    def add_event(self, event: Event, indexed: int = 0, begins: Mapping[str, int] = _FROM_THE_FIRST) -> None:
        """Add one more event.

        Events up to `indexed` were added from the index; each text `begins` at an event.
        """
        if event.number > indexed and event.type not in DELTA_TYPES:
            location = EventLocation(event.exchange, event.number, event.time_ns)
            self._add(event.type, event.run_id, event.tool_call_id, event.sequence, location)
        for name, begin in begins.items():
            if event.number >= begin:
                self._add_text(name, event)

    def note_name(self, event: Event) -> None:
        """Note the tool name of a call that begins with the event that was added last."""
        call = self.activity.open_calls.get(event.tool_call_id or "")
        if call is not None and call.began is not None and call.events == 1:
            self._names[call.id] = event.text

    def _add_text(self, name: str, event: Event) -> None:
        if event.type == _DELTA[name]:
            self.texts[name] = self.texts[name].with_delta(event.delta_text or "")
        elif event.type == _FINAL[name]:
            text = event.final_text
            self.texts[name] = JoinedText(text[-MAX_TEXT:], len(text), final=True)
        elif name in _RESETS.get(event.type, ()):
            self.texts[name] = JoinedText()

    def _add(self, type_: str, run_id: str | None, call: str | None, sequence: int | None, at: EventLocation) -> None:
        self.activity.add(type_, run_id, call, at)
        if sequence is not None and (self.sequence is None or sequence > self.sequence):
            self.sequence = sequence

    def state(self, number: int, event: int, time_ns: int, cursor: str | None) -> State:
        """Return the state after an event."""
        runs = self.activity.runs.values()
        return State(
            exchange=number,
            event=event,
            time_ns=time_ns,
            text=self.texts["text"],
            reasoning=self.texts["reasoning"],
            open_calls=tuple(self._named(iter(self.activity.open_calls.values()))),
            runs=tuple(runs if self.most_runs is None else [*islice(reversed(runs), self.most_runs)][::-1]),
            session=self.activity.session,
            cursor=cursor,
            last_sequence=self.sequence,
            connections=(number,),
        )

    def _named(self, calls: Iterator[Span]) -> Iterator[Span]:
        """Return what `with_names` returns, and look up each name once."""
        for call in islice(calls, MAX_NAMED_CALLS):
            if call.id not in self._names:
                self._names[call.id] = next(with_names(self._recording, iter([call]))).name
            yield replace(call, name=self._names[call.id])
        yield from calls


def with_names(recording: Recording, calls: Iterator[Span]) -> Iterator[Span]:
    """Yield the tool calls, the first `MAX_NAMED_CALLS` with the tool name from their first event."""
    for call in islice(calls, MAX_NAMED_CALLS):
        began = call.began
        event = next(recording.events(began.exchange, began.event), None) if began else None
        yield replace(call, name=event.text) if event is not None else call
    yield from calls
