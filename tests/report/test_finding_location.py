"""Findings are located on the wire and in tapes, and what they are about is marked."""

import json
import re
from pathlib import Path

import pytest
from for_each import for_each
from tables import read_tables

from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_inspect.report import check_recording, finding_location
from wiretape_inspect.report.evidence import Mark, find_offending
from wiretape_inspect.report.finding_location import locate
from wiretape_inspect.report.text_format import _evidence_lines, _margin

TABLES = read_tables(__file__)

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
    formats = ("github", "sarif", "gitlab")
    reports = {name: run("report", tape, "--no-config", "--select", "DUR", "-f", name).stdout for name in formats}

    assert f",file=run.tape,line={line},col={column}::" in reports["github"]
    (result,) = json.loads(reports["sarif"])["runs"][0]["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "run.tape"}, "region": {"startLine": line, "startColumn": column}}
    (issue,) = json.loads(reports["gitlab"])
    assert issue["location"] == {"path": "run.tape", "lines": {"begin": line}}


def test_findings_in_a_database_have_the_exchange_and_the_event(run, tape):
    run("import", tape, "-o", "run.db")
    concise = run("report", "run.db", "--no-config", "--select", "DUR,ERR", "-f", "concise").stdout.splitlines()

    assert [line.partition(" ")[0] for line in concise] == ["run.db:1:2:", "run.db:2:"]
    assert ",file=run.db::" in run("report", "run.db", "--no-config", "--select", "DUR", "-f", "github").stdout


@pytest.mark.parametrize("most", [1, 2, 5])
def test_findings_of_interleaved_streams_are_located_with_few_streams_open(record, monkeypatch, most):
    """Each event of each stream has a finding, and its number as data."""
    monkeypatch.setattr(finding_location, "_MAX_STREAMS", most)
    streams = []
    for stream in range(1, 6):
        event = r'{{ text = "data: {{{}:{}}}\n\n: x\r\n", after = 1 }}'
        part = ", ".join(event.format(stream, number) for number in (1, 2, 3, 4))
        request = f'request = "GET /v1/sessions/s{stream}/events/stream"'
        streams.append(f"[[exchange]]\n{request}\nat = {stream / 100}\npart = [{part}]\n")
    with open_recording(record("".join(streams))) as recording:
        found = list(check_recording(recording, "run.db").findings)
        located = list(locate(recording, found))
        backwards = list(locate(recording, reversed(found)))[::-1]

    assert [finding.time_ns for finding in found] == sorted(finding.time_ns for finding in found)
    exchanges = [finding.exchange for finding in found]
    assert exchanges != sorted(exchanges), "they take turns"
    for one in (*located, *backwards):
        event = one.finding.event
        assert f"data: {{{one.finding.exchange}:{event}}}".encode() in one.frame.seen.frame.raw
        assert one.frame.line == 3 * event - 2
        assert (one.before and one.before.number) == (event - 1 or None)


@for_each(
    ("line", "value", "shown", "underline"),
    [
        ('data: {"id":"x"}', "x", 'data: {"id":"x"}', "             ^"),
        ("data: " + "a" * 60 + " here " + "b" * 60, "here", "…aaaaaaaaaaaaa here bbbbbbbbb…", "               ^^^^"),
        ("data: 日本 here", "here", "data: 日本 here", "           ^^^^"),
        ("data: 日本 here", "日本", "data: 日本 here", "      ^^^^"),
        ("here " + "b" * 60, "here " + "b" * 60, "here bbbbbbbbbbbbbbbbbbbbbbbb…", "^" * 30),
    ],
)
def test_what_a_finding_is_about_is_underlined_and_visible(line, value, shown, underline):
    mark = Mark(1, line.index(value), line.index(value) + len(value))
    finding = Finding("SEQ001", Severity.ERROR, Party.SERVICE, 1, 1, 1, 0, 1, "Expected 2, got 1.")
    lines = list(map(str, _evidence_lines([("1", "event: x"), ("", line)], mark, 30, finding)))

    assert [text[len(_margin("")) :] for text in lines] == ["event: x", shown, underline]


@for_each(
    ("message", "line", "found"),
    [
        *TABLES["actual"],
        ("Expected UTF-8, got the byte 0xe9 at byte 88 of the event.", "data: \\xe9", None),
        ("Expected a string as `run_id`, got no value.", "data: {}", None),
        ("No such form", "data: {}", None),
    ],
)
def test_actual_value_is_found_before_the_expected_one(message, line, found):
    mark = find_offending(message, ["event: x", line])
    assert (mark and (mark.line, line[mark.begin : mark.end])) == (found and (1, found))
    if found == "6":
        assert mark.begin > line.index("sequence")
