"""Probe services in the event loop of a test: the stand-in in virtual time, or any other address."""

import asyncio
import time
import tomllib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from wiretape.checker import Settings
from wiretape.config import override_base
from wiretape.recording import open_recording
from wiretape_contracts.agent_sessions.probe.probe_file import decode_probe_file, initial_file
from wiretape_contracts.agent_sessions.probe.suite import SUITE
from wiretape_inspect.probe.probe_client import ProbeClock
from wiretape_inspect.probe.probe_runner import ProbeOptions, ProbeSetup, run_probe, select_cases
from wiretape_inspect.probe.reproduction import judge
from wiretape_inspect.report import baseline
from wiretape_inspect.report.case_results import SERVICE_RULES
from wiretape_replay.stand_in import ServeOptions, serve_scenario

SERVICE = """
[[keys]]
key = "main-key"
tenant = "acme"
[[keys]]
key = "other-key"
tenant = "globex"
[[keys]]
key = "limited-key"
tenant = "acme"
scopes = ["events:read"]
[limits]
sessions = 60
runs = 120
events = 120
"""
KEYS = {"main": "main-key", "other-tenant": "other-key", "limited": "limited-key"}


class ServiceClock(ProbeClock):
    """Real time, except that sleeping takes virtual time of the service."""

    def __init__(self, service):
        self._service, self._slept_ns = service, 0

    def now_ns(self):
        return time.monotonic_ns() + self._slept_ns

    async def sleep(self, seconds):
        while seconds > 0:
            step = min(seconds, 1)
            await self._service.control.async_advance(step)
            await asyncio.sleep(0.002)
            self._slept_ns += round(step * 1e9)
            seconds -= step


@dataclass
class Probed:
    """The result of a probe."""

    report: object
    runner: object
    record: Path

    @property
    def cases(self):
        return {result.case.name: result for result in self.report.cases.results}

    def reasons(self, verdict):
        return {name: result.problem for name, result in self.cases.items() if result.verdict == verdict}

    @property
    def worse_than_notes(self):
        """The codes of findings above notes, and the cases that no finding explains."""
        codes = {code for code, severity in self.report.counts if severity != "note"}
        return codes | {result.case.name for result in self.report.cases.unexplained}


@pytest.fixture(scope="session")
def probe_file():
    """The probe file for a URL; keywords replace its keys."""

    def make(url, **changes):
        document = tomllib.loads(initial_file(url))
        document["keys"] = {"main": "A", "other-tenant": "B", "limited": "C"}
        document["limits"] = {"sessions": 60, "runs": 120, "events": 120}
        document |= {key.replace("_", "-"): value for key, value in changes.items() if value is not None}
        for key in [key for key, value in changes.items() if value is None]:
            del document[key.replace("_", "-")]
        return decode_probe_file(document, "probe.toml")

    return make


@pytest.fixture(scope="session")
def probe(tmp_path_factory, probe_file):
    """Probe a service: `async with probe(url, only=("replay",)) as probed`."""

    @asynccontextmanager
    async def run(
        url, *, clock=None, file=None, keys=KEYS, through_proxy=False, changes=None, known=(), cases=None, **options
    ):
        file = file or probe_file(url, **(changes or {}))
        options = ProbeOptions(**({"jobs": 1, "timeout_s": 20} | options))
        record = tmp_path_factory.mktemp("probe") / "run.db"
        settings = override_base(Settings(), file.base_url)
        clock = clock or ProbeClock()
        setup = ProbeSetup(SUITE, file, keys, record, settings, SERVICE_RULES, options, through_proxy, clock)
        results, runner = await run_probe(setup, cases or select_cases(SUITE.cases, options))
        with open_recording(record) as recording:
            report = await judge(recording, results, runner, partial(baseline.apply, known))
            yield Probed(report, runner, record)

    return run


@pytest.fixture(scope="session")
def serve():
    """Serve the scenario `probe` in virtual time."""
    return lambda: serve_scenario("probe", ServeOptions(clock="virtual", service=SERVICE))


@pytest.fixture(scope="session")
def clock_of():
    """The clock of a probe of the stand-in."""
    return ServiceClock
