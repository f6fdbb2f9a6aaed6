"""ERR: the error envelope, in every response of the service with a status of 400 or above."""

from wiretape.contract import ENVELOPE_FIELDS, ENVELOPE_KEY, ERROR_CODES, code_in_other_case
from wiretape.contract.schemas import ERROR_ENVELOPE, error_fields, has_own_details, is_closed
from wiretape.json_codec import UnreadableJson
from wiretape.observations import header
from wiretape.rules.catalogue import (
    COMPLEX_JSON,
    DROPPED_STATE,
    ERROR_RESPONSE,
    HELD,
    INCOMPLETE_BODY,
    SUCCESS_RESPONSE,
    Basis,
    Need,
    Outcome,
    Problem,
    Scope,
    problem,
    rule,
)
from wiretape.rules.finding import Severity
from wiretape.rules.quoting import describe, describe_violation, quote, quote_or_none
from wiretape.rules.state.exchange_state import ExchangeState
from wiretape.rules.state.response_body import ErrorBody, SuccessBody

_ENVELOPE = f'Envelope: "All errors come as a JSON object with one key `{ENVELOPE_KEY}`"'


@rule("ERR001", "not-an-envelope", on=ERROR_RESPONSE, needs=Need.WHOLE_BODY, scope=Scope.EXCHANGE, clause=_ENVELOPE)
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


@rule(
    "ERR002",
    "envelope-field-malformed",
    on=ERROR_RESPONSE,
    needs=Need.WHOLE_BODY,
    scope=Scope.EXCHANGE,
    clause='Envelope: "error.code | string", "error.message | string", "error.request_id | string"',
)
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


@rule(
    "ERR003",
    "unknown-error-code",
    on=ERROR_RESPONSE,
    needs=Need.WHOLE_BODY,
    scope=Scope.EXCHANGE,
    clause='Envelope, error.code: "Case is exact: codes are partly lowercase and partly uppercase."',
)
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


@rule(
    "ERR004",
    "status-disagrees",
    on=ERROR_RESPONSE,
    needs=Need.WHOLE_BODY,
    scope=Scope.EXCHANGE,
    clause='Codes: the table\'s column "HTTP"',
)
def status_disagrees(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The HTTP status is not the one defined for the error code."""
    row = ERROR_CODES.get(body.code or "")
    if row is None:
        return None
    status = body.response.status
    return HELD if status == row.status else problem(f"Expected status {row.status} for `{row.code}`, got {status}.")


@rule(
    "ERR005",
    "details-malformed",
    on=ERROR_RESPONSE,
    needs=Need.WHOLE_BODY,
    scope=Scope.EXCHANGE,
    noun="values",
    clause='Envelope, error.details: "array or object | Optional. For validation errors: array of objects with `path` '
    '(string) and `reason` (string)."',
)
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


@rule(
    "ERR006",
    "key-beside-error",
    on=ERROR_RESPONSE,
    needs=Need.WHOLE_BODY,
    scope=Scope.EXCHANGE,
    noun="keys",
    clause=_ENVELOPE,
)
def key_beside_error(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The envelope has another top-level key besides `error`.  One finding per key."""
    if body.envelope is None:
        return None
    others = [key for key in body.document if key != ENVELOPE_KEY]
    return [Problem(f"Expected no key besides `{ENVELOPE_KEY}`, got {quote(key)}.") for key in others]


@rule(
    "ERR007",
    "field-not-in-contract",
    on=ERROR_RESPONSE,
    needs=Need.WHOLE_BODY,
    severity=Severity.NOTE,
    scope=Scope.EXCHANGE,
    basis=Basis.INFERRED,
    noun="fields",
    clause='SANDBOX_PROVISION_FAILED: "Envelope with code, message …, request_id only."',
)
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


@rule(
    "ERR008",
    "error-not-json-typed",
    on=ERROR_RESPONSE,
    needs=Need.WHOLE_BODY,
    severity=Severity.NOTE,
    scope=Scope.EXCHANGE,
    basis=Basis.INFERRED,
    clause=_ENVELOPE,
)
def error_not_json_typed(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The Content-Type of an error envelope is missing or is not JSON."""
    if body.envelope is None:
        return None
    content_type = header(body.response.headers, "content-type")
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        return HELD
    return problem(f"Expected a JSON Content-Type for an error envelope, got {quote_or_none(content_type)}.")


@rule(
    "ERR009",
    "request-id-reused",
    on=ERROR_RESPONSE,
    needs=Need.WHOLE_BODY,
    severity=Severity.WARNING,
    scope=Scope.RECORDING,
    basis=Basis.INFERRED,
    clause='Envelope, error.request_id: "Request identifier."',
)
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


@rule(
    "ERR010",
    "error-with-success-status",
    on=SUCCESS_RESPONSE,
    scope=Scope.EXCHANGE,
    basis=Basis.INFERRED,
    clause='Codes: the table\'s column "HTTP", which begins at 400',
)
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
