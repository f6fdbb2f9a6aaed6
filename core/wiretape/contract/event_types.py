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


RUN_STARTED = "run.started"
RUN_COMPLETED = "run.completed"
RUN_FAILED = "run.failed"
RUN_CANCELLED = "run.cancelled"
MESSAGE_STARTED = "message.started"
MESSAGE_DELTA = "message.delta"
MESSAGE_COMPLETED = "message.completed"
REASONING_DELTA = "reasoning.delta"
REASONING_MESSAGE = "reasoning.message"
INTERMEDIATE_DELTA = "intermediate.delta"
TOOL_STARTED = "tool.started"
AGENT_CUSTOM_TOOL_USE = "agent.custom_tool_use"
TOOL_COMPLETED = "tool.completed"
TOOL_FAILED = "tool.failed"
STATUS_IDLE = "session.status_idle"
SESSION_ERROR = "session.error"
SANDBOX_RECREATED = "sandbox.recreated"
STREAM_RESYNC = "stream.resync"

_ROWS = (
    EventType(RUN_STARTED, "A worker started the run."),
    EventType(RUN_COMPLETED, "The run ended well."),
    EventType(RUN_FAILED, "The run stopped with an error."),
    EventType(RUN_CANCELLED, "A client cancelled the run."),
    EventType(MESSAGE_STARTED, "The assistant's message begins."),
    EventType(MESSAGE_DELTA, "A live piece of the assistant's text.", Durability.EPHEMERAL),
    EventType(MESSAGE_COMPLETED, "The final message of the assistant, stored.", Durability.DURABLE),
    EventType(REASONING_DELTA, "A live piece of reasoning.", Durability.EPHEMERAL),
    EventType(REASONING_MESSAGE, "A reasoning message, stored.", Durability.DURABLE),
    EventType(INTERMEDIATE_DELTA, "A live piece of intermediate output.", Durability.EPHEMERAL),
    EventType(TOOL_STARTED, "The agent started a tool call.", Durability.DURABLE),
    EventType(AGENT_CUSTOM_TOOL_USE, "The application has to execute one of its own tools."),
    EventType(TOOL_COMPLETED, "A tool call ended well."),
    EventType(TOOL_FAILED, "A tool call failed."),
    EventType(STATUS_IDLE, "The session has no active run any more."),
    EventType(SESSION_ERROR, "An error of the session."),
    EventType(SANDBOX_RECREATED, "A missing sandbox was replaced."),
    EventType(STREAM_RESYNC, "The client has to reconnect and read the replay."),
)

EVENT_TYPES = {row.name: row for row in _ROWS}
"""Every type by its name, in the order of the specification."""

DELTA_TYPES = frozenset(row.name for row in _ROWS if row.durability is Durability.EPHEMERAL)
"""Live fragments: no SSE id, no sequence, sent on request only, never replayed (Events 2)."""

STORED_TYPES = frozenset(row.name for row in _ROWS if row.durability is Durability.DURABLE)
"""The types that the specification calls durable or stored; about all others but the deltas it says nothing."""

TERMINAL_RUN_TYPES = frozenset({RUN_COMPLETED, RUN_FAILED, RUN_CANCELLED})
"""After one of these its run has ended (part *States and transitions*)."""

TOOL_TYPES = (TOOL_STARTED, AGENT_CUSTOM_TOOL_USE, TOOL_COMPLETED, TOOL_FAILED)
"""The life of one tool call; its events share one `tool_call_id` (Events 5)."""
