"""Errors in the service's envelope: every code with its status, its fields and its headers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from urllib.parse import quote

from wiretape.contract import (
    AUTHENTICATION_REQUIRED,
    CANCEL,
    ENVELOPE_KEY,
    ERROR_CODES,
    LIMITS,
    RATE_LIMITED,
    RESUME,
    RETRY_AFTER,
    SESSION_BUSY,
    Limit,
)
from wiretape.contract.schemas import has_own_details
from wiretape.observations import Headers
from wiretape_replay.answers.reasons import ActiveRun, Reason
from wiretape_replay.front.answer import Answer

_LARGEST_LIMIT = LIMITS["events"]


def envelope(
    code: str,
    message: str | None,
    request_id: str,
    *,
    active: ActiveRun | None = None,
    limit: Limit = _LARGEST_LIMIT,
    retry_after: int | None = None,
    reasons: Sequence[Reason] = (),
    headers: Headers = (),
) -> Answer:
    """The answer to a request that fails with one of the 16 codes of the specification, in exactly its case.

    `message` is for developers; None stands for what the specification says to do.
    `active` is what SESSION_BUSY needs, and its message names all of it, in its own words where those given do not.
    `limit` and `retry_after` (whole seconds, the window by default) are for RATE_LIMITED, and for no other code.
    `reasons` are for errors of validation.  `headers` come after those that the code asks for.
    Raises ValueError for an unknown code, SESSION_BUSY without `active`, and `reasons` where a code has other
    details or none.
    """
    row = ERROR_CODES.get(code)
    if row is None:
        raise ValueError(f"{code!r} is no error code of the specification.")
    if reasons and has_own_details(code):
        raise ValueError(f"The details of {code} cannot be reasons.")
    error: dict[str, object] = {"code": code, "message": message or row.recovery, "request_id": request_id}
    own: Headers = ()
    if code == SESSION_BUSY:
        error |= _busy(message, active)
    elif code == RATE_LIMITED:
        wait = limit.window_seconds if retry_after is None else retry_after
        error["details"] = {"limit": limit.requests, "window_seconds": limit.window_seconds, "retry_after": wait}
        own = ((RETRY_AFTER, str(wait)),)
    elif code == AUTHENTICATION_REQUIRED:
        own = (("WWW-Authenticate", "Bearer"),)  # RFC 9110, 11.6.1: no 401 goes without
    if reasons:
        error["details"] = [asdict(reason) for reason in reasons]
    return Answer.of(row.status, {ENVELOPE_KEY: error}, (*own, *headers))


def _busy(message: str | None, active: ActiveRun | None) -> Mapping[str, object]:
    """What SESSION_BUSY says beside the code and the request's id."""
    if active is None:
        raise ValueError(f"{SESSION_BUSY} needs the run that is active.")
    session, run, status = active.session_id, active.run_id, active.status
    told = f"Session {session} has an active run: {run} is {status}."
    if message and not all(name in message for name in (session, run, status)):
        told = f"{message} {told}"
    elif message:
        told = message
    return {
        "message": told,
        "active_run_id": run,
        "active_run_status": status,
        "recovery": [f"{operation.method} {_path(operation.path, active)}" for operation in (CANCEL, RESUME)],
    }


def _path(path: str, active: ActiveRun) -> str:
    ids = {"session_id": quote(active.session_id, safe=""), "run_id": quote(active.run_id, safe="")}
    return active.base + path.format_map(ids)
