"""BUSY: what the refusal of a second run has to tell."""

from urllib.parse import quote

from wiretape.contract import CANCEL, ENVELOPE_KEY, RESUME, SESSION_BUSY, Operation, session_in
from wiretape.contract.schemas import ERROR_SCHEMAS
from wiretape.labels import count_of
from wiretape.rules.answer import Answer
from wiretape.rules.catalogue import ERROR_ANSWER, HELD, Outcome, Problem, Scope, problem, rule
from wiretape.rules.doubts import CUT
from wiretape.rules.finding import Severity
from wiretape.rules.state import ExchangeState
from wiretape.rules.words import quoted, sentence

_SCHEMA = ERROR_SCHEMAS[SESSION_BUSY]
_RUN, _STATUS, _RECOVERY = "active_run_id", "active_run_status", "recovery"


@rule(
    "BUSY001",
    "active-run-missing",
    at=ERROR_ANSWER,
    scope=Scope.EXCHANGE,
    clause=f'{SESSION_BUSY}: "active_run_id | string", "active_run_status | string"',
)
def active_run_missing(answer: Answer, _exchange: ExchangeState) -> Outcome:
    """The error does not say in strings which run is active and what its status is.  One finding a field."""
    if not answer.whole:
        return CUT
    if answer.code != SESSION_BUSY:
        return None
    flaws = [flaw for flaw in _SCHEMA.violations(answer.document) if flaw.path[1:] in {(_RUN,), (_STATUS,)}]
    return [Problem(sentence(flaw)) for flaw in flaws]


@rule(
    "BUSY002",
    "recovery-missing",
    at=ERROR_ANSWER,
    scope=Scope.EXCHANGE,
    clause=f'{SESSION_BUSY}, recovery: "array of strings; hints naming the cancel and resume paths of the active run"',
)
def recovery_missing(answer: Answer, exchange: ExchangeState) -> Outcome:
    """The error does not name the two ways out: the paths on which the active run can be cancelled and resumed.

    They have to stand in the strings of the array `recovery`, whatever else these say.
    """
    if not answer.whole:
        return CUT
    if answer.code != SESSION_BUSY or answer.envelope is None:
        return None
    flaws = [flaw for flaw in _SCHEMA.violations(answer.document) if flaw.path[1:2] == (_RECOVERY,)]
    if flaws:
        return problem(sentence(flaws[0]))
    hints, run = answer.envelope[_RECOVERY], answer.envelope.get(_RUN)
    session = session_in(exchange.request.target)
    missing = [path for path in (_path(of, session, run) for of in (CANCEL, RESUME)) if not _is_named(path, hints)]
    if not missing:
        return HELD
    paths = " and ".join(quoted("…".join(path)) for path in missing)
    wanted = f"a hint in `{ENVELOPE_KEY}.{_RECOVERY}` that names the path {paths} of the active run"
    return problem(f"Expected {wanted}, got {count_of(len(hints), 'hint')} without it.")


def _path(operation: Operation, session: str | None, run: object) -> list[str]:
    """The pieces of a path between which stands what is not known; ids as they stand in it."""
    path = operation.path
    for name, value in (("{session_id}", session), ("{run_id}", run)):
        path = path.replace(name, value if type(value) is str else "\0")
    return path.split("\0")


def _is_named(path: list[str], hints: list[str]) -> bool:
    """Whether one of the hints holds the pieces of a path in their order, its ids plain or percent-encoded."""
    encoded = [quote(piece, safe="/", errors="replace") for piece in path]
    # A slash within an id is encoded too, those between the pieces of the path are not.
    return any(
        _holds(hint, path) or _holds(hint, encoded) or _holds(hint.replace("%2F", "/"), encoded) for hint in hints
    )


def _holds(hint: str, pieces: list[str]) -> bool:
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
    at=ERROR_ANSWER,
    severity=Severity.WARNING,
    scope=Scope.EXCHANGE,
    clause=f'{SESSION_BUSY}: "The message names the session, the active run and its status."',
)
def message_incomplete(answer: Answer, exchange: ExchangeState) -> Outcome:
    """The error's message does not say what is in the way: which session is busy, with which run, in which status.

    The session is looked for where the path of the request names it, run and status where the error's other fields do.
    """
    if not answer.whole:
        return CUT
    envelope = answer.envelope
    if answer.code != SESSION_BUSY or envelope is None or type(envelope.get("message")) is not str:
        return None
    text = envelope["message"]
    wanted = {
        "the session": session_in(exchange.request.target),
        "the active run": envelope.get(_RUN),
        "the run's status": envelope.get(_STATUS),
    }
    names = {what: name for what, name in wanted.items() if type(name) is str}
    if not names:
        return None
    missing = [f"{what} {quoted(name)}" for what, name in names.items() if _plain(name) not in _plain(text)]
    if not missing:
        return HELD
    return problem(f"Expected `{ENVELOPE_KEY}.message` to name {' and '.join(missing)}, got {quoted(text)}.")


def _plain(text: str) -> str:
    """A text without what people change when they put a status into a sentence: `waiting for input`."""
    return text.casefold().replace("_", " ").replace("-", " ")
