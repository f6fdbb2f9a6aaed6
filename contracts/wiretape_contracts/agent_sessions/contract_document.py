"""The file of the contract as data, and the names of what it states: types, codes, limits and operations.

It has the event types (part *Events*), the error envelope and its codes (*Errors*), the limits (*Limits*), and the
operations with the query parameters of their requests (*Endpoints*).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wiretape.bounded_dict import cache_short
from wiretape.contract.contract_files import parse_contract
from wiretape.patterns import RequestFlag, RequestPattern, decode_segment, path_of

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


_DELTAS = RequestFlag(DOCUMENT["operations"]["stream"]["deltas"])
EVENT_DELTAS = _DELTAS.name
"""The query parameter that adds deltas if it is `true`."""

INTERFACE = "/v1"
"""The path prefix of the interface version: every path of the service begins with it, after the base path."""

SESSIONS = "/v1/sessions"
"""The path of sessions: every operation of the specification is below it."""

SESSION_PARTS = ("/v1/sessions/{session_id}/events", "/v1/sessions/{session_id}/runs")
"""The paths below a session: hardly any other API has both."""

LONGEST_BASE = 1000
"""The longest base path in characters.  A longer one is not the service's."""


OPERATIONS: Mapping[str, RequestPattern] = {
    name: RequestPattern(table["request"]) for name, table in DOCUMENT["operations"].items()
}
"""Every operation by its name.  Those that create sessions and runs or read runs are not shown."""
STREAM, CANCEL, RESUME = OPERATIONS.values()


@cache_short
def bases_of(target: str, *below: str) -> tuple[str, ...]:
    """Return the base paths that the service may have if a request is for one of the paths `below` it, or below those.

    The paths `below` begin with `/v1`, and may have placeholders.  A base path has no slash at its end.  Usually one;
    none for any other path.  Only the first four segments `v1` count, and only base paths of at most `LONGEST_BASE`
    characters: a client chooses the path, and may repeat the segment any number of times.
    """
    path = path_of(target)
    patterns = [each.removeprefix("/").split("/") for each in below]
    bases: list[str] = []
    versions, at = 0, path.find("/")
    while 0 <= at <= LONGEST_BASE and versions < _MOST_BASES:
        end = path.find("/", at + 1)
        segment = path[at + 1 :] if end < 0 else path[at + 1 : end]
        if segment == _VERSION or ("%" in segment and decode_segment(segment) == _VERSION):
            versions += 1
            if any(_begins_with(path[at + 1 :], pattern) for pattern in patterns):
                bases.append(path[:at].rstrip("/"))
        at = end
    return tuple(bases)


@cache_short
def session_in(target: str) -> str | None:
    """Return the session id in a path, whether or not the path belongs to an operation above."""
    found = STREAM.find_parameter("session_id", target)
    return None if found is None else found[1]


def is_session(target: str) -> bool:
    """Whether a path or URL is that of a session itself."""
    return tuple(path_of(target).rstrip("/").split("/")[-3:-1]) == _SESSIONS


def may_create_session(method: str, target: str) -> bool:
    """Whether a request may create a session: one to a collection `sessions`.  The operation is not shown."""
    return method in {"POST", "PUT"} and path_of(target).rstrip("/").endswith(f"/{_SESSIONS[1]}")


def deltas_requested(target: str) -> bool:
    """Whether the query of a stream request asks for deltas."""
    return _DELTAS.is_in(target)


_MOST_BASES = 4
_VERSION = INTERFACE.removeprefix("/")

_SESSIONS = tuple(SESSIONS.split("/")[1:])
"""The path segments before a session id: the version, and the collection of sessions."""


def _begins_with(path: str, pattern: list[str]) -> bool:
    """Whether a path begins with the segments of a pattern, each of them whole; `{…}` stands for any segment."""
    segments = path.split("/", len(pattern))[: len(pattern)]
    texts = map(decode_segment, segments)
    return len(segments) == len(pattern) and all(
        bool(text) if expected.startswith("{") else text == expected
        for expected, text in zip(pattern, texts, strict=True)
    )
