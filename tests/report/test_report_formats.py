"""The forms of `wiretape report`: each is what its readers expect, whatever was recorded."""

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter

import jsonschema_rs
import pytest
from invoke import succeed
from vector_text import vector_text

from wiretape.checker import CATALOGUE
from wiretape.recording import mark_as_probe
from wiretape.rules import Severity
from wiretape.rules.vectors import observations_of, vectors_of
from wiretape_inspect.report.case_results import CaseDescription, CaseResult, CaseResults, CaseVerdict, encode_results
from wiretape_inspect.report.json_format import schema

BROKEN = vector_text("SEQ001", "breaks")
KEPT = vector_text("SEQ001", "keeps")


def parsed(text):
    return ET.fromstring(text)  # noqa: S314 - it was written a line before


def shown(run, path, form, *more):
    result = succeed("report", path, "--format", form, "--no-config", "--exit-zero", *more)
    return result.stdout


def test_json_of_several_recordings_matches_the_published_schema(run, record, hostile):
    jsonschema_rs.meta.validate(schema())
    document = json.loads(shown(run, record(BROKEN), "json", hostile))
    jsonschema_rs.validate(schema(), document, validate_formats=True)
    assert len(document["reports"]) == 2


def test_json_shows_the_evidence_of_a_finding(run, record):
    (found,) = json.loads(shown(run, record(BROKEN), "json"))["findings"]
    assert base64.b64decode(found["base64"]).startswith(b"event: message.completed\nid: evt_0\n")
    assert found["byte_length"] == len(base64.b64decode(found["base64"]))
    assert (found["type"], found["sse_id"], found["sequence"]) == ("message.completed", "evt_0", 0)
    assert (found["expected"], found["actual"]) == ("a sequence above 1", "0")
    assert found["related"][0]["sse_id"] == "evt_1"
    assert found["see"] == "wiretape show run.db --at 1:2"
    assert found["time"].startswith("20")
    assert found["suppressed_by"] is None


def test_json_holds_the_digest_of_the_file_and_the_first_bytes_of_a_frame(run, record, traffic):
    path = record(traffic(BROKEN.replace('"text":"Hi"', f'"text":"{"x" * 100_000}"')))
    document = json.loads(shown(run, path, "json"))
    assert document["recording"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    (found,) = document["findings"]
    assert len(base64.b64decode(found["base64"])) == 1024
    assert found["byte_length"] > 100_000


def test_ndjson_and_concise_have_the_findings_of_json_line_by_line(run, all_vectors_file):
    document = json.loads(shown(run, all_vectors_file, "json"))
    lines = [json.loads(line) for line in shown(run, all_vectors_file, "ndjson").splitlines()]
    kinds = [line.pop("kind") for line in lines]
    assert (kinds[:2], kinds.count("rule"), kinds[-1]) == (["recording", "rule"], len(CATALOGUE), "summary")
    found = [line for kind, line in zip(kinds, lines, strict=True) if kind == "finding"]
    assert found == [{"file": "run.db", **finding} for finding in document["findings"]]
    assert len(shown(run, all_vectors_file, "concise").splitlines()) == len(found)


def test_junit_has_a_case_for_each_rule_and_all_findings_of_a_rule_in_one_failure(run, all_vectors_file):
    suite = parsed(shown(run, all_vectors_file, "junit", "--fail-on", "note")).find("testsuite")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [f"{rule.code} {rule.name}" for rule in CATALOGUE.values()]
    (case,) = [case for case in cases if case.get("name").startswith("SSE005")]
    assert case.get("classname") == "contract.SSE"
    (failure,) = case.findall("failure")
    assert failure.text.count("see: wiretape show") == 2
    assert suite.get("failures") == str(len(cases))


def test_junit_skips_what_was_not_exercised_and_passes_what_held(run, record):
    suite = parsed(shown(run, record(KEPT), "junit")).find("testsuite")
    cases = {case.get("name").split()[0]: case for case in suite.findall("testcase")}
    assert list(cases["SEQ001"]) == []
    assert cases["ERR001"].find("skipped").get("message").startswith("not exercised")
    assert suite.get("failures") == "0"


def test_junit_contains_inconclusive_reasons(run, record):
    body = '{"error":' + "[" * 2000 + "]" * 2000 + "}"
    path = record(
        observations_of({"exchange": [{"request": "GET /v1/sessions/s/events/stream", "status": 500, "body": body}]})
    )
    (skipped,) = parsed(shown(run, path, "junit")).findall(".//testcase[@name='ERR001 not-an-envelope']/skipped")
    assert skipped.get("message").startswith("inconclusive: JSON is nested more than 1,024 levels deep")


def test_junit_fails_at_the_severity_of_fail_on(run, record):
    (vector,) = [vector for vector in vectors_of("SSE003") if vector.name == "breaks"]
    path = record(vector.observations())

    def case(*more):
        root = parsed(run("report", path, "--no-config", "--format", "junit", *more).stdout)
        return root.find("testsuite/testcase[@name='SSE003 unknown-field']")

    assert case().find("failure") is None
    assert "SSE003" in case().find("system-out").text
    assert case("--fail-on", "note").find("failure") is not None


def test_sarif_points_at_the_line_and_the_bytes_of_the_exported_stream(run, record):
    path = record(BROKEN)
    (result,) = json.loads(shown(run, path, "sarif"))["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "run.exchange-1.sse"
    to = path.parent / place["artifactLocation"]["uri"]
    succeed("export", path, "--format", "sse", "--exchange", 1, "--output", to)
    region = place["region"]
    data = to.read_bytes()
    assert data[region["byteOffset"] :][: region["byteLength"]].startswith(b"event: message.completed")
    assert data.split(b"\n")[region["startLine"] - 1] == b"event: message.completed"
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "exchange/1/event/2"
    assert re.fullmatch("[0-9a-f]{32}", result["partialFingerprints"]["wiretape/v1"])


def test_sarif_links_to_the_published_pages_of_the_rules(run, record, tmp_path):
    config = tmp_path / "wiretape.toml"
    config.write_text('docs-url = "https://docs.example/rules/"')
    result = run("report", record(BROKEN), "--format", "sarif", "--config", config)
    rules = json.loads(result.stdout)["runs"][0]["tool"]["driver"]["rules"]
    assert rules[0]["helpUri"] == f"https://docs.example/rules/{rules[0]['id']}.md"


def test_github_shows_a_command_for_each_finding_with_its_escapes(run, record):
    (line, summary) = shown(run, record(BROKEN), "github").splitlines()
    assert line.startswith("::error title=SEQ001 sequence-not-increasing,file=")
    assert "::Expected a sequence above 1, got 0.%0Asee: wiretape show " in line
    assert "1 finding" in summary


def test_github_shows_each_rule_once_and_at_most_ten_of_each_level(run, all_vectors_file):
    """GitHub shows no more of a step, so the others are named in the log."""
    lines = shown(run, all_vectors_file, "github").splitlines()
    commands = [re.match(r"::(\w+) title=(\w+) [^:]*::(?:([0-9]+) findings, the first: )?", line) for line in lines]
    found = [(each[1], each[2]) for each in commands if each]
    levels = [level for level, _ in found]
    assert levels == ["error"] * 10 + ["warning"] * 10 + ["notice"] * 10
    assert len(set(found)) == len(found)
    document = json.loads(shown(run, all_vectors_file, "json"))
    counts = Counter(finding["code"] for finding in document["findings"])
    assert {each[2]: int(each[3] or 1) for each in commands if each} == {code: counts[code] for _, code in found}
    left = [line for line in lines if re.match(r"wiretape: [0-9]+ more annotations \((error|warning|note)\): ", line)]
    assert sum(line.count(", ") + 1 for line in left) == len(counts) - len(found)


def test_gitlab_points_at_the_line_of_the_exported_stream(run, record, tmp_path):
    path = record(BROKEN)
    (issue,) = json.loads(shown(run, path, "gitlab"))
    assert (issue["check_name"], issue["severity"]) == ("SEQ001", "major")
    assert issue["description"].startswith("SEQ001 sequence-not-increasing: Expected a sequence above 1, got 0. See: ")
    sarif = json.loads(shown(run, path, "sarif"))["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    line, name = sarif["region"]["startLine"], sarif["artifactLocation"]["uri"]
    assert issue["location"] == {"path": name, "lines": {"begin": line}}

    known = tmp_path / "known.json"
    run("report", path, "--no-config", "--write-baseline", known)
    assert json.loads(shown(run, path, "gitlab", "--baseline", known)) == []


def test_a_probe_case_that_is_broken_in_two_recordings_is_one_rule_and_two_results(run, record, tmp_path):
    case = CaseDescription("runs/x", "Runs", "POST", (), "a session", True, Severity.ERROR, "It runs.")
    results = CaseResults([CaseResult(case, CaseVerdict.BROKEN, "It did not run.")], seed=1)
    paths = [record(KEPT, name=name) for name in ("one.db", "two.db")]
    for path in paths:
        mark_as_probe(path, encode_results(results, "http://service.test"))
    (log,) = json.loads(shown(run, *paths[:1], "sarif", paths[1]))["runs"]
    assert [rule["id"] for rule in log["tool"]["driver"]["rules"]].count("probe/runs/x") == 1
    assert [result["ruleId"] for result in log["results"]] == ["probe/runs/x"] * 2
    issues = json.loads(shown(run, *paths[:1], "gitlab", paths[1]))
    assert len({issue["fingerprint"] for issue in issues}) == 2
    known = tmp_path / "known.json"
    succeed("report", *paths, "--no-config", "--write-baseline", known)
    assert run("report", *paths, "--no-config").exit_code == 1
    succeed("report", *paths, "--no-config", "--baseline", known, "--strict-baseline")


def test_markdown_fits_into_a_comment(run, record):
    body = "".join(f"data: {{}}{' ' * 100}\\n{'x' * 50}{number}: y\\n\\n" for number in range(60))
    traffic = f'[[exchange]]\nrequest = "GET /v1/sessions/s/events/stream"\nbody = "{body}"\n'
    paths = [record(traffic, name=f"{'n' * 150}{number}.db") for number in range(60)]
    text = run("report", *paths, "--format", "markdown", "--no-config").stdout
    assert len(text) < 65_536
    assert "cut to fit" in text


def test_several_recordings_are_reported_one_after_the_other(run, record):
    one, two = record(BROKEN, name="one.db"), record(KEPT, name="two.db")
    lines = shown(run, one, "text", two).splitlines()
    assert [line.split(":")[0] for line in lines if "exercised ·" in line] == [str(one), str(two)]
    assert lines[-1].startswith("2 recordings: 1 finding (1 error)")
    suites = parsed(shown(run, one, "junit", two)).findall("testsuite")
    assert [suite.get("name") for suite in suites] == [str(one), str(two)]
    kinds = [json.loads(line)["kind"] for line in shown(run, one, "ndjson", two).splitlines()]
    assert kinds.count("recording") == 2


OTHER_API = '[[exchange]]\nrequest = "GET /v1/messages"\nbody = "data: x\\n\\n"\n'
SESSIONS = (
    '[[exchange]]\nrequest = "GET /v1/sessions"\nresponse_headers = ["Content-Type: application/json"]\nbody = "{}"\n'
)
NOTICE = (
    "No exchange is checked as the service's, because their paths are not under /v1/sessions on the upstream. "
    "Use --base PATH_OR_URL: the part before /v1."
)


def test_the_first_line_says_that_nothing_was_checked(run, record):
    path = record(OTHER_API)
    assert shown(run, path, "text").splitlines()[:2] == [f"{path}: {NOTICE}", ""]
    assert shown(run, path, "concise") == f"{path}: warning: {NOTICE}\n"
    assert json.loads(shown(run, path, "json"))["summary"]["notice"] == NOTICE
    assert json.loads(shown(run, path, "ndjson").splitlines()[-1])["notice"] == NOTICE
    assert f"> ⚠ `{NOTICE}`" in shown(run, path, "markdown").splitlines()[4]
    assert parsed(shown(run, path, "junit")).findtext("testsuite/system-out") == NOTICE
    assert shown(run, path, "github").startswith(f"::warning title=Nothing checked,file={path}::{NOTICE}\n")
    (invocation,) = json.loads(shown(run, path, "sarif"))["runs"][0]["invocations"]
    assert invocation["toolExecutionNotifications"] == [{"level": "warning", "message": {"text": NOTICE}}]
    assert NOTICE in shown(run, path, "html")
    assert json.loads(run("report", path, "--no-config", "--summary").stdout.splitlines()[0])["notice"] == NOTICE


@pytest.mark.parametrize("options", [("--base", "/"), ("--base", "http://service.test")])
def test_nothing_is_said_about_the_base_if_something_was_checked(run, record, options):
    for path, given in ((record(OTHER_API), options), (record(OTHER_API + SESSIONS, name="two.db"), ())):
        for name in ("text", "markdown", "github", "html", "sarif", "junit"):
            assert "as the service's" not in shown(run, path, name, *given)
        assert json.loads(shown(run, path, "json", *given))["summary"]["notice"] is None
