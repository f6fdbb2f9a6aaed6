"""The error envelope, the 16 error codes and the request limits (parts *Errors* and *Limits*)."""

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the table of error codes."""

    code: str
    """Case is exact: some codes are lowercase, some uppercase."""
    status: int
    recovery: str
    """What the client should do."""


_ROWS = (
    ErrorCode(INVALID_REQUEST, 400, "Correct the body or the parameter."),
    ErrorCode(INVALID_CURSOR, 400, "Restart the replay without the cursor."),
    ErrorCode(AUTHENTICATION_REQUIRED, 401, "Send a valid bearer key."),
    ErrorCode(PERMISSION_DENIED, 403, "Use a key that has the scope."),
    ErrorCode(RESOURCE_NOT_FOUND, 404, "Check the id and the workspace."),
    ErrorCode(IDEMPOTENCY_CONFLICT, 409, "Reuse an idempotency key only with the same payload."),
    ErrorCode(EVENT_ALREADY_RESOLVED, 409, "Do not execute the tool again."),
    ErrorCode(EVENT_EXPIRED, 409, "Start a new run."),
    ErrorCode(RUN_NOT_RESUMABLE, 409, "Read the run status; start a new run if it has ended."),
    ErrorCode(SESSION_BUSY, 409, "Wait for the active run, cancel it, or resume it."),
    ErrorCode(RUN_NOT_CANCELLABLE, 409, "Treat the run as already ended."),
    ErrorCode(TOOL_INPUT_INVALID, 422, "Correct the input schema of the tool, or the prompt."),
    ErrorCode(TOOL_RESULT_INVALID, 422, "Return an object that matches the output schema of the tool."),
    ErrorCode(RATE_LIMITED, 429, "Wait for the time in `Retry-After`, then retry."),
    ErrorCode(RUNTIME_RESUME_UNAVAILABLE, 503, "Retry with the same idempotency key."),
    ErrorCode(SANDBOX_PROVISION_FAILED, 503, "Back off and retry later, or do without the sandbox."),
)

ERROR_CODES = {row.code: row for row in _ROWS}
"""Every code, in the order of the specification."""

_FOLDED = {row.code.casefold(): row for row in _ROWS}


def code_in_other_case(code: str) -> ErrorCode | None:
    """Return the error code that differs from `code` only in case, if there is one."""
    return None if code in ERROR_CODES else _FOLDED.get(code.casefold())


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of requests per window, for each tenant; a higher limit may be granted."""

    requests: int
    window_seconds: int


LIMITS = {"sessions": Limit(30, 60), "runs": Limit(60, 60), "events": Limit(120, 60)}
"""The published limits.  Which operations count towards which limit is not shown."""
