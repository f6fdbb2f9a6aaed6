"""Several processes, and those of a Dask cluster, write the same as one, in reports and in summaries."""

import json
import os
import random
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from invoke import invoke

from wiretape.recording import Writer
from wiretape.rules.vectors import vectors
from wiretape.traffic_builder import TrafficBuilder
from wiretape_inspect.report import file_reports


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, together):
    """Four recordings, of two dates; the last one is rotated."""
    folder = tmp_path_factory.mktemp("runs")
    for number in range(4):
        started = (1_700_000_000 + number // 2 * 86_400) * 10**9
        writer = Writer.create(folder / f"{number}.db", upstream="http://service.test", started_unix_ns=started)
        writer.feed(together(random.Random(number).sample(vectors(), 4)))
        if number == 3:
            writer.commit()
            while writer.derive():
                pass
            assert writer.rotate(folder / "3.0002.db")
        writer.close(2**61)
    return sorted(folder.glob("*.db"), key=lambda path: (path.stem[0], len(path.stem)))


@pytest.fixture
def damaged(recordings, tmp_path):
    path = tmp_path / "damaged.db"
    shutil.copy(recordings[0], path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 60_000)
    return path


def report(*arguments):
    result = invoke("report", *arguments, "--no-config")
    assert result.exit_code in {0, 1, 2}, result.output
    return result


@pytest.mark.parametrize("most_findings", [file_reports.MOST_FINDINGS, 0])
def test_several_processes_write_the_same_bytes_as_one(recordings, damaged, monkeypatch, most_findings):
    monkeypatch.setattr(file_reports, "SMALL", 0)
    monkeypatch.setattr(file_reports, "MOST_FINDINGS", most_findings)
    if not most_findings:
        # In this process, so that the limit holds.
        monkeypatch.setattr(file_reports, "process_pool", ThreadPoolExecutor)
    one, two = (report(*recordings, damaged, "--jobs", jobs, "--format", "json") for jobs in (1, 2))
    assert one.stdout_bytes == two.stdout_bytes
    assert one.stdout_bytes.count(b'"sha256"') == 4
    assert b'"code"' in one.stdout_bytes
    for result in (one, two):
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "damaged.db" in result.stderr


def test_a_cluster_writes_the_same_bytes_even_if_a_worker_is_killed(recordings):
    from distributed import LocalCluster  # noqa: PLC0415 - every worker imports this file, and one runs the test

    expected = report(*recordings, "--jobs", "1", "--format", "json").stdout_bytes
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", protocol="tcp://", silence_logs=50
    )
    with cluster:
        dask = ("--dask", cluster.scheduler_address, "--format", "json")
        assert report(*recordings, *dask).stdout_bytes == expected
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        # Every file is read at its URL.
        by_url = report(f"file://{recordings[0].parent}/*.db", *dask).stdout_bytes
        assert by_url.replace(b'"file://', b'"') == expected
        missing = report(recordings[0], recordings[0].with_name("none.db"), *dask)
        assert missing.exit_code == 2
        assert missing.stderr.count("none.db") == missing.stderr.count("\n") == 1
        assert b'"findings"' in missing.stdout_bytes


def test_an_address_without_a_scheduler_is_reported(recordings, monkeypatch):
    monkeypatch.setattr(file_reports, "_SCHEDULER_TIMEOUT_S", 0.2)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        result = report(recordings[0], "--dask", address)
    assert (result.exit_code, "Traceback" in result.stderr) == (2, False)
    assert f"Error: No Dask scheduler at {address}: " in result.stderr


def test_the_summary_has_the_counts_of_the_report(recordings, damaged, tmp_path):
    bad = [tmp_path / "missing.db", damaged]
    one, two = (report(*recordings, *bad, "--summary", "--jobs", jobs) for jobs in ("1", "2"))
    assert one.output == two.output
    assert one.exit_code == 2
    *lines, totals = map(json.loads, one.stdout.splitlines())
    errors = {line["file"]: line["error"] for line in lines if "error" in line}
    assert sorted(errors) == sorted(map(str, bad))
    assert errors[str(bad[0])] == f"There is no file {bad[0]}."
    summaries = [line for line in lines if "error" not in line]
    for summary, path in zip(summaries, recordings[:3], strict=False):
        whole = json.loads(report(path, "--format", "json").stdout)
        codes = [finding["code"] for finding in whole["findings"]]
        assert summary["file"] == str(path)
        assert summary["findings"] == {code: codes.count(code) for code in sorted(set(codes))}
        assert summary["events"] == whole["summary"]["events"]
        assert summary["date"] == whole["recording"]["started"][:10]
        assert summary["inconclusive"] == [rule["code"] for rule in whole["rules"] if rule["verdict"] == "inconclusive"]
    # The files of a rotated recording are one.
    assert [summary["file"] for summary in summaries] == [*map(str, recordings[:3]), f"{recordings[3]} (+1)"]
    assert totals["total"] == {
        "files": 6,
        "unreadable": 2,
        **{name: sum(each[name] for each in summaries) for name in ("exchanges", "events")},
        "findings": sum(sum(each["findings"].values()) for each in summaries),
    }
    assert {date: counts["files"] for date, counts in totals["dates"].items()} == {"2023-11-14": 2, "2023-11-15": 2}
    for code, counts in totals["rules"].items():
        assert counts["files"] == sum(code in each["findings"] for each in summaries)
        assert counts["findings"] == sum(each["findings"].get(code, 0) for each in summaries)


@pytest.mark.parametrize(("options", "status"), [((), 1), (("--fail-on", "never"), 0), (("--exit-zero",), 0)])
def test_findings_in_a_summary_decide_the_exit_status(recordings, options, status):
    assert report(recordings[0], "--summary", "--jobs", "1", *options).exit_code == status


def test_the_severity_of_a_finding_decides_if_it_is_worse_than_that_of_its_rule(tmp_path):
    traffic = TrafficBuilder()
    for code in ("run_not_resumable", "SANDBOX_PROVISION_FAILED"):
        error = {"code": code, "message": "m", "request_id": "r", "extra": 1}
        traffic.request("POST", "/v1/sessions").respond(500, json={"error": error})
    select = (traffic.write(tmp_path / "run.db"), "--select", "ERR007")
    assert (report(*select).exit_code, report(*select, "--summary").exit_code) == (1, 1)
    assert "\n2  error    ERR007   field-not-in-contract\n" in report(*select).stdout
    assert '<failure type="error"' in report(*select, "--format", "junit").stdout
    assert "| 🔴 error | ERR007" in report(*select, "--format", "markdown").stdout
    assert report(*select, "--format", "github").stdout.startswith("::error title=ERR007 ")
