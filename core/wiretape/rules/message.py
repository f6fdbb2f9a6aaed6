"""The facts about one message of a stream, worked out once for all rules."""

from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

import orjson

from wiretape.contract import DELTA_TYPES
from wiretape.frame_reader import SeenFrame
from wiretape.json_reader import read_json, sequence_in
from wiretape.rules.finding import Place
from wiretape.rules.flaws import Flaws, flaws_of
from wiretape.sse import Frame

_NO_OFFSET = timedelta(0)
_STORABLE = 2**63
_NOTHING: dict[str, Any] = {}


class Shape(IntEnum):
    """What a message is, as far as rules tell messages apart."""

    BARE = 0
    """It has no data line, so no client sees it."""
    OPAQUE = 1
    """Its data is not one JSON object; nothing of its content is judged."""
    EPHEMERAL = 2
    """It carries neither an id nor a sequence, and is no delta."""
    DELTA = 3
    """Its type is one of the delta types, whatever it carries."""
    DURABLE = 4
    """It carries an id or a sequence, and is no delta."""


# Python 3.11 takes 50 ns to look up the member of an enumeration.
_DELTA, _DURABLE = Shape.DELTA, Shape.DURABLE


class Message:
    """A message with its fields told apart and its data read.  Nothing here changes once it is made."""

    # Most messages have nothing of this.
    repeated: tuple[str, ...] = ()
    """Which of `event`, `id` and `data` come more than once."""
    retries: tuple[bytes, ...] = ()
    """The values of the `retry` lines."""
    unknown: tuple[bytes, ...] = ()
    """The names of all other fields, each once."""
    other: Any = None
    """For the shape OPAQUE what the data is instead of an object: a value, or an `Unread`."""
    _created_at: datetime | None = None
    _dated = False

    def __init__(self, seen: SeenFrame) -> None:
        self.frame: Frame
        self.frame, self.time_ns, self.number = seen
        self._flaws: Flaws | None = None
        self._read_fields(self.frame.fields)
        self._read_data()

    def _read_fields(self, fields: tuple[tuple[bytes, bytes], ...]) -> None:
        """Tell the fields apart; the rare ones, and those that come again, are looked at afterwards."""
        data = event = identity = None
        rare = False
        for name, value in fields:
            if name == b"data" and data is None:
                data = value
            elif name == b"event" and event is None:
                event = value
            elif name == b"id" and identity is None:
                identity = value
            else:
                rare = True
        self.data: bytes | None = data
        """The data lines, joined; None when there is none."""
        self.event_line: bytes | None = event
        """The value of the `event` line that counts; None when there is none."""
        self.id_line: bytes | None = identity
        """The value of the `id` line that counts; None when there is none."""
        self.rare = rare
        """Whether there are other fields, or one of these comes again."""
        if rare:
            self._read_rare_fields(fields)
        self.id: str | None = self._usable_id(self.id_line) if identity else None
        """The id that clients remember; None when there is none, it is empty, or it holds NUL or no UTF-8."""
        self.carries_id = bool(self.id_line)
        """Whether there is an id at all, usable or not; an empty one is none."""

    def _read_rare_fields(self, fields: tuple[tuple[bytes, bytes], ...]) -> None:
        """Of repeated lines the last one counts, of ids the last one without NUL; data lines are joined."""
        frame = self.frame
        names = [name for name, _ in fields]
        self.repeated = tuple(name.decode() for name in (b"event", b"id", b"data") if names.count(name) > 1)
        self.retries = tuple(frame.values(b"retry"))
        self.unknown = tuple(dict.fromkeys(name for name in names if name not in _KNOWN))
        if "data" in self.repeated:
            self.data = frame.data
        if "event" in self.repeated:
            self.event_line = frame.values(b"event")[-1]
        if "id" in self.repeated:
            values = frame.values(b"id")
            self.id_line = ([value for value in values if b"\0" not in value] or values)[-1]

    @staticmethod
    def _usable_id(value: bytes | None) -> str | None:
        if not value or b"\0" in value:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None

    def _read_data(self) -> None:
        self.document: dict[str, Any] = _NOTHING
        """The JSON object; empty for the shapes BARE and OPAQUE."""
        self.type: str | None = None
        """The JSON `type`, when it is a string."""
        self.sequence: int | None = None
        """The JSON `sequence`, when it is an integer (neither a boolean nor a float)."""
        self.carries_sequence = False
        """Whether there is a sequence, of whatever kind; null is none."""
        self.is_delta = self.is_durable = False
        """Whether the shape is DELTA or DURABLE: asked far more often than for other shapes."""
        if self.data is None:
            self.shape = Shape.BARE
            return
        try:
            document = orjson.loads(self.data)
        except orjson.JSONDecodeError:
            document = read_json(self.data)
        if type(document) is dict:
            self._read_document(document)
        else:
            self.shape = Shape.OPAQUE
            self.other = document

    def _read_document(self, document: dict[str, Any]) -> None:
        sequence = document.get("sequence")
        if type(sequence) is float:
            sequence = sequence_in(document, self.data or b"")
        self.document = document
        if sequence is not None:
            self.carries_sequence = True
            if type(sequence) is int:
                self.sequence = sequence
        name = document.get("type")
        if type(name) is str:
            self.type = name
            if name in DELTA_TYPES:
                self.shape, self.is_delta = _DELTA, True
                return
        if self.carries_sequence or self.carries_id:
            self.shape, self.is_durable = _DURABLE, True
        else:
            self.shape = Shape.EPHEMERAL

    @property
    def has_no_bad_byte(self) -> bool:
        """Whether all of the message is UTF-8."""
        return self.frame.raw.isascii() or self.bad_byte is None

    @property
    def bad_byte(self) -> int | None:
        """Where in the message, its comments included, the first byte stands that is no UTF-8."""
        raw = self.frame.raw
        if raw.isascii():
            return None
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            return error.start
        return None

    @property
    def created_at(self) -> datetime | None:
        """The JSON `created_at`, when it is an ISO 8601 instant in UTC."""
        if not self._dated:
            self._dated, self._created_at = True, utc_instant(self.document.get("created_at"))
        return self._created_at

    @property
    def flaws(self) -> Flaws:
        """What the schema of its shape finds wrong with its JSON; nothing where there is no such schema."""
        if self._flaws is None:
            self._flaws = flaws_of(self.document, self.type, is_delta=self.shape is Shape.DELTA)
        return self._flaws

    def workspace_of(self, session: str) -> str | None:
        """The workspace that the event says it is of, unless it also says that it is of another session."""
        workspace = self.document.get("workspace_id")
        if type(workspace) is not str:
            return None
        other = self.document.get("session_id")
        return None if type(other) is str and other != session else workspace

    def place(self, exchange: int) -> Place:
        """Where the message stands."""
        sequence = self.sequence
        if sequence is not None and not -_STORABLE <= sequence < _STORABLE:
            sequence = None
        return Place(exchange, self.time_ns, self.number, sequence, self.frame.start)


_KNOWN = frozenset({b"event", b"id", b"data", b"retry"})


def utc_instant(value: object) -> datetime | None:
    """The instant that an ISO 8601 text in UTC names; None for any other value."""
    if type(value) is not str:
        return None
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        return None
    return instant if instant.tzinfo is UTC or instant.utcoffset() == _NO_OFFSET else None
