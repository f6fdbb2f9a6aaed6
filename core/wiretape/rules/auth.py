"""AUTH: what the service answers to requests without a key, whatever their path."""

from wiretape.contract import AUTHENTICATION_REQUIRED, ERROR_CODES, bearer_keys, is_preflight
from wiretape.observations import RequestStarted
from wiretape.rules.answer import Answer
from wiretape.rules.catalogue import ANY_RESPONSE, ERROR_ANSWER, HELD, Outcome, Scope, problem, rule
from wiretape.rules.doubts import CUT
from wiretape.rules.state import ExchangeState
from wiretape.rules.words import quoted

_KEYLESS = 'Authentication 2: "A missing or invalid key gives HTTP 401 `authentication_required`."'
_ROW = ERROR_CODES[AUTHENTICATION_REQUIRED]


@rule("AUTH001", "keyless-request-accepted", at=ANY_RESPONSE, scope=Scope.EXCHANGE, clause=_KEYLESS)
def keyless_request_accepted(exchange: ExchangeState) -> Outcome:
    """A request without a bearer key is answered with a status below 400.

    Browsers ask before they send a key (a preflight, by OPTIONS); such requests do not bring it up.
    """
    if exchange.response is None or not is_keyless(exchange.request):
        return None
    status = exchange.response.status
    if status >= 400:
        return HELD
    return problem(f"Expected status {_ROW.status} for a request without a bearer key, got {status}.")


@rule("AUTH002", "keyless-request-misanswered", at=ERROR_ANSWER, scope=Scope.EXCHANGE, clause=_KEYLESS)
def keyless_request_misanswered(answer: Answer, exchange: ExchangeState) -> Outcome:
    """A request without a bearer key is answered with another error than 401 `authentication_required`."""
    if not is_keyless(exchange.request):
        return None
    status = answer.response.status
    wanted = f"{_ROW.status} {quoted(_ROW.code)}"
    if status != _ROW.status:
        if answer.whole and answer.code == _ROW.code:
            # That the status is not the code's own is ERR004.
            return None
        code = f" {quoted(answer.code)}" if answer.whole and answer.code is not None else ""
        return problem(f"Expected {wanted} for a request without a bearer key, got {status}{code}.")
    if not answer.whole:
        return CUT
    if answer.code is None:
        return None
    if answer.code == _ROW.code:
        return HELD
    return problem(f"Expected {wanted} for a request without a bearer key, got {status} {quoted(answer.code)}.")


def is_keyless(request: RequestStarted) -> bool:
    """Whether a request to the service comes without the key that it should carry."""
    if request.method == "CONNECT" or is_preflight(request.method, request.headers):
        return False
    return not bearer_keys(request.headers)
