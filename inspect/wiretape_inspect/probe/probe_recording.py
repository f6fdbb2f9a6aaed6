"""Probe a service from beginning to end: run the cases, record them, check the recording, reproduce what is broken."""

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from wiretape.errors import InputError
from wiretape.files import path_exists
from wiretape.observations import Observation, header
from wiretape.recording import Recording, Writer, delete_recording, mark_as_probe
from wiretape.rules import Settings, Severity
from wiretape_inspect.demo.child_process import run_wiretape
from wiretape_inspect.probe.probe_case import Case, RefusedKey
from wiretape_inspect.probe.probe_client import ObservationLog, ProbeClient, ProbeClock
from wiretape_inspect.probe.probe_file import ProbeFile, main_key
from wiretape_inspect.probe.probe_runner import OnChange, ProbeOptions, ProbeRunner
from wiretape_inspect.probe.reproduction import reproduce
from wiretape_inspect.report import Report, check_recording
from wiretape_inspect.report.case_results import SETUP, CaseResult, CaseResults
from wiretape_inspect.report.probe_results import case_name_of, encode_results
from wiretape_inspect.report.recording_report import ALL_RULES, add_cases

_COMMIT_AFTER = 500
"""Observations that are written together."""


@dataclass(frozen=True, slots=True)
class ProbeSetup:
    """What to probe, and how."""

    file: ProbeFile
    keys: Mapping[str, str]
    """The bearer keys by their names in the probe file."""
    record: Path
    settings: Settings
    selected: frozenset[str]
    """Codes of the rules to check."""
    options: ProbeOptions
    through_proxy: bool = False
    clock: ProbeClock = field(default_factory=ProbeClock)


def keys_of(file: ProbeFile, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the keys that the environment has.  Raises InputError if the main key is missing."""
    names = {"other-tenant": file.keys.other_tenant, "limited": file.keys.limited}
    others = {key: environment.get(name, "") for key, name in names.items() if name is not None}
    return {"main": main_key(file, environment), **{key: value for key, value in others.items() if value}}


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
            log = ObservationLog(setup.clock, on_observation)
            settings = replace(setup.settings, off=ALL_RULES - setup.selected | setup.settings.off)
            runner = ProbeRunner(client, setup.file, setup.keys, settings, setup.options, log, note_change)
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


async def judge(
    setup: ProbeSetup,
    recording: Recording,
    cases: CaseResults,
    runner: ProbeRunner,
    apply_baseline: Callable[[Sequence[Report]], object] = lambda _reports: None,
) -> Report:
    """Check the recording of a probe, apply a baseline, and reproduce each rule that is broken besides."""
    report = check_recording(recording, str(setup.record), settings=setup.settings, selected=setup.selected)
    report = add_cases(report, cases)
    apply_baseline([report])
    reproductions = []
    for code in report.broken if setup.options.shrink else ():
        found = [each for each in cases.results if any(one.code == code for one in each.findings.values())]
        case = min(found, key=_cost(runner), default=None)
        if case is not None:
            tape = setup.record.with_name(f"{setup.record.stem}.{code}.tape")
            recorded = observations_of_cases(recording, {case.case.name, SETUP})
            reproduction = await reproduce(runner, code, case.case.name, recorded, tape)
            # A note that does not come again, such as a gap due to another session, is not worth a script.
            if reproduction.problem and (code, Severity.NOTE) in report.counts:
                tape.unlink()
            else:
                reproductions.append(reproduction)
    assert report.cases is not None  # noqa: S101 - just set
    return replace(report, cases=replace(report.cases, reproductions=reproductions))


def observations_of_cases(recording: Recording, cases: Collection[str]) -> list[Observation]:
    """Return what a recording has of some cases."""
    agents = ((each.number, header(each.request.headers, "User-Agent")) for each in recording.exchanges())
    numbers = {number for number, agent in agents if case_name_of(agent) in cases}
    return [seen for seen in recording.observations() if seen.exchange in numbers]


def _cost(runner: ProbeRunner) -> Callable[[CaseResult], tuple[int, str]]:
    return lambda result: (len(runner.all_steps(result.case.name)), result.case.name)
