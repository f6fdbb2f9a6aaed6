"""Limits and intervals (part *Limits*)."""

from dataclasses import dataclass

RETRY_AFTER = "Retry-After"
"""The response header that says how many seconds to wait after too many requests."""

KEEP_ALIVE_SECONDS = 15
"""How often a keep-alive comment comes on an open stream (stream rule 3)."""


@dataclass(frozen=True, slots=True)
class Limit:
    """So many requests in so many seconds, for each tenant; more may be granted."""

    requests: int
    window_seconds: int


LIMITS = {"sessions": Limit(30, 60), "runs": Limit(60, 60), "events": Limit(120, 60)}
"""The published limits.  Which operations count towards which of them is not shown."""
