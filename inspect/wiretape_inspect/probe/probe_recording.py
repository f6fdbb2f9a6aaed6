"""Probe a service from beginning to end: run the cases, record them, check the recording, reproduce what is broken."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from wiretape.observations import Observation, header
from wiretape.recording import Recording, Writer
from wiretape.rules import Finding, Settings
from wiretape_inspect.demo.child_process import run_wiretape
from wiretape_inspect.probe.probe_case import Case
from wiretape_inspect.probe.probe_client import ObservationLog, ProbeClient, ProbeClock
from wiretape_inspect.probe.probe_file import ProbeFile, main_key
from wiretape_inspect.probe.probe_runner import OnChange, ProbeOptions, ProbeRunner, case_name_of
from wiretape_inspect.probe.reproduction import reproduce
from wiretape_inspect.report import check_recording
from wiretape_inspect.report.baseline import Applied, Entry
from wiretape_inspect.report.baseline import apply as apply_baseline
from wiretape_inspect.report.case_results import CaseResult, CaseResults, CaseVerdict
from wiretape_inspect.report.recording_report import ALL_RULES

_COMMIT_AFTER = 500
"""Observations that are written together."""
_UNREACHED = {"SSE010": "the service never sends `retry`, which the specification does not define"}


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
    async with _capture(setup) as (client, on_observation):
        log = ObservationLog(setup.clock, on_observation)
        settings = replace(setup.settings, off=ALL_RULES - setup.selected | setup.settings.off)
        runner = ProbeRunner(client, setup.file, setup.keys, settings, setup.options, log, on_change)
        results = await runner.run(cases)
    runner.client = direct
    return CaseResults(results, setup.options.seed), runner


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
    where = ("--listen", "127.0.0.1:0", "--output", str(setup.record), "--plain", "--no-config", "--identity")
    async with run_wiretape("proxy", setup.file.origin, *where, *trust, on_line=lambda _line: None) as proxy:
        yield ProbeClient(setup.file, proxy=await proxy.address()), lambda _seen: None
        await proxy.stop()


async def judge(
    setup: ProbeSetup, recording: Recording, cases: CaseResults, runner: ProbeRunner, known: Sequence[Entry] = ()
) -> Applied:
    """Check the recording of a probe, apply a baseline, and reproduce each rule that is broken besides."""
    names = {each.number: case_name_of(header(each.request.headers, "User-Agent")) for each in recording.exchanges()}
    report = check_recording(recording, str(setup.record), settings=setup.settings, selected=setup.selected)
    by_case: dict[str | None, dict[int, Finding]] = {}
    for index, finding in enumerate(report.findings):
        by_case.setdefault(names.get(finding.exchange), {})[index] = finding
    for result in cases.results:
        result.findings = by_case.get(result.case.name, {})
    not_reached = {code: why_not_reached(code, cases.results) for code in report.coverage.not_reached}
    report = replace(report, cases=replace(cases, not_reached=not_reached))
    applied = apply_baseline(known, [report])
    (report,) = applied.reports
    reproductions = []
    for code in report.broken if setup.options.shrink else ():
        case = min((each for each in cases.results if code in each.broken_rules), key=_cost(runner), default=None)
        if case is not None:
            tape = setup.record.with_name(f"{setup.record.stem}.{code}.tape")
            reproductions.append(await reproduce(runner, code, case.case.name, tape))
    assert report.cases is not None  # noqa: S101 - just set
    return replace(applied, reports=[replace(report, cases=replace(report.cases, reproductions=reproductions))])


def _cost(runner: ProbeRunner) -> Callable[[CaseResult], tuple[int, str]]:
    return lambda result: (len(runner.all_steps(result.case.name)), result.case.name)


def why_not_reached(code: str, results: Sequence[CaseResult]) -> str:
    """Return why no case exercised a rule: a clause that can follow `because`."""
    meant = [result for result in results if code in result.case.rules]
    reasons = dict.fromkeys(result.reason for result in meant if result.verdict is CaseVerdict.NOT_POSSIBLE)
    if reasons:
        return "; ".join(reasons)
    if any(result.verdict is CaseVerdict.BROKEN for result in meant):
        return "the cases that were to exercise it are broken"
    return _UNREACHED.get(code, "it did not apply in the cases that ran")
