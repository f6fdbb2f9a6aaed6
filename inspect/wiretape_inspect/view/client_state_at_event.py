"""What a client knows after an event: the texts so far, open entities such as runs, and its cursor."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wiretape.content_encoding import is_identity
from wiretape.contract.vocabulary import JoinedTextTypes
from wiretape.event import Event
from wiretape.recording import Exchange, Recording
from wiretape_inspect.view.entity_spans import (
    ChannelState,
    EntitySpans,
    EventLocation,
    Span,
    with_names,
)

MAX_TEXT = 100_000
"""Characters of a text that are kept: the last ones."""
_END = 2**62


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
    texts: Mapping[str, JoinedText]
    """By the names that the contract gives them."""
    entities: Mapping[str, tuple[Span, ...]]
    """By their names, in the order in which they appeared; of entities that are in another one, those that are open."""
    channel: ChannelState
    cursor: str | None
    """The cursor that the client would send to resume now; None if it has none."""
    last_sequence: int | None
    """The highest `sequence` so far."""
    connections: tuple[int, ...]
    """The exchanges that the state comes from: those the client resumed from, then this one."""


def state_at(recording: Recording, exchange: Exchange, event: int) -> State:
    """Return the state just after an event of a stream, which must exist.

    Includes earlier connections if the client resumed from them with a cursor.
    """
    history = ClientHistory(recording, exchange)
    history.read(exchange, event)
    return history.state()


class ClientHistory:
    """What a client knows on a connection, to which each event is added."""

    def __init__(self, recording: Recording, exchange: Exchange) -> None:
        """Begin before the first event of the connection."""
        self._recording = recording
        self._vocabulary = exchange.vocabulary
        self._spans = EntitySpans(self._vocabulary)
        self._texts = {types.name: JoinedText() for types in self._vocabulary.texts}
        self._sequence: int | None = None
        earlier = list(_resumed_from(recording, exchange))[::-1]
        self._connections = (*(link.number for link in earlier), exchange.number)
        for link in earlier:
            self.read(link)
        self._begin(exchange)

    def _begin(self, exchange: Exchange) -> None:
        self._cursor = exchange.cursor
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
        end = position.start if position else _END
        found = list(self._recording.indexed_events(exchange, end, self._vocabulary.deltas))
        first = max(found[-1].number, 1) if found else 1
        for types in self._vocabulary.texts:
            changing = [event.number for event in found if types.is_replaced_by(event.type)]
            begin = changing[-1] if changing else 0
            if begin and (began := next(self._recording.events(number, begin), None)):
                self._add_text(types, began)
            first = min(first, self._recording.first_event_of_type(number, begin + 1, types.deltas) or _END)
        has_sequences = exchange.has_sequences_as_cursors
        for event in found:
            if event.number < first:
                self._spans.add(event.type, event.keys, EventLocation(number, event.number, event.time_ns))
                self._note_sequence(event.sequence)
                if event.sequence is not None and has_sequences:
                    self._cursor = str(event.sequence)
        return first

    def add(self, event: Event) -> None:
        """Add the next event."""
        self._last = EventLocation(event.exchange, event.number, event.time_ns)
        if event.format.cursor is not None:
            self._cursor = event.cursor or self._cursor
        elif event.id is not None or event.frame.last_event_id:
            self._cursor = event.frame.last_event_id.decode("utf-8", "replace")
        if not self._vocabulary.deltas.matches(event.type):
            self._spans.add(event.type, event.keys, self._last, event.preview)
            self._note_sequence(event.sequence)
        for types in self._vocabulary.texts:
            self._add_text(types, event)

    def _add_text(self, types: JoinedTextTypes, event: Event) -> None:
        if types.deltas.matches(event.type):
            self._texts[types.name] = self._texts[types.name].with_delta(event.text or "")
        elif types.final.matches(event.type):
            text = types.read_final(event.json)
            self._texts[types.name] = JoinedText(text[-MAX_TEXT:], len(text), final=True)
        elif types.begins.matches(event.type):
            self._texts[types.name] = JoinedText()

    def _note_sequence(self, sequence: int | None) -> None:
        if sequence is not None and (self._sequence is None or sequence > self._sequence):
            self._sequence = sequence

    def state(self) -> State:
        """Return the state just after the event that was added last."""
        last, spans = self._last, self._spans
        shown: dict[str, tuple[Span, ...]] = {}
        for entity in self._vocabulary.entities.values():
            if entity.within is None:
                shown[entity.name] = tuple(spans.spans[entity.name].values())
            else:
                shown[entity.name] = tuple(with_names(self._recording, spans.open[entity.name].values()))
                # Each name is looked up only once.
                spans.open[entity.name] |= {span.id: span for span in shown[entity.name]}
        return State(
            exchange=last.exchange,
            event=last.event,
            time_ns=last.time_ns,
            texts=dict(self._texts),
            entities=shown,
            channel=spans.channel,
            cursor=self._cursor or None,
            last_sequence=self._sequence,
            connections=self._connections,
        )


def _resumed_from(recording: Recording, exchange: Exchange) -> Iterator[Exchange]:
    """Yield the connections that a client resumed from, the latest first."""
    while cursor := exchange.cursor:
        earlier = [
            other
            for other in recording.exchanges()
            if other.is_stream and other.channel == exchange.channel and other.number < exchange.number
        ]
        found = next((other for other in reversed(earlier) if recording.has_cursor(other, cursor)), None)
        if found is None:
            return
        yield (exchange := found)
