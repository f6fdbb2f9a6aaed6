"""Events of streams: each is made once, by the reader of frames, and decoded once for all who use it.

An event is the timed frame of a block of lines; comments, blank lines, byte order marks and bytes that were cut off are
frames, but not events.  Its facts are read as the format of its contract says.
"""

from enum import IntEnum
from functools import cache
from typing import Any

import orjson

from wiretape.event_format import PLAIN, EventFormat, EventKind, join_key
from wiretape.event_preview import content_preview, is_utf8
from wiretape.json_codec import UnreadableJson, read_unusual_json
from wiretape.sse import Frame

LONGEST_ID = 1024
"""Longest id in bytes that fits a header; servers refuse headers over about 8 KiB."""
_USUAL_FIELDS = frozenset({b"event", b"id", b"data"})
_NO_OBJECT_DATA: dict[str, Any] = {}


class Shape(IntEnum):
    """Which rules apply to an event: those for its kind, if its data is one JSON object."""

    NO_DATA = 0
    """It has no data line, so clients do not dispatch it."""
    NO_OBJECT = 1
    """Its data is not one JSON object; rules about the content do not apply."""
    EPHEMERAL = 2
    DELTA = 3
    DURABLE = 4


# Python 3.11 takes 50 ns to look up a member of an enumeration.
_NO_DATA, _NO_OBJECT, _EPHEMERAL, _DELTA, _DURABLE = Shape


class TimedFrame:
    """A frame of an exchange."""

    __slots__ = ("exchange", "frame", "time_ns")

    def __init__(self, exchange: int, frame: Frame, time_ns: int) -> None:
        self.exchange = exchange
        """Number of its exchange."""
        self.frame = frame
        """Its bytes and fields."""
        self.time_ns = time_ns
        """When its last byte arrived, in nanoseconds since the recording began."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimedFrame) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<{'Event' if isinstance(self, Event) else 'TimedFrame'} {self._key}>"

    @property
    def _key(self) -> tuple[int, int, Frame]:
        return self.exchange, self.time_ns, self.frame


class Event(TimedFrame):
    """An event of a stream.  Immutable."""

    __slots__ = (
        "cursor",
        "data",
        "document",
        "event_line",
        "event_type",
        "format",
        "has_rare_fields",
        "has_unusual_json",
        "id_line",
        "is_delta",
        "is_durable",
        "json_hash",
        "number",
        "sequence",
        "shape",
        "type",
        "value",
    )

    def __init__(
        self, exchange: int, frame: Frame, time_ns: int, number: int, event_format: EventFormat = PLAIN
    ) -> None:
        # This runs for every event, and calls take long.
        self.exchange = exchange
        self.frame = frame
        self.time_ns = time_ns
        self.number = number
        """Its number in the stream, from 1."""
        self.format = event_format
        """How its facts are read."""
        self.json_hash: int | None = None
        """The hash of its JSON, once it was computed."""
        fields = frame[3]
        self.event_line: bytes | None
        """The value of the effective `event` line; None without any."""
        self.id_line: bytes | None
        """The value of the effective `id` line; None without any."""
        self.data: bytes
        """The data lines, joined."""
        self.has_rare_fields = False
        """Whether it has other fields than `event`, `id` and `data`, or one of these more than once."""
        if len(fields) == 2 and fields[0][0] == b"event" and fields[1][0] == b"data":
            # Nearly all events.
            self.event_line, identity, data = fields[0][1], None, fields[1][1]
        elif len(fields) == 3 and fields[0][0] == b"id" and fields[1][0] == b"event" and fields[2][0] == b"data":
            identity, self.event_line, data = fields[0][1], fields[1][1], fields[2][1]
        else:
            identity, data = self._read_rare_fields(frame)
        self.id_line = identity
        self.data = data
        self.has_unusual_json = False
        """Whether the data is beyond ordinary JSON: not JSON, not UTF-8, a lone surrogate, or a number out of range."""
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            self.has_unusual_json = True
            value = read_unusual_json(data, error)
        self.value: Any = value
        """The JSON value of the data, or an `UnreadableJson`."""
        self.document: dict[str, Any] = value if type(value) is dict else _NO_OBJECT_DATA
        """The JSON value, if it is an object; otherwise empty."""
        self._read_facts()

    def _read_facts(self) -> None:
        """Read what the contract says about the event."""
        event_format, value = self.format, self.value
        has_data = self.has_data
        event_type = event_format.describe(
            event_format.read_type(self.name, value, self.data) if has_data else self.name
        )
        self.event_type = event_type
        """What the contract says about its type."""
        self.type: str = event_type.name
        """Its type; empty if it has none."""
        self.cursor: str | None = self._read_cursor()
        """What a client sends to resume after the event; None if it cannot."""
        sequence = None if event_format.sequence is None else event_format.sequence.read(value)
        self.sequence: int | None = sequence if type(sequence) is int else None
        """Its number, if that is an integer."""
        is_durable = event_type.is_durable
        self.is_durable: bool = self.cursor is not None if is_durable is None else is_durable
        """Whether the service stores and replays it."""
        self.is_delta: bool = event_type.is_delta and has_data
        """Whether it is a fragment of a text."""
        self.shape: Shape
        """Which rules apply to it."""
        if type(value) is not dict:
            self.shape = _NO_OBJECT if has_data else _NO_DATA
        else:
            self.shape = _DELTA if self.is_delta else _DURABLE if self.is_durable else _EPHEMERAL

    def _read_cursor(self) -> str | None:
        pointer = self.format.cursor
        if pointer is None:
            return decode_id(self.id_line)
        value = pointer.read(self.value)
        return str(value) if type(value) in {str, int} and value != "" else None

    def _read_rare_fields(self, frame: Frame) -> tuple[bytes | None, bytes]:
        """Read the lines under the SSE rules, and return the id and the data.

        Data lines are joined; otherwise the last line wins, of ids the last one without NUL.
        """
        lines = dict(frame.fields)
        self.event_line, identity = lines.get(b"event"), lines.get(b"id")
        self.has_rare_fields = len(lines) < len(frame.fields) or not lines.keys() <= _USUAL_FIELDS
        if not self.has_rare_fields:
            return identity, lines.get(b"data", b"")
        usable = [value for value in frame.values(b"id") if b"\0" not in value]
        return usable[-1] if usable else identity, frame.data

    @property
    def kind(self) -> EventKind:
        """What the service does with it: sends it live in fragments, stores and replays it, or only sends it live."""
        return "delta" if self.is_delta else "durable" if self.is_durable else "ephemeral"

    @property
    def kinds(self) -> tuple[EventKind, ...]:
        """Its kinds: a delta can also be durable."""
        return ("durable", "delta") if self.is_durable and self.is_delta else (self.kind,)

    @property
    def keys(self) -> dict[str, str]:
        """The keys of the entities that it is about, by the names of these."""
        found = {each.name: each.read_key(self.value) for each in self.event_type.entities}
        return {name: joined for name, key in found.items() if key is not None and (joined := join_key(key))}

    @property
    def has_data(self) -> bool:
        """Whether it has a data line; if not, clients do not dispatch it."""
        return bool(self.data) or self.frame.is_dispatched

    @property
    def raw(self) -> bytes:
        """All its bytes as they crossed the wire (decoded, if the body has a content encoding)."""
        return self.frame.raw

    @property
    def name(self) -> str:
        """The SSE `event` field, with U+FFFD for bytes that are not UTF-8; empty if there is none."""
        line = self.event_line
        return line.decode("utf-8", "replace") if line else ""

    @property
    def id(self) -> str | None:
        """The SSE `id` field, with U+FFFD for bytes that are not UTF-8; None if there is none without NUL."""
        line = self.id_line
        return None if line is None or b"\0" in line else line.decode("utf-8", "replace")

    @property
    def has_id(self) -> bool:
        """Whether it has an id that is not empty, usable or not."""
        return bool(self.id_line)

    @property
    def json(self) -> Any:
        """The data as JSON; None if it is not valid JSON."""
        return None if isinstance(self.value, UnreadableJson) else self.value

    @property
    def outermost_key(self) -> str | None:
        """The key of the entity that it is about and that is not in another one; None without any."""
        keys = self.keys
        return next((keys[each.name] for each in self.format.entities if not each.within and each.name in keys), None)

    @property
    def text(self) -> str | None:
        """The text of a delta; None if it has none, and for any other event."""
        pointer = self.event_type.text if self.is_delta else None
        text = None if pointer is None else pointer.read(self.value)
        return text if type(text) is str else None

    @property
    def preview(self) -> str:
        """The whole text of a delta; of any other event, the beginning of its content."""
        text = self.text
        if text is not None:
            return text
        read_keys = lambda: self.keys.values()  # noqa: E731, PLW0108 - few previews need them
        return content_preview(self.value, self.data, read_keys, self.format.envelope)

    @property
    def is_plain_delta(self) -> bool:
        """Whether it is a delta with nothing unusual, which can be folded: only stored ones have an id or a number."""
        return self.is_delta and not self.note and (self.is_durable or (self.id is None and self.sequence is None))

    @property
    def note(self) -> str:
        """What is unusual about the event, in a few words; usually empty."""
        if not self.data:
            return "empty data" if self.has_data else "no data line, so clients ignore it"
        if self.value is UnreadableJson.TOO_COMPLEX:
            return "unreadable: nested too deeply, or a number is too long"
        if type(self.value) is not dict and not self.format.declares(self.type):
            return "not a JSON object"
        return "" if is_utf8(self.data) else "not UTF-8"

    @property
    def repeated_fields(self) -> tuple[str, ...]:
        """Which of `event`, `id` and `data` occur more than once."""
        names = [name for name, _ in self.frame.fields] if self.has_rare_fields else []
        return tuple(name.decode() for name in (b"event", b"id", b"data") if names.count(name) > 1)

    @property
    def retries(self) -> list[bytes]:
        """The values of the `retry` lines."""
        return self.frame.values(b"retry") if self.has_rare_fields else []

    @property
    def unknown_fields(self) -> list[bytes]:
        """The names of all fields other than `event`, `id`, `data` and `retry`, each once."""
        names = [name for name, _ in self.frame.fields] if self.has_rare_fields else []
        return list(dict.fromkeys(name for name in names if name not in {*_USUAL_FIELDS, b"retry"}))

    @property
    def is_utf8(self) -> bool:
        """Whether the whole event is UTF-8."""
        return is_utf8(self.frame.raw)

    @property
    def invalid_utf8_at(self) -> int | None:
        """Offset in the event, comments included, of the first byte that is not UTF-8."""
        try:
            self.frame.raw.decode()
        except UnicodeDecodeError as error:
            return error.start
        return None

    def is_damaged(self, text: str) -> bool:
        """Whether `text`, a part of the event, may have been damaged by invalid UTF-8, which SSE001 reports."""
        return "\ufffd" in text and not self.is_utf8


def make_event(exchange: int, frame: Frame, time_ns: int, number: int, event_format: EventFormat = PLAIN) -> Event:
    """Return the event in a frame, of the class that its format names."""
    event_class: type[Event] = event_format.event_class or Event
    return event_class(exchange, frame, time_ns, number, event_format)


class _Unread:
    """An event that is read when it is first used: then it becomes one of its class, whose attributes are faster."""

    __slots__ = ()

    def __init__(self, exchange: int, frame: Frame, time_ns: int, number: int, event_format: EventFormat) -> None:
        self.exchange, self.frame, self.time_ns = exchange, frame, time_ns  # type: ignore[misc]
        self.number, self.format = number, event_format  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        self.__class__ = self.format.event_class or Event
        self.__init__(self.exchange, self.frame, self.time_ns, self.number, self.format)  # type: ignore[misc]
        return getattr(self, name)


@cache
def unread_class(event_class: type[Event]) -> type[Event]:
    """Return the class of events that are read when they are first used."""
    return type(f"Unread{event_class.__name__}", (_Unread, event_class), {"__slots__": ()})


def is_header_safe(identity: str) -> bool:
    """Whether an id survives a header unchanged: printable ASCII, no outer space, not too long."""
    return (
        identity.isascii() and identity.isprintable() and identity == identity.strip() and len(identity) <= LONGEST_ID
    )


def decode_id(line: bytes | None) -> str | None:
    """Return the id that clients store to resume; None if it is absent, empty or not UTF-8, or contains NUL."""
    # Searching for bytes instead of a number would raise and catch an exception.
    if not line or 0 in line:
        return None
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
