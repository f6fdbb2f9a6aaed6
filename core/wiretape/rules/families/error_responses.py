"""ERR, AUTH, BUSY and RATE: the error envelope in every response of the service with a status of 400 or above.

AUTH is about requests without a bearer key, BUSY and RATE about the further fields of two errors.
"""

import re
from urllib.parse import quote as percent_encode

from wiretape.agent_sessions import (
    AUTHENTICATION_REQUIRED,
    CANCEL,
    ENVELOPE_FIELDS,
    ENVELOPE_KEY,
    ERROR_CODES,
    LIMITS,
    RATE_LIMITED,
    RESUME,
    SESSION_BUSY,
    Operation,
    code_in_other_case,
    session_in,
)
from wiretape.agent_sessions.schemas import ERROR_ENVELOPE, ERROR_SCHEMAS, error_fields, has_own_details, is_closed
from wiretape.http_headers import RETRY_AFTER
from wiretape.json_codec import UnreadableJson
from wiretape.labels import count_of
from wiretape.observations import header
from wiretape.rules.catalogue import (
    COMPLEX_JSON,
    DROPPED_STATE,
    ERROR_RESPONSE,
    HELD,
    INCOMPLETE_BODY,
    RESPONSE,
    SUCCESS_RESPONSE,
    Need,
    Outcome,
    Problem,
    check,
    problem,
)
from wiretape.rules.finding import Severity, describe, describe_violation, format_number, quote, quote_or_none
from wiretape.rules.state.exchange_state import ExchangeState
from wiretape.rules.state.response_body import ErrorBody, SuccessBody

_ENVELOPE = f'Envelope: "All errors come as a JSON object with one key `{ENVELOPE_KEY}`"'
_UNAUTHENTICATED = ERROR_CODES[AUTHENTICATION_REQUIRED]
_BUSY_SCHEMA = ERROR_SCHEMAS[SESSION_BUSY]
_IN_NAME = "[0-9A-Za-z_-]"
_RUN, _STATUS, _RECOVERY = "active_run_id", "active_run_status", "recovery"
_LIMIT_SCHEMA = ERROR_SCHEMAS[RATE_LIMITED]
_DETAILS = (ENVELOPE_KEY, "details")
_FIELDS = _LIMIT_SCHEMA.document["properties"][_DETAILS[0]]["properties"][_DETAILS[1]]["required"]
_WHOLE_SECONDS = re.compile(r"[0-9]+")
_PUBLISHED = {(limit.requests, limit.window_seconds) for limit in LIMITS.values()}
_WINDOW = next(iter(LIMITS.values())).window_seconds

error_check = check(ERROR_RESPONSE, needs=Need.WHOLE_BODY)
busy_check = check(ERROR_RESPONSE, codes={SESSION_BUSY})
limit_check = check(ERROR_RESPONSE, codes={RATE_LIMITED})


@error_check
def not_an_envelope(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The body of an error is not a JSON object with an object under the key `error`."""
    if body.document is UnreadableJson.TOO_COMPLEX:
        return COMPLEX_JSON
    if body.envelope is not None:
        return HELD
    return problem(f"Expected a JSON object with an object under the key `{ENVELOPE_KEY}`, got {_describe_body(body)}.")


def _describe_body(body: ErrorBody) -> str:
    document = body.document
    if body.is_empty:
        return "an empty body"
    if document is UnreadableJson.NOT_JSON:
        return "a body that is not JSON"
    if document is UnreadableJson.NOT_AN_OBJECT:
        return "a body that does not begin with `{`"
    if type(document) is not dict:
        return describe(document)
    if ENVELOPE_KEY not in document:
        return f"an object without `{ENVELOPE_KEY}`"
    return f"{describe(document[ENVELOPE_KEY])} under `{ENVELOPE_KEY}`"


@error_check
def envelope_field_malformed(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """`code`, `message` or `request_id` is missing or is not a string.  One finding per field."""
    envelope = body.envelope
    if envelope is None:
        return None
    bad = [name for name in ENVELOPE_FIELDS if type(envelope.get(name)) is not str]
    return [
        Problem(f"Expected a string as `{ENVELOPE_KEY}.{name}`, got {describe(envelope.get(name, ...))}.")
        for name in bad
    ]


@error_check
def unknown_error_code(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The error code is not in the table of the specification."""
    code = body.code
    if code is None:
        return None
    if code in ERROR_CODES:
        return HELD
    right = code_in_other_case(code)
    if right is not None:
        return problem(f"Expected the error code `{right.code}`, got {quote(code)}, which differs in case.")
    return problem(f"Expected an error code of the specification, got {quote(code)}.")


@error_check
def status_disagrees(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The HTTP status is not the one defined for the error code."""
    row = ERROR_CODES.get(body.code or "")
    if row is None:
        return None
    status = body.response.status
    return HELD if status == row.status else problem(f"Expected status {row.status} for `{row.code}`, got {status}.")


@error_check
def details_malformed(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """`details` is neither an array nor an object, or an element of the array lacks a string `path` or `reason`.

    Codes with their own form of details (RATE002), or without details (ERR007), do not exercise the rule.
    """
    envelope = body.envelope
    if envelope is None or "details" not in envelope or has_own_details(body.code or ""):
        return None
    error = dict.fromkeys(ENVELOPE_FIELDS, "") | {"details": envelope["details"]}
    violations = ERROR_ENVELOPE.violations({ENVELOPE_KEY: error})
    return [Problem(describe_violation(violation)) for violation in violations]


@error_check
def key_beside_error(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The envelope has another top-level key besides `error`.  One finding per key."""
    if body.envelope is None:
        return None
    others = [key for key in body.document if key != ENVELOPE_KEY]
    return [Problem(f"Expected no key besides `{ENVELOPE_KEY}`, got {quote(key)}.") for key in others]


@error_check
def field_not_in_contract(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """`error` has a field that the specification does not define for its code.  One finding per field.

    The finding is an error for the one code for which the specification excludes other fields.
    """
    code = body.code
    if body.envelope is None or code not in ERROR_CODES:
        return None
    severity = Severity.ERROR if is_closed(code) else None
    allowed = error_fields(code)
    return [
        Problem(f"Expected no field {quote(name)} in an error {code}, got {describe(value)}.", severity=severity)
        for name, value in body.envelope.items()
        if name not in allowed
    ]


@error_check
def error_not_json_typed(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The Content-Type of an error envelope is missing or is not JSON."""
    if body.envelope is None:
        return None
    content_type = header(body.response.headers, "content-type")
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        return HELD
    return problem(f"Expected a JSON Content-Type for an error envelope, got {quote_or_none(content_type)}.")


@error_check
def request_id_reused(body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """Two exchanges have the same `request_id`.

    Only ids under the same base path of the same origin are compared.  The last 65536 ids of a recording
    are kept; if there are more, the rule is inconclusive.
    """
    request_id, ids, place = body.request_id, exchange.request_ids, exchange.place
    if request_id is None or not ids.may_have(place):
        return None
    first = ids.first_exchange(place, request_id)
    if first is None:
        return DROPPED_STATE if ids.dropped else HELD
    return problem(f"Expected a new request_id, got {quote(request_id)}, which exchange {first} already has.")


@check(SUCCESS_RESPONSE)
def error_with_success_status(body: SuccessBody, _exchange: ExchangeState) -> Outcome:
    """The body of a 2xx response is an error envelope.

    It is one if `error` is its only key and contains a code of the specification, or all fields of an error.
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


@check(RESPONSE)
def keyless_request_accepted(exchange: ExchangeState) -> Outcome:
    """The response to a request without a bearer key has a status below 400.

    CORS preflight requests, which browsers send without a key, do not exercise the rule.
    """
    if exchange.response is None or not exchange.lacks_key:
        return None
    status = exchange.response.status
    if status >= 400:
        return HELD
    return problem(f"Expected status {_UNAUTHENTICATED.status} for a request without a bearer key, got {status}.")


def _has_right_status(body: ErrorBody, exchange: ExchangeState) -> bool:
    return exchange.lacks_key and body.response.status == _UNAUTHENTICATED.status


@check(ERROR_RESPONSE, when=_has_right_status, needs=Need.WHOLE_BODY)
def find_wrong_code(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """A request without a key is refused with the right status, but another code."""
    if body.code is None:
        return None
    return HELD if body.code == _UNAUTHENTICATED.code else _misanswered(body, body.code)


def _has_wrong_status(body: ErrorBody, exchange: ExchangeState) -> bool:
    return exchange.lacks_key and body.response.status != _UNAUTHENTICATED.status


@check(ERROR_RESPONSE, when=_has_wrong_status)
def keyless_request_misanswered(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The response to a request without a bearer key is an error other than 401 `authentication_required`."""
    return _misanswered(body, body.code if body.is_whole else None)


def _misanswered(body: ErrorBody, code: str | None) -> Outcome:
    wanted, got = f"{_UNAUTHENTICATED.status} {quote(_UNAUTHENTICATED.code)}", "" if code is None else f" {quote(code)}"
    message = f"Expected {wanted} for a request without a bearer key, got {body.response.status}{got}."
    return problem(message, subject=code)


@busy_check
def active_run_missing(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The error lacks the id or the status of the active run as a string.  One finding per field."""
    violations = [each for each in _BUSY_SCHEMA.violations(body.document) if each.path[1:] in {(_RUN,), (_STATUS,)}]
    return [Problem(describe_violation(violation)) for violation in violations]


@busy_check
def recovery_missing(body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """The error does not name the paths that cancel and resume the active run.

    They have to occur in the strings of the array `recovery`, which may contain other text.
    """
    if body.envelope is None:
        return None
    violations = [each for each in _BUSY_SCHEMA.violations(body.document) if each.path[1:2] == (_RECOVERY,)]
    if violations:
        return problem(describe_violation(violations[0]))
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


def _path(operation: Operation, session: str | None, run: object) -> list[str]:
    """Return the path of an operation, split where an id is unknown."""
    path = operation.path
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
    """The error's message does not name the session, the active run or the run's status.

    The session is taken from the path of the request, the run and its status from the other fields of the error.
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
    return problem(f"Expected `{ENVELOPE_KEY}.message` to name {' and '.join(missing)}, got {quote(text)}.")


def _names(text: str, name: str) -> bool:
    """Whether a text contains a name that is not a part of a longer one.

    Case, underscores and hyphens make no difference, because a sentence may say `waiting for input`.  Only ASCII
    characters continue a name: some languages put no spaces between words.
    """
    words = r"[ _-]".join(re.escape(word) for word in re.split(r"[ _-]", name.casefold()))
    return re.search(rf"(?<!{_IN_NAME}){words}(?![.:]?{_IN_NAME})", text.casefold()) is not None


@check(ERROR_RESPONSE)
def retry_after_missing(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """A `RATE_LIMITED` error, or any error with its status, has no `Retry-After` in whole seconds."""
    if body.response.status != ERROR_CODES[RATE_LIMITED].status:
        if not body.is_whole:
            return INCOMPLETE_BODY
        if body.code != RATE_LIMITED:
            return None
    if _retry_after(body) is not None:
        return HELD
    value = header(body.response.headers, RETRY_AFTER)
    return problem(f"Expected whole seconds in {RETRY_AFTER}, got {quote_or_none(value)}.")


@limit_check
def limit_details_malformed(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """`details` is not an object, or lacks an integer `limit`, `window_seconds` or `retry_after`.

    One finding per field.
    """
    if body.envelope is None:
        return None
    violations = [each for each in _LIMIT_SCHEMA.violations(body.document) if each.path[:2] == _DETAILS]
    details = _details(body)
    # JSON Schema accepts 1.0 as an integer.
    floats = [name for name in _FIELDS if type(value := details.get(name)) is float and value.is_integer()]
    return [Problem(describe_violation(violation)) for violation in violations] + [
        Problem(f"Expected an integer as `{'.'.join(_DETAILS)}.{name}`, got {describe(details[name])}.")
        for name in floats
    ]


@limit_check
def retry_after_disagrees(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The `Retry-After` header differs from `details.retry_after`."""
    seconds, wanted = _retry_after(body), _details(body).get("retry_after")
    if seconds is None or type(wanted) is not int:
        return None
    if seconds == wanted:
        return HELD
    source = f"the value of `{'.'.join(_DETAILS)}.retry_after`"
    return problem(f"Expected {RETRY_AFTER} to be {format_number(wanted)}, {source}, got {format_number(seconds)}.")


@limit_check
def unpublished_limit(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """`limit` and `window_seconds` are not one of the published limits; a higher one may have been granted."""
    details = _details(body)
    limit, window = details.get("limit"), details.get("window_seconds")
    if type(limit) is not int or type(window) is not int:
        return None
    if (limit, window) in _PUBLISHED:
        return HELD
    published = ", ".join(str(requests) for requests, _ in sorted(_PUBLISHED))
    got = f"{format_number(limit)} in {format_number(window)} s"
    return problem(f"Expected one of the published limits ({published} in {_WINDOW} s), got {got}.")


def _details(body: ErrorBody) -> dict[str, object]:
    details = (body.envelope or {}).get(_DETAILS[1])
    return details if type(details) is dict else {}


def _retry_after(body: ErrorBody) -> int | None:
    """Return the value of the Retry-After header, if it is whole seconds (and not too long for a number)."""
    value = (header(body.response.headers, RETRY_AFTER) or "").strip()
    return int(value) if len(value) < 1000 and _WHOLE_SECONDS.fullmatch(value) else None
