"""The specification of the Agent Session Service as data.

Everything that needs a fact of it takes it from here: checks, proxy, replay, reports, tests.
What the specification marks "not shown" is not here, or says so.
"""

from wiretape.contract.error_codes import (
    ENVELOPE_FIELDS,
    ENVELOPE_KEY,
    ERROR_CODES,
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
from wiretape.contract.limits import KEEP_ALIVE_SECONDS, LIMITS, Limit
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
)

__all__ = [
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
    "RESUME",
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
    "code_in_other_case",
    "deltas_requested",
    "is_event_stream",
    "operation_of",
]
