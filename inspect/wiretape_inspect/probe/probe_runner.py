"""Probe a service: run the cases, record them, and check what each of them shows."""

import asyncio
import fnmatch
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wiretape.checker import Checker, Settings
from wiretape.errors import InputError
from wiretape.files import path_exists
from wiretape.observations import Ending, Observation
from wiretape.recording import Writer, delete_recording, mark_as_probe
from wiretape_inspect.child_process import run_wiretape
from wiretape_inspect.probe.probe_case import (
    Case,
    NotPossible,
    Prober,
    ProbeSuite,
    RefusedKey,
    SharedSetup,
    TimedOut,
    Unexpected,
)
from wiretape_inspect.probe.probe_client import ObservationLog, ProbeClient, ProbeClock, ProbeTarget
from wiretape_inspect.probe.probe_steps import Send, Step, StepRunner, UnknownNameError, names_in
from wiretape_inspect.report.case_results import SETUP, CaseResult, CaseResults, CaseVerdict, encode_results, user_agent
from wiretape_inspect.report.recording_report import ALL_RULES

READY_PREFIX = "ready-"
"""What the names that the setup gives begin with."""
UNSAFE = "unsafe"
"""A pattern for the cases that are not safe in production."""
_MOST_ATTEMPTS = 3
"""Times that a case is tried if a rate limit spoils it."""
_COMMIT_AFTER = 500
"""Observations that are written together."""
_MOST_UNREACHABLE = 3
"""Cases in a row that end because the service cannot be reached, before the others are not tried."""

OnChange = Callable[[Case, CaseResult | None], None]
"""Called when a case begins (without a result) and when it has ended."""


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """How to run the cases."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    seed: int = 0
    jobs: int = 4
    timeout_s: float = 30.0
    limits: bool = False
    shrink: bool = True
    """Whether to repeat the case of each broken rule with fewer steps."""


@dataclass(frozen=True, slots=True)
class ProbeSetup:
    """What to probe, and how."""

    suite: ProbeSuite
    file: ProbeTarget
    keys: Mapping[str, str]
    """The bearer keys by their names in the probe file."""
    record: Path
    settings: Settings
    selected: frozenset[str]
    """Codes of the rules to check."""
    options: ProbeOptions
    through_proxy: bool = False
    clock: ProbeClock = field(default_factory=ProbeClock)

    @property
    def selected_settings(self) -> Settings:
        """The settings without the rules that are not checked."""
        return replace(self.settings, off=ALL_RULES - self.selected | self.settings.off)


def select_cases(cases: Mapping[str, Case], options: ProbeOptions) -> list[Case]:
    """Return the cases to run, in the order that the seed gives.

    Raises InputError for a pattern without a case.
    """
    chosen = sorted(cases.values(), key=lambda each: each.name)
    for patterns, is_included in ((options.only, True), (options.skip, False)):
        for pattern in patterns:
            if not any(_matches(case, pattern) for case in cases.values()):
                groups = ", ".join(dict.fromkeys(case.group for case in cases.values()))
                raise InputError(
                    f"No cases match '{pattern}': specify names, groups ({groups}), rule codes, or {UNSAFE}; "
                    "wiretape probe --list lists the cases."
                )
        if patterns:
            chosen = [case for case in chosen if any(_matches(case, each) for each in patterns) is is_included]
    if not chosen:
        raise InputError("No cases are left: --skip excludes every case that --only selects.")
    random.Random(options.seed).shuffle(chosen)  # noqa: S311 - an order that can be repeated
    # Long cases begin first; those that exhaust limits disturb all others, so they come last.
    return sorted(chosen, key=lambda case: (case.needs_limits, not case.is_long))


def _matches(case: Case, pattern: str) -> bool:
    if pattern == UNSAFE:
        return not case.is_safe
    return pattern == case.group or pattern.upper() in case.rules or fnmatch.fnmatchcase(case.name, pattern)


@dataclass(slots=True)
class ProbeRunner:
    """Runs cases against one service."""

    setup: ProbeSetup
    client: ProbeClient
    log: ObservationLog
    on_change: OnChange
    shared: SharedSetup | None = None
    steps: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    """The steps of each case that has run."""
    _setup_observations: Sequence[Observation] = ()
    """The observations of the setup."""
    _exercised_before: Mapping[str, int] = field(default_factory=dict)
    """How often these exercise each rule."""
    _unreachable: int = 0

    async def run(self, cases: Sequence[Case]) -> list[CaseResult]:
        """Run the setup, and then cases; return the results, in the same order.  Always ends.

        Raises RefusedKey if the service does not accept the main key.
        """
        prober = self._make_prober(SETUP, prefix=READY_PREFIX)
        try:
            results = {SETUP: await self._run_setup(prober)}
            await self._run_cases(cases, results)
        finally:
            left = await _clean_up(prober)
        results[SETUP].sessions_left = left
        return [results[name] for name in (SETUP, *(case.name for case in cases))]

    async def _run_cases(self, cases: Sequence[Case], results: dict[str, CaseResult]) -> None:
        gate = asyncio.Semaphore(self.setup.options.jobs)

        async def run_one(case: Case) -> None:
            async with gate:
                self.on_change(case, None)
                results[case.name] = await self._run_case(case)
                self.on_change(case, results[case.name])

        async with asyncio.TaskGroup() as group:
            tasks = {case: group.create_task(run_one(case)) for case in cases if not case.needs_limits}
            # What the long cases still do is to wait on an open stream, which a limit does not disturb.
            await asyncio.gather(*(task for case, task in tasks.items() if not case.is_long))
            for case in cases:
                if case.needs_limits:
                    await run_one(case)

    def all_steps(self, case_name: str) -> list[Step]:
        """The steps of a case, after those of the setup if the case uses what it made."""
        steps = self.steps[case_name]
        return [*(self._setup_steps if uses_setup(steps) else ()), *steps]

    @property
    def _setup_steps(self) -> tuple[Step, ...]:
        return self.steps[SETUP] if self.shared is not None and self.shared.is_ready else ()

    @property
    def setup_requests(self) -> int:
        """How many requests made what other cases share."""
        return sum(isinstance(step, Send) for step in self._setup_steps)

    async def repeat(self, steps: Sequence[Step], case_name: str, timeout_s: float) -> list[Observation]:
        """Execute the steps of a case again; return what was observed.  Raises UnknownNameError and TimeoutError."""
        log = ObservationLog(self.log.clock)
        suite = self.setup.suite
        runner = StepRunner(self.client, log, self.setup.keys, user_agent(case_name), suite.find_values)
        prober = suite.make_prober(self.setup.file, runner, None, self.setup.options.timeout_s)
        prober.adopt(steps)
        try:
            async with asyncio.timeout(timeout_s):
                for step in steps:
                    await runner.execute(step)
        finally:
            await _clean_up(prober)
        return runner.observations

    async def _run_setup(self, prober: Prober) -> CaseResult:
        case = self.setup.suite.setup
        self.on_change(case, None)
        result = await self._attempt(case, prober)
        self.shared = SharedSetup(prober, result)
        observations = prober.runner.observations
        self._exercised_before = self._check(result, observations)
        self._setup_observations = observations
        self.on_change(case, result)
        return result

    async def _run_case(self, case: Case) -> CaseResult:
        if case.needs_limits and not self.setup.options.limits:
            return CaseResult(case, CaseVerdict.NOT_POSSIBLE, "it needs --limits")
        if self._unreachable >= _MOST_UNREACHABLE:
            return CaseResult(
                case, CaseVerdict.BROKEN, "Expected a response, but the service can no longer be reached."
            )
        seen: list[Observation] = []
        for _ in range(_MOST_ATTEMPTS):
            prober = self._make_prober(case.name, keeps_limits=not case.needs_limits)
            try:
                result = await self._attempt(case, prober)
            finally:  # also if the user interrupts the probe
                left = await _clean_up(prober)
            result.sessions_left = left
            seen += prober.runner.observations
            if prober.refused_for_s is None:
                break
            await self.log.clock.sleep(prober.refused_for_s)
        self._check(result, seen)
        if endings := {exchange.ending for exchange in prober.runner.exchanges}:
            self._unreachable = self._unreachable + 1 if endings == {Ending.SERVICE_UNREACHABLE} else 0
        return result

    def _make_prober(self, name: str, **options: Any) -> Prober:
        setup, shared = self.setup, self.shared
        runner = StepRunner(self.client, self.log, setup.keys, user_agent(name), setup.suite.find_values)
        if shared is not None and shared.is_ready:
            runner.ids, runner.streams = dict(shared.prober.runner.ids), dict(shared.prober.runner.streams)
        return setup.suite.make_prober(setup.file, runner, shared, setup.options.timeout_s, **options)

    async def _attempt(self, case: Case, prober: Prober) -> CaseResult:
        """Run the function of a case, whatever the service does.  Raises RefusedKey if it cannot even be set up."""
        outcome, reason = CaseVerdict.HELD, ""
        try:
            await case.function(prober)
        except NotPossible as error:
            outcome, reason = CaseVerdict.NOT_POSSIBLE, str(error)
        except Unexpected as error:
            if isinstance(error, RefusedKey) and case.name == SETUP:
                raise
            outcome, reason = CaseVerdict.BROKEN, str(error)
        except UnknownNameError:
            outcome, reason = CaseVerdict.BROKEN, self.setup.suite.unknown_value
        except TimedOut as error:
            outcome, reason = (CaseVerdict.BROKEN if error.is_broken else CaseVerdict.INCONCLUSIVE), str(error)
        self.steps[case.name] = tuple(prober.steps)
        return CaseResult(case, outcome, reason)

    def _check(self, result: CaseResult, seen: Sequence[Observation]) -> dict[str, int]:
        """Note what the rules find in the observations of a case; return how often each was exercised.

        Those of the setup come first, because many cases continue it.
        """
        checker = Checker(self.setup.selected_settings)
        findings = list(checker.check([*self._setup_observations, *seen]))
        own = {each.exchange for each in seen}
        result.findings = dict(enumerate(each for each in findings if each.exchange in own))
        counts = {code: tally.exercised for code, tally in checker.tallies().items()}
        result.exercised = frozenset(
            code for code, number in counts.items() if number > self._exercised_before.get(code, 0)
        )
        return counts


def uses_setup(steps: Sequence[Step]) -> bool:
    """Whether steps need those of the setup."""
    return any(name.startswith(READY_PREFIX) for step in steps for name in names_in(step))


async def _clean_up(prober: Prober) -> int:
    """Clean up after a case, whatever the service does; return how many sessions are left."""
    try:
        return await prober.clean_up()
    except (TimedOut, UnknownNameError):
        await prober.runner.close()
        return len(prober.made_sessions)


async def run_probe(
    setup: ProbeSetup, cases: Sequence[Case], on_change: OnChange = lambda _case, _result: None
) -> tuple[CaseResults, ProbeRunner]:
    """Run cases and record them in a new file.  Raises InputError if the service or the file cannot be used."""
    direct = ProbeClient(setup.file)
    await direct.check_reachable(setup.options.timeout_s)
    ended: list[CaseResult] = []
    results = CaseResults(ended, setup.options.seed)

    def note_change(case: Case, result: CaseResult | None) -> None:
        if result is not None:
            ended.append(result)
        on_change(case, result)

    try:
        async with _capture(setup) as (client, on_observation):
            runner = ProbeRunner(setup, client, ObservationLog(setup.clock, on_observation), note_change)
            results = replace(results, results=await runner.run(cases))
    except RefusedKey as error:
        delete_recording(setup.record)
        raise InputError(str(error)) from None
    finally:  # also if the user interrupts the probe
        if path_exists(setup.record):
            mark_as_probe(setup.record, encode_results(results, setup.file.base_url))
    runner.client = direct
    return results, runner


@asynccontextmanager
async def _capture(setup: ProbeSetup) -> AsyncIterator[tuple[ProbeClient, Callable[[Observation], None]]]:
    """Record the observations of the client, or start a proxy that records."""
    if not setup.through_proxy:
        writer = Writer.create(setup.record, upstream=setup.file.base_url)
        pending: list[Observation] = []

        def write(seen: Observation) -> None:
            pending.append(seen)
            if len(pending) >= _COMMIT_AFTER:
                writer.feed(pending)
                writer.commit()
                pending.clear()

        try:
            yield ProbeClient(setup.file), write
        finally:
            writer.feed(pending)
            writer.close(writer.last_ns + 1_000_000)
        return
    trust = () if setup.file.ca_file is None else ("--ca", setup.file.ca_file)
    where = ("--listen", "127.0.0.1:0", "--output", str(setup.record), "--plain", "--no-config")
    async with run_wiretape("proxy", setup.file.origin, *where, *trust, on_line=lambda _line: None) as proxy:
        yield ProbeClient(setup.file, proxy=await proxy.address()), lambda _seen: None
        await proxy.stop()
