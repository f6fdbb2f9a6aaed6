"""An event of a stream with its fields and JSON parsed once for all rules."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

import orjson

from wiretape.contract import DELTA_TYPES
from wiretape.contract.schemas import DURABLE_EVENT, EPHEMERAL_EVENT, EVENT_SCHEMAS, Schema, Violation, is_valid_delta
from wiretape.frame_reader import SeenFrame
from wiretape.json_codec import read_json, sequence_in
from wiretape.rules.finding import Location
from wiretape.sse import Frame

LONGEST_ID = 1024
"""Longest id in bytes that fits a header; servers refuse headers over about 8 KiB."""
_KNOWN_FIELDS = frozenset({b"event", b"id", b"data", b"retry"})
_NO_OFFSET = timedelta(0)
_BEYOND_INT64 = 2**63
_EMPTY: dict[str, Any] = {}


class Shape(IntEnum):
    """What an event carries, as far as rules distinguish events by it."""

    NO_DATA = 0
    """It has no data line, so clients do not dispatch it."""
    NO_OBJECT = 1
    """Its data is not one JSON object; rules about the content do not apply."""
    EPHEMERAL = 2
    """It carries neither an id nor a sequence and is not a delta."""
    DELTA = 3
    """Its type is a delta type, whatever it carries."""
    DURABLE = 4
    """It carries an id or a sequence and is not a delta."""


# Python 3.11 takes 50 ns to look up a member of an enumeration.
_DELTA, _DURABLE = Shape.DELTA, Shape.DURABLE


@dataclass(frozen=True, slots=True)
class SchemaErrors:
    """Where the JSON of an event does not match its schemas."""

    general: tuple[Violation, ...] = ()
    """Violations of the schema of all durable events, or of all deltas."""
    specific: tuple[Violation, ...] = ()
    """Violations of the schema of the event's type, without the fields that already violate the general schema."""


NO_SCHEMA_ERRORS = SchemaErrors()


class FramedEvent:
    """An event with its fields parsed, on a stream of the service or of another.  Immutable once it is made."""

    # Most events have none of these.
    repeated_fields: tuple[str, ...] = ()
    """Which of `event`, `id` and `data` occur more than once."""
    retries: tuple[bytes, ...] = ()
    """The values of the `retry` lines."""
    unknown_fields: tuple[bytes, ...] = ()
    """The names of all other fields, each once."""

    def __init__(self, seen: SeenFrame) -> None:
        self.frame: Frame
        self.frame, self.time_ns, self.number = seen
        data = event = identity = None
        rare = False
        for name, value in seen[0][3]:
            if name == b"data" and data is None:
                data = value
            elif name == b"event" and event is None:
                event = value
            elif name == b"id" and identity is None:
                identity = value
            else:
                rare = True
        self.data: bytes | None = data
        """The data lines, joined; None without any."""
        self.event_line: bytes | None = event
        """The value of the effective `event` line; None without any."""
        self.id_line: bytes | None = identity
        """The value of the effective `id` line; None without any."""
        self.has_rare_fields = rare
        """Whether it has other fields than these, or one of these more than once."""
        if rare:
            self._read_rare_fields(self.frame.fields)
        self.id: str | None = self._decode_id(self.id_line) if identity else None
        """The id that clients store; None if there is none, or if it is empty, contains NUL or is not UTF-8."""
        self.has_id = bool(self.id_line)
        """Whether it has an id that is not empty, usable or not."""
        self._read_data()

    def _read_rare_fields(self, fields: tuple[tuple[bytes, bytes], ...]) -> None:
        """Apply the SSE rules: the last line wins, of ids the last one without NUL, and data lines are joined."""
        frame = self.frame
        names = [name for name, _ in fields]
        self.repeated_fields = tuple(name.decode() for name in (b"event", b"id", b"data") if names.count(name) > 1)
        self.retries = tuple(frame.values(b"retry"))
        self.unknown_fields = tuple(dict.fromkeys(name for name in names if name not in _KNOWN_FIELDS))
        if "data" in self.repeated_fields:
            self.data = frame.data
        if "event" in self.repeated_fields:
            self.event_line = frame.values(b"event")[-1]
        if "id" in self.repeated_fields:
            values = frame.values(b"id")
            self.id_line = ([value for value in values if b"\0" not in value] or values)[-1]

    @staticmethod
    def _decode_id(value: bytes | None) -> str | None:
        # Searching for bytes instead of a number would raise and catch an exception.
        if not value or 0 in value:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None

    def _read_data(self) -> None:
        """A subclass parses the data."""

    @property
    def is_utf8(self) -> bool:
        """Whether the whole event is UTF-8."""
        return self.frame[2].isascii() or self.invalid_utf8_at is None

    @property
    def invalid_utf8_at(self) -> int | None:
        """Offset in the event, comments included, of the first byte that is not UTF-8."""
        raw = self.frame.raw
        if raw.isascii():
            return None
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            return error.start
        return None

    def is_damaged(self, text: str) -> bool:
        """Whether `text`, a part of the event, may have been damaged by invalid UTF-8, which SSE001 reports."""
        return "\ufffd" in text and self.invalid_utf8_at is not None

    def location(self, exchange: int) -> Location:
        """The location of the event, which arrived on `exchange`."""
        return Location(exchange, self.time_ns, self.number, None, self.frame.start)


class ParsedEvent(FramedEvent):
    """An event of the service, with its JSON parsed as well."""

    # Most events have none of these.
    non_object: Any = None
    """For the shape NO_OBJECT the JSON value of the data, or an `UnreadableJson`."""
    has_unusual_json = False
    """Whether the data is beyond ordinary JSON: not JSON, not UTF-8, a lone surrogate, or a number out of range."""
    run_id: str | None = None
    """The JSON `run_id`, if it is a string."""
    created_at: datetime | None = None
    """The JSON `created_at`, if it is an ISO 8601 timestamp in UTC; always None for a delta."""
    json_hash: int | None = None
    """The hash of its JSON, once it was computed."""
    _tool_call_ids: list[str] | None = None

    def _read_data(self) -> None:
        # Python 3.11 takes five times as long to read an attribute of the class through its instance.
        self._schema_errors: SchemaErrors | None = None
        self.document: dict[str, Any] = _EMPTY
        """The JSON object; empty for the shapes NO_DATA and NO_OBJECT."""
        self.type: str | None = None
        """The JSON `type`, if it is a string."""
        self.sequence: int | None = None
        """The JSON `sequence`, if it is an integer (neither a boolean nor a float)."""
        self.has_sequence = False
        """Whether it has a `sequence` of any type other than null."""
        self.is_delta = self.is_durable = False
        """Whether the shape is DELTA or DURABLE; faster than comparing the shape."""
        if self.data is None:
            self.shape = Shape.NO_DATA
            return
        try:
            document = orjson.loads(self.data)
        except orjson.JSONDecodeError:
            self.has_unusual_json = True
            document = read_json(self.data)
        if type(document) is not dict:
            self.shape = Shape.NO_OBJECT
            self.non_object = document
            return
        sequence = document.get("sequence")
        if type(sequence) is float:
            sequence = sequence_in(document, self.data or b"")
        self.document = document
        self.has_sequence = sequence is not None
        if type(sequence) is int:
            self.sequence = sequence
        run_id = document.get("run_id")
        if type(run_id) is str:
            self.run_id = run_id
        name = document.get("type")
        if type(name) is str:
            self.type = name
            if name in DELTA_TYPES:
                self.shape, self.is_delta = _DELTA, True
                return
        self.created_at = _parse_utc(document.get("created_at"))
        if self.has_sequence or self.has_id:
            self.shape, self.is_durable = _DURABLE, True
        else:
            self.shape = Shape.EPHEMERAL

    @property
    def event_name(self) -> str | None:
        """The value of the `event` line, with U+FFFD for bytes that are not UTF-8."""
        line = self.event_line
        return None if line is None else line.decode("utf-8", "replace")

    @property
    def tool_call_ids(self) -> list[str]:
        """The tool call ids in `content` and `data`: none, one, or two that differ."""
        if self._tool_call_ids is None:
            first, second = self._content_and_data("tool_call_id")
            found = [first] if second is None or first == second else [first, second]
            self._tool_call_ids = [call_id for call_id in found if call_id is not None]
        return self._tool_call_ids

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
    def schema_errors(self) -> SchemaErrors:
        """Where the JSON of a durable event or a delta does not match its schemas."""
        return self.find_schema_errors()

    def find_schema_errors(self) -> SchemaErrors:
        """Return the `schema_errors`, which takes less time than reading the property."""
        errors = self._schema_errors
        if errors is None:
            document, specific = self.document, EVENT_SCHEMAS.get(self.type or "")
            is_valid = is_valid_delta(document) if self.is_delta else (specific or DURABLE_EVENT).is_valid(document)
            errors = self._schema_errors = NO_SCHEMA_ERRORS if is_valid else self._find_errors(specific)
        return errors

    def _find_errors(self, specific: Schema | None) -> SchemaErrors:
        document, general = self.document, EPHEMERAL_EVENT if self.is_delta else DURABLE_EVENT
        violations = general.violations(document)
        if specific is None:
            return SchemaErrors(violations)
        reported = {violation.path[0] for violation in violations}
        return SchemaErrors(violations, tuple(v for v in specific.violations(document) if v.path[0] not in reported))

    def workspace_of(self, session: str) -> str | None:
        """The JSON `workspace_id`, unless the event names another session than `session`."""
        workspace = self.document.get("workspace_id")
        if type(workspace) is not str:
            return None
        other = self.document.get("session_id")
        return None if type(other) is str and other != session else workspace

    def location(self, exchange: int) -> Location:
        """The location of the event, which arrived on `exchange`."""
        sequence = self.sequence
        if sequence is not None and not -_BEYOND_INT64 <= sequence < _BEYOND_INT64:
            sequence = None
        return Location(exchange, self.time_ns, self.number, sequence, self.frame.start)


def is_header_safe(identity: str) -> bool:
    """Whether an id survives a header unchanged: printable ASCII, no outer space, not too long."""
    return (
        identity.isascii() and identity.isprintable() and identity == identity.strip() and len(identity) <= LONGEST_ID
    )


def _parse_utc(value: object) -> datetime | None:
    """Return the time of an ISO 8601 timestamp in UTC; None for any other value."""
    if type(value) is not str:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo is UTC or time.utcoffset() == _NO_OFFSET else None
