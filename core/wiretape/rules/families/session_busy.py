"""BUSY: the fields of a `SESSION_BUSY` error, with which a client can recover."""

import re
from urllib.parse import quote as percent_encode

from wiretape.contract import CANCEL, ENVELOPE_KEY, RESUME, SESSION_BUSY, Operation, session_in
from wiretape.contract.schemas import ERROR_SCHEMAS
from wiretape.labels import count_of
from wiretape.rules.catalogue import ERROR_RESPONSE, HELD, Outcome, Problem, Scope, problem, rule
from wiretape.rules.finding import Severity
from wiretape.rules.quoting import describe_violation, quote
from wiretape.rules.state.exchange_state import ExchangeState
from wiretape.rules.state.response_body import ErrorBody

_SCHEMA = ERROR_SCHEMAS[SESSION_BUSY]
_BUSY = frozenset({SESSION_BUSY})
_IN_NAME = "[0-9A-Za-z_-]"
_RUN, _STATUS, _RECOVERY = "active_run_id", "active_run_status", "recovery"


@rule(
    "BUSY001",
    "active-run-missing",
    on=ERROR_RESPONSE,
    codes=_BUSY,
    scope=Scope.EXCHANGE,
    clause=f'{SESSION_BUSY}: "active_run_id | string", "active_run_status | string"',
)
def active_run_missing(body: ErrorBody, _exchange: ExchangeState) -> Outcome:
    """The error lacks the id or the status of the active run as a string.  One finding per field."""
    violations = [each for each in _SCHEMA.violations(body.document) if each.path[1:] in {(_RUN,), (_STATUS,)}]
    return [Problem(describe_violation(violation)) for violation in violations]


@rule(
    "BUSY002",
    "recovery-missing",
    on=ERROR_RESPONSE,
    codes=_BUSY,
    scope=Scope.EXCHANGE,
    clause=f'{SESSION_BUSY}, recovery: "array of strings; hints naming the cancel and resume paths of the active run"',
)
def recovery_missing(body: ErrorBody, exchange: ExchangeState) -> Outcome:
    """The error does not name the paths that cancel and resume the active run.

    They have to occur in the strings of the array `recovery`, which may contain other text.
    """
    if body.envelope is None:
        return None
    violations = [each for each in _SCHEMA.violations(body.document) if each.path[1:2] == (_RECOVERY,)]
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


@rule(
    "BUSY003",
    "message-incomplete",
    on=ERROR_RESPONSE,
    codes=_BUSY,
    severity=Severity.WARNING,
    scope=Scope.EXCHANGE,
    clause=f'{SESSION_BUSY}: "The message names the session, the active run and its status."',
)
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
