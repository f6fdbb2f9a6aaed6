"""Hostile recordings break neither a form of the report nor the terminal, whatever looks at them."""

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import jsonschema_rs
import pytest
from terminal_output import on_terminal

from wiretape.checker import CATALOGUE
from wiretape_inspect.report import FORMATS
from wiretape_inspect.report.json_format import schema

SCHEMAS = Path(__file__).parent / "schemas"
OBJECTS = {"recording", "rule", "finding", "summary"}
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def is_json(text):
    jsonschema_rs.validate(schema(), json.loads(text), validate_formats=True)


def is_ndjson(text):
    assert {json.loads(line)["kind"] for line in text.splitlines()} == OBJECTS


def is_junit(text):
    from xmlschema import XMLSchema  # noqa: PLC0415 - its import takes long, and every worker imports this file

    XMLSchema(SCHEMAS / "junit-10.xsd").validate(text.encode())
    assert ET.fromstring(text).find("testsuite/testcase/failure") is not None  # noqa: S314 - just written


def is_sarif(text):
    official = json.loads((SCHEMAS / "sarif-schema-2.1.0.json").read_text())
    log = json.loads(text)
    jsonschema.Draft7Validator(official, format_checker=jsonschema.FormatChecker()).validate(log)
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(CATALOGUE)
    assert all(run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])


def is_gitlab(text):
    issues = json.loads(text)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) > 0
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert issue["location"]["lines"]["begin"] >= 1


def is_github(text):
    *commands, summary = text.splitlines()
    assert summary.startswith("wiretape: ")
    # What the recording spells %0A stays as it is.
    command = re.compile(r"::(error|warning|notice) title=[A-Z]+\d+ [a-z0-9-]+,file=[^:,]*::(?:[^%]|%0A|%25)*")
    more = re.compile(r"wiretape: \d+ more annotations? \(.*")
    assert [line for line in commands if not command.fullmatch(line) and not more.fullmatch(line)] == []
    assert {line.count("%0A") for line in commands if command.fullmatch(line)} == {2}


def is_concise(text):
    assert all(re.search(r":\d+(:\d+)?: [A-Z]+\d{3} [a-z0-9-]+ \w+: ", line) for line in text.splitlines())


def is_text(text):
    assert re.search(r": [\d,]+ findings? \(.*\) · \d+ of \d+ rules exercised · ", text.splitlines()[-1])


def is_markdown(text):
    assert len(text) < 65_536
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert re.findall("<[^>]*>", outside) == ["<details>", "<summary>", "</summary>", "</details>"]
    assert not re.search(r"[@\[]|\|#1", outside)
    assert "| 🔴 error |" in text


def is_html(text):
    page = _Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert not page.seen & {"img", "b", "iframe", "a", "pre"}
    assert page.scripts == {"report", "data", None}


class _Page(HTMLParser):
    """Which elements a page has; each has to be closed, but for those that have no end."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.scripts = [], set(), set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        if tag == "script":
            self.scripts.add(dict(attributes).get("id"))
        if tag not in {"meta", "br", "link", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


CHECKS = {form: globals()[f"is_{form}"] for form in FORMATS}


@pytest.fixture(params=["hostile", "extreme", "all_vectors_file"])
def recorded(request):
    return request.getfixturevalue(request.param)


def reports(run, path, folder):
    """The report in every form, from one run."""
    pairs = [word for form in FORMATS for word in ("--format", form, "--output", folder / form)]
    result = run("report", path, *pairs, "--no-config", "--fail-on", "note", "--write-baseline", folder / "known.json")
    assert (result.exit_code, result.exception) == (0, None), result.stderr
    return {form: (folder / form).read_text() for form in FORMATS}


def test_hostile_recordings_break_no_format(run, recorded, tmp_path):
    for form, text in reports(run, recorded, tmp_path).items():
        assert all(line.isprintable() for line in text.split("\n")), form
        assert len(text.splitlines()) > 5, form
        assert len(text) < 2_500_000, form
        CHECKS[form](text)
    assert json.loads((tmp_path / "known.json").read_text())["findings"]
    again = run("report", recorded, "--no-config", "--baseline", tmp_path / "known.json", "--strict-baseline")
    assert (again.exit_code, again.stderr) == (0, "")


@pytest.mark.parametrize("command", ["show", "channels", "report --no-config --all", "show --at 2:1"])
def test_on_a_terminal_colours_are_the_only_escapes(hostile, command):
    """A screen of 60 columns, as a person would look; what is recorded stands among colours of ours."""
    text = on_terminal(*command.split(), hostile, columns=60)
    left = COLOUR.sub("", text)
    assert left != text
    assert all(line.isprintable() for line in left.split("\n"))
    assert "\\x1b" in left
