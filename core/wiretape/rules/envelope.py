"""ERR: the error envelope, in every answer with a status of 400 or above, whatever the path."""

from wiretape.contract import ENVELOPE_FIELDS, ENVELOPE_KEY, ERROR_CODES, code_in_other_case
from wiretape.json_reader import UnreadableJson
from wiretape.rules.answer import Answer
from wiretape.rules.catalogue import ERROR_ANSWER, HELD, Outcome, Problem, Scope, problem, rule
from wiretape.rules.doubts import CUT, TOO_MUCH
from wiretape.rules.state import ExchangeState
from wiretape.rules.words import described, quoted

_ENVELOPE = f'Envelope: "All errors come as a JSON object with one key `{ENVELOPE_KEY}`"'


@rule("ERR001", "not-an-envelope", at=ERROR_ANSWER, scope=Scope.EXCHANGE, clause=_ENVELOPE)
def not_an_envelope(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """The body of an error is not a JSON object with an object under the key `error`."""
    if not answer.whole:
        return CUT
    if answer.document is UnreadableJson.TOO_COMPLEX:
        return TOO_MUCH
    if answer.envelope is not None:
        return HELD
    return problem(f"Expected a JSON object with an object under the key `{ENVELOPE_KEY}`, got {_instead(answer)}.")


def _instead(answer: Answer) -> str:
    document = answer.document
    if answer.is_empty:
        return "an empty body"
    if document is UnreadableJson.NOT_JSON:
        return "a body that is not JSON"
    if document is UnreadableJson.NOT_AN_OBJECT:
        return "a body that does not begin with `{`"
    if type(document) is not dict:
        return described(document)
    if ENVELOPE_KEY not in document:
        return f"an object without `{ENVELOPE_KEY}`"
    return f"{described(document[ENVELOPE_KEY])} under `{ENVELOPE_KEY}`"


@rule(
    "ERR002",
    "envelope-field-malformed",
    at=ERROR_ANSWER,
    scope=Scope.EXCHANGE,
    clause='Envelope: "error.code | string", "error.message | string", "error.request_id | string"',
)
def envelope_field_malformed(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """`code`, `message` or `request_id` is missing or is no string.  One finding a field."""
    if not answer.whole:
        return CUT
    envelope = answer.envelope
    if envelope is None:
        return None
    bad = [name for name in ENVELOPE_FIELDS if type(envelope.get(name)) is not str]
    return [
        Problem(f"Expected a string as `{ENVELOPE_KEY}.{name}`, got {described(envelope.get(name, ...))}.")
        for name in bad
    ]


@rule(
    "ERR003",
    "unknown-error-code",
    at=ERROR_ANSWER,
    scope=Scope.EXCHANGE,
    clause='Envelope, error.code: "Case is exact: codes are partly lowercase and partly uppercase."',
)
def unknown_error_code(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """The code is none of the table's."""
    if not answer.whole:
        return CUT
    code = answer.code
    if code is None:
        return None
    if code in ERROR_CODES:
        return HELD
    right = code_in_other_case(code)
    if right is not None:
        return problem(f"Expected the error code `{right.code}`, got {quoted(code)}, which differs in case.")
    return problem(f"Expected an error code of the specification, got {quoted(code)}.")


@rule(
    "ERR004",
    "status-disagrees",
    at=ERROR_ANSWER,
    scope=Scope.EXCHANGE,
    clause='Codes: the table\'s column "HTTP"',
)
def status_disagrees(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """The HTTP status is not the one of the error code."""
    if not answer.whole:
        return CUT
    row = ERROR_CODES.get(answer.code or "")
    if row is None:
        return None
    status = answer.response.status
    return HELD if status == row.status else problem(f"Expected status {row.status} for `{row.code}`, got {status}.")
