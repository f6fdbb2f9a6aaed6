"""Events of streams: each is made once, by the reader of frames, and decoded once for all who use it.

An event is the timed frame of a block of lines; comments, blank lines, byte order marks and bytes that were cut off are
frames, but not events.

What belongs to the service, where its JSON has the facts and what they mean, is read here and nowhere else.
"""

from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, Literal

import orjson

from wiretape.agent_sessions import DELTA_TYPES
from wiretape.agent_sessions.schemas import SchemaErrors, find_event_errors
from wiretape.event_preview import block_texts, content_preview, is_utf8
from wiretape.json_codec import UnreadableJson, read_unusual_json, sequence_in
from wiretape.sse import Frame

EventKind = Literal["durable", "delta", "ephemeral"]

LONGEST_ID = 1024
"""Longest id in bytes that fits a header; servers refuse headers over about 8 KiB."""
_USUAL_FIELDS = frozenset({b"event", b"id", b"data"})
_NO_OFFSET = timedelta(0)
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
        "_schema_errors",
        "created_at",
        "cursor",
        "data",
        "document",
        "event_line",
        "has_rare_fields",
        "has_unusual_json",
        "id_line",
        "is_delta",
        "is_durable",
        "json_hash",
        "number",
        "run_id",
        "sequence",
        "shape",
        "type",
        "value",
    )

    def __init__(self, exchange: int, frame: Frame, time_ns: int, number: int) -> None:  # noqa: PLR0915 - runs for every event, and calls take long
        self.exchange = exchange
        self.frame = frame
        self.time_ns = time_ns
        self.number = number
        """Its number in the stream, from 1."""
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
            identity, data = self._read_fields(frame)
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
        is_object = type(value) is dict
        document = value if is_object else _NO_OBJECT_DATA
        self.document: dict[str, Any] = document
        """The JSON value, if it is an object; otherwise empty."""
        sequence, run_id, type_ = document.get("sequence"), document.get("run_id"), document.get("type")
        if type(sequence) is float:
            sequence = sequence_in(document, data)
        self.sequence: int | None = sequence if type(sequence) is int else None
        """The JSON `sequence`, if it is an integer (neither a boolean nor a float)."""
        self.run_id: str | None = run_id if type(run_id) is str else None
        """The JSON `run_id`, if it is a string."""
        type_ = type_ if type(type_) is str else self.name
        self.type: str = type_
        """The JSON `type`, if it is a string, or else the name on the `event:` line, or else empty."""
        self.cursor: str | None = _decode_id(identity) if identity else None
        """The id that clients store to resume; None if it is absent, empty or not UTF-8, or contains NUL."""
        self.json_hash: int | None = None
        """The hash of its JSON, once it was computed."""
        self._schema_errors: SchemaErrors | None = None
        self.created_at: datetime | None = None
        """The JSON `created_at`, if it is an ISO 8601 timestamp in UTC; always None for a delta."""
        self.is_delta = type_ in DELTA_TYPES and is_object
        """Whether it is a fragment of live output: a JSON object with one of the delta types."""
        if self.is_delta:
            self.is_durable, self.shape = False, _DELTA
            return
        self.is_durable = bool(identity) or self.has_sequence
        """Whether the service stores and replays it: it has an id or a sequence, and is not a delta."""
        if is_object:
            self.shape = _DURABLE if self.is_durable else _EPHEMERAL
            self.created_at = _parse_utc(document.get("created_at"))
        else:
            self.shape = _NO_OBJECT if self.has_data else _NO_DATA

    def _read_fields(self, frame: Frame) -> tuple[bytes | None, bytes]:
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
    def has_sequence(self) -> bool:
        """Whether its JSON has a `sequence` of any type other than null."""
        return self.document.get("sequence") is not None

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
    def tool_call_ids(self) -> list[str]:
        """The tool call ids in `content` and `data`: none, one, or two that differ."""
        first, second = self._content_and_data("tool_call_id")
        found = [first] if second is None or first == second else [first, second]
        return [call_id for call_id in found if call_id is not None]

    @property
    def tool_call_id(self) -> str | None:
        """The first of the `tool_call_ids`; None without any."""
        ids = self.tool_call_ids if "content" in self.document or "data" in self.document else None
        return ids[0] if ids else None

    @property
    def tool_name(self) -> str | None:
        """The tool name in `content` and `data`; None if there is none, or if they differ."""
        first, second = self._content_and_data("name")
        if first is None or second is None or first == second:
            return second if first is None else first
        return None

    def _content_and_data(self, name: str) -> tuple[str | None, str | None]:
        """The values of a field of `content` and `data`, if they are strings."""
        content, data = self.document.get("content"), self.document.get("data")
        first = content.get(name) if type(content) is dict else None
        second = data.get(name) if type(data) is dict else None
        return first if type(first) is str else None, second if type(second) is str else None

    @property
    def delta_text(self) -> str | None:
        """The text of a delta; None if it has none, and for any other event."""
        delta = self.document.get("delta") if self.kind == "delta" else None
        text = delta.get("text") if type(delta) is dict else None
        return text if type(text) is str else None

    @property
    def text(self) -> str:
        """The whole text of a delta; of any other event, a preview of its content."""
        text = self.delta_text
        return content_preview(self.type, self.value, self.data) if text is None else text

    @property
    def final_text(self) -> str:
        """The whole text of a durable event: its text blocks, joined; empty if it has none."""
        return "".join(block_texts(self.document))

    @property
    def is_plain_delta(self) -> bool:
        """Whether it is a delta with nothing unusual, which can be folded."""
        return self.is_delta and self.id is None and self.sequence is None and not self.note

    @property
    def note(self) -> str:
        """What is unusual about the event, in a few words; usually empty."""
        if not self.data:
            return "empty data" if self.has_data else "no data line, so clients ignore it"
        if self.value is UnreadableJson.TOO_COMPLEX:
            return "unreadable: nested too deeply, or a number is too long"
        if type(self.value) is not dict:
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

    def find_schema_errors(self) -> SchemaErrors:
        """Return where the JSON of a durable event or a delta does not match its schemas."""
        errors = self._schema_errors
        if errors is None:
            errors = self._schema_errors = find_event_errors(self.document, self.type, is_delta=self.is_delta)
        return errors

    def workspace_of(self, session: str) -> str | None:
        """The JSON `workspace_id`, unless the event names another session than `session`."""
        workspace = self.document.get("workspace_id")
        if type(workspace) is not str:
            return None
        other = self.document.get("session_id")
        return None if type(other) is str and other != session else workspace


class UnreadEvent(Event):
    """An event that is read when it is first used: then it becomes an `Event`, whose attributes are faster."""

    __slots__ = ()

    def __init__(self, exchange: int, frame: Frame, time_ns: int, number: int) -> None:
        TimedFrame.__init__(self, exchange, frame, time_ns)
        self.number = number

    def __getattr__(self, name: str) -> Any:
        self.__class__ = Event  # type: ignore[assignment]
        self.__init__(self.exchange, self.frame, self.time_ns, self.number)  # type: ignore[misc]
        return getattr(self, name)


def is_header_safe(identity: str) -> bool:
    """Whether an id survives a header unchanged: printable ASCII, no outer space, not too long."""
    return (
        identity.isascii() and identity.isprintable() and identity == identity.strip() and len(identity) <= LONGEST_ID
    )


def _decode_id(value: bytes) -> str | None:
    # Searching for bytes instead of a number would raise and catch an exception.
    if 0 in value:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _parse_utc(value: object) -> datetime | None:
    """Return the time of an ISO 8601 timestamp in UTC; None for any other value."""
    if type(value) is not str:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo is UTC or time.utcoffset() == _NO_OFFSET else None
