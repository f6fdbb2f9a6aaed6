"""`wiretape report`, as people and programs use it."""

import json
import os
import pty
import re
import stat
import subprocess
import sys

import click
import pytest
from invoke import succeed
from tables import read_tables
from terminal_output import on_terminal
from vector_text import vector_text

from wiretape.checker import CATALOGUE
from wiretape.recording import Writer
from wiretape.rules.vectors import observations_of, vectors, vectors_of
from wiretape_inspect.commands import report as report_command
from wiretape_inspect.report import FORMATS

CASES = read_tables(__file__)["case"]
CLEAN, OUT_OF_ORDER = vector_text("SEQ001", "keeps"), vector_text("SEQ001", "breaks")


def wiretape(*arguments, **options):
    command = [sys.executable, "-c", "from wiretape.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, **options)


def test_a_recording_without_findings_gives_one_line(record, run, tmp_path):
    Writer.create(tmp_path / "empty.db", upstream="http://service.test").close(1)
    empty = run("report", tmp_path / "empty.db")
    counts = f"no findings · 0 of {len(CATALOGUE)} rules exercised · 0 events in 0 exchanges"
    assert (empty.exit_code, empty.stdout) == (0, f"{tmp_path / 'empty.db'}: {counts}\n")

    path = record(CLEAN)
    result = succeed("report", path)
    expected = (
        re.escape(f"{path}: no findings · ")
        + r"\d+"
        + f" of {len(CATALOGUE)} rules exercised · 2 events in 1 exchange\n"
    )
    assert re.fullmatch(expected, result.stdout)
    assert result.stderr == ""


def test_a_finding_is_shown_with_location_evidence_clause_and_command(record, run):
    path = record(OUT_OF_ORDER)
    result = run("report", path)
    assert result.exit_code == 1
    block, totals, summary = result.stdout.split("\n\n")
    assert totals == "1  error    SEQ001   sequence-not-increasing"
    lines = block.splitlines()
    assert lines[:4] == [
        "SEQ001 sequence-not-increasing  error in the service",
        "  Expected a sequence above 1, got 0.",
        f"  --> {path}, exchange 1, event 2, bytes 204-447, 1.003s",
        "      GET /v1/sessions/ses_1/events/stream",
    ]
    assert lines[4:7] == [
        "       1 | (run.started · id evt_1 · sequence 1, 0.0 ms before)",
        "       2 | event: message.completed",
        "         | id: evt_0",
    ]
    assert lines[7].startswith('         | data: {"id":"evt_0","sequence":0,"type":"message.completed"')
    assert lines[7].index('0,"type"') == lines[8].index("^")
    assert lines[8].lstrip(" |") == "^", "the sequence is underlined"
    explanation = CATALOGUE["SEQ001"].explanation
    assert lines[9:] == [
        '    = clause: Durable event, sequence: "Order number of the durable event." (stated)',
        f"    = why: {explanation.why}",
        f"    = fix: {explanation.fix}",
        f"    = see: wiretape show {path} --at 1:2",
        "    = explain: wiretape rule SEQ001",
    ]
    assert summary.startswith(f"{path}: 1 finding (1 error) · ")


def test_the_command_in_a_block_runs(record, run):
    text = run("report", record(OUT_OF_ORDER, name="it's a run.db")).stdout
    command = re.search(r"see: wiretape (.*)", text)[1]
    shown = subprocess.run(  # noqa: S602 - quoting is what is tested
        f"{sys.executable} -c 'from wiretape.cli import main; main()' {command}",
        shell=True,
        capture_output=True,
        check=True,
        text=True,
    )
    assert "Expected" not in shown.stdout
    assert "evt_0" in shown.stdout


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_report_shows_what_its_traffic_needs(record, run, case):
    if "vector" in case:
        (seen,) = [each.observations() for each in vectors_of(case["code"]) if each.name == case["vector"]]
    else:
        seen = observations_of({"exchange": case["exchange"]})
    result = run("report", record(seen), "--fail-on", "note")
    assert result.exit_code == case.get("status", 1)
    for pattern in case["shown"]:
        assert re.search(pattern, result.stdout, re.MULTILINE), pattern


def test_evidence_is_as_wide_as_the_terminal_or_as_120_columns(record, run):
    body = b'event: run.queued\nid: e1\ndata: {"id":"e1","sequence":"%s"}\n\n' % (b"9" * 1000)
    path = record(f"""
        [[exchange]]
        request = "GET /v1/sessions/s/events/stream"
        body = {json.dumps(body.decode())}
        """)

    def widest(text):
        return max(len(line) for line in text.splitlines() if " | " in line)

    assert widest(run("report", path, "--no-config").stdout) == 120
    for columns in (50, 150):
        text = click.unstyle(on_terminal("report", path, "--no-config", columns=columns))
        assert widest(text) == columns
        uncut = [line for line in text.splitlines() if len(line) > columns]
        assert all(line.startswith(("    = see: ", "    = explain: ")) for line in uncut), "commands are to be copied"


def test_undecodable_or_long_evidence_is_harmless(record, run):
    text = run(
        "report",
        record(f"""
        [[exchange]]
        request = "GET /v1/sessions/s/events/stream"
        response_headers = ["Content-Type: text/html", "Content-Encoding: br"]
        body = "no brotli"

        [[exchange]]
        request = "GET /v1/sessions/{"x" * 500}"
        status = 500
        part = [{{ text = "{"y" * 200}" }}, {{ text = "{"z" * 5000}" }}]

        [[exchange]]
        request = "GET /v1/sessions/s/events/stream"
        response_headers = ["Content-Type: text/html"]
        part = [{{ text = "before" }}, {{ lost = 10 }}, {{ text = "after" }}]
        """),
    ).stdout
    assert [line.split()[0] for line in text.splitlines() if line and line[0] != " "][:3] == [
        "SSE007",
        "ERR001",
        "REC001",
    ]
    assert "         | before\n" in text
    assert "after" not in text
    assert max(map(len, text.splitlines())) < 200


def test_many_findings_of_one_rule_are_counted_and_all_shown_on_request(record, run):
    body = "data: {}\\n\\n" * 12
    path = record(f"""
    [[exchange]]
    request = "GET /v1/sessions/s/events/stream"
    body = "{body}"
    """)
    few = run("report", path).stdout
    assert few.count("    = why: ") == few.count("    = fix: ") == 1, "only the first finding of a rule explains it"
    assert few.count("SSE006 missing-event-line  error") == 5
    assert "\n12  error    SSE006   missing-event-line  (7 not shown; --all shows them)\n" in few
    assert ": 12 findings (12 errors) · " in few
    everything = run("report", path, "--all").stdout
    assert everything.count("SSE006 missing-event-line  error") == 12
    assert "not shown" not in everything
    assert len(json.loads(run("report", path, "--format", "json").stdout)["findings"]) == 12


def test_json_has_every_rule_every_finding_and_a_summary(run, all_vectors_file):
    result = run("report", all_vectors_file, "--format", "json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert list(document) == ["format", "tool", "recording", "rules", "findings", "summary"]
    assert document["format"] == 1
    assert document["recording"]["file"] == "run.db"
    assert document["recording"]["upstream"].startswith("http://0.service.test, ")
    assert [rule["code"] for rule in document["rules"]] == list(CATALOGUE)
    keys = {"code", "name", "severity", "side", "scope", "basis", "clause", "verdict", "exercised", "findings"}
    assert all(keys <= rule.keys() for rule in document["rules"])
    keys = ["code", "severity", "side", "exchange", "event", "sequence", "byte_offset", "time_ns", "message"]
    assert all(list(finding)[:9] == keys for finding in document["findings"])
    counted = {rule["code"]: rule["findings"] for rule in document["rules"]}
    for code, number in counted.items():
        assert number == sum(finding["code"] == code for finding in document["findings"])
    summary = document["summary"]
    assert summary["findings"]["total"] == len(document["findings"])
    assert summary["rules"] == {
        "total": len(CATALOGUE),
        "selected": len(CATALOGUE),
        "exercised": len(CATALOGUE),
        "pass": 0,
        "fail": len(CATALOGUE),
        "not-exercised": 0,
        "inconclusive": 0,
    }


def test_rules_that_never_came_up_are_not_exercised(record, run):
    document = json.loads(run("report", record(CLEAN), "--format", "json").stdout)
    verdicts = {rule["code"]: rule["verdict"] for rule in document["rules"]}
    assert (verdicts["SEQ001"], verdicts["ERR001"], document["findings"]) == ("pass", "not-exercised", [])
    assert document["summary"]["rules"]["exercised"] == list(verdicts.values()).count("pass")


def test_inconclusive_reasons_include_rules_that_are_broken_elsewhere(record, run):
    deep = '{"x":' + "[" * 2000 + "]" * 2000 + "}"
    body = f"event: session.error\ndata: {deep}\n\nevent: session.error\ndata: []\n\n"
    stream = {"request": "GET /v1/sessions/ses_1/events/stream", "body": body}
    path = record(observations_of({"exchange": [stream]}))
    output = run("report", path).stdout
    assert "EVT001 data-not-one-json-object  error" in output
    assert "(1 time), because JSON is nested more than 1,024 levels deep" in output
    assert "EVT001 (1 time)" in output
    rules = {rule["code"]: rule for rule in json.loads(run("report", path, "--format", "json").stdout)["rules"]}
    assert [each["count"] for each in rules["EVT001"]["inconclusive_reasons"]] == [1]
    assert rules["SEQ001"]["inconclusive_reasons"] == []


@pytest.mark.parametrize(
    ("code", "statuses"),
    [
        ("SSE003", {"error": 0, "warning": 0, "note": 1, "inconclusive": 1, "never": 0}),
        ("SSE005", {"error": 0, "warning": 1, "note": 1, "inconclusive": 1, "never": 0}),
        ("SSE006", {"error": 1, "warning": 1, "note": 1, "inconclusive": 1, "never": 0}),
    ],
)
def test_fail_on_sets_the_lowest_severity_that_fails(record, run, code, statuses):
    (vector,) = [v for v in vectors_of(code) if v.name == "breaks"]
    path = record(vector.observations())
    assert {level: run("report", path, "--fail-on", level).exit_code for level in statuses} == statuses
    assert run("report", path).exit_code == statuses["error"]


def test_fail_on_inconclusive_also_fails_for_rules_that_could_not_be_decided(record, run):
    resync = 'event: stream.resync\ndata: {"type":"stream.resync"}\n\n'
    stream = {"request": "GET /v1/sessions/ses_1/events/stream", "body": resync, "ending": "client-closed"}
    path = record(observations_of({"exchange": [stream]}))
    select = ("--select", "CLI005")
    statuses = {level: run("report", path, *select, "--fail-on", level).exit_code for level in ("note", "inconclusive")}
    assert statuses == {"note": 0, "inconclusive": 1}
    succeed("report", path, "--select", "CLI001", "--fail-on", "inconclusive")
    junit = run("report", path, *select, "--fail-on", "inconclusive", "--format", "junit").stdout
    assert 'failures="1"' in junit
    assert '<failure message="inconclusive: ' in junit


def test_the_same_recording_gives_the_same_bytes_in_every_format(record, run, together, tmp_path):
    path = record(together({vector.code[:3]: vector for vector in vectors() if vector.breaks}.values()))

    def made(folder):
        return {file.name: file.read_bytes() for file in (tmp_path / folder).iterdir()}

    def arguments(folder):
        (tmp_path / folder).mkdir()
        pairs = [word for form in FORMATS for word in ("--format", form, "--output", tmp_path / folder / form)]
        return ["report", path, *pairs]

    assert run(*arguments("here")).exit_code == 1
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    assert wiretape(*arguments("there"), env=os.environ | {"PYTHONHASHSEED": seed}).returncode == 1
    assert set(made("here")) == set(FORMATS)
    assert made("there") == made("here")


def test_the_report_goes_to_a_file_that_only_its_owner_reads(record, run, tmp_path):
    path, to = record(OUT_OF_ORDER), tmp_path / "report.json"
    for _ in range(2):
        result = run("report", path, "--format", "json", "-o", to)
        assert (result.exit_code, result.output) == (1, "")
        assert json.loads(to.read_bytes())["findings"][0]["code"] == "SEQ001"
        assert stat.S_IMODE(to.stat().st_mode) == 0o600


def test_a_recording_is_never_replaced_by_a_report(record, run):
    path, other = record(CLEAN), record(OUT_OF_ORDER, name="other.db")
    for to in (path, other):
        before = to.read_bytes()
        result = run("report", path, "--output", to)
        assert result.exit_code == 2
        assert "is a recording" in result.stderr
        assert to.read_bytes() == before


def test_findings_are_coloured_on_a_terminal_only(record, run):
    path = record(OUT_OF_ORDER)
    assert "\x1b[1;31m" in on_terminal("report", path)
    assert "\x1b" not in run("report", path).stdout


@pytest.mark.parametrize(("small", "has_bar"), [(0, True), (report_command.SMALL, False)])
def test_a_progress_bar_appears_on_a_terminal_if_there_is_much_to_check(record, monkeypatch, small, has_bar):
    monkeypatch.setattr(report_command, "SMALL", small)
    monkeypatch.setenv("TERM", "xterm")
    path = record(CLEAN)
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert report_command.report.main([str(path), "--no-config"], standalone_mode=False) == 0
        print("end", file=terminal, flush=True)
        # The terminal may deliver it in pieces.
        shown = b""
        while b"end" not in shown:
            shown += os.read(leader, 65536)
    os.close(leader)
    assert (b"checking" in shown) == has_bar
