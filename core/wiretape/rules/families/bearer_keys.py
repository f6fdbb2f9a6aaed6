"""AUTH: responses of the service to requests without a bearer key."""

from wiretape.contract import AUTHENTICATION_REQUIRED, ERROR_CODES, bearer_keys, is_preflight
from wiretape.observations import RequestStarted
from wiretape.rules.catalogue import ERROR_RESPONSE, HELD, RESPONSE, Check, Need, Outcome, Scope, problem, rule
from wiretape.rules.quoting import quote
from wiretape.rules.state.exchange_state import ExchangeState
from wiretape.rules.state.response_body import ErrorBody

_NO_KEY = 'Authentication 2: "A missing or invalid key gives HTTP 401 `authentication_required`."'
_ROW = ERROR_CODES[AUTHENTICATION_REQUIRED]


@rule("AUTH001", "keyless-request-accepted", on=RESPONSE, scope=Scope.EXCHANGE, clause=_NO_KEY)
def keyless_request_accepted(exchange: ExchangeState) -> Outcome:
    """The response to a request without a bearer key has a status below 400.

    CORS preflight requests, which browsers send without a key, do not exercise the rule.
    """
    if exchange.response is None or not lacks_key(exchange.request):
        return None
    status = exchange.response.status
    if status >= 400:
        return HELD
    return problem(f"Expected status {_ROW.status} for a request without a bearer key, got {status}.")


def _has_right_status(body: ErrorBody, exchange: ExchangeState) -> bool:
    return lacks_key(exchange.request) and body.response.status == _ROW.status


def _find_wrong_code(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    if body.code is None:
        return None
    return HELD if body.code == _ROW.code else _misanswered(body, body.code)


def _has_wrong_status(body: ErrorBody, exchange: ExchangeState) -> bool:
    return lacks_key(exchange.request) and body.response.status != _ROW.status


@rule(
    "AUTH002",
    "keyless-request-misanswered",
    on=ERROR_RESPONSE,
    when=_has_wrong_status,
    scope=Scope.EXCHANGE,
    unless={_ROW.code: ["ERR004"]},
    clause=_NO_KEY,
    also=[Check(ERROR_RESPONSE, _find_wrong_code, when=_has_right_status, needs=Need.WHOLE_BODY)],
)
def keyless_request_misanswered(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The response to a request without a bearer key is an error other than 401 `authentication_required`."""
    return _misanswered(body, body.code if body.is_whole else None)


def _misanswered(body: ErrorBody, code: str | None) -> Outcome:
    wanted, got = f"{_ROW.status} {quote(_ROW.code)}", "" if code is None else f" {quote(code)}"
    message = f"Expected {wanted} for a request without a bearer key, got {body.response.status}{got}."
    return problem(message, subject=code)


def lacks_key(request: RequestStarted) -> bool:
    """Whether a request to the service lacks the bearer key that it needs; False for one that an import invented."""
    if request.is_invented or is_preflight(request.method, request.headers):
        return False
    return not bearer_keys(request.headers)
