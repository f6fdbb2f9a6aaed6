"""ERR, AUTH, BUSY and RATE: the error envelope in every response of the service with a status of 400 or above.

AUTH is about requests without a bearer key, BUSY and RATE about the further fields of two errors.
"""

import re
from urllib.parse import quote as percent_encode

from wiretape.contract.json_types import RequiredFields
from wiretape.json_codec import UnreadableJson
from wiretape.labels import count_of
from wiretape.patterns import RequestPattern
from wiretape.rules.catalogue import (
    COMPLEX_JSON,
    ERROR_RESPONSE,
    HELD,
    INCOMPLETE_BODY,
    SUCCESS_RESPONSE,
    Need,
    Outcome,
    Problem,
    check,
    problem,
)
from wiretape.rules.finding import Severity, describe, quote
from wiretape_contracts.agent_sessions import (
    CANCEL,
    ENVELOPE_KEY,
    ERROR_CODES,
    RESUME,
    SESSION_BUSY,
    session_in,
)
from wiretape_contracts.agent_sessions.schemas import error_fields, is_closed
from wiretape_contracts.agent_sessions.state.exchange_state import ExchangeState
from wiretape_contracts.agent_sessions.state.service_body import ErrorBody, SuccessBody

_IN_NAME = "[0-9A-Za-z_-]"
_RUN, _STATUS, _RECOVERY = "active_run_id", "active_run_status", "recovery"
_RECOVERY_FIELDS = RequiredFields({"/error/recovery": "array", "/error/recovery/*": "string"})
error_check = check(ERROR_RESPONSE, needs=Need.WHOLE_BODY)
busy_check = check(ERROR_RESPONSE, codes={SESSION_BUSY})


@error_check
def field_not_in_contract(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """`error` has a field that the specification does not define for its code.

    There is one finding per field.  For `SANDBOX_PROVISION_FAILED`, the finding is an error instead of a note, because
    the specification excludes other fields for this code.
    """
    code = body.code
    if body.envelope is None or code is None or code not in ERROR_CODES:
        return None
    severity = Severity.ERROR if is_closed(code) else None
    allowed = error_fields(code)
    return [
        Problem(f"Expected no field {quote(name)} in a `{code}` error, got {describe(value)}.", severity=severity)
        for name, value in body.envelope.items()
        if name not in allowed
    ]


@check(SUCCESS_RESPONSE)
def error_with_success_status(body: SuccessBody, _exchange: ExchangeState) -> Outcome:
    """The body of a 2xx response is an error envelope.

    A body is an error envelope if its only key is `error`, and `error` contains a code from the specification or all
    the fields of an error.
    """
    if body.is_ruled_out:
        return HELD
    if not (body.is_whole or body.is_error):
        return INCOMPLETE_BODY
    if body.document is UnreadableJson.TOO_COMPLEX:
        return COMPLEX_JSON
    if body.is_empty:
        return None
    if not body.is_error:
        return HELD
    return problem(
        f"Expected a status of 400 or above for the error {quote(body.code or '')}, got {body.response.status}."
    )


@busy_check
def recovery_missing(body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """A `SESSION_BUSY` error does not name the paths that cancel and resume the active run.

    The strings in the array `recovery` must contain both paths.  They may contain other text, too.
    """
    if body.envelope is None:
        return None
    for name, wanted, value in _RECOVERY_FIELDS.find_unfit(body.document):
        return problem(f"Expected {wanted} as `{name}`, got {describe(value)}.")
    hints, run = body.envelope[_RECOVERY], body.envelope.get(_RUN)
    session = session_in(exchange.request.target)
    paths = [_path(operation, session, run) for operation in (CANCEL, RESUME)]
    missing = [path for path in paths if not _is_named(path, hints)]
    if not missing:
        return HELD
    named = " and ".join(quote("…".join(path)) for path in missing)
    noun, pronoun = ("path", "it") if len(missing) == 1 else ("paths", "them")
    wanted = f"`{ENVELOPE_KEY}.{_RECOVERY}` to name the {noun} {named} of the active run"
    return problem(f"Expected {wanted}, got {count_of(len(hints), 'hint')} without {pronoun}.")


def _path(operation: RequestPattern, session: str | None, run: object) -> list[str]:
    """Return the path of an operation, split where an id is unknown."""
    path = operation.route
    for name, value in (("{session_id}", session), ("{run_id}", run)):
        path = path.replace(name, value if type(value) is str else "\0")
    return path.split("\0")


def _is_named(path: list[str], hints: list[str]) -> bool:
    """Whether one of the hints contains the pieces of a path in order, with its ids plain or percent-encoded."""
    encoded = [percent_encode(piece, safe="/", errors="replace") for piece in path]
    # A slash in an id may be encoded as well; those between the segments of the path are not.
    return any(
        _contains(hint, path) or _contains(hint, encoded) or _contains(hint.replace("%2F", "/"), encoded)
        for hint in hints
    )


def _contains(hint: str, pieces: list[str]) -> bool:
    at = 0
    for piece in pieces:
        at = hint.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


@busy_check
def message_incomplete(body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """The message of a `SESSION_BUSY` error omits the session, the active run or the run's status.

    wiretape takes the session from the request path, and the run and its status from the other fields of the error.
    """
    envelope = body.envelope
    if envelope is None or type(envelope.get("message")) is not str:
        return None
    text = envelope["message"]
    wanted = {
        "the session": session_in(exchange.request.target),
        "the active run": envelope.get(_RUN),
        "the run's status": envelope.get(_STATUS),
    }
    names = {noun: name for noun, name in wanted.items() if type(name) is str}
    if not names:
        return None
    missing = [f"{noun} {quote(name)}" for noun, name in names.items() if not _names(text, name)]
    if not missing:
        return HELD
    named = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
    return problem(f"Expected the message of a `{SESSION_BUSY}` error to name {named}, got {quote(text)}.")


def _names(text: str, name: str) -> bool:
    """Whether a text contains a name that is not a part of a longer one.

    Case, underscores and hyphens make no difference, because a sentence may say `waiting for input`.  Only ASCII
    characters continue a name: some languages put no spaces between words.
    """
    words = r"[ _-]".join(re.escape(word) for word in re.split(r"[ _-]", name.casefold()))
    return re.search(rf"(?<!{_IN_NAME}){words}(?![.:]?{_IN_NAME})", text.casefold()) is not None
