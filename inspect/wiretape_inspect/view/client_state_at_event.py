"""What a client knows after an event: the text so far, open runs and tool calls, and its cursor."""

from collections.abc import Iterator
from dataclasses import dataclass

from wiretape.agent_sessions import (
    DELTA_TYPES,
    MESSAGE_COMPLETED,
    MESSAGE_DELTA,
    MESSAGE_STARTED,
    REASONING_DELTA,
    REASONING_MESSAGE,
    RUN_STARTED,
)
from wiretape.content_encoding import is_identity
from wiretape.event import Event
from wiretape.http_headers import LAST_EVENT_ID, cursor_in
from wiretape.observations import header
from wiretape.recording import Exchange, Recording
from wiretape_inspect.view.runs_and_calls import EventLocation, RunsAndCalls, SessionState, Span, with_names

MAX_TEXT = 100_000
"""Characters of a text that are kept: the last ones."""
_END = 2**62
_DELTA = {"text": MESSAGE_DELTA, "reasoning": REASONING_DELTA}
_FINAL = {"text": MESSAGE_COMPLETED, "reasoning": REASONING_MESSAGE}
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
    """
    history = ClientHistory(recording, exchange)
    history.read(exchange, event)
    return history.state()


class ClientHistory:
    """What a client knows on a connection, to which each event is added."""

    def __init__(self, recording: Recording, exchange: Exchange) -> None:
        """Begin before the first event of the connection."""
        self._recording = recording
        self._activity = RunsAndCalls()
        self._texts = {"text": JoinedText(), "reasoning": JoinedText()}
        self._sequence: int | None = None
        earlier = list(_resumed_from(recording, exchange))[::-1]
        self._connections = (*(link.number for link in earlier), exchange.number)
        for link in earlier:
            self.read(link)
        self._begin(exchange)

    def _begin(self, exchange: Exchange) -> None:
        self._cursor = request_cursor(exchange)
        self._last = EventLocation(exchange.number, 0, exchange.request.time_ns)

    def read(self, exchange: Exchange, until: int = _END) -> None:
        """Read a connection up to an event.  Reads no deltas except those of the current texts."""
        self._begin(exchange)
        begin = self._read_index(exchange, until)
        for event in self._recording.events(exchange.number, begin):
            if event.number > until:
                break
            self.add(event)

    def _read_index(self, exchange: Exchange, until: int) -> int:
        """Add what the index holds of the events before the first one to read, and return that one."""
        if not is_identity(exchange.content_encoding):
            return 1
        number = exchange.number
        position = self._recording.position_of_event(number, until + 1)
        facts = list(self._recording.indexed_facts(number, position.start if position else _END, DELTA_TYPES))
        begins = dict.fromkeys(self._texts, 0)
        for event, _, type_, *_ in facts:
            begins |= {name: event for name in begins if type_ == _FINAL[name] or name in _RESETS.get(type_, ())}
        first = max(facts[-1][0], 1) if facts else 1
        for name, begin in begins.items():
            if begin and (began := next(self._recording.events(number, begin), None)):
                self._add_text(name, began)
            first = min(first, self._recording.first_event_of_type(number, begin + 1, _DELTA[name]) or _END)
        for event, time_ns, type_, run_id, call, sequence in facts:
            if event < first:
                self._activity.add(type_, run_id, call, EventLocation(number, event, time_ns))
                self._note_sequence(sequence)
        return first

    def add(self, event: Event) -> None:
        """Add the next event."""
        self._last = EventLocation(event.exchange, event.number, event.time_ns)
        if event.id is not None or event.frame.last_event_id:
            self._cursor = event.frame.last_event_id.decode("utf-8", "replace")
        if event.type not in DELTA_TYPES:
            self._activity.add(event.type, event.run_id, event.tool_call_id, self._last, event.preview)
            self._note_sequence(event.sequence)
        for name in self._texts:
            self._add_text(name, event)

    def _add_text(self, name: str, event: Event) -> None:
        if event.type == _DELTA[name]:
            self._texts[name] = self._texts[name].with_delta(event.text or "")
        elif event.type == _FINAL[name]:
            text = event.final_text
            self._texts[name] = JoinedText(text[-MAX_TEXT:], len(text), final=True)
        elif name in _RESETS.get(event.type, ()):
            self._texts[name] = JoinedText()

    def _note_sequence(self, sequence: int | None) -> None:
        if sequence is not None and (self._sequence is None or sequence > self._sequence):
            self._sequence = sequence

    def state(self) -> State:
        """Return the state just after the event that was added last."""
        last = self._last
        calls = tuple(with_names(self._recording, self._activity.open_calls.values()))
        # Each name is looked up only once.
        self._activity.open_calls |= {call.id: call for call in calls}
        return State(
            exchange=last.exchange,
            event=last.event,
            time_ns=last.time_ns,
            text=self._texts["text"],
            reasoning=self._texts["reasoning"],
            open_calls=calls,
            runs=tuple(self._activity.runs.values()),
            session=self._activity.session,
            cursor=self._cursor or None,
            last_sequence=self._sequence,
            connections=self._connections,
        )


def _resumed_from(recording: Recording, exchange: Exchange) -> Iterator[Exchange]:
    """Yield the connections that a client resumed from, the latest first."""
    while cursor := request_cursor(exchange):
        earlier = [
            other
            for other in recording.exchanges()
            if other.is_stream and other.session_id == exchange.session_id and other.number < exchange.number
        ]
        found = next((other for other in reversed(earlier) if recording.has_event_id(other.number, cursor)), None)
        if found is None:
            return
        yield (exchange := found)


def request_cursor(exchange: Exchange) -> str | None:
    """Return the cursor that the request resumes after; None if it starts from the beginning."""
    return cursor_in(header(exchange.request.headers, LAST_EVENT_ID))
