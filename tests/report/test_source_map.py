"""Lines and columns of findings in tapes."""

import json
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "report.md"
TAPE = """\
tape: 1
---
request: GET /v1/sessions/ses_1/events/stream?event_deltas=true
headers: {Accept: text/event-stream, Authorization: Bearer x}
events:
- event: message.delta
  data: {type: message.delta, run_id: run_1, delta: {text: Hi}}
- lost: 5
- text: ": keep-alive\\n\\n"
- event: message.delta
  id: evt_1
  data: {type: message.delta, run_id: run_1, delta: {text: Hi}}
---
request: GET /v1/sessions/ses_1
response: 404
response-body: {no: envelope}
"""
LINES = {"DUR004": "- event: message.delta", "CLI001": "request: GET /v1/sessions/ses_1", "ERR001": "response: 404"}
"""What is in the line of a finding."""


@pytest.fixture
def tape(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("run.tape")
    path.write_text(TAPE, "utf-8")
    return path


def positions(run, path):
    """The line and the column of each finding, by rule, as the problem matcher in the docs finds them."""
    (block,) = re.findall(
        r"^```json\n(.*?\"problemMatcher\".*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    pattern = json.loads(block)["tasks"][0]["problemMatcher"]["pattern"]
    lines = run("report", path, "--no-config", "--select", "DUR,CLI,ERR", "-f", "concise").stdout.splitlines()
    found = [re.fullmatch(pattern["regexp"], line) for line in lines]
    assert {match[pattern["file"]] for match in found} == {str(path)}
    return {match[pattern["code"]]: (int(match[pattern["line"]]), int(match[pattern["column"]])) for match in found}


def test_findings_in_a_tape_have_the_line_and_column_of_what_they_are_about(run, tape):
    found = positions(run, tape)

    assert found.keys() == LINES.keys()
    lines = tape.read_text("utf-8").splitlines()
    for code, (line, column) in found.items():
        assert lines[line - 1] == LINES[code]
        assert column == (3 if code == "DUR004" else 1)
    assert found["DUR004"][0] == 10, "not the first event, and lost bytes count"


def test_other_formats_have_the_same_lines(run, tape):
    line, column = positions(run, tape)["DUR004"]
    reports = {name: run("report", tape, "--no-config", "--select", "DUR", "-f", name).stdout for name in FORMATS}

    assert f",file=run.tape,line={line},col={column}::" in reports["github"]
    (result,) = json.loads(reports["sarif"])["runs"][0]["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical == {
        "artifactLocation": {"uri": "run.tape"},
        "region": {"startLine": line, "startColumn": column},
    }
    (issue,) = json.loads(reports["gitlab"])
    assert issue["location"] == {"path": "run.tape", "lines": {"begin": line}}


FORMATS = ("github", "sarif", "gitlab")


def test_findings_in_a_database_have_the_exchange_and_the_event(run, tape):
    run("import", tape, "-o", "run.db")
    concise = run("report", "run.db", "--no-config", "--select", "DUR,ERR", "-f", "concise").stdout.splitlines()

    assert [line.partition(" ")[0] for line in concise] == ["run.db:1:2:", "run.db:2:"]
    assert ",file=run.db::" in run("report", "run.db", "--no-config", "--select", "DUR", "-f", "github").stdout
