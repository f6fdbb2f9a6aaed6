"""One event of a recorded stream, as a typed object for users of the library."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wiretape.frame_reader import SeenFrame
from wiretape.json_reader import UnreadableJson, read_json


@dataclass(frozen=True)
class Event:
    """An event of a stream as a client dispatches it."""

    exchange: int
    """Number of its exchange."""
    number: int
    """Its number in the stream, from 1."""
    time_ns: int
    """When its last byte arrived, in nanoseconds since the recording began."""
    name: str
    """The SSE `event` field; empty if there is none."""
    id: str | None
    """The SSE `id` field."""
    data: bytes
    """The joined SSE `data` fields."""
    raw: bytes
    """All bytes of the event as they crossed the wire (decoded, if the body has a content encoding)."""
    byte_offset: int
    """Offset of `raw` in the body."""

    @classmethod
    def of(cls, exchange: int, seen: SeenFrame) -> "Event":
        """The event of a frame.  Raises ValueError if the frame is not an event."""
        frame = seen.frame
        if seen.event is None:
            raise ValueError(f"A {frame.kind.value} frame is not an event.")
        return cls(exchange, seen.event, seen.time_ns, frame.event, frame.id, frame.data, frame.raw, frame.start)

    @cached_property
    def json(self) -> Any:
        """The data as JSON; None if it is not valid JSON."""
        value = read_json(self.data)
        return None if isinstance(value, UnreadableJson) else value

    @property
    def type(self) -> str:
        """The `type` in the JSON, or else the SSE event name."""
        return self._text("type") or self.name

    @property
    def sequence(self) -> int | None:
        """The `sequence` in the JSON."""
        value = self.json.get("sequence") if isinstance(self.json, dict) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def run_id(self) -> str | None:
        """The `run_id` in the JSON."""
        return self._text("run_id")

    @property
    def is_durable(self) -> bool:
        """Whether it has an SSE id and a sequence: the service stores it and replays it after a cursor."""
        return self.id is not None and self.sequence is not None

    def _text(self, key: str) -> str | None:
        value = self.json.get(key) if isinstance(self.json, dict) else None
        return value if isinstance(value, str) else None
