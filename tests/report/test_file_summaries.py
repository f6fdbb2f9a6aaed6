"""`wiretape report --summary`: a line for each file, then totals, whatever the number of processes."""

import json
import random
import shutil

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.recording import Writer
from wiretape.rules.vectors import vectors
from wiretape.traffic_builder import TrafficBuilder


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, together):
    folder = tmp_path_factory.mktemp("runs")
    for number in range(3):
        writer = Writer.create(
            folder / f"{number}.db",
            upstream="http://service.test",
            started_unix_ns=(1_700_000_000 + number // 2 * 86_400) * 10**9,
        )
        writer.feed(together(random.Random(number).sample(vectors(), 4)))
        if number == 2:
            writer.commit()
            while writer.derive():
                pass
            assert writer.rotate(folder / "2.0002.db")
        writer.close(2**61)
    return sorted(folder.glob("*.db"), key=lambda path: (path.stem[0], len(path.stem)))


def run(*arguments):
    return CliRunner().invoke(wiretape, ["report", *map(str, arguments), "--no-config"])


def test_the_summary_has_the_counts_of_the_report(recordings, tmp_path):
    shutil.copy(recordings[0], tmp_path / "damaged.db")
    with (tmp_path / "damaged.db").open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff" * 60_000)
    bad = [tmp_path / "missing.db", tmp_path / "damaged.db"]
    one, two = (run(*recordings, *bad, "--summary", "--jobs", jobs) for jobs in ("1", "2"))
    assert one.output == two.output
    assert one.exit_code == 2
    *lines, totals = map(json.loads, one.stdout.splitlines())
    errors = {line["file"]: line["error"] for line in lines if "error" in line}
    assert sorted(errors) == sorted(map(str, bad))
    assert errors[str(bad[0])] == f"There is no file {bad[0]}."
    summaries = [line for line in lines if "error" not in line]
    for summary, path in zip(summaries, recordings[:2], strict=False):
        report = json.loads(run(path, "--format", "json").stdout)
        codes = [finding["code"] for finding in report["findings"]]
        assert summary["file"] == str(path)
        assert summary["findings"] == {code: codes.count(code) for code in sorted(set(codes))}
        assert summary["events"] == report["summary"]["events"]
        assert summary["date"] == report["recording"]["started"][:10]
        assert summary["inconclusive"] == [
            rule["code"] for rule in report["rules"] if rule["verdict"] == "inconclusive"
        ]
    # The files of a rotated recording are one.
    assert [summary["file"] for summary in summaries] == [*map(str, recordings[:2]), f"{recordings[2]} (+1)"]
    assert totals["total"] == {
        "files": 5,
        "unreadable": 2,
        **{name: sum(each[name] for each in summaries) for name in ("exchanges", "events")},
        "findings": sum(sum(each["findings"].values()) for each in summaries),
    }
    assert {date: counts["files"] for date, counts in totals["dates"].items()} == {"2023-11-14": 2, "2023-11-15": 1}
    for code, counts in totals["rules"].items():
        assert counts["files"] == sum(code in each["findings"] for each in summaries)
        assert counts["findings"] == sum(each["findings"].get(code, 0) for each in summaries)


def test_findings_decide_the_exit_status(recordings):
    assert run(recordings[0], "--summary", "--jobs", "1").exit_code == 1
    assert run(recordings[0], "--summary", "--jobs", "1", "--fail-on", "never").exit_code == 0
    assert run(recordings[0], "--summary", "--jobs", "1", "--exit-zero").exit_code == 0


def test_the_severity_of_a_finding_decides_if_it_is_worse_than_that_of_its_rule(tmp_path):
    traffic = TrafficBuilder()
    for code in ("run_not_resumable", "SANDBOX_PROVISION_FAILED"):
        error = {"code": code, "message": "m", "request_id": "r", "extra": 1}
        traffic.request("POST", "/v1/sessions").respond(500, json={"error": error})
    path = traffic.write(tmp_path / "run.db")
    select = ("--select", "ERR007")
    assert (run(path, *select).exit_code, run(path, *select, "--summary").exit_code) == (1, 1)
    assert "\n2  error    ERR007   field-not-in-contract\n" in run(path, *select).stdout
    assert '<failure type="error"' in run(path, *select, "--format", "junit").stdout
    assert "| 🔴 error | ERR007" in run(path, *select, "--format", "markdown").stdout
    assert run(path, *select, "--format", "github").stdout.startswith("::error title=ERR007 ")


def test_options_of_reports_are_refused(recordings):
    result = run(recordings[0], "--summary", "--format", "json")
    assert result.exit_code == 2
    assert "--summary and --format cannot be combined." in result.stderr
