"""RATE: responses to clients that send too many requests."""

import re

from wiretape.contract import ENVELOPE_KEY, ERROR_CODES, LIMITS, RATE_LIMITED, RETRY_AFTER
from wiretape.contract.schemas import ERROR_SCHEMAS
from wiretape.observations import header
from wiretape.rules.catalogue import ERROR_RESPONSE, HELD, INCOMPLETE_BODY, Outcome, Problem, Scope, problem, rule
from wiretape.rules.finding import Severity
from wiretape.rules.quoting import describe, describe_violation, format_number, quote_or_none
from wiretape.rules.state.exchange_state import ExchangeState
from wiretape.rules.state.response_body import ErrorBody

_SCHEMA = ERROR_SCHEMAS[RATE_LIMITED]
_RATE_LIMITED = frozenset({RATE_LIMITED})
_DETAILS = (ENVELOPE_KEY, "details")
_FIELDS = _SCHEMA.document["properties"][_DETAILS[0]]["properties"][_DETAILS[1]]["required"]
_WHOLE_SECONDS = re.compile(r"[0-9]+")
_PUBLISHED = {(limit.requests, limit.window_seconds) for limit in LIMITS.values()}
_WINDOW = next(iter(LIMITS.values())).window_seconds


@rule(
    "RATE001",
    "retry-after-missing",
    on=ERROR_RESPONSE,
    scope=Scope.EXCHANGE,
    clause=f'{RATE_LIMITED}: "The response carries header `{RETRY_AFTER}`, the wait in seconds."',
)
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


@rule(
    "RATE002",
    "limit-details-malformed",
    on=ERROR_RESPONSE,
    codes=_RATE_LIMITED,
    scope=Scope.EXCHANGE,
    clause=f'{RATE_LIMITED}: "`error.details` is an object: `limit` (integer, …), `window_seconds` (integer, …), '
    '`retry_after` (integer, …)"',
)
def limit_details_malformed(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """`details` is not an object, or lacks an integer `limit`, `window_seconds` or `retry_after`.

    One finding per field.
    """
    if body.envelope is None:
        return None
    violations = [each for each in _SCHEMA.violations(body.document) if each.path[:2] == _DETAILS]
    details = _details(body)
    # JSON Schema accepts 1.0 as an integer.
    floats = [name for name in _FIELDS if type(value := details.get(name)) is float and value.is_integer()]
    return [Problem(describe_violation(violation)) for violation in violations] + [
        Problem(f"Expected an integer as `{'.'.join(_DETAILS)}.{name}`, got {describe(details[name])}.")
        for name in floats
    ]


@rule(
    "RATE003",
    "retry-after-disagrees",
    on=ERROR_RESPONSE,
    codes=_RATE_LIMITED,
    scope=Scope.EXCHANGE,
    clause=f'{RATE_LIMITED}, retry_after: "integer, wait in seconds, equal to the header"',
)
def retry_after_disagrees(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The `Retry-After` header differs from `details.retry_after`."""
    seconds, wanted = _retry_after(body), _details(body).get("retry_after")
    if seconds is None or type(wanted) is not int:
        return None
    if seconds == wanted:
        return HELD
    source = f"the value of `{'.'.join(_DETAILS)}.retry_after`"
    return problem(f"Expected {RETRY_AFTER} to be {format_number(wanted)}, {source}, got {format_number(seconds)}.")


@rule(
    "RATE004",
    "unpublished-limit",
    on=ERROR_RESPONSE,
    codes=_RATE_LIMITED,
    severity=Severity.NOTE,
    scope=Scope.EXCHANGE,
    clause='Limits: "Sessions | 30 per 60-second window", "Runs | 60 …", "Events | 120 …"',
)
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
