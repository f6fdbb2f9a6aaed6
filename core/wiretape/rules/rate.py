"""RATE: how a client that asks too often is told to wait."""

import re

from wiretape.contract import ENVELOPE_KEY, ERROR_CODES, LIMITS, RATE_LIMITED, RETRY_AFTER
from wiretape.contract.schemas import ERROR_SCHEMAS
from wiretape.observations import header
from wiretape.rules.answer import Answer
from wiretape.rules.catalogue import ERROR_ANSWER, HELD, Outcome, Problem, Scope, problem, rule
from wiretape.rules.doubts import CUT
from wiretape.rules.finding import Severity
from wiretape.rules.state import ExchangeState
from wiretape.rules.words import described, number, quoted, sentence

_SCHEMA = ERROR_SCHEMAS[RATE_LIMITED]
_DETAILS = (ENVELOPE_KEY, "details")
_WHOLE_SECONDS = re.compile(r"[0-9]+")
_PUBLISHED = {(limit.requests, limit.window_seconds) for limit in LIMITS.values()}


@rule(
    "RATE001",
    "retry-after-missing",
    at=ERROR_ANSWER,
    scope=Scope.EXCHANGE,
    clause=f'{RATE_LIMITED}: "The response carries header `{RETRY_AFTER}`, the wait in seconds."',
)
def retry_after_missing(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """An error `RATE_LIMITED`, or any with its status, comes without a `Retry-After` of whole seconds."""
    if answer.response.status != ERROR_CODES[RATE_LIMITED].status:
        if not answer.whole:
            return CUT
        if answer.code != RATE_LIMITED:
            return None
    if _seconds(answer) is not None:
        return HELD
    value = header(answer.response.headers, RETRY_AFTER)
    return problem(f"Expected whole seconds in {RETRY_AFTER}, got {'none' if value is None else quoted(value)}.")


@rule(
    "RATE002",
    "limit-details-malformed",
    at=ERROR_ANSWER,
    scope=Scope.EXCHANGE,
    clause=f'{RATE_LIMITED}: "`error.details` is an object: `limit` (integer, …), `window_seconds` (integer, …), '
    '`retry_after` (integer, …)"',
)
def limit_details_malformed(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """`details` is no object, or lacks an integer `limit`, `window_seconds` or `retry_after`.  One finding a field."""
    if not answer.whole:
        return CUT
    if answer.code != RATE_LIMITED or answer.envelope is None:
        return None
    flaws = [flaw for flaw in _SCHEMA.violations(answer.document) if flaw.path[:2] == _DETAILS]
    told = [Problem(sentence(flaw)) for flaw in flaws]
    details = _details(answer)
    # To JSON Schema 1.0 is an integer.
    floats = [name for name in _FIELDS if type(value := details.get(name)) is float and value.is_integer()]
    return told + [
        Problem(f"Expected an integer as `{'.'.join(_DETAILS)}.{name}`, got {described(details[name])}.")
        for name in floats
    ]


@rule(
    "RATE003",
    "retry-after-disagrees",
    at=ERROR_ANSWER,
    scope=Scope.EXCHANGE,
    clause=f'{RATE_LIMITED}, retry_after: "integer, wait in seconds, equal to the header"',
)
def retry_after_disagrees(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """The `Retry-After` header is not `details.retry_after`."""
    if not answer.whole:
        return CUT
    seconds, said = _seconds(answer), _details(answer).get("retry_after")
    if answer.code != RATE_LIMITED or seconds is None or type(said) is not int:
        return None
    if seconds == said:
        return HELD
    return problem(f"Expected {number(said)} as {RETRY_AFTER}, as `retry_after` says, got {number(seconds)}.")


@rule(
    "RATE004",
    "unpublished-limit",
    at=ERROR_ANSWER,
    severity=Severity.NOTE,
    scope=Scope.EXCHANGE,
    clause='Limits: "Sessions | 30 per 60-second window", "Runs | 60 …", "Events | 120 …"',
)
def unpublished_limit(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """`limit` and `window_seconds` are none of the published limits; a higher one may have been granted."""
    if not answer.whole:
        return CUT
    details = _details(answer)
    limit, window = details.get("limit"), details.get("window_seconds")
    if answer.code != RATE_LIMITED or type(limit) is not int or type(window) is not int:
        return None
    if (limit, window) in _PUBLISHED:
        return HELD
    published = ", ".join(str(requests) for requests, _ in sorted(_PUBLISHED))
    got = f"{number(limit)} in {number(window)} s"
    return problem(f"Expected one of the published limits ({published} in {_WINDOW} s), got {got}.")


_FIELDS = _SCHEMA.document["properties"][_DETAILS[0]]["properties"][_DETAILS[1]]["required"]
_WINDOW = next(iter(LIMITS.values())).window_seconds


def _details(answer: Answer) -> dict[str, object]:
    details = (answer.envelope or {}).get(_DETAILS[1])
    return details if type(details) is dict else {}


def _seconds(answer: Answer) -> int | None:
    """The value of the Retry-After header, when it is whole seconds (and not too long to be a number)."""
    value = (header(answer.response.headers, RETRY_AFTER) or "").strip()
    return int(value) if len(value) < 1000 and _WHOLE_SECONDS.fullmatch(value) else None
