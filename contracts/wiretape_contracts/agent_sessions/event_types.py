"""The 18 event types: their meaning and durability (part *Events*), and what every stream of them has."""

from dataclasses import dataclass
from enum import StrEnum

KEEP_ALIVE_SECONDS = 15
"""The interval of keep-alive comments on an open stream (stream rule 3)."""


class Durability(StrEnum):
    """Whether events of a type are stored and replayed."""

    DURABLE = "durable"
    EPHEMERAL = "ephemeral"
    NOT_SHOWN = "not shown"
    """The specification does not say, so both are allowed."""


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
    EventType(RUN_COMPLETED, "The run finished successfully."),
    EventType(RUN_FAILED, "The run stopped with an error."),
    EventType(RUN_CANCELLED, "A client cancelled the run."),
    EventType(MESSAGE_STARTED, "The assistant started a message."),
    EventType(MESSAGE_DELTA, "A live fragment of assistant text.", Durability.EPHEMERAL),
    EventType(MESSAGE_COMPLETED, "The final assistant message, stored.", Durability.DURABLE),
    EventType(REASONING_DELTA, "A live fragment of reasoning.", Durability.EPHEMERAL),
    EventType(REASONING_MESSAGE, "A reasoning message, stored.", Durability.DURABLE),
    EventType(INTERMEDIATE_DELTA, "A live fragment of intermediate output.", Durability.EPHEMERAL),
    EventType(TOOL_STARTED, "The agent started a tool call.", Durability.DURABLE),
    EventType(AGENT_CUSTOM_TOOL_USE, "The application must execute one of its own tools."),
    EventType(TOOL_COMPLETED, "A tool call completed."),
    EventType(TOOL_FAILED, "A tool call failed."),
    EventType(STATUS_IDLE, "The session no longer has an active run."),
    EventType(SESSION_ERROR, "A session error occurred."),
    EventType(SANDBOX_RECREATED, "A missing sandbox was replaced."),
    EventType(STREAM_RESYNC, "The client must reconnect and read the replay."),
)

EVENT_TYPES = {row.name: row for row in _ROWS}
"""Every type by its name, in the order of the specification."""

DELTA_TYPES = frozenset(row.name for row in _ROWS if row.durability is Durability.EPHEMERAL)
"""Live fragments: no SSE id, no sequence, sent only on request, never replayed (Events 2)."""

STORED_TYPES = frozenset(row.name for row in _ROWS if row.durability is Durability.DURABLE)
"""Types that the specification calls durable or stored.  For all others except the deltas it does not say."""

TERMINAL_RUN_TYPES = frozenset({RUN_COMPLETED, RUN_FAILED, RUN_CANCELLED})
"""Each of these ends its run (part *States and transitions*)."""

FAILURE_TYPES = frozenset({RUN_FAILED, TOOL_FAILED, SESSION_ERROR})
"""A run, a tool call or the session failed."""

TOOL_TYPES = (TOOL_STARTED, AGENT_CUSTOM_TOOL_USE, TOOL_COMPLETED, TOOL_FAILED)
"""The lifecycle events of a tool call, which share one `tool_call_id` (Events 5)."""
