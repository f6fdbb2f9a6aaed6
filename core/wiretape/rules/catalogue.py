"""The catalogue of rules: each is a function, registered together with its row.

A rule is called at every *occasion* of its kind (a message, the head of a response, …) and answers

- `None` when it did not come up,
- `HELD` when it came up and was kept,
- one of `wiretape.rules.doubts` when it came up, but what was recorded does not tell,
- what `problem(…)` makes, or a list of `Problem`s, when it was broken.

Rules only read: facts about a message are worked out once (`wiretape.rules.message`), and what has to be
remembered from one message to the next is kept in one place (`wiretape.rules.state`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Generic, ParamSpec

from wiretape.observations import Ending
from wiretape.rules.answer import Answer, GoodAnswer
from wiretape.rules.doubts import Inconclusive
from wiretape.rules.finding import Party, Place, Severity
from wiretape.rules.message import Message, Shape
from wiretape.rules.pauses import Pause
from wiretape.rules.resumption import Resumption
from wiretape.rules.state import ExchangeState, Stream, StreamEnd
from wiretape.sse import FrameKind


class Basis(StrEnum):
    """Where a rule comes from."""

    STATED = "stated"
    """The specification says so."""
    INFERRED = "inferred"
    """It follows from what the specification says, or is plainly meant."""


class Scope(StrEnum):
    """What has to be known to decide a rule."""

    MESSAGE = "message"
    STREAM = "stream"
    """One connection."""
    EXCHANGE = "exchange"
    """One request and its response."""
    SESSION = "session"
    """All traffic of one session."""
    CLIENT = "client"
    """All traffic of one client: same bearer key, same address."""
    RECORDING = "recording"


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which a rule was broken."""

    message: str
    """What was expected and what came, as one sentence."""
    place: Place | None = None
    """Where, when that is not the place of the occasion itself."""
    severity: Severity | None = None
    """How bad this way is, when that is not what the catalogue says of the rule."""


@dataclass(frozen=True, slots=True)
class Later:
    """The outcome of a rule that has to wait for a time."""

    due_ns: int
    decide: Callable[[int], "Outcome"]
    """Asked when that time has passed, or at the end of the recording; given the time of what was seen last.

    What was seen in between may be later than `due_ns`, so it has to look at times.
    """


Outcome = Sequence[Problem] | Inconclusive | Later | None
HELD: Final[tuple[Problem, ...]] = ()
_MOST_PROBLEMS = 20


def problem(message: str, place: Place | None = None) -> Outcome:
    """The outcome of a rule that was broken in one way."""
    return (Problem(message, place),)


def limited(problems: Sequence[Problem], kind: str) -> Outcome:
    """The outcome of a rule broken in so many ways, or kept in all; of very many `kind` only the number is told."""
    if len(problems) <= _MOST_PROBLEMS:
        return problems
    more = Problem(f"Expected no problems, got {len(problems) - _MOST_PROBLEMS} more {kind} like these.")
    return [*problems[:_MOST_PROBLEMS], more]


P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Occasion(Generic[P]):
    """A kind of moment at which rules are asked; `P` is what they are given to look at."""

    name: str


MESSAGE: Occasion[[Message, Stream]] = Occasion("message")
"""A message of a stream of the service arrived."""
RESPONSE: Occasion[[ExchangeState]] = Occasion("response")
"""The head of a response arrived, with status 200 and to a stream request."""
ANY_RESPONSE: Occasion[[ExchangeState]] = Occasion("any response")
"""The head of a response arrived, whatever was asked."""
AFTER_COMMENT: Occasion[[Stream, FrameKind]] = Occasion("after a comment")
"""Something followed a comment on a stream of the service: a frame of that kind."""
PAUSE: Occasion[[Pause]] = Occasion("pause")
"""A stream of the service was silent for too long, or could have been, but ended without."""
REQUEST: Occasion[[ExchangeState]] = Occasion("request")
"""The head of a request arrived, whatever it asks for."""
REPLAYED: Occasion[[Resumption]] = Occasion("replayed")
"""The replay on a stream with a cursor is over, or the stream has ended."""
EXCHANGE_END: Occasion[[ExchangeState, Ending]] = Occasion("exchange end")
"""An exchange ended, and all other rules about its answer have been asked."""
STREAM_END: Occasion[[StreamEnd]] = Occasion("stream end")
"""A stream of the service ended."""
ERROR_ANSWER: Occasion[[Answer, ExchangeState]] = Occasion("error answer")
"""An answer with a status of 400 or above ended."""
GOOD_ANSWER: Occasion[[GoodAnswer, ExchangeState]] = Occasion("good answer")
"""An answer with a status of 2xx, and with a body that is no event stream, ended."""

EVERY_MESSAGE = frozenset(Shape)
"""For rules that look at messages of any shape."""


@dataclass(frozen=True, slots=True)
class Ask:
    """When a rule is asked, and what it then does."""

    occasion: Occasion[Any]
    shapes: frozenset[Shape]
    """For rules about messages: those of other shapes are not shown to it."""
    types: frozenset[str] | None
    """For rules about messages of some types only: those; None when it is about all."""
    check: Callable[..., Outcome]
    plain: bool = False
    """For rules about messages: whether it answers the same, no problem, about all plain messages of one type."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the catalogue."""

    code: str
    """Family and number; never used again for anything else."""
    name: str
    """The defect, in kebab-case."""
    severity: Severity
    side: Party
    scope: Scope
    basis: Basis
    clause: str
    """Where the specification says it, and its words."""
    about: str
    """What breaks the rule."""
    asks: list[Ask] = field(repr=False)
    """When it is asked; most rules are asked on one occasion only."""


CATALOGUE: dict[str, Rule] = {}
"""Every rule by its code, in the order of the code."""


def rule(
    code: str,
    name: str,
    *,
    at: Occasion[P],
    clause: str,
    severity: Severity = Severity.ERROR,
    side: Party = Party.SERVICE,
    scope: Scope = Scope.MESSAGE,
    basis: Basis = Basis.STATED,
    shapes: frozenset[Shape] = EVERY_MESSAGE,
    types: frozenset[str] | None = None,
    plain: bool = False,
) -> Callable[[Callable[P, Outcome]], Callable[P, Outcome]]:
    """Register the decorated function as the rule `code`; its docstring says what breaks it."""

    def register(check: Callable[P, Outcome]) -> Callable[P, Outcome]:
        about = (check.__doc__ or "").strip()
        if code in CATALOGUE or not about:
            raise ValueError(f"{code} is registered twice or has no docstring.")
        asks = [Ask(at, shapes, types, check, plain)]
        CATALOGUE[code] = Rule(code, name, severity, side, scope, basis, clause, about, asks)
        return check

    return register


def also(
    code: str,
    *,
    at: Occasion[P],
    shapes: frozenset[Shape] = EVERY_MESSAGE,
    types: frozenset[str] | None = None,
) -> Callable[[Callable[P, Outcome]], Callable[P, Outcome]]:
    """Have the rule `code`, which is registered, asked on another occasion too."""

    def register(check: Callable[P, Outcome]) -> Callable[P, Outcome]:
        CATALOGUE[code].asks.append(Ask(at, shapes, types, check))
        return check

    return register


def in_order() -> None:
    """Put the catalogue into the order of its codes, whatever order the modules of rules were imported in."""
    rows = sorted(CATALOGUE.items())
    CATALOGUE.clear()
    CATALOGUE.update(rows)
