"""The catalogue of rules: each is a function, registered together with its row.

A rule is called at every *occasion* of its kind (a message, the head of a response, …) and answers

- `None` when it did not come up,
- `HELD` when it came up and was kept,
- `INCONCLUSIVE` when it came up, but what was recorded does not tell,
- what `problem(…)` makes, or a list of `Problem`s, when it was broken.

Rules only read: facts about a message are worked out once (`wiretape.rules.message`), and what has to be
remembered from one message to the next is kept in one place (`wiretape.rules.state`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Generic, ParamSpec

from wiretape.rules.answer import Answer
from wiretape.rules.finding import Party, Place, Severity
from wiretape.rules.message import Message, Shape
from wiretape.rules.state import ExchangeState, Stream, StreamEnd


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


class Inconclusive:
    """The type of `INCONCLUSIVE`."""


Outcome = Sequence[Problem] | Inconclusive | None
HELD: Final[tuple[Problem, ...]] = ()
INCONCLUSIVE: Final = Inconclusive()


def problem(message: str, place: Place | None = None) -> Outcome:
    """The outcome of a rule that was broken in one way."""
    return (Problem(message, place),)


P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Occasion(Generic[P]):
    """A kind of moment at which rules are asked; `P` is what they are given to look at."""

    name: str


MESSAGE: Occasion[[Message, Stream]] = Occasion("message")
"""A message of a stream of the service arrived."""
RESPONSE: Occasion[[ExchangeState]] = Occasion("response")
"""The head of a response arrived."""
STREAM_END: Occasion[[StreamEnd]] = Occasion("stream end")
"""A stream of the service ended."""
ERROR_ANSWER: Occasion[[Answer]] = Occasion("error answer")
"""An answer with a status of 400 or above ended."""

EVERY_MESSAGE = frozenset(Shape)
"""For rules that look at messages of any shape."""


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
    occasion: Occasion[Any] = field(repr=False)
    shapes: frozenset[Shape] = field(repr=False)
    """For rules about messages: those of other shapes are not shown to it."""
    check: Callable[..., Outcome] = field(repr=False)


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
) -> Callable[[Callable[P, Outcome]], Callable[P, Outcome]]:
    """Register the decorated function as the rule `code`; its docstring says what breaks it."""

    def register(check: Callable[P, Outcome]) -> Callable[P, Outcome]:
        about = (check.__doc__ or "").strip()
        if code in CATALOGUE or not about:
            raise ValueError(f"{code} is registered twice or has no docstring.")
        CATALOGUE[code] = Rule(code, name, severity, side, scope, basis, clause, about, at, shapes, check)
        return check

    return register
