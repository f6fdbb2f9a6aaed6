"""The error envelope, the 16 error codes and the request limits (parts *Errors* and *Limits*)."""

from collections.abc import Mapping

from wiretape_contracts.agent_sessions.contract_document import DOCUMENT

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
