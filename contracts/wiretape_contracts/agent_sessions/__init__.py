"""The Agent Session Service: the facts of its specification, its rules, its stand-in, and the cases of its probe.

Everything that needs a fact of the specification imports it from here.
What the specification marks "not shown" is missing here or marked as such.
"""

from wiretape.sse import EVENT_STREAM as EVENT_STREAM
from wiretape_contracts.agent_sessions.contract_document import AGENT_CUSTOM_TOOL_USE as AGENT_CUSTOM_TOOL_USE
from wiretape_contracts.agent_sessions.contract_document import AUTHENTICATION_REQUIRED as AUTHENTICATION_REQUIRED
from wiretape_contracts.agent_sessions.contract_document import CANCEL as CANCEL
from wiretape_contracts.agent_sessions.contract_document import CONTRACT as CONTRACT
from wiretape_contracts.agent_sessions.contract_document import DELTA_TYPES as DELTA_TYPES
from wiretape_contracts.agent_sessions.contract_document import ENVELOPE_FIELDS as ENVELOPE_FIELDS
from wiretape_contracts.agent_sessions.contract_document import ENVELOPE_KEY as ENVELOPE_KEY
from wiretape_contracts.agent_sessions.contract_document import ERROR_CODES as ERROR_CODES
from wiretape_contracts.agent_sessions.contract_document import EVENT_ALREADY_RESOLVED as EVENT_ALREADY_RESOLVED
from wiretape_contracts.agent_sessions.contract_document import EVENT_DELTAS as EVENT_DELTAS
from wiretape_contracts.agent_sessions.contract_document import EVENT_EXPIRED as EVENT_EXPIRED
from wiretape_contracts.agent_sessions.contract_document import EVENT_TYPES as EVENT_TYPES
from wiretape_contracts.agent_sessions.contract_document import FOLDED_CODES as FOLDED_CODES
from wiretape_contracts.agent_sessions.contract_document import IDEMPOTENCY_CONFLICT as IDEMPOTENCY_CONFLICT
from wiretape_contracts.agent_sessions.contract_document import INTERFACE as INTERFACE
from wiretape_contracts.agent_sessions.contract_document import INTERMEDIATE_DELTA as INTERMEDIATE_DELTA
from wiretape_contracts.agent_sessions.contract_document import INVALID_CURSOR as INVALID_CURSOR
from wiretape_contracts.agent_sessions.contract_document import INVALID_REQUEST as INVALID_REQUEST
from wiretape_contracts.agent_sessions.contract_document import KEEP_ALIVE_SECONDS as KEEP_ALIVE_SECONDS
from wiretape_contracts.agent_sessions.contract_document import LIMITS as LIMITS
from wiretape_contracts.agent_sessions.contract_document import MESSAGE_COMPLETED as MESSAGE_COMPLETED
from wiretape_contracts.agent_sessions.contract_document import MESSAGE_DELTA as MESSAGE_DELTA
from wiretape_contracts.agent_sessions.contract_document import MESSAGE_STARTED as MESSAGE_STARTED
from wiretape_contracts.agent_sessions.contract_document import OPERATIONS as OPERATIONS
from wiretape_contracts.agent_sessions.contract_document import PERMISSION_DENIED as PERMISSION_DENIED
from wiretape_contracts.agent_sessions.contract_document import RATE_LIMITED as RATE_LIMITED
from wiretape_contracts.agent_sessions.contract_document import REASONING_DELTA as REASONING_DELTA
from wiretape_contracts.agent_sessions.contract_document import REASONING_MESSAGE as REASONING_MESSAGE
from wiretape_contracts.agent_sessions.contract_document import RESOURCE_NOT_FOUND as RESOURCE_NOT_FOUND
from wiretape_contracts.agent_sessions.contract_document import RESUME as RESUME
from wiretape_contracts.agent_sessions.contract_document import RUN_CANCELLED as RUN_CANCELLED
from wiretape_contracts.agent_sessions.contract_document import RUN_COMPLETED as RUN_COMPLETED
from wiretape_contracts.agent_sessions.contract_document import RUN_FAILED as RUN_FAILED
from wiretape_contracts.agent_sessions.contract_document import RUN_NOT_CANCELLABLE as RUN_NOT_CANCELLABLE
from wiretape_contracts.agent_sessions.contract_document import RUN_NOT_RESUMABLE as RUN_NOT_RESUMABLE
from wiretape_contracts.agent_sessions.contract_document import RUN_STARTED as RUN_STARTED
from wiretape_contracts.agent_sessions.contract_document import RUNTIME_RESUME_UNAVAILABLE as RUNTIME_RESUME_UNAVAILABLE
from wiretape_contracts.agent_sessions.contract_document import SAME_KEY_CODES as SAME_KEY_CODES
from wiretape_contracts.agent_sessions.contract_document import SANDBOX_PROVISION_FAILED as SANDBOX_PROVISION_FAILED
from wiretape_contracts.agent_sessions.contract_document import SANDBOX_RECREATED as SANDBOX_RECREATED
from wiretape_contracts.agent_sessions.contract_document import SESSION_BUSY as SESSION_BUSY
from wiretape_contracts.agent_sessions.contract_document import SESSION_ERROR as SESSION_ERROR
from wiretape_contracts.agent_sessions.contract_document import SESSION_PARTS as SESSION_PARTS
from wiretape_contracts.agent_sessions.contract_document import SESSIONS as SESSIONS
from wiretape_contracts.agent_sessions.contract_document import STATUS_IDLE as STATUS_IDLE
from wiretape_contracts.agent_sessions.contract_document import STORED_TYPES as STORED_TYPES
from wiretape_contracts.agent_sessions.contract_document import STREAM as STREAM
from wiretape_contracts.agent_sessions.contract_document import STREAM_RESYNC as STREAM_RESYNC
from wiretape_contracts.agent_sessions.contract_document import TERMINAL_RUN_TYPES as TERMINAL_RUN_TYPES
from wiretape_contracts.agent_sessions.contract_document import TOOL_COMPLETED as TOOL_COMPLETED
from wiretape_contracts.agent_sessions.contract_document import TOOL_FAILED as TOOL_FAILED
from wiretape_contracts.agent_sessions.contract_document import TOOL_INPUT_INVALID as TOOL_INPUT_INVALID
from wiretape_contracts.agent_sessions.contract_document import TOOL_RESULT_INVALID as TOOL_RESULT_INVALID
from wiretape_contracts.agent_sessions.contract_document import TOOL_STARTED as TOOL_STARTED
from wiretape_contracts.agent_sessions.contract_document import TOOL_TYPES as TOOL_TYPES
from wiretape_contracts.agent_sessions.contract_document import bases_of as bases_of
from wiretape_contracts.agent_sessions.contract_document import deltas_requested as deltas_requested
from wiretape_contracts.agent_sessions.contract_document import is_session as is_session
from wiretape_contracts.agent_sessions.contract_document import may_create_session as may_create_session
from wiretape_contracts.agent_sessions.contract_document import session_in as session_in

_NUMBERED = {"States": 3, "Authentication": 4, "Events": 8, "Limits": 3, "Stream rule": 4}
"""Parts with numbered sentences, and how many they have."""
_ROWS = {
    "What the service does": (),
    "Durable event": (
        *("id", "sequence", "type", "workspace_id", "session_id", "run_id", "created_at", "content", "data"),
    ),
    "tool.started": (),
    "Ephemeral event": ("type", "run_id", "delta"),
    "Session and run records": (),
    "States": (),
    "Endpoints": ("stream response", "query event_deltas", "Last-Event-ID", "cancel", "resume"),
    "Event types": EVENT_TYPES,
    "Envelope": tuple(f"error.{name}" for name in (*ENVELOPE_FIELDS, "details")),
    "Codes": tuple(ERROR_CODES),
    "SESSION_BUSY": ("recovery",),
    "RATE_LIMITED": ("retry_after",),
    "SANDBOX_PROVISION_FAILED": (),
    "Tool result validation": (),
    "Symptom to action": (),
    "Limits": (),
}
"""Parts, and the rows of their tables."""

CLAUSES = frozenset(
    {
        *_ROWS,
        *(f"{part}, {row}" for part, rows in _ROWS.items() for row in rows),
        *(f"{part} {number}" for part, count in _NUMBERED.items() for number in range(1, count + 1)),
    }
)
"""What precedes the colon in the clause of a rule or a case."""
