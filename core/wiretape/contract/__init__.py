"""The specification of the Agent Session Service as data.

Everything that needs a fact of it takes it from here: checks, proxy, replay, reports, tests.
What the specification marks "not shown" is not here, or says so.
"""

from wiretape.contract.authentication import AUTHORIZATION, bearer_key
from wiretape.contract.error_codes import (
    AUTHENTICATION_REQUIRED,
    ENVELOPE_FIELDS,
    ENVELOPE_KEY,
    ERROR_CODES,
    RATE_LIMITED,
    SESSION_BUSY,
    ErrorCode,
    code_in_other_case,
)
from wiretape.contract.event_types import (
    DELTA_TYPES,
    EVENT_TYPES,
    STORED_TYPES,
    TERMINAL_RUN_TYPES,
    TOOL_TYPES,
    Durability,
    EventType,
)
from wiretape.contract.limits import KEEP_ALIVE_SECONDS, LIMITS, RETRY_AFTER, Limit
from wiretape.contract.operations import (
    CANCEL,
    CURSOR_HEADER,
    EVENT_DELTAS,
    EVENT_STREAM,
    OPERATIONS,
    RESUME,
    STREAM,
    Match,
    Operation,
    deltas_requested,
    is_event_stream,
    operation_of,
    session_in,
)

__all__ = [
    "AUTHENTICATION_REQUIRED",
    "AUTHORIZATION",
    "CANCEL",
    "CURSOR_HEADER",
    "DELTA_TYPES",
    "ENVELOPE_FIELDS",
    "ENVELOPE_KEY",
    "ERROR_CODES",
    "EVENT_DELTAS",
    "EVENT_STREAM",
    "EVENT_TYPES",
    "KEEP_ALIVE_SECONDS",
    "LIMITS",
    "OPERATIONS",
    "RATE_LIMITED",
    "RESUME",
    "RETRY_AFTER",
    "SESSION_BUSY",
    "STORED_TYPES",
    "STREAM",
    "TERMINAL_RUN_TYPES",
    "TOOL_TYPES",
    "Durability",
    "ErrorCode",
    "EventType",
    "Limit",
    "Match",
    "Operation",
    "bearer_key",
    "code_in_other_case",
    "deltas_requested",
    "is_event_stream",
    "operation_of",
    "session_in",
]
