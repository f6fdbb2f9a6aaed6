"""The operations whose paths are shown, and what belongs to their requests (part *Endpoints*)."""

from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import parse_qsl, unquote_to_bytes

CURSOR_HEADER = "Last-Event-ID"
"""Carries the SSE id of the last durable event received."""

EVENT_DELTAS = "event_deltas"
"""The query parameter that adds deltas when it is `true`."""

EVENT_STREAM = "text/event-stream"
"""The media type of server-sent events."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A method and a path, relative to the service's base URL."""

    name: str
    method: str
    path: str
    """With `{session_id}` and `{run_id}` where those stand."""


STREAM = Operation("stream", "GET", "/v1/sessions/{session_id}/events/stream")
CANCEL = Operation("cancel", "POST", "/v1/sessions/{session_id}/runs/{run_id}/cancel")
RESUME = Operation("resume", "POST", "/v1/sessions/{session_id}/runs/{run_id}/resume")
OPERATIONS = {operation.name: operation for operation in (STREAM, CANCEL, RESUME)}
"""Every operation by its name.  Those that create sessions and runs or read runs are not shown."""


@dataclass(frozen=True, slots=True)
class Match:
    """What a request asks for."""

    operation: Operation
    session_id: str
    run_id: str | None
    base: str
    """The part of the path before `/v1/`, where a service does not live at the root."""


def operation_of(method: str, target: str) -> Match | None:
    """The operation that a request line names, or None for any other request.

    `target` is the path with its query (or a whole URL) as it crossed the wire.  Identifiers are
    percent-decoded; the path may have any prefix before `/v1/`.
    """
    segments = _path(target).split("/")
    for operation, pattern in _PATTERNS:
        if method == operation.method and len(segments) > len(pattern):
            ids = _ids(pattern, segments[-len(pattern) :])
            if ids is not None:
                base = "/".join(segments[: -len(pattern)])
                return Match(operation, ids["{session_id}"], ids.get("{run_id}"), base)
    return None


def session_in(target: str) -> str | None:
    """The session that a path names, whether it is one of an operation shown here or of any other."""
    segments = [_decoded(segment) for segment in _path(target).split("/")]
    found = (at for at, pair in enumerate(pairwise(segments)) if pair == _SESSIONS)
    return next((segments[at + 2] for at in found if at + 2 < len(segments) and segments[at + 2]), None)


def deltas_requested(target: str) -> bool:
    """Whether the query of a stream request asks for deltas."""
    query = target.partition("#")[0].partition("?")[2]
    # A boolean is spelled `true`, but Python clients that forget say `True` and mean it.
    return any(name == EVENT_DELTAS and value.lower() == "true" for name, value in parse_qsl(query))


def cursor_in(value: str | None) -> str | None:
    """The cursor that the value of a Last-Event-ID header names; an empty one is none."""
    # Headers are read as latin-1, events as UTF-8.
    return (value or "").encode("latin-1", "replace").decode("utf-8", "replace") or None


def is_event_stream(content_type: str | None) -> bool:
    """Whether the value of a Content-Type header names server-sent events."""
    return (content_type or "").partition(";")[0].strip().lower() == EVENT_STREAM


_SESSIONS = tuple(STREAM.path.split("/")[1:3])
"""What stands before the id of a session."""

_PATTERNS = tuple((operation, operation.path.removeprefix("/").split("/")) for operation in OPERATIONS.values())


def _path(target: str) -> str:
    path = target.partition("#")[0].partition("?")[0]
    scheme, separator, rest = path.partition("://")
    return "/" + rest.partition("/")[2] if separator and "/" not in scheme else path


def _ids(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    """The identifiers in `segments`, when these fit the pattern."""
    ids = {}
    for expected, segment in zip(pattern, segments, strict=True):
        text = _decoded(segment)
        if expected.startswith("{") and text:
            ids[expected] = text
        elif expected != text:
            return None
    return ids


def _decoded(segment: str) -> str:
    """A path segment with its percent escapes resolved; each of its characters stands for one byte."""
    return unquote_to_bytes(segment.encode("latin-1", "replace")).decode("utf-8", "replace")
