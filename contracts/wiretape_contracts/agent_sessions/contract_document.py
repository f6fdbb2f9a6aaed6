"""The file of the contract as data, and the names of what it states: types, codes and limits.

It has the event types (part *Events*), the error envelope and its codes (*Errors*), and the limits (*Limits*).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wiretape.contract.contract_files import parse_contract

CONTRACT = "agent-sessions.toml"
"""The file of the contract, in this folder."""
_PATH = Path(__file__).with_name(CONTRACT)

DOCUMENT = parse_contract(_PATH.read_text("utf-8"), str(_PATH))
"""Its tables; not to be changed."""

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

ENVELOPE_KEY = "error"
"""The only key of the JSON object of an error."""

ENVELOPE_FIELDS = ("code", "message", "request_id")
"""The fields that `error` always has; each is a string."""

INVALID_REQUEST = "invalid_request"
INVALID_CURSOR = "invalid_cursor"
AUTHENTICATION_REQUIRED = "authentication_required"
PERMISSION_DENIED = "permission_denied"
RESOURCE_NOT_FOUND = "resource_not_found"
IDEMPOTENCY_CONFLICT = "idempotency_conflict"
EVENT_ALREADY_RESOLVED = "event_already_resolved"
EVENT_EXPIRED = "event_expired"
RUN_NOT_RESUMABLE = "run_not_resumable"
SESSION_BUSY = "SESSION_BUSY"
RUN_NOT_CANCELLABLE = "RUN_NOT_CANCELLABLE"
TOOL_INPUT_INVALID = "tool_input_invalid"
TOOL_RESULT_INVALID = "tool_result_invalid"
RATE_LIMITED = "RATE_LIMITED"
RUNTIME_RESUME_UNAVAILABLE = "runtime_resume_unavailable"
SANDBOX_PROVISION_FAILED = "SANDBOX_PROVISION_FAILED"

SAME_KEY_CODES = frozenset({TOOL_RESULT_INVALID, RUNTIME_RESUME_UNAVAILABLE})
"""After these errors the client repeats the request with the same idempotency key."""

ERROR_CODES: Mapping[str, int] = {code: table["status"] for code, table in DOCUMENT["error"]["codes"].items()}
"""The status of each code, in the order of the specification.  Case is exact: some are lowercase, some uppercase."""

FOLDED_CODES = frozenset(map(str.casefold, ERROR_CODES))
"""The codes without a difference of case."""

LIMITS = {name: (table["requests"], table["seconds"]) for name, table in DOCUMENT["limits"].items()}
"""The published limits: requests per window, and its seconds.  Which operations count towards which is not shown."""
