"""`wiretape probe` as a command: its formats, its exit status, and what reproduces a broken rule."""

import asyncio
import json
import os
import subprocess
import xml.etree.ElementTree as ET
from itertools import groupby

import jsonschema
import pytest
from click.testing import CliRunner
from rule_mutations import Mutation, mutated
from tables import read_tables
from wiretape_process import WiretapeProcess

from wiretape import check
from wiretape.cli import wiretape
from wiretape.recording import mark_as_probe, open_recording
from wiretape_contracts.agent_sessions.probe.probe_file import initial_file
from wiretape_contracts.agent_sessions.probe.suite import SUITE
from wiretape_inspect.report.case_results import case_lines
from wiretape_inspect.report.json_format import schema
from wiretape_replay.stand_in import ServeOptions, serve_scenario

TABLES = read_tables(__file__)


def lose_run_id(reply):
    """Rename `active_run_id` in error responses."""
    reply.body = reply.body.replace(b'"active_run_id"', b'"active_run_no"')


def without_run_ids(service, change=lose_run_id):
    cases = ("runs/busy", "runs/busy-while-running", "concurrency/two-runs-at-once")
    return mutated(service.url, dict.fromkeys(cases, Mutation("", reply=change)))


def describe(folder, url):
    """Write a probe file for a stand-in."""
    (folder / "probe.toml").write_text(initial_file(url), "utf-8")


async def run(folder, *arguments, key="main-key", command="probe"):
    """Run the command while the event loop of the test serves."""
    environment = {**os.environ, "SERVICE_KEY": key, "COLUMNS": "200"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = WiretapeProcess(command, *arguments, cwd=folder, env=environment, **pipes)
    out, err = await asyncio.to_thread(process.communicate, timeout=60)
    return process.returncode, out, err


async def test_a_broken_rule_is_reported_in_every_format_and_reproduced(serve, tmp_path):
    outputs = {
        name: tmp_path / f"report.{name}" for name in ("json", "junit", "github", "markdown", "sarif", "concise")
    }
    arguments = [part for name, path in outputs.items() for part in ("--format", name, "--output", path)]
    async with serve() as service, without_run_ids(service) as url:
        describe(tmp_path, url)
        only = "runs/busy-while-running,errors/unknown-path,tenancy/stream"
        record = tmp_path / "run.db"
        status, out, err = await run(
            tmp_path, "--only", only, "--record", record, "--no-config", *arguments, "--format", "text"
        )
        assert status == 1, out + err
        assert [live.id for live in service.sessions.by_id.values() if live.engine.active] == []

    assert "broken        runs/busy-while-running: BUSY001\n" in out
    assert "not possible  tenancy/stream: probe.toml has no keys.other-tenant" in out
    assert "4 cases: 2 held, 1 broken, 1 not possible · seed 0 · left behind: 2 sessions" in out
    assert "held         errors/unknown-path" in err

    text = {name: path.read_text("utf-8") for name, path in outputs.items()}
    document = json.loads(text["json"])
    jsonschema.validate(document, schema())
    verdicts = {case["name"]: case["verdict"] for case in document["cases"]}
    assert verdicts["runs/busy-while-running"] == "broken"
    coverage = document["probe"]["coverage"]
    assert (coverage["broken"], coverage["noted"]) == (["BUSY001"], ["ERR007"])
    assert " held, 1 broken, 1 with notes only; " in out
    cases = {case.get("name"): case for case in ET.fromstring(text["junit"]).iter("testcase")}  # noqa: S314
    assert set(cases) == set(verdicts)
    assert "active_run_id" in cases["runs/busy-while-running"].find("failure").get("message")
    assert cases["tenancy/stream"].find("skipped") is not None
    assert "::error title=BUSY001" in text["github"]
    assert "| 🔴 error | runs/busy-while-running | `BUSY001` |" in text["markdown"]
    assert "BUSY001" in text["concise"]
    assert json.loads(text["sarif"])["runs"][0]["results"][0]["ruleId"] == "BUSY001"

    found, _ = document["probe"]["reproductions"]
    assert found["code"] == "BUSY001"
    assert found["removed_steps"] > 0
    assert "BUSY001" in {finding.code for finding in check(tmp_path / found["tape"]).findings}
    with open_recording(record) as recording:
        agents = {dict(each.request.headers)["User-Agent"] for each in recording.exchanges()}
    assert "wiretape-probe (errors/unknown-path)" in agents


async def test_the_exit_status_is_that_of_a_report(serve, tmp_path):
    async with serve() as service:
        describe(tmp_path, service.url)
        status, out, _ = await run(tmp_path, "--only", "errors/unknown-path", "--record", "a.db", "--no-config")
        assert status == 0
        assert "2 cases: 2 held" in out
        status, _, err = await run(tmp_path, "--only", "errors/unknown-path", "--record", "a.db", "--no-config")
        assert status == 2
        assert "a.db" in err
        status, _, err = await run(
            tmp_path, "--only", "errors/unknown-path", "--record", "a.db", "--force", "--no-config", key="wrong-key"
        )
        assert status == 2
        assert (
            "Expected the key in the environment variable SERVICE_KEY to be accepted for POST /v1/sessions, got" in err
        )
        assert not (tmp_path / "a.db").exists()
        again = await run(tmp_path, "--discover", service.url)
        assert again[0] == 2
        assert "probe.toml already exists" in again[2]
    status, _, err = await run(tmp_path, "--record", "b.db", "--no-config")
    assert status == 2
    assert "cannot be reached" in err
    assert not (tmp_path / "b.db").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "replya"], "No cases match 'replya': specify names, groups (authentication,"),
        (["--only", ","], "--only has an empty value: specify names, groups or rule codes"),
        (["--only", "tenancy", "--skip", "tenancy"], "No cases are left"),
        (["--discover", "localhost:80"], "Invalid URL 'localhost:80': expected the address of the service"),
        (["nothing.toml"], "There is no file nothing.toml."),
    ],
)
def test_invalid_arguments_are_refused(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(wiretape, ["probe", *arguments])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(("text", "message"), TABLES["invalid-files"])
def test_an_invalid_file_is_refused(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERVICE_KEY", raising=False)
    (tmp_path / "probe.toml").write_text(text, "utf-8")
    result = CliRunner().invoke(wiretape, ["probe"])
    assert result.exit_code == 2
    assert message in result.output


def test_the_list_describes_every_case():
    result = CliRunner().invoke(wiretape, ["probe", "--list"])
    assert result.exit_code == 0
    for case in SUITE.cases.values():
        assert case.name in result.output
        assert case.steps in result.output


async def test_a_report_on_the_recording_has_the_verdict_of_the_probe(serve, tmp_path):
    """Without the rules about clients, which the probe breaks on purpose; a baseline has the same entries."""
    only = "runs/busy-while-running,authentication,replay/unknown-cursor,tenancy/stream,errors"
    async with serve() as service, without_run_ids(service) as url:
        describe(tmp_path, url)
        options = ["--no-config", "--no-shrink", "--format", "json", "--output", "probe.json"]
        status, _, err = await run(
            tmp_path, "--only", only, "--record", "run.db", "--write-baseline", "probe-known.json", *options
        )
        assert status == 0, err
    (again, out, _) = await run(tmp_path, "run.db", "--no-config", "--format", "json", command="report")
    assert again == 1
    probed, reported = json.loads((tmp_path / "probe.json").read_text()), json.loads(out)
    assert {finding["code"] for finding in reported["findings"]} == {"BUSY001", "ERR007"}
    for key in ("rules", "findings", "cases", "summary"):
        assert reported[key] == probed[key]
    for key in ("seed", "sessions_left", "cases", "coverage"):
        assert reported["probe"][key] == probed["probe"][key]
    summary, coverage = reported["summary"]["rules"], reported["probe"]["coverage"]
    assert summary["exercised"] == sum(len(coverage[name]) for name in ("held", "broken", "noted"))
    assert summary["inconclusive"] == len(coverage["inconclusive"])

    await run(tmp_path, "run.db", "--no-config", "--write-baseline", "known.json", command="report")
    assert (tmp_path / "known.json").read_text() == (tmp_path / "probe-known.json").read_text()
    status, out, _ = await run(tmp_path, "run.db", "--no-config", "--jobs", "2", "--summary", command="report")
    assert set(json.loads(out.splitlines()[0])["findings"]) == {"BUSY001", "ERR007"}


async def test_a_case_that_no_rule_explains_is_in_the_report_on_the_recording(serve, tmp_path):
    """It has the same exit status, and a part of the recording is judged by the same rules."""
    async with serve() as service:
        (tmp_path / "probe.toml").write_text(initial_file(service.url).replace('id = "/id"', 'id = "/no"'), "utf-8")
        status, out, _ = await run(tmp_path, "--only", "errors/unknown-path", "--no-config", "--record", "run.db")
    assert status == 1
    again, report, _ = await run(tmp_path, "run.db", "--no-config", command="report")
    assert again == 1
    assert report.splitlines() == out.splitlines()
    status, _, err = await run(tmp_path, "run.db", "--exchange", "1", "-o", "part.db", command="trim")
    assert status == 0, err
    assert "CLI" not in (await run(tmp_path, "part.db", "--no-config", command="report"))[1]


async def test_two_probes_can_begin_in_one_second(serve, tmp_path):
    async with serve() as service:
        describe(tmp_path, service.url)
        probes = [run(tmp_path, "--only", "errors/unknown-path", "--no-config") for _ in range(2)]
        assert [status for status, _, _ in await asyncio.gather(*probes)] == [0, 0]
    assert len(list(tmp_path.glob("wiretape-probe-*.db"))) == 2


async def test_results_that_are_damaged_are_refused(serve, tmp_path):
    async with serve() as service:
        describe(tmp_path, service.url)
        await run(tmp_path, "--only", "errors/unknown-path", "--no-config", "--record", "run.db")
    with open_recording(tmp_path / "run.db") as recording:
        stored = recording.info.probe
    for found, instead, problem in (
        ('"seed":0', '"seed":"\\u001b[31m"', "Expected `int`, got `str` - at `$.seed`"),
        ("errors/unknown-path", "errors/<script>", "Expected `str` matching regex"),
        ("http://", "gopher ", "invalid base"),
    ):
        mark_as_probe(tmp_path / "run.db", stored.replace(found, instead))
        status, _, err = await run(tmp_path, "run.db", "--no-config", command="report")
        assert status == 2
        assert f"run.db has invalid results of wiretape probe: {problem}" in err
    # As if it was interrupted before a case ended.
    mark_as_probe(tmp_path / "run.db", json.dumps(json.loads(stored) | {"cases": []}))
    assert "0 cases: none ended · seed 0" in (await run(tmp_path, "run.db", "--no-config", command="report"))[1]
    mark_as_probe(tmp_path / "run.db", stored.replace("An unknown path", "\\u001b[31m"))
    _, out, _ = await run(tmp_path, "run.db", "--no-config", "--format", "html", command="report")
    assert "\x1b" not in out


async def test_each_broken_rule_is_one_annotation_and_one_tape(serve, tmp_path):
    async with serve() as service, without_run_ids(service) as url:
        describe(tmp_path, url)
        only = "runs/busy,runs/busy-while-running,concurrency/two-runs-at-once"
        status, out, err = await run(
            tmp_path, "--only", only, "--no-config", "--record", "run.db", "--format", "github"
        )
    assert status == 1, err
    commands = [line for line in out.splitlines() if line.startswith("::")]
    assert [line.split(",")[0] for line in commands] == [
        "::error title=BUSY001 active-run-missing",
        "::notice title=ERR007 field-not-in-contract",
    ]
    assert "::3 findings, the first: Expected a string as `error.active_run_id`, got no value.%0Asee: " in commands[0]
    assert {path.name for path in tmp_path.glob("*.tape")} == {"run.BUSY001.tape", "run.ERR007.tape"}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (None, "the rule held when runs/busy-while-running was repeated"),
        (500, "runs/busy-while-running could not be repeated"),
    ],
)
async def test_a_rule_that_is_broken_once_has_a_tape(status, why, serve, probe):
    """The tape is cut from the recording."""
    served = []

    def lose_once(reply):
        served.append(reply)
        if b'"active_run_id"' in reply.body and len(served) < 6:
            lose_run_id(reply)
        elif len(served) > 6 and status is not None:
            reply.status = status

    async with (
        serve() as service,
        without_run_ids(service, lose_once) as url,
        probe(url, only=("runs/busy-while-running",)) as probed,
    ):
        results = probed.report.cases
        found = {each.code: each for each in results.reproductions}["BUSY001"]
        assert "BUSY001" in {finding.code for finding in check(found.tape).findings}
        lines = "\n".join(map(str, case_lines(results, probed.report.coverage)))
        assert f"{why}; wiretape show " in lines


# Options that change how the probe runs and what it reports; each does something.

FAULT = {
    "do": "corrupt",
    "how": "replace",
    "find": "workspace_id",
    "with": "workspace_no",
    "at": {"type": "run.started"},
}


@pytest.fixture
def run_with(tmp_path):
    """Probe the stand-in, without reproductions unless the arguments say otherwise.

    Returns the exit status, the report, the codes of the stored findings, and the cases in the order of their requests.
    """

    async def probe(*arguments, faults=None):
        async with serve_scenario("probe", ServeOptions(clock="virtual", faults=faults)) as service:
            file = initial_file(service.url).replace("sessions = 30", "sessions = 3")
            (tmp_path / "probe.toml").write_text(file, "utf-8")
            status, _, _ = await run(
                *(tmp_path, "--only", "errors/unknown-path", "--no-shrink", "--record", "run.db", "--force"),
                *("--no-config", "--format", "json", "--output", "out.json", *arguments),
                key="wiretape-key",
            )
        with open_recording(tmp_path / "run.db") as recording:
            stored = {finding.code for finding in recording.findings()}
            order = [dict(each.request.headers)["User-Agent"] for each in recording.exchanges()]
        return status, json.loads((tmp_path / "out.json").read_text("utf-8")), stored, order

    return probe


async def test_seed_and_jobs_decide_the_order_of_the_cases(run_with):
    only = ["--only", "errors,replay/unknown-cursor,runs/busy-while-running", "--jobs", "1"]
    probed = [await run_with(*only, "--seed", seed) for seed in ("1", "2")]
    assert [report["probe"]["seed"] for _, report, _, _ in probed] == [1, 2]
    first, second = ([case for case, _ in groupby(order)] for _, _, _, order in probed)
    assert len(set(first)) == len(first)
    assert (first != second, sorted(first)) == (True, sorted(second))


async def test_limits_are_exceeded_only_on_request(run_with):
    for options, reason in (((), "it needs --limits"), (("--limits",), "none of 4 requests was refused")):
        _, report, _, _ = await run_with("--only", "limits/sessions", *options)
        assert report["cases"][-1]["reason"].startswith(reason)


async def test_only_a_proxy_stores_findings_and_only_shrinking_reproduces_them(run_with):
    for options, expected in (((), []), (("--through-proxy", "--shrink"), ["EVT004"])):
        _, report, stored, _ = await run_with(*options, faults=FAULT)
        assert stored == set(expected)
        assert [each["code"] for each in report["probe"]["reproductions"]] == expected


async def test_a_baseline_lists_what_does_not_fail(run_with, tmp_path):
    known = tmp_path / "known.json"
    for options, faults, expected, is_listed in (
        ((), FAULT, 1, False),
        (("--write-baseline", known), FAULT, 0, True),
        (("--baseline", known), FAULT, 0, True),
        (("--baseline", known), None, 0, True),
        (("--baseline", known, "--strict-baseline"), None, 1, True),
        (("--baseline", known, "--prune-baseline"), None, 0, False),
    ):
        status, *_ = await run_with(*options, faults=faults)
        assert status == expected, options
        assert (known.exists() and "EVT004" in known.read_text("utf-8")) == is_listed
