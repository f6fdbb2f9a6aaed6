"""ERR, what goes beyond the envelope's own fields: details, keys too many, and the answer around it."""

from wiretape.contract import ENVELOPE_FIELDS, ENVELOPE_KEY, ERROR_CODES, code_in_other_case
from wiretape.contract.schemas import ERROR_ENVELOPE, error_fields, has_own_details, is_closed
from wiretape.json_reader import UnreadableJson
from wiretape.observations import header
from wiretape.rules.answer import Answer, GoodAnswer
from wiretape.rules.catalogue import (
    ERROR_ANSWER,
    GOOD_ANSWER,
    HELD,
    Basis,
    Outcome,
    Problem,
    Scope,
    limited,
    problem,
    rule,
)
from wiretape.rules.doubts import CUT, FORGOTTEN, TOO_MUCH
from wiretape.rules.finding import Severity
from wiretape.rules.state import ExchangeState
from wiretape.rules.words import described, quoted, sentence

_ENVELOPE = f'Envelope: "All errors come as a JSON object with one key `{ENVELOPE_KEY}`"'


@rule(
    "ERR005",
    "details-malformed",
    at=ERROR_ANSWER,
    scope=Scope.EXCHANGE,
    clause='Envelope, error.details: "array or object | Optional. For validation errors: array of objects with `path` '
    '(string) and `reason` (string)."',
)
def details_malformed(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """`details` is neither an array nor an object, or an element of the array lacks a string `path` or `reason`.

    Codes that have details of their own (RATE002), or none (ERR007), do not bring it up.
    """
    if not answer.whole:
        return CUT
    envelope = answer.envelope
    if envelope is None or "details" not in envelope or has_own_details(answer.code or ""):
        return None
    error = dict.fromkeys(ENVELOPE_FIELDS, "") | {"details": envelope["details"]}
    flaws = ERROR_ENVELOPE.violations({ENVELOPE_KEY: error})
    return limited([Problem(sentence(flaw)) for flaw in flaws], "places")


@rule("ERR006", "key-beside-error", at=ERROR_ANSWER, scope=Scope.EXCHANGE, clause=_ENVELOPE)
def key_beside_error(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """The envelope has another key beside `error`.  One finding a key."""
    if not answer.whole:
        return CUT
    if answer.envelope is None:
        return None
    others = [key for key in answer.document if key != ENVELOPE_KEY]
    return limited([Problem(f"Expected no key beside `{ENVELOPE_KEY}`, got {quoted(key)}.") for key in others], "keys")


@rule(
    "ERR007",
    "field-not-in-contract",
    at=ERROR_ANSWER,
    severity=Severity.NOTE,
    scope=Scope.EXCHANGE,
    basis=Basis.INFERRED,
    clause='SANDBOX_PROVISION_FAILED: "Envelope with code, message …, request_id only."',
)
def field_not_in_contract(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """`error` holds a field that the specification does not give for its code.  One finding a field.

    It is an error where the specification says that there is nothing else, which it does of one code.
    """
    if not answer.whole:
        return CUT
    code = answer.code
    if answer.envelope is None or code not in ERROR_CODES:
        return None
    severity = Severity.ERROR if is_closed(code) else None
    allowed = error_fields(code)
    return limited(
        [
            Problem(f"Expected no field {quoted(name)} in an error {code}, got {described(value)}.", severity=severity)
            for name, value in answer.envelope.items()
            if name not in allowed
        ],
        "fields",
    )


@rule(
    "ERR008",
    "error-not-json-typed",
    at=ERROR_ANSWER,
    severity=Severity.NOTE,
    scope=Scope.EXCHANGE,
    basis=Basis.INFERRED,
    clause=_ENVELOPE,
)
def error_not_json_typed(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """The Content-Type of an error envelope is not JSON, or there is none."""
    if not answer.whole:
        return CUT
    if answer.envelope is None:
        return None
    content_type = header(answer.response.headers, "content-type")
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        return HELD
    got = "none" if content_type is None else quoted(content_type)
    return problem(f"Expected a Content-Type of JSON for an error envelope, got {got}.")


@rule(
    "ERR009",
    "request-id-reused",
    at=ERROR_ANSWER,
    severity=Severity.WARNING,
    scope=Scope.RECORDING,
    basis=Basis.INFERRED,
    clause='Envelope, error.request_id: "Request identifier."',
)
def request_id_reused(answer: Answer, exchange: ExchangeState) -> Outcome:
    """Two exchanges carry the same `request_id`.

    The last 65536 ids of a recording are remembered; when there were more, the rule is inconclusive.
    """
    if not answer.whole:
        return CUT
    request_id, ids = answer.request_id, exchange.request_ids
    if request_id is None or not len(ids):
        return None
    owner = ids.owner(request_id)
    if owner is None:
        return FORGOTTEN if ids.forgotten else HELD
    return problem(f"Expected a request_id of its own, got {quoted(request_id)}, which exchange {owner} has already.")


@rule(
    "ERR010",
    "error-with-success-status",
    at=GOOD_ANSWER,
    scope=Scope.EXCHANGE,
    basis=Basis.INFERRED,
    clause='Codes: the table\'s column "HTTP", which begins at 400',
)
def error_with_success_status(answer: GoodAnswer, _exchange: ExchangeState) -> Outcome:
    """An answer with status 2xx is an error envelope.

    It is one when `error` is its only key, and holds a code of the table, or all the fields of an error.
    """
    if answer.is_other:
        return HELD
    if not answer.whole:
        return CUT
    if answer.document is UnreadableJson.TOO_COMPLEX:
        return TOO_MUCH
    if answer.is_empty:
        return None
    envelope = answer.envelope or {}
    code = answer.code or ""
    known = code in ERROR_CODES or code_in_other_case(code) is not None
    if known or all(type(envelope.get(name)) is str for name in ENVELOPE_FIELDS):
        return problem(f"Expected a status of 400 or above for the error {quoted(code)}, got {answer.response.status}.")
    return HELD
