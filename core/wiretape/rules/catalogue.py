"""Rules: what they are made of, when they run, and what they return.

A rule has texts (its code, its clause, …), which are in the file of a contract, and functions.  A function runs at
every trigger of one type (an event, a request, …), which its decorator `@check(…)` names, and returns

- `None` if the rule does not apply,
- `HELD` if it applies and holds,
- one of the `Inconclusive` outcomes below if the recording does not show enough to decide,
- `problem(…)`, or a list of `Problem`, if it is broken,
- `Later` if it has to wait for a time.

How a rule is counted is declared and done by the engine (`engine`): on which events or errors the rule runs, what it
needs to be decided, how often it reports the same thing, and which other rules report it already.

Rules only read.  An event is read once for all rules (`wiretape.event`), and everything that has to be
remembered between two triggers is in what the `Traffic` of a contract makes.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType, ModuleType
from typing import Any, Final, Generic, ParamSpec, Protocol

from msgspec import Struct

from wiretape.event import Shape
from wiretape.observations import Ending
from wiretape.rules.exchange import Silence, StreamEnd
from wiretape.rules.finding import Location, Party, Severity
from wiretape.rules.vectors import Vector
from wiretape.rules.wording import Values, Wording
from wiretape.sse import FrameKind

_CODE = re.compile(r"[A-Z]{2,12}[0-9]{3}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
P = ParamSpec("P")


class Basis(StrEnum):
    """How a rule follows from the specification."""

    STATED = "stated"
    """The specification states it."""
    INFERRED = "inferred"
    """It follows from what the specification states, or is plainly meant."""


class Scope(StrEnum):
    """What has to be known to decide a rule."""

    MESSAGE = "message"
    """One event."""
    STREAM = "stream"
    """One connection."""
    EXCHANGE = "exchange"
    """One request and its response."""
    SESSION = "session"
    """All traffic of one session."""
    CHANNEL = "channel"
    """All streams of one channel of a contract."""
    CLIENT = "client"
    """All traffic of one client: the same bearer key and the same address."""
    RECORDING = "recording"


# What a rule returns.


class Problem(Struct, frozen=True):
    """One way in which a rule is broken."""

    message: str
    """One sentence with the expected and the actual value: `Expected …, got ….`"""
    location: Location | None = None
    """The location, if it is not that of the trigger."""
    severity: Severity | None = None
    """The severity, if it is not that of the rule."""
    subject: Hashable = None
    """What it is about, for example a run or a field: `once_per` and `unless` distinguish problems by it."""
    values: Values | None = None
    """What the words of its rule can name; None if it always has this message."""


class Inconclusive(Struct, frozen=True):
    """The outcome of a rule that applies but cannot be decided."""

    reason: str
    """Why: a clause that can follow `inconclusive:`."""


class Later(Struct, frozen=True):
    """The outcome of a rule that has to wait for a time."""

    due_ns: int
    decide: Callable[[int], "Outcome"]
    """Called with the time of the last observation, after `due_ns` or at the end of the recording.

    The last observation may be later than `due_ns`, so the function has to compare times.
    """


Outcome = Sequence[Problem] | Inconclusive | Later | None
HELD: Final[tuple[Problem, ...]] = ()

MOST_DEPTH: Final = 1024
"""Nesting depth up to which JSON is read; orjson sets the limit."""
MOST_DIGITS: Final = 4300
"""Digits of an integer up to which JSON is read; Python sets the limit."""
LOST_EVENTS: Final = Inconclusive("events were lost, could not be decoded, or exceed 16 MiB")
INCOMPLETE_BODY: Final = Inconclusive("a response was cut off, not fully recorded, not decodable, or over 1 MiB")
COMPLEX_JSON: Final = Inconclusive(
    f"JSON is nested more than {MOST_DEPTH:,} levels deep or has a number of more than {MOST_DIGITS:,} digits"
)
DROPPED_STATE: Final = Inconclusive("the recording is so large that the oldest state was dropped")
OPEN_EXCHANGE: Final = Inconclusive("an exchange was still open when the recording ended")
UNKNOWN_CURSOR: Final = Inconclusive("the recording does not show the sequence of the cursor's event")
UNKNOWN_REPLAY: Final = Inconclusive("the recording does not show every event that had to be replayed")
INCOMPARABLE_JSON: Final = Inconclusive("the JSON of an event cannot be compared because it is too deep or not UTF-8")
UNKNOWN_START: Final = Inconclusive("the recording does not show the whole session from its first event")
SHARED_IDS: Final = Inconclusive("events of several sessions may have the same id")
UNKNOWN_RUN: Final = Inconclusive("the recording does not show whether a run had started or ended")
UNKNOWN_CALL: Final = Inconclusive("the recording may not show every event of a tool call")
UNKNOWN_ORDER: Final = Inconclusive("the order of two events on different connections is unknown")
UNKNOWN_POSITION: Final = Inconclusive("the client's last-read event is unknown")
NO_RECONNECT: Final = Inconclusive("the connection or the recording ended before the client could reconnect")
OTHER_KEY: Final = Inconclusive(
    "the idempotency key may be in another header, or the request may be about another tool call"
)
OTHER_CALL: Final = Inconclusive("the request may be about another tool call")


def problem(message: str, location: Location | None = None, *, subject: Hashable = None) -> Outcome:
    """Return the outcome of a rule that is broken in one way."""
    return (Problem(message, location, subject=subject),)


def mismatch(
    expected: str, got: str, *, at: Location | None = None, subject: Hashable = None, **values: Any
) -> Problem:
    """Return a problem, which the words of its rule can describe with the `values`."""
    values |= {"expected": expected, "got": got}
    return Problem(f"Expected {expected}, got {got}.", at, subject=subject, values=values)


# When a rule runs.


class Trigger(Struct, Generic[P], frozen=True):
    """What makes a rule run; `P` are the parameters of its function."""

    name: str
    scope: Scope
    """What has to be known to decide its rules, unless they say otherwise."""
    holder: int | None = None
    """Which parameter knows its stream, session or channel: findings can be limited to one for each."""


# Events, bodies, exchanges and streams are Any here: each contract has classes of its own.
EVENT: Trigger[[Any, Any]] = Trigger("event", Scope.MESSAGE, 1)
"""An event arrived on a stream."""
LOSS: Trigger[[Any]] = Trigger("loss", Scope.STREAM, 0)
"""Bytes of a stream were lost, or cannot be understood."""
REQUEST: Trigger[[Any]] = Trigger("request", Scope.EXCHANGE)
"""The headers of a request arrived, unless an import invented it."""
RESPONSE: Trigger[[Any]] = Trigger("response", Scope.EXCHANGE)
"""The headers of a response arrived."""
STREAM_RESPONSE: Trigger[[Any]] = Trigger("stream response", Scope.EXCHANGE)
"""The headers of a response arrived that is an event stream, or should be one."""
ERROR_RESPONSE: Trigger[[Any, Any]] = Trigger("error response", Scope.EXCHANGE)
"""A response with a status of 400 or above ended."""
SUCCESS_RESPONSE: Trigger[[Any, Any]] = Trigger("success response", Scope.EXCHANGE)
"""A 2xx response ended that has a body and is not an event stream."""
AFTER_COMMENT: Trigger[[Any, FrameKind]] = Trigger("after comment", Scope.STREAM, 0)
"""A frame of that kind followed a comment on a stream."""
SILENCE: Trigger[[Silence, Any]] = Trigger("silence", Scope.STREAM, 1)
"""A stream was silent for too long, or ended without being so."""
STREAM_END: Trigger[[StreamEnd[Any]]] = Trigger("stream end", Scope.STREAM, 0)
"""An event stream ended."""
EXCHANGE_END: Trigger[[Any, Ending]] = Trigger("exchange end", Scope.EXCHANGE)
"""An exchange ended, and all other rules about its response have run."""

ANY_SHAPE = frozenset(Shape)
WITH_DATA = ANY_SHAPE - {Shape.NO_DATA}
WITH_OBJECT = WITH_DATA - {Shape.NO_OBJECT}
NOT_DELTA = WITH_OBJECT - {Shape.DELTA}


class Need(StrEnum):
    """What has to be known to decide a rule; without it, the outcome is inconclusive."""

    WHOLE_BODY = "whole body"
    """For responses: the whole body was recorded and could be decoded."""


class Check(Struct, Generic[P], frozen=True):
    """A function of a rule, and when it runs."""

    trigger: Trigger[P]
    function: Callable[P, Outcome]
    shapes: Collection[Shape] = ANY_SHAPE
    """For the trigger EVENT: it runs only on events of these shapes."""
    types: Collection[str] | None = None
    """For the trigger EVENT: it runs only on events of these types; None for all."""
    fast_path: bool = False
    """For the trigger EVENT: whether it never finds a problem in an ordinary event (see `engine`)."""
    steady: bool = False
    """For the trigger EVENT: whether, if it held for an ordinary delta, it also holds for the next ones of that type
    and run on the stream, until the run starts or ends, or an event of another run arrives."""
    when: Callable[P, bool] | None = None
    """For other triggers: it runs only if this is true."""
    needs: Need | None = None
    """For responses: what it needs to be decided; examined after `when`."""
    codes: Collection[str] | None = None
    """For responses: it runs only on errors with these codes, which needs the whole body; None for all."""
    concerns: Callable[[str, Collection[str]], bool] | None = None
    """For events of a contract: whether it runs on those of a type and of these kinds, which is asked once for each."""
    reads_lines: bool = False
    """For the trigger EVENT: whether it only reads the lines of events, of all of them, also without readable data."""


class Explanation(Struct, frozen=True):
    """What the documentation of a rule adds to its definition."""

    why: str = ""
    """What goes wrong if the rule is broken."""
    fix: str = ""
    """What usually has to change."""
    not_exercised: str = ""
    """When the verdict is `not-exercised`."""
    notes: str = ""
    """Limits of the rule, and what may be surprising."""


class Rule(Struct, frozen=True):
    """One rule, from a contract or from the decorator `rule`."""

    code: str
    """Family and number; never reused."""
    name: str
    """The defect, in kebab-case."""
    severity: Severity
    side: Party
    """The side that breaks it."""
    scope: Scope
    basis: Basis
    clause: str
    """Part and quotation of the specification."""
    about: str
    """What breaks the rule."""
    checks: tuple[Check[Any], ...]
    explanation: Explanation = Explanation()
    once_per: Scope | None = None
    """STREAM, SESSION or CHANNEL: each has at most one finding, or one for each `Problem.subject`.

    For rules whose functions get a `StreamState`, a `SessionState` or a `ChannelStream`.
    """
    unless: Collection[str] | Mapping[Hashable, Collection[str]] = ()
    """Codes of rules: if one of them finds a problem at the same trigger, this one does not and is not inconclusive.

    A mapping from subjects to codes does so for the problems with each subject; `CODE SUBJECT` stands for the problems
    of a rule that have a subject of their own.
    """
    noun: str | None = None
    """What its problems are, in the plural: if there are very many at once, only the first are reported one by one."""
    everywhere: bool = False
    """Whether it applies to every event stream, also if it is that of no contract."""
    wording: Wording | None = None
    """How its problems are worded; None for the words that these have."""

    @property
    def check(self) -> Callable[..., Outcome]:
        """The function under the decorator, for example for tests."""
        return self.checks[0].function

    @property
    def all_superseding_codes(self) -> Collection[str]:
        """The codes in `unless`."""
        if not isinstance(self.unless, Mapping):
            return self.unless
        return {code.partition(" ")[0] for codes in self.unless.values() for code in codes}

    def superseding_codes(self, subject: Hashable = None) -> Collection[str]:
        """Return the codes of the rules that report problems with this subject instead."""
        return self.unless.get(subject, ()) if isinstance(self.unless, Mapping) else self.unless

    def message_of(self, problem: Problem) -> str:
        """Return the message of one of its problems."""
        if self.wording is None or problem.values is None:
            return problem.message
        return self.wording.message_of(problem.values)


def check(
    on: Trigger[P],
    *,
    shapes: Collection[Shape] = ANY_SHAPE,
    types: Collection[str] | None = None,
    fast_path: bool = False,
    steady: bool = False,
    when: Callable[P, bool] | None = None,
    needs: Need | None = None,
    codes: Collection[str] | None = None,
) -> Callable[[Callable[P, Outcome]], Check[P]]:
    """Declare when the decorated function runs; the parameters are described at `Check`."""
    return lambda function: Check(on, function, shapes, types, fast_path, steady, when, needs, codes)


def rule(
    code: str,
    name: str,
    *,
    on: Trigger[P],
    clause: str,
    severity: Severity = Severity.ERROR,
    side: Party = Party.SERVICE,
    scope: Scope | None = None,
    basis: Basis = Basis.STATED,
    shapes: Collection[Shape] = ANY_SHAPE,
    types: Collection[str] | None = None,
    when: Callable[P, bool] | None = None,
    needs: Need | None = None,
    codes: Collection[str] | None = None,
    also: Sequence[Check[Any]] = (),
    explanation: Explanation | None = None,
    once_per: Scope | None = None,
    unless: Collection[str] | Mapping[Hashable, Collection[str]] = (),
    noun: str | None = None,
) -> Callable[[Callable[P, Outcome]], Rule]:
    """Make the decorated function a rule; its docstring describes what breaks the rule.

    The parameters are described at `Rule` and `Check`; `also` are further functions of the rule that run on other
    triggers.  Raises ValueError for an invalid code or name, and for a function without a docstring.
    """
    if not _CODE.fullmatch(code):
        raise ValueError(f"Invalid code {code!r}: expected a family and three digits, for example ACME001.")
    if not _NAME.fullmatch(name):
        raise ValueError(f"Invalid name {name!r}: expected kebab-case, for example id-disagrees.")

    def decorate(function: Callable[P, Outcome]) -> Rule:
        about = (function.__doc__ or "").strip()
        if not about:
            raise ValueError(f"Rule {code} has no docstring: add one that describes what breaks the rule.")
        checks = (Check(on, function, shapes, types, when=when, needs=needs, codes=codes), *also)
        given = (explanation or Explanation(), once_per, unless, noun)
        return Rule(code, name, severity, side, scope or on.scope, basis, clause, about, checks, *given)

    return decorate


def rules_in(module: ModuleType) -> list[Rule]:
    """Return the rules that a module defines or imports."""
    return [value for value in vars(module).values() if isinstance(value, Rule)]


def catalogue_of(rules: Iterable[Rule]) -> Mapping[str, Rule]:
    """Return a read-only mapping from codes to rules, in the order of the codes.

    Raises ValueError if two rules have the same code.
    """
    catalogue: dict[str, Rule] = {}
    for each in sorted(rules, key=lambda each: each.code):
        if catalogue.setdefault(each.code, each) != each:
            raise ValueError(f"Two rules have the code {each.code}.")
    return MappingProxyType(catalogue)


class RuleSet(Protocol):
    """Rules, and the traffic that they apply to."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def reference(self) -> str | None:
        """What `--contract` calls it; None if it comes with a recording."""

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules."""

    @property
    def catalogue(self) -> Mapping[str, Rule]:
        """The rules by code."""

    def __hash__(self) -> int: ...

    def declaring(self, code: str) -> "RuleSet":
        """Return the rule set with the examples of a rule: this one, or one that it extends."""

    def examples_of(self, code: str) -> Sequence[Vector]:
        """Return the examples of a rule."""

    def follow(self, engine: Any, rules: Iterable[Rule], settings: Any, upstream: str | None) -> Any:
        """Return the `Traffic` of one recording; the `Engine` runs the rules on it, with these `TrafficSettings`."""
