"""Options of `wiretape probe` that change how it runs and what it reports; each does something."""

import asyncio
import json
import os
import subprocess
from dataclasses import dataclass
from itertools import groupby

import pytest
from wiretape_process import WiretapeProcess

from wiretape.recording import open_recording
from wiretape_inspect.probe.probe_file import initial_file
from wiretape_replay.server_options import ServeOptions
from wiretape_replay.service.scenario_server import serve_scenario

FAULT = {
    "do": "corrupt",
    "how": "replace",
    "find": "workspace_id",
    "with": "workspace_no",
    "at": {"type": "run.started"},
}


@dataclass
class Probed:
    """What a probe did."""

    status: int
    report: dict
    stored: set
    """The codes of the findings in the recording."""
    exchanges: list


@pytest.fixture
def run(tmp_path):
    """Probe the stand-in with a few cases, and without reproductions unless the arguments say otherwise."""

    async def probe(*arguments, faults=None):
        async with serve_scenario("probe", ServeOptions(clock="virtual", faults=faults)) as service:
            (tmp_path / "probe.toml").write_text(
                initial_file(service.url).replace("sessions = 30", "sessions = 3"), "utf-8"
            )
            process = WiretapeProcess(
                "probe",
                *("--only", "errors/unknown-path", "--no-shrink", "--record", "run.db", "--force", "--no-config"),
                *("--format", "json", "--output", "out.json"),
                *arguments,
                cwd=tmp_path,
                env={**os.environ, "SERVICE_KEY": "wiretape-key"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            await asyncio.to_thread(process.communicate, timeout=60)
        with open_recording(tmp_path / "run.db") as recording:
            stored = {finding.code for finding in recording.findings()}
            exchanges = list(recording.exchanges())
        report = json.loads((tmp_path / "out.json").read_text("utf-8"))
        return Probed(process.returncode, report, stored, exchanges)

    return probe


def case_order(probed):
    """The cases in the order of their requests, each as often as another one was in between."""
    return [case for case, _ in groupby(dict(each.request.headers)["User-Agent"] for each in probed.exchanges)]


async def test_seed_and_jobs_decide_the_order_of_the_cases(run):
    only = ["--only", "errors,replay/unknown-cursor,runs/busy-while-running", "--jobs", "1"]
    probed = [await run(*only, "--seed", seed) for seed in ("1", "2")]
    assert [each.report["probe"]["seed"] for each in probed] == [1, 2]
    first, second = map(case_order, probed)
    assert len(set(first)) == len(first)
    assert (first != second, sorted(first)) == (True, sorted(second))


async def test_limits_are_exceeded_only_on_request(run):
    for options, reason in (((), "it needs --limits"), (("--limits",), "none of 4 requests was refused")):
        probed = await run("--only", "limits/sessions", *options)
        assert probed.report["cases"][-1]["reason"].startswith(reason)


async def test_only_a_proxy_stores_findings_and_only_shrinking_reproduces_them(run):
    direct = await run(faults=FAULT)
    proxied = await run("--through-proxy", "--shrink", faults=FAULT)
    assert (direct.stored, proxied.stored) == (set(), {"EVT004"})
    assert direct.report["probe"]["reproductions"] == []
    assert [each["code"] for each in proxied.report["probe"]["reproductions"]] == ["EVT004"]


async def test_a_baseline_lists_what_does_not_fail(run, tmp_path):
    known = tmp_path / "known.json"
    assert (await run(faults=FAULT)).status == 1
    assert (await run("--write-baseline", known, faults=FAULT)).status == 0
    assert (await run("--baseline", known, faults=FAULT)).status == 0
    assert (await run("--baseline", known)).status == 0
    assert (await run("--baseline", known, "--strict-baseline")).status == 1
    assert "EVT004" in known.read_text("utf-8")
    assert (await run("--baseline", known, "--prune-baseline")).status == 0
    assert "EVT004" not in known.read_text("utf-8")
