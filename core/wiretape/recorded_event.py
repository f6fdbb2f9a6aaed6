"""One event of a recorded stream, as a typed object for users of the library."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wiretape.event_facts import EventFacts, EventKind, facts_of
from wiretape.frame_reader import SeenFrame
from wiretape.json_reader import UnreadableJson, read_json
from wiretape.sse import Frame


@dataclass(frozen=True)
class Event:
    """An event of a stream as a client dispatches it."""

    exchange: int
    """Number of its exchange."""
    number: int
    """Its number in the stream, from 1."""
    time_ns: int
    """When its last byte arrived, in nanoseconds since the recording began."""
    frame: Frame
    """Its bytes and fields."""

    @classmethod
    def of(cls, exchange: int, seen: SeenFrame) -> "Event":
        """The event of a frame.  Raises ValueError if the frame is not an event."""
        if seen.event is None:
            raise ValueError(f"A {seen.frame.kind.value} frame is not an event.")
        return cls(exchange, seen.event, seen.time_ns, seen.frame)

    @property
    def raw(self) -> bytes:
        """All its bytes as they crossed the wire (decoded, if the body has a content encoding)."""
        return self.frame.raw

    @property
    def name(self) -> str:
        """The SSE `event` field; empty if there is none."""
        return self.frame.event

    @property
    def id(self) -> str | None:
        """The SSE `id` field."""
        return self.frame.id

    @property
    def data(self) -> bytes:
        """The joined SSE `data` fields."""
        return self.frame.data

    @cached_property
    def json(self) -> Any:
        """The data as JSON; None if it is not valid JSON."""
        value = read_json(self.data)
        return None if isinstance(value, UnreadableJson) else value

    @property
    def type(self) -> str:
        """The `type` in the JSON, or else the SSE event name."""
        return self._facts.type

    @property
    def kind(self) -> EventKind:
        """`durable`, `delta` or `ephemeral`."""
        return self._facts.kind

    @property
    def sequence(self) -> int | None:
        """The `sequence` in the JSON."""
        return self._facts.sequence

    @property
    def run_id(self) -> str | None:
        """The `run_id` in the JSON."""
        return self._facts.run_id

    @property
    def tool_call_id(self) -> str | None:
        """The `tool_call_id` of a tool event."""
        return self._facts.tool_call_id

    @property
    def text(self) -> str:
        """The text of a delta; of any other event, the beginning of its content."""
        return self._facts.text

    @cached_property
    def _facts(self) -> EventFacts:
        return facts_of(self.frame)
