"""The names of the clauses of the specification, which rules and probe cases quote.

A clause is named by its part and, if the part has numbered sentences or a table, by the number or the row.
"""

from wiretape.contract.error_codes import ENVELOPE_FIELDS, ERROR_CODES
from wiretape.contract.event_types import EVENT_TYPES

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
    "Event types": tuple(EVENT_TYPES),
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
