"""Several processes, and those of a Dask cluster, write the same bytes as one; errors are one sentence."""

import os
import random
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.recording import Writer
from wiretape.rules.vectors import vectors
from wiretape_inspect.report import file_checks


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, together):
    folder = tmp_path_factory.mktemp("runs")
    for number in range(6):
        seen = together(random.Random(number).sample(vectors(), 4))
        writer = Writer.create(folder / f"{number}.db", upstream="http://service.test")
        writer.feed(seen)
        writer.close(2**61)
    return sorted(folder.glob("*.db"))


def report(*arguments):
    result = CliRunner().invoke(wiretape, ["report", *map(str, arguments), "--format", "json", "--no-config"])
    assert result.exit_code in {0, 1, 2}, result.output
    return result


@pytest.mark.parametrize("most_findings", [file_checks.MOST_FINDINGS, 0])
def test_several_processes_write_the_same_bytes_as_one(recordings, monkeypatch, tmp_path, most_findings):
    damaged = tmp_path / "damaged.db"
    shutil.copy(recordings[0], damaged)
    with damaged.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 60_000)
    monkeypatch.setattr("wiretape_inspect.report.file_checks.SMALL", 0)
    monkeypatch.setattr(file_checks, "MOST_FINDINGS", most_findings)
    if not most_findings:
        # In this process, so that the limit holds.
        monkeypatch.setattr("wiretape_inspect.report.file_checks.process_pool", ThreadPoolExecutor)
    one, two = (report(*recordings, damaged, "--jobs", jobs) for jobs in (1, 2))
    assert one.stdout_bytes == two.stdout_bytes
    assert one.stdout_bytes.count(b'"sha256"') == len(recordings)
    assert b'"code"' in one.stdout_bytes
    for result in (one, two):
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "damaged.db" in result.stderr


def test_no_jobs_are_refused(recordings):
    result = report(recordings[0], "--jobs", "0")
    assert result.exit_code == 2
    assert "Invalid value for '--jobs'" in result.stderr


def test_a_cluster_writes_the_same_bytes_even_if_a_worker_is_killed(recordings):
    from distributed import LocalCluster  # noqa: PLC0415 - every worker imports this file, and one runs the test

    expected = report(*recordings, "--jobs", "1").stdout_bytes
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp://", silence_logs=50
    )
    with cluster:
        assert report(*recordings, "--dask", cluster.scheduler_address).stdout_bytes == expected
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        # Every file is read at its URL.
        urls = [f"file://{path}" for path in recordings]
        by_url = report(f"file://{recordings[0].parent}/*.db", "--dask", cluster.scheduler_address).stdout_bytes
        for path, url in zip(recordings, urls, strict=True):
            by_url = by_url.replace(f'"{url}"'.encode(), f'"{path}"'.encode())
        assert by_url == expected
        missing = report(recordings[0], recordings[0].with_name("none.db"), "--dask", cluster.scheduler_address)
        assert missing.exit_code == 2
        assert missing.stderr.count("none.db") == missing.stderr.count("\n") == 1
        assert b'"findings"' in missing.stdout_bytes


def test_an_address_without_a_scheduler_is_reported(recordings, monkeypatch):
    monkeypatch.setattr("wiretape_inspect.report.file_checks._SCHEDULER_TIMEOUT_S", 0.2)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        result = report(recordings[0], "--dask", address)
    assert result.exit_code == 2
    assert f"Error: No Dask scheduler at {address}: " in result.stderr
    assert "Traceback" not in result.stderr


def test_an_invalid_address_is_refused_at_once(recordings):
    result = report(recordings[0], "--dask", "nonsense")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: Invalid address 'nonsense': expected the address of a Dask scheduler")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense://bucket/run.db", "nonsense://bucket/run.db cannot be read: Protocol not known: nonsense"),
        ("file:///nowhere/*.db", "No file matches file:///nowhere/*.db."),
        ("file:///nowhere/run.db", "file:///nowhere/run.db cannot be read: "),
    ],
)
def test_a_url_that_cannot_be_read_is_reported(url, message):
    result = report(url)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
