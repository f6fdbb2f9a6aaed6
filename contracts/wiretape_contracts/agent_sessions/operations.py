"""Operations of the service, and the query parameters of their requests (part *Endpoints* of the specification)."""

from dataclasses import dataclass
from itertools import pairwise

from wiretape.bounded_dict import cache_short
from wiretape.patterns import RequestFlag, RequestPattern, decode_segment, path_of
from wiretape_contracts.agent_sessions.contract_document import DOCUMENT

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


OPERATIONS = {name: RequestPattern(table["request"]) for name, table in DOCUMENT["operations"].items()}
"""Every operation by its name.  Those that create sessions and runs or read runs are not shown."""
STREAM, CANCEL, RESUME = OPERATIONS.values()


@dataclass(frozen=True, slots=True)
class Match:
    """The operation and the identifiers of a request."""

    operation: RequestPattern
    session_id: str
    run_id: str | None
    base: str
    """The part of the path before `/v1/`; not empty if the service has a path prefix."""


@cache_short  # several rules and handlers ask about each request, and clients repeat requests
def operation_of(method: str, target: str) -> Match | None:
    """Return the operation that a request line names, or None for any other request.

    `target` is the path with its query (or a whole URL) as it crossed the wire.  Identifiers are
    percent-decoded; the path may have any prefix before `/v1/` that `bases_of` returns.
    """
    for operation in OPERATIONS.values():
        ids = operation.match(method, target)
        if ids is not None:
            base = operation.base_of(target)
            if base.rstrip("/") not in bases_of(target, INTERFACE):
                return None
            return Match(operation, ids["session_id"], ids.get("run_id"), base)
    return None


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
    segments = [decode_segment(segment) for segment in path_of(target).split("/")]
    found = (at for at, pair in enumerate(pairwise(segments)) if pair == _SESSIONS)
    return next((segments[at + 2] for at in found if at + 2 < len(segments) and segments[at + 2]), None)


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
