"""Rules in Python: in a contract file they run only with --allow-code, in an installed package always."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wiretape.checker.contract_examples import check_examples
from wiretape.contract import CodeUse, load_contract
from wiretape.traffic_builder import TrafficBuilder

MODULE = '''
from wiretape.contract import HELD, Event, Inconclusive, Outcome, Problem, Stream, problem

open("ran", "w").close()


def even(event: Event, stream: Stream) -> Outcome:
    """Numbers are even."""
    number = event.json.get("n")
    if number is None:
        return None
    seen = stream.memory.get(even, list)
    seen.append(number)
    return HELD if number % 2 == 0 else problem(f"Expected an even number, got {number} after {seen[:-1]}.")


def wrong(event, stream):
    return "odd"


def unsure(event, stream):
    return Inconclusive("nobody knows")


def several(event, stream):
    return [Problem("Expected one."), Problem("Expected two.")]


NUMBER = 3
'''
CONTRACT = """
contract = "numbers"
title = "Numbers"
[operations.a]
request = "GET /numbers"
[[rule]]
code = "NUM001"
name = "odd"
clause = "Numbers are even."
python = "number_rules:even"
breaks = "data: {\\"n\\": 1}\\n\\n"
keeps = "data: {\\"n\\": 2}\\n\\n"
"""
MADE_IN_PYTHON = """
from wiretape.contract import CodeUse, load_contract
CONTRACT = load_contract(__file__.replace("__init__.py", "numbers.toml"), code=CodeUse.RUN)
"""


@pytest.fixture
def run(run, monkeypatch):
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield run
    for name in [name for name in sys.modules if name.startswith("number_rules")]:
        del sys.modules[name]


@pytest.fixture
def contract(run, tmp_path):
    (tmp_path / "number_rules.py").write_text(MODULE, "utf-8")
    (tmp_path / "numbers.toml").write_text(CONTRACT, "utf-8")
    return tmp_path / "numbers.toml"


@pytest.fixture
def recording(tmp_path):
    traffic = TrafficBuilder()
    traffic.request("GET", "/numbers").respond_stream().send(b'data: {"n": 2}\n\ndata: {"n": 3}\n\n').end()
    return traffic.write(tmp_path / "run.db")


@pytest.fixture
def install(run, tmp_path):
    """Install a package with a contract, whose module has a text."""

    def install(text, name="numbers", package="numbers_pkg"):
        site = tmp_path / "site" / package
        folder = site / f"{package}_rules"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(text, "utf-8")
        (folder / "numbers.toml").write_text(CONTRACT, "utf-8")
        (site / "number_rules.py").write_text(MODULE, "utf-8")
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[wiretape.contracts]\n{name} = {package}_rules:CONTRACT\n", "utf-8")
        sys.path.append(str(site))

    yield install
    for name in [name for name in sys.modules if name.endswith("_pkg_rules")]:
        del sys.modules[name]


def test_a_rule_in_python_finds_problems_and_remembers(run, contract, recording):
    result = run("report", recording, "--contract", contract, "--allow-code", "--format", "json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["findings"]
    assert (found["code"], found["event"], found["message"]) == (
        "NUM001",
        2,
        "Expected an even number, got 3 after [2].",
    )


def test_an_import_runs_the_code_that_it_may_run(run, contract, recording):
    assert run("export", recording, "--format", "tape", "--output", "run.tape").exit_code == 0
    imported = run("import", "run.tape", "--contract", contract, "--allow-code", "--output", "new.db")
    assert "1 finding" in imported.output


@pytest.mark.parametrize(
    "command",
    [
        ("report", "run.db", "--contract", "numbers.toml"),
        ("contract", "test", "numbers.toml"),
        ("contract", "docs", "numbers.toml", "-o", "pages"),
        ("rule", "NUM001", "--contract", "numbers.toml"),
    ],
)
def test_code_of_a_file_runs_only_if_it_is_allowed(command, run, contract, recording):
    refused = run(*command)
    assert refused.exit_code == 2
    assert refused.output == (
        "Error: numbers.toml, line 10: rule[0].python: the Python code that a contract file names runs only with "
        "--allow-code.\n"
    )
    assert not Path("ran").exists()
    assert run(*command, "--allow-code").exit_code in {0, 1}
    assert Path("ran").exists()


def test_show_explains_a_contract_without_running_its_code(run, contract):
    assert "NUM001" in run("contract", "show", contract).output
    assert not Path("ran").exists()


def test_the_examples_of_a_rule_in_python_are_run(run, contract):
    tested = run("contract", "test", contract, "--allow-code")
    assert tested.output == "1 rule, 2 of 2 examples do what they are for.\n"
    contract.write_text(CONTRACT.replace('"n\\": 1', '"n\\": 4'), "utf-8")
    assert "expected a finding of NUM001, got none" in run("contract", "test", contract, "--allow-code").output


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("number_rules:even", "number_rules", "line 10: rule[0].python: expected package.module:function, got"),
        ("number_rules:even", "number_rules:evn", "cannot import number_rules:evn (AttributeError: "),
        ("number_rules:even", "numbr_rules:even", "cannot import numbr_rules:even (ModuleNotFoundError: No module"),
        ("number_rules:even", "number_rules:NUMBER", "rule[0].python: number_rules:NUMBER is not a function."),
        ("number_rules:even", "../x:y", "expected package.module:function, got '../x:y'"),
        ("number_rules:even", "number_rules:wrong", "it returned 'odd', which is not an outcome."),
        ("python =", 'first = "a"\npython =', "expected exactly one of match, "),
    ],
)
def test_a_mistake_is_one_sentence(old, new, said, run, contract, recording):
    contract.write_text(CONTRACT.replace(old, new), "utf-8")
    result = run("report", recording, "--contract", contract, "--allow-code")
    assert result.exit_code == 2
    assert said in result.output
    assert result.output.count("\n") == 1
    assert result.output.startswith("Error: ")


@pytest.mark.parametrize("broken", ["raise SystemExit(0)", "import nothing_like_it", "def f(:", "1 / 0"])
def test_a_module_that_cannot_be_imported_is_one_sentence(broken, run, contract, recording):
    Path("number_rules.py").write_text(broken, "utf-8")
    result = run("report", recording, "--contract", contract, "--allow-code")
    assert result.exit_code == 2
    assert "line 10: rule[0].python: cannot import number_rules:even (" in result.output
    assert result.output.count("\n") == 1


def test_a_rule_that_fails_is_named_with_the_event(run, contract, recording):
    Path("number_rules.py").write_text("def even(event, stream):\n    return 1 / 0\n", "utf-8")
    result = run("report", recording, "--contract", contract, "--allow-code")
    said = (
        "The rule NUM001 (number_rules:even) failed at event 1 of exchange 1: ZeroDivisionError in number_rules.py:2."
    )
    assert (result.exit_code, result.output) == (2, f"Error: {said}\n")


WAITS = """
import threading
def even(event, stream):
    open("waits", "w").close()
    threading.Event().wait()
"""


@pytest.mark.parametrize(
    "command",
    [
        ("report", "run.db", "--contract", "numbers.toml"),
        ("contract", "test", "numbers.toml"),
        ("rule", "NUM001", "--contract", "numbers.toml"),
    ],
    ids=" ".join,
)
def test_ctrl_c_ends_a_check_with_status_130(command, contract, recording, tmp_path):
    Path("number_rules.py").write_text(WAITS, "utf-8")
    os.mkfifo("waits")
    program = [sys.executable, "-m", "wiretape", *command, "--allow-code"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        Path("waits").read_bytes()
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)[0]
    assert (process.returncode, b"Traceback" in output) == (130, False)


def test_examples_that_take_long_are_refused(run, contract, monkeypatch):
    Path("number_rules.py").write_text(WAITS.replace('open("waits", "w").close()', "pass"), "utf-8")
    monkeypatch.setattr("wiretape_inspect.contract_options._LONGEST_S", 0.1)
    for command in (("contract", "test", contract), ("rule", "NUM001", "--contract", contract)):
        refused = run(*command, "--allow-code")
        assert refused.exit_code == 2
        assert f"The examples of {contract} take more than 0.1 seconds" in refused.output


@pytest.mark.parametrize(("function", "verdict", "findings"), [("unsure", "inconclusive", 0), ("several", "fail", 4)])
def test_every_outcome_is_counted(function, verdict, findings, run, contract, recording):
    contract.write_text(CONTRACT.replace(":even", f":{function}"), "utf-8")
    result = run("report", recording, "--contract", contract, "--allow-code", "--format", "json")
    report = json.loads(result.stdout)
    (rule,) = [each for each in report["rules"] if each["code"] == "NUM001"]
    assert (rule["verdict"], rule["findings"]) == (verdict, findings)


def test_a_module_in_the_folder_replaces_no_other_one(run, contract, recording):
    Path("json.py").write_text("raise SystemExit", "utf-8")
    contract.write_text(CONTRACT.replace("number_rules:even", "json:loads"), "utf-8")
    load_contract("numbers.toml", code=CodeUse.RUN)
    assert str(contract.parent) not in sys.path


@pytest.mark.parametrize(
    "text",
    [
        'CONTRACT = "numbers.toml"',
        'from pathlib import Path\nCONTRACT = Path(__file__).with_name("numbers.toml")',
        MADE_IN_PYTHON,
    ],
    ids=["name", "path", "contract"],
)
def test_an_installed_contract_is_known_by_its_name(text, run, install, recording):
    install(text)
    assert "numbers         Numbers  (11 rules)" in run("contract", "list").output.splitlines()
    assert run("contract", "test", "numbers").output == "1 rule, 2 of 2 examples do what they are for.\n"
    result = run("report", recording, "--contract", "numbers", "--format", "concise")
    assert "run.db:1:2: NUM001 odd error: Expected an even number, got 3 after [2]." in result.output
    assert [each.problem for each in check_examples(load_contract("numbers"))] == ["", ""]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "cannot be loaded (ZeroDivisionError: division by zero): repair the package."),
        ("CONTRACT = 3", "is neither a Contract nor the path of a TOML file, but of type int."),
        ("X = 3", "cannot be loaded (AttributeError: "),
        ("raise SystemExit", "cannot be loaded (SystemExit: ): repair"),
        ('CONTRACT = "none.toml"', "There is no file "),
    ],
)
def test_a_broken_package_is_one_sentence_and_breaks_nothing_else(text, said, run, install, recording):
    install(text)
    listed = run("contract", "list")
    assert listed.exit_code == 2
    assert {"agent-sessions", "sse"} <= {line.split()[0] for line in listed.stdout.splitlines()}
    assert said in listed.stderr
    assert listed.stderr.count("\n") == 1
    used = run("report", recording, "--contract", "numbers")
    assert used.exit_code == 2
    assert said in used.output
    assert run("report", recording, "--contract", "sse").exit_code == 0
    assert run("report", recording).exit_code == 0


def test_two_packages_with_the_same_name_are_refused(run, install):
    install('CONTRACT = "numbers.toml"')
    install('CONTRACT = "numbers.toml"', package="other_pkg")
    assert run("contract", "test", "numbers").output == (
        "Error: The packages numbers_pkg and other_pkg have a contract numbers each: uninstall one of them.\n"
    )


def test_an_unknown_name_lists_those_that_are_installed(run, install):
    install('CONTRACT = "numbers.toml"')
    assert ", numbers, open-responses, openai, sse, or the name of a file" in run("contract", "show", "nmbers").output
