"""Error responses in the service's envelope: every error code with its status, fields and headers.  Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta, Struct

from wiretape.agent_sessions import (
    AUTHENTICATION_REQUIRED,
    CANCEL,
    ENVELOPE_KEY,
    ERROR_CODES,
    INVALID_REQUEST,
    LIMITS,
    RATE_LIMITED,
    RESUME,
    SESSION_BUSY,
    Limit,
)
from wiretape.agent_sessions.schemas import has_own_details
from wiretape.http_headers import RETRY_AFTER
from wiretape.observations import Headers
from wiretape.safe_text import shorten
from wiretape_replay.generated_ids import RequestIdCounter
from wiretape_replay.http_server.http_messages import HttpResponse

_REQUEST_LINE = re.compile(r"\bmethod\b.* b'([!#$%&*+.^_`|~0-9A-Za-z-]+) ([!-&(-\[\]-~]+) HTTP/1\.[01]'")
"""The request line in aiohttp's message about an unknown method."""


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """The run that keeps a session busy."""

    session_id: str
    run_id: str
    status: str = "waiting_for_input"
    base: str = ""
    """The part of the service's paths before `/v1/`."""


class ErrorDetail(Struct, frozen=True, forbid_unknown_fields=True):
    """An invalid part of a request, and the reason."""

    path: Annotated[str, Meta(min_length=1)]
    reason: Annotated[str, Meta(min_length=1)]


def error_response(
    code: str,
    message: str | None,
    request_id: str,
    *,
    active: ActiveRun | None = None,
    limit: Limit | None = None,
    retry_after: int | None = None,
    reasons: Sequence[ErrorDetail] = (),
    headers: Headers = (),
) -> HttpResponse:
    """Return the response for one of the 16 error codes of the specification.

    `message` is for developers; None stands for the recovery that the specification gives.
    `active` is required for SESSION_BUSY, whose message always names the run.
    `limit` (by default that of events) and `retry_after` (whole seconds, by default the window) are for RATE_LIMITED.
    `reasons` apply to validation errors.  `headers` follow those that the code requires.
    Raises ValueError for an unknown code, SESSION_BUSY without `active`, and `reasons` for a code with other details.
    """
    row = ERROR_CODES.get(code)
    if row is None:
        raise ValueError(f"Unknown error code {code!r}.")
    if reasons and has_own_details(code):
        raise ValueError(f"{code} has details of its own, so it takes no reasons.")
    error: dict[str, object] = {"code": code, "message": message or row.recovery, "request_id": request_id}
    own: Headers = ()
    if code == SESSION_BUSY:
        error |= _busy_fields(message, active)
    elif code == RATE_LIMITED:
        limit = limit or LIMITS["events"]
        wait = limit.window_seconds if retry_after is None else retry_after
        error["details"] = {"limit": limit.requests, "window_seconds": limit.window_seconds, "retry_after": wait}
        own = ((RETRY_AFTER, str(wait)),)
    elif code == AUTHENTICATION_REQUIRED:
        own = (("WWW-Authenticate", "Bearer"),)  # RFC 9110, 11.6.1: required for 401
    if reasons:
        error["details"] = [{"path": reason.path, "reason": reason.reason} for reason in reasons]
    return HttpResponse.from_json(row.status, {ENVELOPE_KEY: error}, (*own, *headers))


def _busy_fields(message: str | None, active: ActiveRun | None) -> Mapping[str, object]:
    if active is None:
        raise ValueError(f"{SESSION_BUSY} needs the run that is active.")
    session, run, status = active.session_id, active.run_id, active.status
    text = f"Session {session} has an active run: {run} is {status}."
    if message and all(name in message for name in (session, run, status)):
        text = message
    elif message:
        text = f"{message} {text}"
    return {
        "message": text,
        "active_run_id": run,
        "active_run_status": status,
        "recovery": [f"{operation.method} {_path(operation.path, active)}" for operation in (CANCEL, RESUME)],
    }


def _path(path: str, active: ActiveRun) -> str:
    ids = {"session_id": quote(active.session_id, safe=""), "run_id": quote(active.run_id, safe="")}
    return active.base + path.format_map(ids)


def malformed_request_handler(
    request_ids: RequestIdCounter, allowed_methods: Callable[[str], Sequence[str]] = lambda _: ()
) -> Callable[[str], HttpResponse]:
    """Return a function that responds to malformed requests.

    Its argument is aiohttp's message; `allowed_methods` returns the methods of a target.
    """

    def respond(error: str) -> HttpResponse:
        error = " ".join(error.split())
        line = _REQUEST_LINE.search(error)
        if line is None:
            return error_response(INVALID_REQUEST, f"Malformed request: {shorten(error)}", request_ids.next())
        method, target = line[1], line[2]
        allowed = ", ".join(allowed_methods(target))
        if not allowed:
            return error_response(INVALID_REQUEST, f"Unknown method {method}.", request_ids.next())
        message = f"Unknown method {method}; {shorten(target.partition('?')[0])} allows {allowed}."
        return error_response(INVALID_REQUEST, message, request_ids.next(), headers=(("Allow", allowed),))

    return respond
