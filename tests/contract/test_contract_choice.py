"""Which contract checks a recording: the command line's, the configuration's, its own, or what its requests suggest."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wiretape.checking import check
from wiretape.contract import load_contract
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.recording import RecordingMetadata, RecordingSource, build_recording, open_recording
from wiretape.traffic_builder import TrafficBuilder

CONTRACT = '''
contract = "{name}"
[operations.a]
request = "GET /tasks/{{id}}"
begins = "start"
[event]
type = "/type"
[[rule]]
code = "{code}"
name = "other-first"
first = "begun"
clause = "c"
why = "Clients wait for it."
breaks = """
data: {{}}

"""
'''
STREAM = b'data: {"type": "ended"}\n\n'


@pytest.fixture
def run(run):
    for name, code in (("tasks", "TSK001"), ("others", "OTH001")):
        Path(f"{name}.toml").write_text(CONTRACT.format(name=name, code=code), "utf-8")
    return run


def traffic():
    made = TrafficBuilder()
    made.request("GET", "/tasks/1", headers={"Accept": "text/event-stream"}).respond_stream().send(STREAM).end()
    return made


@pytest.fixture
def plain(run, tmp_path):
    """A recording without a contract."""
    return traffic().write(tmp_path / "plain.db")


@pytest.fixture
def own(run, tmp_path):
    """A recording with a contract of its own, whose files are gone."""
    path = tmp_path / "own.db"
    record(path, "tasks.toml")
    Path("tasks.toml").unlink()
    return path


def record(path, *names):
    metadata = RecordingMetadata("", 0, contracts=dump_contracts([load_contract(name) for name in names]))
    build_recording(RecordingSource(metadata, iter(traffic().observations())), path)


def codes(result):
    return [each["code"] for each in json.loads(result.stdout)["findings"]]


def report(run, path, *arguments):
    return run("report", path, "--format", "json", *arguments)


def test_the_command_line_comes_before_the_configuration(run, plain):
    Path("wiretape.toml").write_text('contract = "others.toml"\n', "utf-8")
    assert codes(report(run, plain)) == ["OTH001"]
    assert codes(report(run, plain, "--contract", "tasks.toml")) == ["TSK001"]
    assert codes(report(run, plain, "--no-config")) == []


def test_several_contracts_apply_each_to_its_own_operations(run, tmp_path):
    text = CONTRACT.format(name="others", code="OTH001")
    Path("others.toml").write_text(text.replace("/tasks/", "/others/").replace("other-first", "late"), "utf-8")
    made = traffic()
    made.request("GET", "/others/1").respond_stream().send(STREAM).end()
    both = made.write(tmp_path / "both.db")
    assert codes(report(run, both, "--contract", "tasks.toml", "--contract", "others.toml")) == ["TSK001", "OTH001"]
    Path("wiretape.toml").write_text('contract = ["others.toml", "tasks.toml"]\n', "utf-8")
    assert codes(report(run, both)) == ["TSK001", "OTH001"]
    assert codes(report(run, both, "--contract", "others.toml")) == ["OTH001"]
    own = tmp_path / "own.db"
    contracts = dump_contracts([load_contract(name) for name in ("tasks.toml", "others.toml")])
    build_recording(RecordingSource(RecordingMetadata("", 0, contracts=contracts), iter(made.observations())), own)
    assert codes(report(run, own, "--no-config")) == ["TSK001", "OTH001"]
    assert "contract tasks, others" in run("channels", own).output


def test_the_configuration_comes_before_the_recording(run, own):
    Path("wiretape.toml").write_text('contract = ["others.toml"]\n', "utf-8")
    assert codes(report(run, own)) == ["OTH001"]
    assert codes(report(run, own, "--no-config")) == ["TSK001"]


@pytest.mark.parametrize("file", ["wiretape.toml", "pyproject.toml"])
def test_the_path_of_a_contract_is_relative_to_the_configuration(file, run, plain, monkeypatch):
    Path("tasks.toml").rename("inner.toml")
    head = "[tool.wiretape]\n" if file == "pyproject.toml" else ""
    Path(file).write_text(f'{head}contract = "inner.toml"\n', "utf-8")
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert codes(report(run, plain)) == ["TSK001"]


def test_a_configuration_may_name_the_codes_of_its_contract(run, plain):
    settings = 'contract = "tasks.toml"\nselect = ["TSK", "SEQ"]\n[severity]\nTSK001 = "note"\nSEQ = "off"\n'
    Path("wiretape.toml").write_text(settings, "utf-8")
    found = json.loads(report(run, plain).stdout)["findings"]
    assert [(each["code"], each["severity"]) for each in found] == [("TSK001", "note")]
    Path("wiretape.toml").write_text('contract = "tasks.toml"\n[severity]\nTSK001 = "off"\n', "utf-8")
    assert codes(report(run, plain)) == []
    Path("wiretape.toml").write_text('contract = "tasks.toml"\nignore = ["TSKK"]\n', "utf-8")
    assert "wiretape.toml: ignore[0]: unknown rule code 'TSKK'" in run("report", plain).output


def test_a_configuration_may_name_the_codes_of_the_contract_of_the_command_line(run, plain):
    Path("wiretape.toml").write_text('ignore = ["TSK001"]\n', "utf-8")
    assert codes(report(run, plain, "--contract", "tasks.toml")) == []
    assert "unknown rule code 'TSK001'" in run("report", plain).output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('contract = "nothing.toml"', "There is no file "),
        ('contract = "nothing"', "There is no contract 'nothing': use "),
        ("contract = 3", "contract: expected a string or a list, got 3."),
        ('contract = [""]', "contract[0]: expected a non-empty string"),
        (
            'contract = ["tasks.toml", "twin.toml"]',
            "The contracts tasks and twin cannot be combined: Two rules have the",
        ),
    ],
)
def test_a_mistake_in_the_configuration_is_one_sentence(text, said, run, plain):
    Path("wiretape.toml").write_text(f"{text}\n", "utf-8")
    twin = CONTRACT.format(name="twin", code="TSK001").replace('name = "other-first"', 'name = "twin"')
    Path("twin.toml").write_text(twin, "utf-8")
    result = run("report", plain)
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert said in result.output


def test_rule_knows_the_contract_of_the_configuration(run):
    assert run("rule", "TSK001").exit_code == 2
    assert run("rule", "STR001").output.startswith("STR001 ")
    Path("wiretape.toml").write_text('contract = ["others.toml", "tasks.toml"]\n', "utf-8")
    assert "Clients wait for it." in run("rule", "TSK001").output
    assert run("rule", "SEQ001").output.startswith("SEQ001 ")
    assert "Unknown rule code 'TSK01'; did you mean TSK001?" in run("rule", "TSK01").output


def test_a_recording_is_checked_with_its_own_contract(run, own):
    assert codes(report(run, own)) == ["TSK001"]
    assert codes(report(run, own, "--contract", "others.toml")) == ["OTH001"]
    assert codes(report(run, own, "--base", "/x")) == []
    assert [each.code for each in check(own).findings] == ["TSK001"]
    with open_recording(own) as recording:
        assert [each.code for each in recording.findings()] == ["TSK001"]
    rejected = run("report", own, "--select", "SEQ")
    assert (rejected.exit_code, rejected.output) == (2, "Error: Unknown rule code 'SEQ'; did you mean SSE?\n")


def test_each_of_several_recordings_has_its_own_contract(run, own, plain, monkeypatch):
    record("other.db", "others.toml")
    found = [["TSK001"], [], ["OTH001"]]
    for format_ in ("json", "sarif", "junit", "text", "html"):
        assert run("report", own, plain, "other.db", "--format", format_, "--output", format_).exit_code == 1
    read = json.loads(Path("json").read_text("utf-8"))
    assert [[each["code"] for each in one["findings"]] for one in read["reports"]] == found
    (sarif,) = json.loads(Path("sarif").read_text("utf-8"))["runs"]
    rules = [rule["id"] for rule in sarif["tool"]["driver"]["rules"]]
    assert [rules[each["ruleIndex"]] for each in sarif["results"]] == ["TSK001", "OTH001"]
    summary = run("report", own, plain, "other.db", "--summary", "--jobs", "2")
    lines = [json.loads(line) for line in summary.stdout.splitlines()]
    assert [list(line["findings"]) for line in lines[:-1]] == found
    monkeypatch.setattr("wiretape_inspect.report.file_reports.SMALL", 0)
    assert run("report", own, "other.db", "--format", "json", "--jobs", "2").stdout.count("TSK001") > 0


def test_commands_name_the_contract_of_a_recording(run, own, plain):
    assert " · contract tasks · " in run("channels", own).output
    assert json.loads(run("channels", own, "--json").stdout)["recording"]["contracts"] == ["tasks"]
    assert run("show", own).output.startswith("contract tasks\n")
    assert "Clients wait for it." in run("show", own, "--at", "1:1").output
    assert "contract" not in run("channels", plain).output + run("show", plain).output


def test_a_report_names_a_command_that_explains_the_rule(run, own):
    named = run("report", own, "--contract", "others.toml").output
    assert "    = explain: wiretape rule OTH001 --contract others.toml\n" in named
    assert "explain: " not in run("report", own).output


@pytest.mark.parametrize(
    "make",
    [
        ("trim", "own.db", "--exchange", "1", "-o", "new.db"),
        ("trim", "own.db", "--to-first-finding", "TSK", "-o", "new.db"),
        ("trim", "own.db", "--redact", "text:nothing", "-o", "new.db"),
        ("merge", "own.db", "plain.db", "-o", "new.db"),
        ("merge", "own.db", "copy.db", "-o", "new.db"),
        ("recover", "own.db", "-o", "new.db"),
        ("import", "own.yaml", "-o", "new.db"),
        ("import", "own.har", "-o", "new.db"),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_copy_keeps_the_contract(make, run, own, plain):
    Path("copy.db").write_bytes(own.read_bytes())
    for format_, name in (("tape", "own.yaml"), ("har", "own.har")):
        assert run("export", own, "--format", format_, "-o", name).exit_code == 0
    result = run(*make)
    assert result.exit_code == 0, result.output
    with open_recording(Path("new.db")) as recording:
        assert recording.info.contract_names == ["tasks"]
        assert {each.code for each in recording.findings()} == {"TSK001"}
    assert set(codes(report(run, "new.db"))) == {"TSK001"}


def test_a_tape_shows_the_texts_of_its_contract(run, own):
    text = run("export", own, "--format", "tape").stdout
    assert "contracts:" in text
    assert 'code = "TSK001"' in text
    Path("own.yaml").write_text(text.replace("TSK001", "TSK002"), "utf-8")
    assert codes(report(run, "own.yaml")) == ["TSK002"]
    Path("bad.yaml").write_text(text.replace("first =", "frist ="), "utf-8")
    result = run("report", "bad.yaml")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert result.output.startswith("Error: bad.yaml: tasks.toml, line 11: rule[0].frist: unknown key")


@pytest.mark.parametrize(
    "stored",
    [
        "[",
        "3",
        "[3]",
        '[{"name": "a"}]',
        '[{"name": "a", "file": "../../etc/passwd", "texts": {"x": ""}}]',
        '[{"name": "a", "file": "a.toml", "texts": {"a.toml": "contract = 3"}}]',
        '[{"name": "a", "file": "a.toml", "texts": {}}]',
        '[{"name": "others.toml", "file": "others.toml", "texts": {}}]',
        json.dumps([{"name": "a", "file": "a.toml", "texts": {}}] * 11),
        "[" * 100_000,
    ],
    ids=lambda text: text[:60],
)
def test_a_hostile_contract_stops_the_report_alone(stored, run, own):
    with closing(sqlite3.connect(own)) as connection:
        connection.execute("UPDATE recording SET contracts = ?", (stored,))
        connection.commit()
    result = run("report", own)
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "own.db" in result.output
    assert run("report", own, "--contract", "others.toml").exit_code == 1
    exports = [("export", own, "--format", format_, "-o", format_) for format_ in ("tape", "har")]
    for command in (("channels", own), ("show", own), ("trim", own, "--exchange", "1", "-o", "new.db"), *exports):
        assert run(*command).exit_code == 0


def test_a_recording_cannot_replace_the_contracts_that_come_with_wiretape(run, tmp_path):
    record(tmp_path / "sse.db", "sse")
    assert codes(report(run, "sse.db")) == []
    with closing(sqlite3.connect("sse.db")) as connection:
        text = CONTRACT.format(name="sse", code="TSK001")
        stored = json.dumps([{"name": "sse", "file": "sse", "texts": {"sse": text}}])
        connection.execute("UPDATE recording SET contracts = ?", (stored,))
        connection.commit()
    assert codes(report(run, "sse.db")) == []
    assert "STR001" in rules_of(report(run, "sse.db"))


def test_code_of_a_contract_in_a_recording_does_not_run(run, plain):
    text = CONTRACT.format(name="tasks", code="TSK001").replace('first = "begun"', 'python = "os:system"')
    stored = json.dumps([{"name": "tasks", "file": "tasks.toml", "texts": {"tasks.toml": text}}])
    with closing(sqlite3.connect(plain)) as connection:
        connection.execute("UPDATE recording SET contracts = ?", (stored,))
        connection.commit()
    result = report(run, plain)
    (rule,) = [each for each in json.loads(result.stdout)["rules"] if each["code"] == "TSK001"]
    assert rule["verdict"] == "inconclusive"
    reason = "the rule is Python code, which runs only with --allow-code"
    assert rule["inconclusive_reasons"] == [{"reason": reason, "count": 1}]
    assert "(os:system) failed at event 1 of exchange 1: TypeError" in run("report", plain, "--allow-code").output


# Without any contract


def service_traffic():
    made = TrafficBuilder()
    made.request("GET", "/v1/sessions/s1/events/stream").respond_stream().send(b"data: {}\n\n").end()
    return made


def rules_of(result):
    return {rule["code"] for rule in json.loads(result.stdout)["rules"]}


def test_the_service_is_known_by_its_operations(run, tmp_path):
    service = report(run, service_traffic().write(tmp_path / "service.db"))
    assert {"SEQ001", "AUTH001"} <= rules_of(service)
    assert "STR002" not in codes(service)
    foreign = report(run, traffic().write(tmp_path / "foreign.db"))
    assert "STR001" in rules_of(foreign)
    assert "SEQ001" not in rules_of(foreign)
    notice = json.loads(foreign.stdout)["summary"]["notice"]
    assert notice.startswith("No exchange is checked as the service's, because ")


def test_streams_beside_those_of_the_service_are_checked_as_any_stream(run, tmp_path):
    made = service_traffic()
    made.request("GET", "/feed").respond_stream().send(b"id: 1\ndata: a\n\nid: 1\ndata: b\n\n").end()
    path = made.write(tmp_path / "both.db")
    both = report(run, path)
    families = {tuple(each["families"]) for each in json.loads(both.stdout)["summary"]["scope"]}
    assert ("REC", "SSE", "STR") in families
    service = report(run, service_traffic().write(tmp_path / "service.db"))
    assert codes(both) == [*codes(service), "STR002"]
    assert [each.code for each in check(path).findings] == codes(both)


@pytest.mark.parametrize("arguments", [("--base", "/tasks"), ("--select", "SEQ"), ("--ignore", "AUTH001")])
def test_who_names_the_service_means_it(arguments, run, plain):
    assert "SEQ001" in rules_of(report(run, plain, *arguments))


def test_who_names_rules_about_any_stream_does_not_mean_the_service(run, plain):
    assert "STR001" in rules_of(report(run, plain, "--select", "SSE"))
    assert "STR001" in rules_of(report(run, plain, "--select", "STR,SSE"))


def test_a_base_in_the_configuration_means_the_service(run, plain):
    Path("wiretape.toml").write_text('base = "/api"\n', "utf-8")
    assert "SEQ001" in rules_of(report(run, plain))


def test_an_empty_recording_is_checked_with_the_rules_of_the_service(run, tmp_path):
    assert "SEQ001" in rules_of(report(run, TrafficBuilder().write(tmp_path / "empty.db")))
