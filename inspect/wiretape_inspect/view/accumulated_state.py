"""What the events of streams add up to: entities, a stream at a glance, and what a client knows after an event.

An entity is assembled from its events.  Entities and the glance come from the index alone.  What a client knows are the
texts so far, open entities such as runs, and its cursor.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import islice
from typing import Literal

from wiretape.bounded_dict import put_bounded
from wiretape.content_encoding import is_identity
from wiretape.contract.vocabulary import JoinedTextTypes, Vocabulary
from wiretape.event import Event
from wiretape.event_format import Entity
from wiretape.patterns import MISSING
from wiretape.recording import Exchange, Gap, Recording
from wiretape.recording.recording_reader import IndexedEvent
from wiretape_inspect.view.timeline_rows import GAP_NS, Keys

MAX_NAMED = 50
"""Number of spans whose first event is looked up."""
MAX_FOLDED = 50
"""Number of silences that are listed: the longest ones."""
MAX_READ = 1000
"""Number of events that are read for the name of a span."""
LONGEST_TEXT = 1000
"""Characters of the joined text of a span after which no more is read."""
MAX_SPANS = 1000
"""Number of spans of an entity that are listed: more cannot be told apart."""
MAX_TEXT = 100_000
"""Characters of a text that are kept: the last ones."""
_END = 2**62


@dataclass(slots=True)  # not frozen, which takes several times as long: one is made for each event
class EventLocation:
    """Location and time of an event."""

    exchange: int
    event: int
    time_ns: int


@dataclass(slots=True)  # the same
class Span:
    """All events about one entity, such as a run or a tool call."""

    id: str
    within: str | None = None
    """The key of the entity that it is in, such as the run of a tool call."""
    began: EventLocation | None = None
    """The event that opened it; None if that event was not recorded."""
    ended: EventLocation | None = None
    """The event that closed it; None while it is open."""
    outcome: str = ""
    """The type of the event that closed it; empty while it is open."""
    events: int = 0
    """Number of its events."""
    name: str = ""
    """Its joined text, or the content of the event that opened it, if it was looked up."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None

    def with_event(
        self, at: EventLocation, within: str | None, outcome: str, *, begins: bool, name: str = ""
    ) -> "Span":
        """Return the span with one more event.  Replayed events do not move a beginning or an end."""
        begins = begins and self.began is None
        # The constructor is faster than `replace`.
        return Span(
            id=self.id,
            within=self.within or within,
            began=at if begins else self.began,
            ended=self.ended or (at if outcome else None),
            outcome=self.outcome or outcome,
            events=self.events + 1,
            name=name if begins else self.name,
        )


ChannelState = Literal["running", "idle", "unknown"]
"""running: an outermost entity is open.  idle: the contract says so of the last event about it.  unknown: otherwise."""


class EntitySpans:
    """The entities of a series of events, in the order in which they first appear."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        entities = vocabulary.entities.values()
        self.spans: dict[str, dict[str, Span]] = {entity.name: {} for entity in entities}
        """By the name of the entity and the key."""
        self.open: dict[str, dict[str, Span]] = {entity.name: {} for entity in entities}
        """Those that have not ended."""
        self._is_idle = False

    @property
    def channel(self) -> ChannelState:
        """The state of the channel after the events added so far."""
        if any(self.open[entity.name] for entity in self.vocabulary.entities.values() if entity.within is None):
            return "running"
        return "idle" if self._is_idle else "unknown"

    def add(self, type_: str, keys: Keys, at: EventLocation, name: str = "") -> None:
        """Add an event; `name` is its content, if it is known."""
        if type_ in self.vocabulary.idle:
            self._is_idle = True
        for entity in self.vocabulary.entities.values():
            begins = entity.opens.matches(type_)
            if begins and entity.within is None:
                self._is_idle = False
            key = keys.get(entity.name)
            if key is None:
                continue
            spans, open_spans = self.spans[entity.name], self.open[entity.name]
            within, content = (None, "") if entity.within is None else (keys.get(entity.within), name)
            outcome = type_ if entity.closes.matches(type_) else ""
            span = (spans.get(key) or Span(key)).with_event(at, within, outcome, begins=begins, name=content)
            spans[key] = span
            if span.is_open:
                open_spans[key] = span
            else:
                open_spans.pop(key, None)


def entity_spans(recording: Recording, exchanges: Sequence[Exchange], vocabulary: Vocabulary) -> EntitySpans:
    """Return the entities of several streams; one that spans two streams counts once, as does a replayed event."""
    found = EntitySpans(vocabulary)
    streams: dict[tuple[object, ...], int] = {}  # by event, the first exchange that had it
    chosen = [exchange for exchange in exchanges if exchange.is_stream]
    for exchange in chosen:
        number = exchange.number
        for event, time_ns, type_, sequence, keys in recording.indexed_events(exchange, _END, vocabulary.deltas):
            identity = (sequence, type_, *keys.items()) if len(chosen) > 1 and sequence is not None else None
            if identity is None or streams.setdefault(identity, number) == number:
                found.add(type_, keys, EventLocation(number, event, time_ns))
    return found


def with_names(recording: Recording, spans: Iterable[Span], entity: Entity | None = None) -> Iterator[Span]:
    """Yield spans, the first `MAX_NAMED` with the content of their first event.

    Those of an `entity` have more: their whole text instead, if they have any, and an outermost one its title.
    """
    spans = iter(spans)
    for span in islice(spans, MAX_NAMED):
        if entity is not None and span.began is not None:
            yield replace(span, name=_name_of(recording, span, span.began, entity))
            continue
        began = None if span.name else span.began
        event = next(recording.events(began.exchange, began.event), None) if began else None
        yield replace(span, name=event.preview) if event is not None else span
    yield from spans


def _name_of(recording: Recording, span: Span, began: EventLocation, entity: Entity) -> str:
    if entity.within is None and entity.title is None:
        return ""
    first, length = "", 0
    texts: list[str] = []
    for event in islice(recording.events(began.exchange, began.event), MAX_READ):
        if not first:
            title = MISSING if entity.title is None else entity.title.read(event.json)
            first = (title if isinstance(title, str) else "") if entity.within is None else span.name or event.preview
        keys = event.keys
        is_innermost = keys.get(entity.name) == span.id and next(reversed(keys)) == entity.name
        if is_innermost and event.text is not None:
            texts.append(event.text)
            length += len(event.text)
        is_last = span.ended is not None and (event.exchange, event.number) == (span.ended.exchange, span.ended.event)
        if is_last or length > LONGEST_TEXT:
            break
    text = "".join(texts)
    return f"{first} {text}".strip() if entity.within is None else text or first


@dataclass(frozen=True, slots=True)
class EntityOverview:
    """The entities of one kind on a stream, as plain data for `dump_json`."""

    spans: tuple[Span, ...]
    """Failed ones and the longest, at most `MAX_SPANS`, in order; open ones have no `ended`."""
    count: int
    """Number of all."""
    open_count: int
    """Number of those that did not end."""


@dataclass(frozen=True, slots=True)
class Overview:
    """A stream at a glance, as plain data for `dump_json`."""

    exchange: int
    began_ns: int
    """When the response began."""
    ended_ns: int
    """When the stream ended; while it is open, when the last event arrived."""
    silences: tuple[Gap, ...]
    """The `MAX_FOLDED` longest times of a second or more before an event, in order."""
    entities: Mapping[str, EntityOverview]
    """By the names of the entities."""


def overview(recording: Recording, exchange: Exchange) -> Overview:
    """Return a stream at a glance, as far as it is indexed; the index of a growing recording may lag behind."""
    began = exchange.began_ns
    vocabulary = exchange.vocabulary
    found = entity_spans(recording, [exchange], vocabulary)
    last = recording.last_frame_ns(exchange.number)
    return Overview(
        exchange=exchange.number,
        began_ns=began,
        ended_ns=exchange.ended_ns if exchange.ended_ns is not None else max(last or began, began),
        silences=tuple(recording.longest_gaps(exchange.number, GAP_NS, MAX_FOLDED)),
        entities={
            entity.name: _overview_of(recording, found, entity, began) for entity in vocabulary.entities.values()
        },
    )


def _overview_of(recording: Recording, found: EntitySpans, entity: Entity, began_ns: int) -> EntityOverview:
    spans = list(found.spans[entity.name].values())
    longest = _longest(spans, began_ns, found.vocabulary.failures)
    shown = with_names(recording, longest, entity)
    return EntityOverview(tuple(shown), len(spans), len(found.open[entity.name]))


def longest_silence(recording: Recording, exchanges: Iterable[Exchange]) -> dict[str, int] | None:
    """Return the longest time before an event: `{exchange, since_ns, until_ns, event}`; None if there are no events."""
    found = [
        {"exchange": exchange.number, **gap._asdict()}
        for exchange in exchanges
        if exchange.is_stream
        for gap in recording.longest_gaps(exchange.number, 0, 1)
    ]
    return max(found, key=lambda gap: gap["until_ns"] - gap["since_ns"], default=None)


def _longest(spans: Sequence[Span], began_ns: int, failures: Collection[str]) -> Iterable[Span]:
    """Return at most `MAX_SPANS` spans in their order: failed ones, then the longest; an open one is longest."""

    def weight(index: int) -> tuple[bool, int]:
        span, began, ended = spans[index], spans[index].began, spans[index].ended
        length_ns = (ended.time_ns if ended else _END) - (began.time_ns if began else began_ns)
        return span.outcome in failures, length_ns

    return (spans[index] for index in sorted(nlargest(MAX_SPANS, range(len(spans)), key=weight)))


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
        self._keys: dict[str, str | None] = {}
        """The keys of the entities that the texts belong to, by the names of the texts."""
        self._other_texts: dict[tuple[str, str | None], JoinedText] = {}
        """Those of other entities, by the names of the texts and the keys of the entities."""
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
            begin = self._find_beginning(types, found)
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

    def _find_beginning(self, types: JoinedTextTypes, found: Sequence[IndexedEvent]) -> int:
        """Return the number of the event after which the deltas of the current text are; 0 for the first one."""
        begin = next((event.number for event in reversed(found) if types.is_replaced_by(event.type)), 0)
        if types.entity is None:
            return begin
        entity, opened = self._vocabulary.entities[types.entity], dict[str | None, int]()
        for event in found:
            if event.number <= begin and entity.opens.matches(event.type):
                opened.setdefault(event.keys.get(entity.name), event.number)
            elif event.number <= begin and entity.closes.matches(event.type):
                opened.pop(event.keys.get(entity.name), None)
        # The next delta may be of any of these.
        return min([begin, *opened.values()])

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
        name, is_delta = types.name, types.deltas.matches(event.type)
        if not is_delta and not types.is_replaced_by(event.type):
            return
        key = None if types.entity is None else event.keys.get(types.entity)
        if key is not None and key != self._keys.get(name):
            put_bounded(self._other_texts, (name, self._keys.get(name)), self._texts[name], MAX_SPANS)
            self._keys[name] = key
            self._texts[name] = self._other_texts.get((name, key), JoinedText())
        if is_delta:
            self._texts[name] = self._texts[name].with_delta(event.text or "")
        elif types.final.matches(event.type):
            text = types.read_final(event.json)
            self._texts[name] = JoinedText(text[-MAX_TEXT:], len(text), final=True)
        elif key is None:
            self._texts[name] = JoinedText()

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
