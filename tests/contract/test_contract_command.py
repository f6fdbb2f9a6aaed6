"""`wiretape contract`, and the commands that take a contract."""

import json
from pathlib import Path

import pytest

from wiretape.checker.contract_examples import check_examples
from wiretape.contract.contract_builder import load_contract
from wiretape.contract.contract_files import BUNDLED
from wiretape.traffic_builder import TrafficBuilder
from wiretape_inspect.report import FORMATS

CONTRACT = Path(__file__).with_name("open-responses.toml")
RESUMED = "Expected the resumed stream to begin with the event `{}`, which follows the cursor `{}`, got the event `{}`."


@pytest.fixture
def recording(tmp_path):
    """A response that lacks an event, and one that is resumed at the wrong place."""
    traffic = TrafficBuilder()
    types = ["response.created", "response.in_progress", "response.completed"]
    body = [
        f'event: {name}\ndata: {{"type":"{name}","sequence_number":{number},"response":{{"id":"resp_1"}}}}\n\n'.encode()
        for number, name in enumerate(types)
    ]
    created = traffic.request("POST", "/v1/responses").respond_stream()
    for chunk in (*body, b"data: [DONE]\n\n"):
        created.send(chunk)
    created.end()
    resumed = traffic.request("GET", "/v1/responses/resp_1?starting_after=0").respond_stream()
    resumed.send(body[2]).end()
    traffic.request("GET", "/v1/models").respond(json={})
    return traffic.write(tmp_path / "run.db")


@pytest.mark.parametrize("name", [*BUNDLED, CONTRACT])
def test_the_examples_of_a_contract_do_what_they_say(name):
    assert [result.problem for result in check_examples(load_contract(str(name))) if result.problem] == []


def test_report_finds_what_breaks_a_contract(run, recording):
    result = run("report", recording, "--contract", CONTRACT, "--format", "json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    found = [(each["code"], each["exchange"], each["event"], each["message"]) for each in report["findings"]]
    assert found == [
        ("STR001", 2, 1, RESUMED.format(1, 0, 2)),
        ("ORS004", 2, 1, "Expected `[DONE]` last, got `response.completed` before the response ended."),
    ]
    rules = {rule["code"]: rule for rule in report["rules"]}
    assert rules["ORS004"]["name"] == "no-done"
    assert rules["ORS003"]["verdict"] == "pass"
    assert "SEQ001" not in rules
    assert [(each["exchanges"], each["reason"]) for each in report["summary"]["scope"]] == [
        (2, "they match an operation of the contract open-responses-part"),
        (1, "they match no operation of the contract open-responses-part"),
    ]
    assert "ORS" in report["summary"]["scope"][0]["families"]


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_has_the_names_of_the_contract(format_, run, recording):
    result = run("report", recording, "--contract", CONTRACT, "--format", format_, "--output", "out")
    assert result.exit_code == 1
    text = Path("out").read_text("utf-8")
    assert "ORS004" in text
    assert format_ in {"github", "sarif", "gitlab", "html"} or "SEQ001" not in text


def test_codes_of_a_contract_are_selected_and_kept_in_a_baseline(run, recording):
    chosen = ("report", recording, "--contract", CONTRACT)
    assert run(*chosen, "--select", "STR").exit_code == 0
    assert run(*chosen, "--ignore", "ORS004").exit_code == 0
    assert "Unknown rule code 'SEQ001'" in run(*chosen, "--select", "SEQ001").output
    assert run(*chosen, "--write-baseline", "known.json").exit_code == 0
    assert run(*chosen, "--baseline", "known.json", "--strict-baseline").exit_code == 0
    Path("wiretape.toml").write_text('select = ["SEQ", "SSE"]\nignore = ["RES"]\n', "utf-8")
    assert "no findings" in run(*chosen).output


def test_reports_of_several_processes_are_the_same(run, recording, monkeypatch):
    Path("copy.db").write_bytes(recording.read_bytes())
    monkeypatch.setattr("wiretape_inspect.report.file_reports.SMALL", 0)
    command = ("report", recording, "copy.db", "--contract", CONTRACT, "--format", "json")
    assert run(*command, "--jobs", "2").stdout == run(*command, "--jobs", "1").stdout


def test_without_an_exchange_of_the_contract_the_report_says_so(run, recording, tmp_path):
    contract = tmp_path / "other.toml"
    contract.write_text('contract = "other"\n[operations.a]\nrequest = "GET /other"\n', "utf-8")
    assert "they match no operation of the contract other" in run("report", recording, "--contract", contract).output


def test_rule_explains_the_rules_of_a_contract(run):
    text = run("rule", "ORS004", "--contract", CONTRACT).output
    assert text.startswith("ORS004 no-done\n")
    assert "Clients wait for it." in text
    assert "  => ORS004 error: Expected `[DONE]` last, got `response.completed` before" in text
    inherited = json.loads(run("rule", "STR001", "--contract", CONTRACT, "--format", "json").stdout)
    assert inherited["examples"][0]["found"] == [f"STR001 warning: {RESUMED.format(2, 1, 3)}"]
    assert run("rule", "SEQ001", "--contract", CONTRACT).exit_code == 2


def test_control_characters_of_a_contract_are_escaped(run):
    text = CONTRACT.read_text("utf-8").replace('why = "Clients', 'why = "\\u001b[2JClients')
    Path("evil.toml").write_text(text, "utf-8")
    for format_ in ("text", "markdown"):
        output = run("rule", "ORS004", "--contract", "evil.toml", "--format", format_).output
        assert "\\x1b[2JClients" in output
        assert "\x1b" not in output


def test_an_example_with_headers_is_still_a_stream(run):
    header = '[[rule.breaks]]\nresponse_headers = ["X-A: b"]\nbody = "data: {}\\n\\n"\n'
    rule = '[[rule]]\ncode = "TST001"\nname = "n"\nclause = "c"\nfirst = "a"\n'
    Path("t.toml").write_text(f'contract = "t"\n[operations.a]\nrequest = "GET /"\nbegins = "start"\n{rule}{header}')
    assert run("contract", "test", "t.toml").exit_code == 0


def test_list_and_show_name_the_parts(run):
    names = [line.split()[0] for line in run("contract", "list").output.splitlines()]
    assert {"ag-ui", "agent-sessions", "open-responses", "openai", "sse"} <= {*names}
    text = run("contract", "show", CONTRACT).output
    for part in ("retrieve: GET /v1/responses/{response}, cursor in the query", "inside item", "ORS008"):
        assert part in text


def test_a_new_contract_passes_its_test(run, tmp_path):
    assert run("contract", "new", "-o", "my.toml").exit_code == 0
    assert Path("my.toml").read_text("utf-8") == run("contract", "new").stdout
    assert run("contract", "new", "-o", "my.toml").exit_code == 2
    assert run("contract", "test", "my.toml").output == "2 rules, 4 of 4 examples do what they are for.\n"


SMALL = """
contract = "small"
[operations.follow]
request = "GET /"
[event]
type = "/type"
durable = ["a.*", "c.*"]
delta = { types = "delta", text = { "d*" = "/text" } }
[entity.run]
opens = ["a.begun", "a.beg*m"]
closes = "*ver"
[error]
code = "/code"
codes = { busy = 409, slow = { status = 429, when = "limit" } }
[limits]
reads = { requests = 1, seconds = 60, counts = ["follow", "GET /all"] }
[scopes]
read = "follow"
[[rule]]
code = "TST001"
name = "not-over-last"
last = "a.over"
clause = "c"
breaks = '''
data: {"type": "a.begun"}

'''
"""


def test_types_that_no_example_has_are_named(run):
    Path("small.toml").write_text(SMALL, "utf-8")
    types = "a.beg*m (entity.run.opens), *ver (entity.run.closes), c.* (event.durable), delta (event.delta)"
    assert run("contract", "test", "small.toml").output.splitlines() == [
        "Without an example that keeps the rule: TST001.",
        f"No example has an event of these types, which may be misspelt: {types}, d* (event.delta.text).",
        "1 rule, 1 of 1 example does what it is for.",
    ]


def test_show_has_what_the_service_does(run):
    Path("small.toml").write_text(SMALL, "utf-8")
    text = run("contract", "show", "small.toml").output
    for part in (
        "errors\n  busy: 409\n  slow: 429, when limit\n",
        "limits\n  reads: 1 request in 60 seconds, counts follow and GET /all\n",
        "scopes\n  read: follow\n",
    ):
        assert f"\n\n{part}" in text


def test_an_example_that_does_not_do_what_it_says_fails(run):
    text = CONTRACT.read_text("utf-8")
    bad = text.replace('"sequence_number": 0}\n\ndata: [DONE]', '"x": 0}\n\ndata: [DONE]')
    Path("bad.toml").write_text(bad, "utf-8")
    Path("worse.toml").write_text(text.replace("ORS004", "ORS001"), "utf-8")
    result = run("contract", "test", "bad.toml")
    assert result.exit_code == 1
    assert "ORS003 breaks: expected a finding of ORS003, got none" in result.output
    assert run("contract", "test", "worse.toml").exit_code == 2
    rule = '[[rule]]\ncode = "ORS099"\nname = "x"\nfirst = "a"\nclause = "c"\n'
    elsewhere = '[[rule.breaks]]\nrequest = "GET /v1/respones"\nbody = "data: 1\\n\\n"\n'
    Path("other.toml").write_text(f"{text}\n{rule}{elsewhere}", "utf-8")
    assert "got none; no operation matches GET /v1/respones." in run("contract", "test", "other.toml").output
    assert run("report", "x.db", "--contract", "worse.toml").exit_code == 2
