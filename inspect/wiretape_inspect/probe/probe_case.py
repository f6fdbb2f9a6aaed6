"""Cases: what they state about themselves, what can come of them, and what a contract provides to run them."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wiretape.event import Event
from wiretape.rules import Severity
from wiretape_inspect.probe.probe_client import ProbeTarget
from wiretape_inspect.probe.probe_steps import Send, Step, StepRunner
from wiretape_inspect.probe.reproduction_script import ScriptFacts
from wiretape_inspect.report.case_results import SETUP, CaseDescription, CaseResult, CaseVerdict

SUITES = "wiretape.probe_suites"
"""The group of entry points; each names a `ProbeSuite`."""
LOST = "the service ends streams, and may have sent it while none was open"
LONG_ENOUGH = 10
"""A wait proves that something is missing if it took this many times as long as the same thing took before."""


class NotPossible(Exception):  # noqa: N818 - an outcome, not an error of the program
    """The case needs something that the service or the probe file does not have: the reason."""


class Unexpected(Exception):  # noqa: N818 - an outcome, not an error of the program
    """The service does not do what the clause of the case requires; the message is `Expected …, got ….`."""


class RefusedKey(Unexpected):
    """The service does not accept a key."""


class TimedOut(Exception):  # noqa: N818 - an outcome, not an error of the program
    """The service did not do what a case waits for within `--timeout`: a sentence."""

    def __init__(
        self, awaited: str, limit_s: float, received: str, known_s: float | None, *, is_lossy: bool = False
    ) -> None:
        """`known_s` is how long the same took before (s); None if it is unknown.

        `is_lossy` is whether it may have happened while no stream was open.
        """
        self.is_broken = known_s is not None and limit_s >= LONG_ENOUGH * known_s and not is_lossy
        """Whether the service would have done it by now, as far as its speed is known."""
        sentence = f"Expected {awaited} within {limit_s:g} s, got {received}"
        why = LOST if is_lossy else "if the service needs longer, increase --timeout"
        super().__init__(f"{sentence}." if self.is_broken else f"{sentence}: {why}.")


@dataclass(frozen=True)
class Case(CaseDescription):
    """One situation, and how to bring it about."""

    function: "CaseFunction"
    needs_limits: bool = False
    is_long: bool = False
    """Whether it takes longer than others, so that it should begin first."""


CaseFunction = Callable[[Any], Awaitable[None]]
"""Runs a case; gets its prober."""


class CaseRegistry(dict[str, Case]):
    """Cases by their names."""

    def case(
        self,
        name: str,
        clause: str,
        *,
        rules: str = "",
        leaves: str = "a session",
        safe: bool = True,
        severity: Severity = Severity.ERROR,
        limits: bool = False,
        long: bool = False,
    ) -> Callable[[CaseFunction], CaseFunction]:
        """Make the decorated function a case; its docstring states what has to be true, and then the steps."""

        def decorate(function: CaseFunction) -> CaseFunction:
            about, _, steps = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
            if name in self or not steps:
                raise ValueError(f"Case {name} already exists, or its docstring does not have the steps.")
            codes = tuple(rules.split())
            self[name] = Case(
                name, clause, " ".join(steps.split()), codes, leaves, safe, severity, about, function, limits, long
            )
            return function

        return decorate


class Prober(Protocol):
    """What runs a case: every request and every wait becomes a step, so that the case can be repeated."""

    runner: StepRunner
    steps: list[Step]
    refused_for_s: float | None
    """How long to wait before the case can be tried again, if a rate limit spoilt it."""

    @property
    def made_sessions(self) -> Sequence[str]:
        """What it created, and the service keeps."""

    def adopt(self, steps: Sequence[Step]) -> None:
        """Take over what the steps of a case create, so that it is cleaned up."""

    async def clean_up(self) -> int:
        """End what is active, and delete what can be deleted; return how much is left.  Raises TimedOut."""


@dataclass(frozen=True, slots=True)
class SharedSetup:
    """What came of the case that runs before all others."""

    prober: Any
    result: CaseResult

    @property
    def is_ready(self) -> bool:
        """Whether other cases can read what it made."""
        return self.result.outcome is CaseVerdict.HELD

    @property
    def problem(self) -> str:
        """Why they cannot: a clause."""
        is_missing = self.result.outcome is CaseVerdict.NOT_POSSIBLE
        return self.result.reason if is_missing else f"{SETUP} did not hold"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A probe file whose values were found by trying."""

    text: str
    sentences: Sequence[str]
    """What was found, for people."""
    is_complete: bool
    blocker: str
    """The key without which nothing else can be found; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSuite:
    """What a contract has to provide so that `wiretape probe` tests its services.  All functions raise InputError."""

    cases: Mapping[str, Case]
    setup: Case
    """Makes what other cases share; has the name `SETUP`."""
    make_prober: Callable[..., Prober]
    """Gets the file, a runner, the shared setup if there is one, the timeout (s), `keeps_limits` and `prefix`."""
    read_file: Callable[[Path], ProbeTarget]
    read_keys: Callable[[Any], Mapping[str, str]]
    """Returns the keys that the environment has, by their names in a file."""
    discover: Callable[[str, Path, float], Coroutine[Any, Any, FoundFile]]
    """Finds the values of a file for the service at a URL; what an existing file says is tried first."""
    find_values: Mapping[str, Callable[[Sequence[Event]], list[str]]]
    """Values of events that steps can name, besides ids."""
    unknown_value: str
    """What the service lacks if a step names a value that no event has: `Expected …`."""
    make_smaller: Callable[[Any, Send], Iterator[Send]]
    """Yields requests that could take the place of one, and let the service do less."""
    script: ScriptFacts
