"""What is compared of one stream: its events other than deltas, one by one, and the joined texts of its deltas."""

from array import array
from collections.abc import Iterator
from io import SEEK_END
from typing import IO, Any

import orjson

from wiretape.event import Event, TimedFrame
from wiretape.frame_reader import FrameReader
from wiretape.json_codec import UnreadableJson, read_json
from wiretape.json_path import JsonPath
from wiretape.observations import BytesArrived, Side
from wiretape.recording import Exchange, Recording
from wiretape.sse import Frame, FrameKind
from wiretape_inspect.diff.diff_model import DiffOptions
from wiretape_inspect.diff.value_comparison import ValueComparison, is_id_name, is_time

MAX_TEXT_LENGTH = 1_000_000
"""Characters of a delta text that are kept; the rest is compared by its length."""
_COMPARED_FIELDS = frozenset({b"event", b"retry"})
_VARYING_MEMBERS = frozenset({"id", "sequence"})
"""Top-level members in which events of the same content may differ."""
_MAX_INTERNED = 1000
_interned: dict[tuple[tuple[bytes, bytes], ...], tuple[tuple[bytes, bytes], ...]] = {}


class ContentHash:
    """A hash of a JSON value without its ids and timestamps, and these ids and timestamps."""

    __slots__ = ("_is_complete", "id_names", "ids", "times", "value")

    def __init__(self, document: Any, event_type: str) -> None:
        self._is_complete = True
        self.id_names: list[str] = []
        """The member name of each of `ids`."""
        self.ids: list[str] = []
        self.times: list[Any] = []
        content = document
        if type(document) is dict:
            content = {key: value for key, value in document.items() if key not in _VARYING_MEMBERS}
            if type(document.get("id")) is str:
                self.id_names.append("id")
                self.ids.append(document["id"])
        try:
            self.value = hash(orjson.dumps([event_type, self._masked(content, "")], option=orjson.OPT_SORT_KEYS))
        except (orjson.JSONEncodeError, RecursionError):
            self.value = hash(event_type)
            self._is_complete = False

    def is_surely_same(self, other: "ContentHash", comparison: ValueComparison) -> bool:
        """Whether two values are equal except for their sequence; False if the hashes cannot prove it."""
        if self.value != other.value or self.id_names != other.id_names or not self._is_complete:
            return False
        if not comparison.options.times and self.times != other.times:
            return False
        return all(comparison.is_same_id(here, there) for here, there in zip(self.ids, other.ids, strict=True))

    def _masked(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind is dict:
            return {key: self._masked(item, key) for key, item in value.items()}
        if kind is list:
            return [self._masked(item, name) for item in value]
        if kind is str and is_id_name(name):
            self.id_names.append(name)
            self.ids.append(value)
            return None
        if kind is not bool and is_time(value, name):
            self.times.append(value)
            return None
        return value


class EventItem:
    """An event to compare with one of another stream."""

    __slots__ = (
        "_content",
        "_content_hash",
        "data",
        "document",
        "event",
        "id",
        "lines",
        "sequence",
        "spooled",
        "time_ns",
        "type",
    )

    def __init__(self, event: Event, document: Any) -> None:
        self.event = event.number
        self.time_ns = event.time_ns
        self.type = event.type
        self.id = event.id
        self.lines = _compared_lines(event.frame)
        """The `event` and `retry` fields."""
        self.sequence = event.sequence
        self.data = event.data
        self.document = document
        self.spooled: tuple[int, int] | None = None
        """Offset and size of `data` in the file while neither it nor `document` is in memory."""
        self._content: ContentHash | None = None
        self._content_hash: int | None = None

    @property
    def content(self) -> ContentHash:
        """The hash of its JSON, with its ids and timestamps."""
        if self._content is None:
            self._content = ContentHash(self.document, self.type)
        return self._content

    @property
    def content_hash(self) -> int:
        """Equal for events with equal content, whatever their ids, timestamps and sequences."""
        return self.content.value if self._content_hash is None else self._content_hash

    def spool(self, file: IO[bytes]) -> None:
        """Move the data to a file until it is restored."""
        self._content_hash, self._content = self.content_hash, None
        self.spooled = (file.seek(0, SEEK_END), len(self.data))
        file.write(self.data)
        self.data, self.document = b"", None

    def restore(self, file: IO[bytes], ignored: tuple[JsonPath, ...]) -> None:
        """Read the data back from the file, if it is there."""
        if self.spooled is not None:
            start, size = self.spooled
            file.seek(start)
            self.data = file.read(size)
            self.document, self.spooled = comparable_document(self.data, ignored), None

    def release(self) -> None:
        """Drop the data for good."""
        self.data, self.document, self._content = b"", None, None


def _compared_lines(frame: Frame) -> tuple[tuple[bytes, bytes], ...]:
    found = tuple([line for line in frame.fields if line[0] in _COMPARED_FIELDS])
    # Most events of a stream have one of a few.
    return _interned.setdefault(found, found) if len(_interned) < _MAX_INTERNED else found


class DeltaText:
    """The joined deltas of one type and run."""

    def __init__(self, event_type: str, run_id: str | None) -> None:
        self.type = event_type
        self.run_id = run_id
        self.length = 0
        self.events = array("q")
        """The event number of each delta."""
        self.ends = array("q")
        """The offset in the text at which each delta ends."""
        self.times = array("q")
        """When each delta arrived (ns)."""
        self._parts: list[str] = []
        self._kept = 0

    def add(self, event: Event, text: str) -> None:
        """Append a delta."""
        self.length += len(text)
        self.events.append(event.number)
        self.times.append(event.time_ns)
        self.ends.append(self.length)
        if self._kept < MAX_TEXT_LENGTH:
            self._parts.append(text[: MAX_TEXT_LENGTH - self._kept])
            self._kept += len(self._parts[-1])

    @property
    def text(self) -> str:
        """Its first million characters."""
        self._parts = ["".join(self._parts)]
        return self._parts[0]


class StreamItems:
    """Reads a stream.  All other attributes are complete once `events` is exhausted."""

    def __init__(self, recording: Recording, exchange: Exchange, options: DiffOptions) -> None:
        self.exchange = exchange
        self.texts: dict[tuple[str, str | None], DeltaText] = {}
        self.event_count = 0
        self.is_cut = False
        """Whether the stream ends in the middle of an event."""
        self.undecodable: str | None = None
        self._recording = recording
        self._options = options

    def events(self) -> Iterator[EventItem]:
        """Its events in order, without plain deltas."""
        reader = FrameReader(self.exchange.content_encoding, exchange=self.exchange.number)
        for part in self._recording.body(self.exchange.number, Side.RESPONSE):
            yield from self._items(reader.feed(part) if isinstance(part, BytesArrived) else reader.skip(part))
        yield from self._items(last := reader.close())
        self.is_cut = any(seen.frame.kind is FrameKind.TAIL for seen in last)
        self.undecodable = reader.undecodable

    def event(self, number: int) -> EventItem | None:
        """The event of this number, read again."""
        event = next(self._recording.events(self.exchange.number, number), None)
        return None if event is None else EventItem(event, _text_if_unreadable(event.value, event.data))

    def _items(self, frames: list[TimedFrame]) -> Iterator[EventItem]:
        for seen in frames:
            if isinstance(seen, Event) and (item := self._item(seen)) is not None:
                yield item

    def _item(self, event: Event) -> EventItem | None:
        self.event_count += 1
        text = event.delta_text
        if text is not None:
            if self._options.deltas != "none":
                key = (event.type, event.run_id)
                self.texts.setdefault(key, DeltaText(*key)).add(event, text)
            # A delta with an id or a sequence breaks a rule; it is compared as an event as well.
            if event.id is None and event.sequence is None:
                return None
        return EventItem(event, _without(_text_if_unreadable(event.value, event.data), self._options.ignored))


def comparable_document(data: bytes, ignored: tuple[JsonPath, ...]) -> Any:
    """What is compared of `data`: its JSON without the ignored values, or its text."""
    return _without(_text_if_unreadable(read_json(data), data), ignored)


def _text_if_unreadable(value: Any, data: bytes) -> Any:
    return data.decode("utf-8", "backslashreplace") if isinstance(value, UnreadableJson) else value


def _without(value: Any, ignored: tuple[JsonPath, ...]) -> Any:
    for path in ignored:
        if path.is_root:
            return None
        try:
            path.remove_from(value)
        except RecursionError:
            return value
    return value
