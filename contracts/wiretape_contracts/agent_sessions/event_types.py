"""The 18 event types and their durability (part *Events*), and what every stream of them has."""

from collections.abc import Mapping
from typing import Any

from wiretape_contracts.agent_sessions.contract_document import DOCUMENT

KEEP_ALIVE_SECONDS: int = DOCUMENT["keep_alive"]
"""The interval of keep-alive comments on an open stream (stream rule 3)."""

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

_TABLES: Mapping[str, Mapping[str, Any]] = DOCUMENT["types"]

EVENT_TYPES = tuple(_TABLES)
"""Every type, in the order of the specification."""

DELTA_TYPES = frozenset(name for name, table in _TABLES.items() if table.get("durable") is False)
"""Live fragments: no SSE id, no sequence, sent only on request, never replayed (Events 2)."""

STORED_TYPES = frozenset(name for name, table in _TABLES.items() if table.get("durable"))
"""Types that the specification calls durable or stored.  For all others except the deltas it does not say."""

TERMINAL_RUN_TYPES = frozenset({RUN_COMPLETED, RUN_FAILED, RUN_CANCELLED})
"""Each of these ends its run (part *States and transitions*)."""

TOOL_TYPES = (TOOL_STARTED, AGENT_CUSTOM_TOOL_USE, TOOL_COMPLETED, TOOL_FAILED)
"""The lifecycle events of a tool call, which share one `tool_call_id` (Events 5)."""
