"""AUTH: responses of the service to requests without a bearer key."""

from wiretape.contract import AUTHENTICATION_REQUIRED, ERROR_CODES, bearer_keys, is_preflight
from wiretape.observations import RequestStarted
from wiretape.rules.catalogue import ERROR_RESPONSE, HELD, INCOMPLETE_BODY, RESPONSE, Outcome, Scope, problem, rule
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


@rule("AUTH002", "keyless-request-misanswered", on=ERROR_RESPONSE, scope=Scope.EXCHANGE, clause=_NO_KEY)
def keyless_request_misanswered(body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """The response to a request without a bearer key is an error other than 401 `authentication_required`."""
    if not lacks_key(exchange.request):
        return None
    status = body.response.status
    wanted = f"{_ROW.status} {quote(_ROW.code)}"
    if status != _ROW.status:
        if body.is_whole and body.code == _ROW.code:
            # ERR004 reports that the status is not that of the code.
            return None
        code = f" {quote(body.code)}" if body.is_whole and body.code is not None else ""
        return problem(f"Expected {wanted} for a request without a bearer key, got {status}{code}.")
    if not body.is_whole:
        return INCOMPLETE_BODY
    if body.code is None:
        return None
    if body.code == _ROW.code:
        return HELD
    return problem(f"Expected {wanted} for a request without a bearer key, got {status} {quote(body.code)}.")


def lacks_key(request: RequestStarted) -> bool:
    """Whether a request to the service lacks the bearer key that it needs; False for one that an import invented."""
    if request.is_invented or is_preflight(request.method, request.headers):
        return False
    return not bearer_keys(request.headers)
