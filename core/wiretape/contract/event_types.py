"""The 18 event types: what each means, and whether it is stored (part *Events*)."""

from dataclasses import dataclass
from enum import StrEnum


class Durability(StrEnum):
    """Whether events of a type are stored and replayed."""

    DURABLE = "durable"
    EPHEMERAL = "ephemeral"
    NOT_SHOWN = "not shown"
    """The specification does not say, so either is right."""


@dataclass(frozen=True, slots=True)
class EventType:
    """One row of the table of event types."""

    name: str
    meaning: str
    durability: Durability = Durability.NOT_SHOWN


_ROWS = (
    EventType("run.started", "A worker started the run."),
    EventType("run.completed", "The run ended well."),
    EventType("run.failed", "The run stopped with an error."),
    EventType("run.cancelled", "A client cancelled the run."),
    EventType("message.started", "The assistant's message begins."),
    EventType("message.delta", "A live piece of the assistant's text.", Durability.EPHEMERAL),
    EventType("message.completed", "The final message of the assistant, stored.", Durability.DURABLE),
    EventType("reasoning.delta", "A live piece of reasoning.", Durability.EPHEMERAL),
    EventType("reasoning.message", "A reasoning message, stored.", Durability.DURABLE),
    EventType("intermediate.delta", "A live piece of intermediate output.", Durability.EPHEMERAL),
    EventType("tool.started", "The agent started a tool call.", Durability.DURABLE),
    EventType("agent.custom_tool_use", "The application has to execute one of its own tools."),
    EventType("tool.completed", "A tool call ended well."),
    EventType("tool.failed", "A tool call failed."),
    EventType("session.status_idle", "The session has no active run any more."),
    EventType("session.error", "An error of the session."),
    EventType("sandbox.recreated", "A missing sandbox was replaced."),
    EventType("stream.resync", "The client has to reconnect and read the replay."),
)

EVENT_TYPES = {row.name: row for row in _ROWS}
"""Every type by its name, in the order of the specification."""

DELTA_TYPES = frozenset(row.name for row in _ROWS if row.durability is Durability.EPHEMERAL)
"""Live fragments: no SSE id, no sequence, sent on request only, never replayed (Events 2)."""

STORED_TYPES = frozenset(row.name for row in _ROWS if row.durability is Durability.DURABLE)
"""The types that the specification calls durable or stored; about all others but the deltas it says nothing."""

TERMINAL_RUN_TYPES = frozenset({"run.completed", "run.failed", "run.cancelled"})
"""After one of these its run has ended (part *States and transitions*)."""

# The types that rules are about.
RUN_STARTED = "run.started"
RUN_CANCELLED = "run.cancelled"
STATUS_IDLE = "session.status_idle"
STREAM_RESYNC = "stream.resync"

TOOL_TYPES = ("tool.started", "agent.custom_tool_use", "tool.completed", "tool.failed")
"""The life of one tool call; its events share one `tool_call_id` (Events 5)."""
