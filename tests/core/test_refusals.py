"""Commands refuse what they cannot do with status 2 and one sentence, and leave no files."""

import shlex
from pathlib import Path

import pytest
from for_each import for_each
from invoke import refusal, succeed
from tables import read_tables

TABLES = read_tables(__file__)
FILES = TABLES.pop("files")
CASES = [(f"{command} {arguments}", error) for command, rows in TABLES.items() for arguments, error in rows]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make the current folder one with a recording and files of other kinds."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
    Path("run.tape").write_bytes(Path(__file__).with_name("data").joinpath("refused.tape").read_bytes())
    succeed("import", "run.tape")
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@for_each("case", CASES, ids=lambda case: case[0])
def test_what_a_command_cannot_do_is_one_sentence_and_changes_no_file(folder, case):
    command, error = case
    before = contents(folder)
    told = refusal(*shlex.split(command))
    assert error in told
    assert "secret" not in told
    assert "because of a bug" not in told
    assert contents(folder) == before
