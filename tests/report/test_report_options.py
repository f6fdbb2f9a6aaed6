"""What of a recording is reported, in which forms, and where it goes."""

import json

import pytest
from invoke import succeed
from vector_text import vector_text

from wiretape.checker import CATALOGUE
from wiretape.rules import Severity

BROKEN = vector_text("SEQ001", "breaks")


@pytest.fixture
def path(record):
    return record(BROKEN)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Tests stand in a folder without configuration above it."""
    monkeypatch.chdir(tmp_path)


def codes(result):
    document = json.loads(result.stdout)
    return {rule["code"] for rule in document["rules"] if rule["selected"]}


@pytest.mark.parametrize(
    ("arguments", "printed", "written"),
    [
        (
            "--format junit --output a --format text --format html --output b",
            "SEQ001 ",
            {"a": "<?xml", "b": "<!doctype"},
        ),
        ("--format=concise --format=json --output=a", "run.db:1:2: SEQ001 ", {"a": "{"}),
        ("--output a --format json", "", {"a": "{"}),
        ("--format json --output -", "{", {}),
    ],
)
def test_each_output_applies_to_the_preceding_format(run, path, tmp_path, arguments, printed, written):
    result = run("report", path.name, *arguments.split())
    assert result.exit_code == 1, result.stderr
    assert result.stdout.startswith(printed)
    assert bool(result.stdout) is bool(printed)
    found = {file.name: file.read_text() for file in tmp_path.iterdir() if file != path}
    assert found.keys() == written.keys()
    assert all(found[name].startswith(text) for name, text in written.items())


def test_rules_are_selected_by_code_prefixes(run, path):
    def of(*arguments):
        return codes(run("report", path, "--format", "json", *arguments))

    sequence = {code for code in CATALOGUE if code.startswith("SEQ")}
    assert of() == set(CATALOGUE)
    assert of("--select", "SEQ") == sequence
    assert of("--select", "seq,SSE001", "--select", "ERR001") == sequence | {"SSE001", "ERR001"}
    assert of("--ignore", "SEQ") == set(CATALOGUE) - sequence
    assert of("--select", "SEQ", "--ignore", "SEQ004") == sequence - {"SEQ004"}
    assert of("--select", "SEQ004", "--ignore", "SEQ") == {"SEQ004"}
    assert of("--select", "ALL", "--ignore", "SEQ") == set(CATALOGUE) - sequence


def test_exit_zero_prints_the_findings_and_succeeds(run, path):
    result = run("report", path, "--exit-zero")
    assert (result.exit_code, "SEQ001" in result.stdout) == (0, True)


def test_statistics_count_instead_of_showing(run, all_vectors_file):
    result = run("report", all_vectors_file, "--statistics")
    assert result.exit_code == 1
    lines = result.stdout.split("\n\n")[0].splitlines()
    assert {line.split()[2] for line in lines} == set(CATALOGUE)
    order = [(list(Severity).index(severity), -int(number)) for number, severity, *_ in map(str.split, lines)]
    assert order == sorted(order), "most severe first"
    assert "-->" not in result.stdout


def test_severities_and_more_come_from_the_configuration(run, path, tmp_path):
    (tmp_path / "wiretape.toml").write_text('[severity]\nSEQ001 = "warning"\nSSE = "off"\n')
    result = succeed("report", path, "--format", "json")
    document = json.loads(result.stdout)
    assert document["findings"][0]["severity"] == "warning"
    assert {rule["severity"] for rule in document["rules"] if rule["code"] == "SEQ001"} == {"warning"}
    assert not any(code.startswith("SSE") for code in codes(result))
    assert run("report", path, "--no-config").exit_code == 1
    assert run("report", path, "--fail-on", "warning").exit_code == 1


def test_the_command_line_overrides_the_configuration(run, path, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.wiretape]\nselect = ["SSE"]\nfail-on = "never"\n')
    succeed("report", path)
    assert run("report", path, "--select", "SEQ").exit_code == 0
    assert run("report", path, "--select", "SEQ", "--fail-on", "error").exit_code == 1


def test_configuration_errors_name_the_location(run, path, tmp_path):
    (tmp_path / "wiretape.toml").write_text('\nfail_on = "error"\n')
    result = run("report", path)
    assert result.exit_code == 2
    error = "wiretape.toml: fail_on: unknown key; did you mean fail-on?\n"
    assert result.stderr.endswith(error)
