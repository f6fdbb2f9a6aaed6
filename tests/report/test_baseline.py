"""Baselines: known findings pass, new ones fail, and entries that are no longer needed are reported."""

import json
import os
import tomllib

import pytest
from for_each import for_each
from invoke import succeed
from tables import read_tables
from vector_text import vector_text

from wiretape.contract.contract_facts import detected_contracts
from wiretape.recording import open_recording
from wiretape.rules.vectors import observations_of
from wiretape_inspect.report import baseline, check_recording
from wiretape_inspect.report.baseline import expected_pattern, fingerprint_of, names_of, request_template
from wiretape_inspect.report.evidence import split_message
from wiretape_inspect.report.finding_location import locate

TABLES = read_tables(__file__)

BROKEN = vector_text("SEQ001", "breaks")
KEPT = vector_text("SEQ001", "keeps")
ONLY = ("--select", "SEQ001", "--no-config")


SAME = '{"fingerprint": "a", "code": "S", "count": 1}'
TWICE = f'{{"format": 1, "findings": [{SAME}, {SAME}]}}'


def many(number):
    """Traffic with so many streams that break SEQ001, each in a session of its own."""
    text = ""
    for session in range(number):
        text += BROKEN.partition("\n\n")[2].replace("ses_1", f"ses_{session}").replace("evt_", f"evt_{session}x")
    return observations_of(tomllib.loads(text))


@pytest.fixture
def base(run, record, tmp_path):
    """A baseline that knows two findings."""
    path = tmp_path / "known.json"
    result = run("report", record(many(2), name="two.db"), *ONLY, "--write-baseline", path)
    assert (result.exit_code, "Wrote 2 findings to" in result.stderr) == (0, True)
    return path


def entries(path):
    return json.loads(path.read_text())["findings"]


def test_baseline_counts_apply_to_all_recordings_of_a_run(run, record, base):
    one, two = record(many(1), name="a.db"), record(many(2), name="b.db")
    result = run("report", one, two, *ONLY, "--baseline", base)
    assert result.exit_code == 1
    assert "2 recordings: 1 finding (1 error) · 2 in the baseline" in result.stdout


def test_suppressed_findings_stay_in_the_json_with_the_reason(run, record, base):
    document = json.loads(base.read_text())
    document["findings"][0]["reason"] = "the service is being mended"
    base.write_text(json.dumps(document))
    result = run("report", record(many(3)), *ONLY, "--baseline", base, "--format", "json")
    found = json.loads(result.stdout)
    reasons = [finding["suppressed_by"] for finding in found["findings"]]
    known = {"kind": "baseline", "reason": "the service is being mended"}
    assert reasons == [known, known, None]
    assert found["summary"]["findings"] == {"total": 3, "error": 1, "warning": 0, "note": 0, "suppressed": 2}


def test_sarif_and_junit_mark_suppressed_findings(run, record, base):
    path = record(many(2))
    sarif = json.loads(run("report", path, *ONLY, "--baseline", base, "--format", "sarif").stdout)
    assert all(result["suppressions"][0]["kind"] == "external" for result in sarif["runs"][0]["results"])
    junit = run("report", path, *ONLY, "--baseline", base, "--format", "junit").stdout
    assert 'failures="0"' in junit
    assert "in the baseline" in junit


def test_unneeded_baseline_entries_are_reported_pruned_or_fail(run, record, base):
    path = record(many(1))
    result = run("report", path, *ONLY, "--baseline", base)
    assert (result.exit_code, "1 baseline entry is no longer needed (SEQ001)" in result.stderr) == (0, True)
    assert run("report", path, *ONLY, "--baseline", base, "--strict-baseline").exit_code == 1
    pruned = run("report", path, *ONLY, "--baseline", base, "--prune-baseline")
    assert (pruned.exit_code, "Removed 1 baseline entry that is no longer needed (SEQ001)." in pruned.stderr) == (
        0,
        True,
    )
    assert [entry["count"] for entry in entries(base)] == [1]
    succeed("report", path, *ONLY, "--baseline", base, "--strict-baseline")
    run("report", record(KEPT, name="kept.db"), *ONLY, "--baseline", base, "--prune-baseline")
    assert entries(base) == []


def test_baseline_entries_of_unchecked_rules_are_unchanged(run, record, base):
    path = record(KEPT)
    result = run("report", path, "--select", "SSE", "--no-config", "--baseline", base, "--strict-baseline")
    assert (result.exit_code, result.stderr) == (0, "")
    before = entries(base)
    run("report", path, "--select", "SSE", "--no-config", "--write-baseline", base)
    assert entries(base) == before
    run("report", path, "--select", "SSE", "--no-config", "--baseline", base, "--write-baseline", base)
    assert entries(base) == before


def test_configuration_can_name_a_baseline_before_it_exists(run, record, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wiretape.toml").write_text('baseline = "project.json"\nselect = ["SEQ001"]\n')
    path = record(many(1))
    missing = run("report", path)
    assert (missing.exit_code, "Create it with --write-baseline" in missing.stderr) == (2, True)
    succeed("report", path, "--write-baseline", "project.json")
    assert run("report", path).exit_code == 0


def test_rewriting_a_baseline_keeps_its_reasons(run, record, base):
    document = json.loads(base.read_text())
    document["findings"][0]["reason"] = "bekannt, wird behoben: ä"
    base.write_text(json.dumps(document))
    succeed("report", record(many(3)), *ONLY, "--write-baseline", base)
    assert [(entry["count"], entry["reason"]) for entry in entries(base)] == [(3, "bekannt, wird behoben: ä")]
    assert "ä" in base.read_text("utf-8")


REFUSED = {
    "another recording": lambda run, path: path.with_name("other.db").write_bytes(path.read_bytes()),
    "text": lambda run, path: path.with_name("other.db").write_text("precious"),
    "JSON": lambda run, path: path.with_name("other.db").write_text('{"findings": {}}'),
    "report": lambda run, path: run("report", path, "--format", "json", "--output", path.with_name("other.db")),
    "empty": lambda run, path: path.with_name("other.db").write_bytes(b""),
    "itself": lambda run, path: path.with_name("other.db").symlink_to(path),
    "pipe": lambda run, path: os.mkfifo(path.with_name("other.db")),
    "folder": lambda run, path: path.with_name("other.db").mkdir(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_write_baseline_replaces_only_baselines(run, record, what):
    """The refusal is one sentence that says what to do, and comes before anything is judged."""
    path = record(KEPT)
    REFUSED[what](run, path)
    to = path.with_name("other.db")
    before = to.read_bytes() if to.is_file() else None
    result = run("report", path, "--no-config", "--write-baseline", to)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.endswith(": choose another name for --write-baseline.")
    assert before is None or to.read_bytes() == before
    assert to.exists()


def test_too_many_kinds_of_findings_are_refused(run, record, tmp_path, monkeypatch):
    monkeypatch.setattr(baseline, "MAX_KINDS", 1)
    path = record(BROKEN.replace("event: message.completed", "event: other.1"))
    result = run("report", path, "--no-config", "--write-baseline", tmp_path / "many.json")
    assert (result.exit_code, (tmp_path / "many.json").exists()) == (2, False)
    assert "There are more than 1 kinds of findings, too many for a baseline" in result.stderr


def test_a_report_never_replaces_a_baseline(run, record, base):
    path, before = record(KEPT), base.read_bytes()
    for option in ("--baseline", "--write-baseline"):
        result = run("report", path, *ONLY, option, base, "--format", "json", "--output", base)
        assert (result.exit_code, base.read_bytes()) == (2, before)
        assert "known.json is the baseline: choose another name for --output." in result.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        *TABLES["invalid"],
        (TWICE, "several entries with the fingerprint a"),
        ("[" * 100_000, "is not a baseline"),
        ("\udcff", "is not a baseline"),
    ],
)
def test_an_error_in_a_baseline_is_one_sentence(run, record, tmp_path, text, error):
    path = tmp_path / "known.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    result = run("report", record(KEPT), "--baseline", path)
    assert result.exit_code == 2
    assert error in result.stderr
    assert "Traceback" not in result.stderr


def fingerprints(path):
    with open_recording(path) as recording:
        return [fingerprint_of(located) for located in locate(recording, check_recording(recording, "x").findings)]


def test_a_fingerprint_is_the_same_when_the_defect_is_recorded_again(record, traffic):
    text = BROKEN.replace("ses_1", "ses_9").replace("evt_", "e").replace("run_1", "run_2")
    again = text.replace("2025-01", "2026-02").replace("[[exchange]]", "[[exchange]]\nat = 77", 1)
    assert fingerprints(record(BROKEN)) == fingerprints(record(again, name="again.db"))


def test_fingerprints_distinguish_rules(all_vectors_file):
    with open_recording(all_vectors_file) as recording:
        found = list(locate(recording, check_recording(recording, "x").findings))
    assert len({fingerprint_of(located) for located in found}) >= len({located.finding.code for located in found})


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("Expected a sequence above 4, got 3.", ("a sequence above 4", "3")),
        ("Expected the SSE id `a, got b.` as JSON `id`, got null.", ("the SSE id `a, got b.` as JSON `id`", "null")),
        ("Something else.", None),
    ],
)
def test_a_message_is_split_into_expected_and_actual(message, parts):
    assert split_message(message) == parts


@for_each(("message", "kind"), TABLES["kinds"])
def test_a_defect_kind_excludes_recorded_values(message, kind):
    assert expected_pattern(message, names_of(detected_contracts())) == kind


@for_each(("request_", "path"), TABLES["templates"])
def test_a_request_template_excludes_identifiers(request_, path):
    method, _, target = request_.partition(" ")
    assert request_template(method, target, detected_contracts()) == path
