"""`wiretape proxy --contract`: live findings are those of the report, and the recording has the contract."""

import json

import pytest
from click.testing import CliRunner
from wire_bytes import CHUNKED, chunk
from wiretape_process import run_wiretape

from wiretape.cli import wiretape
from wiretape.recording import open_recording

CONTRACT = """
contract = "tasks"
[operations.a]
request = "GET /tasks/{id}"
begins = "start"
[event]
type = "/type"
[[rule]]
code = "TSK001"
name = "other-first"
first = "begun"
clause = "c"
breaks = "data: {}\\n\\n"
"""
PYTHON = 'python = "task_rules:check"'


@pytest.fixture
def behave():
    def send(peer):
        peer.send(CHUNKED)
        for _ in range(2):
            peer.send(chunk(b'data: {"type":"ended"}\n\n'))
        peer.send(b"0\r\n\r\n")

    return send


@pytest.fixture
def contract(tmp_path):
    path = tmp_path / "tasks.toml"
    path.write_text(CONTRACT, "utf-8")
    return path


def findings(path):
    with open_recording(path) as recording:
        return [(each.code, each.exchange, each.event, each.message) for each in recording.findings()]


def report(path, *arguments):
    result = CliRunner().invoke(wiretape, ["report", str(path), "--no-config", "--format", "json", *arguments])
    found = json.loads(result.stdout)["findings"]
    return [(each["code"], each["exchange"], each["event"], each["message"]) for each in found]


@pytest.mark.parametrize("way", ["option", "configuration"])
def test_live_findings_are_those_of_the_report(way, start_proxy, service, behave, contract, tmp_path):
    (tmp_path / "wiretape.toml").write_text('contract = "tasks.toml"\n' if way == "configuration" else "", "utf-8")
    proxy = start_proxy(service.url, *(["--contract", str(contract)] if way == "option" else []))
    proxy.get(service.on("/tasks/1", behave)).until(b"0\r\n\r\n")
    proxy.ended("/tasks/1")
    assert proxy.stop() == 0

    found = [("TSK001", 1, 1, "Expected `begun` first, got `ended`.")]
    assert findings(proxy.file) == found
    assert any("TSK001 (exchange 1, event 1)" in line for line in proxy.lines)
    contract.unlink()
    assert report(proxy.file) == found, "by the contract in the recording"
    assert report(proxy.file, "--contract", "sse") == []
    with open_recording(proxy.file) as recording:
        assert recording.info.contract_names == ["tasks"]


def test_a_recording_that_is_continued_keeps_its_contract(start_proxy, service, behave, contract):
    first = start_proxy(service.url, "--contract", str(contract))
    first.get(service.on("/tasks/1", behave)).until(b"0\r\n\r\n")
    first.ended("/tasks/1")
    assert first.stop() == 0
    second = start_proxy(service.url, "--append", "--output", str(first.file))
    second.get("/tasks/1").until(b"0\r\n\r\n")
    second.ended("/tasks/1")
    assert second.stop() == 0
    assert [each[:2] for each in findings(first.file)] == [("TSK001", 1), ("TSK001", 2)]
    assert report(first.file) == findings(first.file)


def test_each_file_of_a_rotated_recording_has_the_contract(start_proxy, service, behave, contract, tmp_path):
    proxy = start_proxy(service.url, "--contract", str(contract), "--rotate", "0.1s")
    proxy.get(service.on("/tasks/1", behave)).until(b"0\r\n\r\n")
    proxy.wait_line("Closed ")
    proxy.get("/tasks/1").until(b"0\r\n\r\n")
    assert proxy.stop() == 0
    files = sorted(proxy.file.parent.glob(f"{proxy.file.stem}*.db"))
    assert len(files) > 1
    for file in files:
        with open_recording(file) as recording:
            assert recording.info.contract_names == ["tasks"]


def test_code_runs_only_if_it_is_allowed(start_proxy, service, behave, contract, tmp_path):
    contract.write_text(CONTRACT.replace('first = "begun"', PYTHON), "utf-8")
    code = (
        "from wiretape.contract import problem\ndef check(event, stream):\n    return problem(f'Got {event.type}.')\n"
    )
    (tmp_path / "task_rules.py").write_text(code, "utf-8")
    proxy = start_proxy(service.url, "--contract", str(contract), "--allow-code")
    proxy.get(service.on("/tasks/1", behave)).until(b"0\r\n\r\n")
    proxy.ended("/tasks/1")
    assert proxy.stop() == 0

    found = [("TSK001", 1, number, "Got ended.") for number in (1, 2)]
    assert findings(proxy.file) == found
    assert report(proxy.file, "--contract", str(contract), "--allow-code") == found
    assert report(proxy.file) == [], "its own contract, without the code"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (
            CONTRACT.replace("first =", "frist ="),
            [],
            "tasks.toml, line 11: rule[0].frist: unknown key; did you mean first?",
        ),
        (CONTRACT.replace('first = "begun"', PYTHON), [], "runs only with --allow-code."),
        (None, [], "There is no file "),
        (CONTRACT, ["--base", "/x"], "--contract and --base cannot be combined."),
    ],
)
def test_a_mistake_stops_the_start(text, options, said, tmp_path):
    if text is not None:
        (tmp_path / "tasks.toml").write_text(text, "utf-8")
    command = [
        "proxy",
        "http://127.0.0.1:9",
        "--listen",
        "0",
        "--contract",
        "tasks.toml",
        "--output",
        "run.db",
        *options,
    ]
    result = run_wiretape(*command, "--no-upstream-check", cwd=tmp_path)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "run.db").exists()
