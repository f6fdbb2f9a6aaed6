"""CLI: what the client owes with each request.  Who is one client is said in `wiretape.rules.clients`.

What it owes with its cursor is in `wiretape.rules.cursors`.
"""

from urllib.parse import unquote_plus

from wiretape.contract import (
    AUTHENTICATION_REQUIRED,
    AUTHORIZATION,
    CANCEL,
    ERROR_CODES,
    EVENT_ALREADY_RESOLVED,
    RESUME,
    RETRY_AFTER,
)
from wiretape.credential_names import CREDENTIAL_PARAMETERS
from wiretape.observations import Ending
from wiretape.rules.auth import is_keyless
from wiretape.rules.catalogue import EXCHANGE_END, HELD, REQUEST, Basis, Outcome, Scope, problem, rule
from wiretape.rules.doubts import OTHER_CALL, OTHER_KEY
from wiretape.rules.facts import CUSTOM_TOOL_USE
from wiretape.rules.finding import Party, Severity
from wiretape.rules.state import ExchangeState
from wiretape.rules.words import or_none, quoted
from wiretape.rules.work import Run

_TOLERANCE_NS = 500_000_000
_REFUSED = ERROR_CODES[AUTHENTICATION_REQUIRED]


@rule(
    "CLI001",
    "missing-bearer-key",
    at=EXCHANGE_END,
    side=Party.CLIENT,
    scope=Scope.EXCHANGE,
    clause='Authentication 1: "Every request carries the header `Authorization: Bearer <API_KEY>`."',
)
def missing_bearer_key(exchange: ExchangeState, _ending: Ending) -> Outcome:
    """A request comes without a bearer key, and the service answers as it has to.

    Where the service does not, that is AUTH001 or AUTH002.
    """
    if exchange.request.method == "CONNECT":
        return None
    if not is_keyless(exchange.request):
        return HELD
    if exchange.response is not None:
        answer = exchange.answer
        if exchange.response.status != _REFUSED.status:
            return None
        if answer is not None and answer.whole and answer.code not in {None, _REFUSED.code}:
            return None
    return problem(f"Expected the header `{AUTHORIZATION}: Bearer …`, got none.")


@rule(
    "CLI004",
    "retried-too-soon",
    at=REQUEST,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    clause=f'Codes, RATE_LIMITED: "Wait for the `{RETRY_AFTER}` header value, then retry."',
)
def retried_too_soon(exchange: ExchangeState) -> Outcome:
    """A client repeats method, path and query before `Retry-After` has passed (less half a second)."""
    wait = exchange.client.waits.get(exchange.key)
    if wait is None:
        return None
    early_ns = wait.until_ns - exchange.request.time_ns
    if early_ns <= _TOLERANCE_NS:
        return HELD
    waited = wait.seconds - early_ns / 1e9
    return problem(f"Expected {wait.seconds} s of waiting, as exchange {wait.exchange} was told, got {waited:.1f} s.")


@rule(
    "CLI006",
    "retry-with-new-idempotency-key",
    at=REQUEST,
    severity=Severity.WARNING,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    clause='Codes, runtime_resume_unavailable: "Retry with the same idempotency key."',
)
def retry_with_new_idempotency_key(exchange: ExchangeState) -> Outcome:
    """A repeat after `runtime_resume_unavailable` or `tool_result_invalid` has another idempotency key, or none."""
    refusal = exchange.client.refusals.get(exchange.key)
    run = _run(exchange)
    if refusal is None or (run is not None and (run.ended_ns is not None or run.custom_uses > refusal.custom_uses)):
        return None
    if refusal.key == exchange.idempotency_key and refusal.key is not None:
        return HELD
    if refusal.key is None or (run is not None and run.waiting > 1):
        # The key may have another header, or this may be the result of another call.
        return OTHER_KEY
    got = or_none(exchange.idempotency_key)
    return problem(f"Expected the idempotency key {quoted(refusal.key)} again after {refusal.code}, got {got}.")


def _run(exchange: ExchangeState) -> Run | None:
    """The run that a request is about, when it was seen."""
    if exchange.match is None or exchange.session is None:
        return None
    return exchange.session.past.work.runs.get(exchange.match.run_id or "")


@rule(
    "CLI007",
    "resolved-tool-answered-again",
    at=REQUEST,
    severity=Severity.WARNING,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    clause='Codes, event_already_resolved: "Do not execute the tool again."',
)
def resolved_tool_answered_again(exchange: ExchangeState) -> Outcome:
    """A client resumes a run again after `event_already_resolved`, without a new `agent.custom_tool_use` between."""
    reader, match = exchange.reader, exchange.match
    if reader is None or match is None or match.operation is not RESUME:
        return None
    resolved = reader.resolved.get(match.run_id or "")
    if resolved is None:
        return None
    refused_in, uses, losses = resolved
    run = _run(exchange)
    if run is not None and run.custom_uses > uses:
        return HELD
    if reader.losses > losses or (run is not None and run.waiting > 1):
        return OTHER_CALL
    what = f"Expected no further resume after {EVENT_ALREADY_RESOLVED} in exchange {refused_in}"
    return problem(f"{what} without a new {CUSTOM_TOOL_USE}, got one.")


@rule(
    "CLI008",
    "key-in-url",
    at=REQUEST,
    severity=Severity.WARNING,
    side=Party.CLIENT,
    scope=Scope.EXCHANGE,
    basis=Basis.INFERRED,
    clause='Authentication 1: "Every request carries the header `Authorization: Bearer <API_KEY>`."',
)
def key_in_url(exchange: ExchangeState) -> Outcome:
    """A query parameter looks like a credential, which then stands in logs and histories."""
    _, mark, query = exchange.request.target.partition("#")[0].partition("?")
    if not mark:
        return None
    pairs = (pair.partition("=") for pair in query.split("&"))
    names = [unquote_plus(name) for name, _, value in pairs if value]
    found = [name for name in names if name.lower() in CREDENTIAL_PARAMETERS]
    if not found:
        return HELD
    return problem(f"Expected credentials in the header {AUTHORIZATION} only, got the parameter {quoted(found[0])}.")


@rule(
    "CLI009",
    "ended-run-cancelled",
    at=REQUEST,
    severity=Severity.NOTE,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    basis=Basis.INFERRED,
    clause='States 2: "…; the client treats the run as terminal."',
)
def ended_run_cancelled(exchange: ExchangeState) -> Outcome:
    """A client cancels a run whose terminal event had been delivered to it."""
    match, run, reader = exchange.match, _run(exchange), exchange.reader
    if match is None or match.operation is not CANCEL or run is None or reader is None:
        return None
    if reader.key not in run.told:
        return HELD
    return problem(f"Expected no cancel of run {quoted(match.run_id or '')} after its {run.ended_type}, got one.")
