"""Reports by several processes are the same as by one."""

import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.contract import operation_of
from wiretape.observations import BytesArrived, RequestStarted
from wiretape.recording import Writer, open_recording
from wiretape.rules import CATALOGUE, Settings, Verdict
from wiretape.rules.vectors import observations_of, vectors
from wiretape.traffic_builder import TrafficBuilder
from wiretape_inspect.report import parallel_check
from wiretape_inspect.report.parallel_check import check_recordings
from wiretape_inspect.report.recording_report import ALL_RULES, Outcomes, check_observations, make_checker


def traffic(chosen):
    """Return the observations of vectors at the same time, each in sessions of its own."""
    observed = []
    for which, vector in enumerate(chosen, 1):
        document = json.loads(json.dumps(vector.document).replace("ses_", f"s{which}_"))
        observed += [(which, seen) for seen in observations_of(document)]
    numbers = {}
    renumbered = []
    for which, seen in sorted(observed, key=lambda each: (each[1].time_ns, each[0])):
        number = numbers.setdefault((which, seen.exchange), len(numbers) + 1)
        if isinstance(seen, BytesArrived):
            renumbered.append(replace(seen, exchange=number, times=(seen.time_ns + 1000 * which,)))
        else:
            renumbered.append(replace(seen, exchange=number, time_ns=seen.time_ns + 1000 * which))
    return sorted(renumbered, key=lambda seen: seen.time_ns)


def divided(observations, count):
    """Return the numbers of exchanges for each of `count` parts."""
    parts = [set() for _ in range(count)]
    for seen in observations:
        if isinstance(seen, RequestStarted):
            match = operation_of(seen.method, seen.target)
            parts[sum((match.session_id if match else "").encode()) % count].add(seen.exchange)
    return parts


def checked(observations, only=None):
    checker = make_checker(Settings(), ALL_RULES, "http://service.test", only)
    findings = list(check_observations(checker, observations))
    return findings, Outcomes.of(checker)


def test_parts_that_are_independent_show_together_what_the_whole_shows():
    everything = vectors()
    independent, broken = 0, set()
    for seed in range(60):
        observations = traffic(random.Random(seed).sample(everything, 6))
        findings, whole = checked(observations)
        parts = [checked(observations, only) for only in divided(observations, 3)]
        if not parallel_check._are_independent([outcomes for _, outcomes in parts]):
            continue
        independent += 1
        merged = Outcomes.merge([outcomes for _, outcomes in parts])
        assert sorted(map(repr, findings)) == sorted(repr(each) for found, _ in parts for each in found)
        assert merged.tallies == whole.tallies
        assert [list(tally.reasons) for tally in merged.tallies.values()] == [
            list(tally.reasons) for tally in whole.tallies.values()
        ]
        assert (merged.exchanges, merged.events, merged.scopes) == (whole.exchanges, whole.events, whole.scopes)
        broken |= {code for code, tally in whole.tallies.items() if tally.verdict is Verdict.FAIL}
    assert independent > 20
    assert len(broken) > len(CATALOGUE) / 3


def test_a_cursor_of_another_session_makes_its_part_dependent():
    (vector,) = [each for each in vectors() if (each.code, each.name) == ("RES006", "breaks")]
    observations = vector.observations()
    sessions = {}
    for seen in observations:
        if isinstance(seen, RequestStarted):
            sessions.setdefault(operation_of(seen.method, seen.target).session_id, set()).add(seen.exchange)
    assert len(sessions) == 2
    parts = [checked(observations, only)[1] for only in sessions.values()]
    assert not parallel_check._are_independent(parts)


def two_sessions(path, cursor=None):
    """Record two sessions of three durable events each; the second stream is opened with a cursor."""
    built = TrafficBuilder()
    for session in ("a", "b"):
        headers = {"Last-Event-ID": cursor} if session == "b" and cursor else {}
        stream = built.request("GET", f"/v1/sessions/{session}/events/stream", headers=headers).respond_stream()
        for number in (1, 2, 3):
            stream.event("run.started", {"type": "run.started", "sequence": number}, id=f"{session}{number}")
        stream.end()
    return built.write(path)


@pytest.mark.parametrize(
    ("cursor", "most_events", "parts"), [(None, 6, 2), (None, 5, 0), ("b3", 6, 2), ("old", 6, 2), ("a3", 6, 0)]
)
def test_only_sessions_that_are_independent_are_divided(tmp_path, monkeypatch, cursor, most_events, parts):
    monkeypatch.setattr(parallel_check, "_MOST_EVENTS", most_events)
    with open_recording(two_sessions(tmp_path / "run.db", cursor)) as recording:
        divided = parallel_check.split_sessions(recording, 2)
        assert len(divided) == parts
        outcomes = [checked(recording.observations(), only)[1] for only in divided or ({1}, {2})]
    # Two streams that have ended count once.
    assert [part.kept_events for part in outcomes] == [3, 3]
    assert parallel_check._are_independent(outcomes) == bool(parts)


def write(path, chosen):
    writer = Writer.create(path, upstream="http://service.test")
    last = writer.began_ns
    for seen in traffic(chosen):
        times = {"times": tuple(time + last for time in seen.times)} if isinstance(seen, BytesArrived) else {}
        times = times or {"time_ns": seen.time_ns + last}
        writer.feed([replace(seen, **times)])
    writer.commit()
    while writer.has_backlog:
        writer.derive()
    writer.close(2**61)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, seed in (("a", 1), ("b", 2), ("c", 3)):
        write(folder / f"{name}.db", random.Random(seed).sample(vectors(), 12))
    return sorted(folder.glob("*.db"))


@pytest.mark.parametrize("most_findings", [parallel_check.MOST_FINDINGS, 3])
def test_each_file_has_the_same_report_by_one_or_several_parts(recordings, monkeypatch, most_findings):
    monkeypatch.setattr(parallel_check, "SMALL", 0)
    monkeypatch.setattr(parallel_check, "MOST_FINDINGS", most_findings)
    reports = []
    sizes, failed = [], []
    for jobs in (1, 4):
        named = [(path.name, open_recording(path)) for path in recordings]
        with ThreadPoolExecutor(jobs) as pool:
            reports.append(check_recordings(named, pool, jobs, Settings(), advance=sizes.append, fail=failed.append))
    assert not failed
    assert len(sizes) == 6
    for one, other in zip(*reports, strict=True):
        assert list(one.findings) == list(other.findings)
        for field in fields(one):
            if field.name not in {"findings", "recording"}:
                assert getattr(one, field.name) == getattr(other, field.name), field.name


def test_the_command_writes_the_same_bytes_with_several_processes(recordings, monkeypatch, tmp_path):
    damaged = tmp_path / "damaged.db"
    shutil.copy(recordings[0], damaged)
    with damaged.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 60_000)
    monkeypatch.setattr("wiretape_inspect.commands.report.SMALL", 0)
    monkeypatch.setattr(parallel_check, "SMALL", 0)
    files = [str(path) for path in (*recordings, damaged)]
    results = [
        CliRunner().invoke(wiretape, ["report", *files, "--format", "json", "--no-config", "--jobs", jobs])
        for jobs in ("1", "2")
    ]
    assert results[0].stdout_bytes == results[1].stdout_bytes
    assert results[0].stdout_bytes.count(b'"sha256"') == 3
    for result in results:
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert "damaged.db" in result.stderr


def test_no_jobs_are_refused(recordings):
    result = CliRunner().invoke(wiretape, ["report", str(recordings[0]), "--jobs", "0"])
    assert result.exit_code == 2
    assert "Invalid value for '--jobs'" in result.stderr
