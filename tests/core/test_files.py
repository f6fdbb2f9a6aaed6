"""Files on the command line: what is wrong with one is said in one sentence, the same by every command."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape

COMMANDS = [
    *("report {}", "show {}", "sessions {}", "debug {}", "diff {} {}", "export {} --format tape", "datasette {}"),
    *("import {}", "trim {} --session s1 -o made.db", "merge {} other.db -o made.db", "replay {} --no-config"),
]


@pytest.fixture
def told(tmp_path, monkeypatch):
    """What a command that fails says of the file run.db."""
    monkeypatch.chdir(tmp_path)

    def told(command: str) -> str:
        result = CliRunner().invoke(wiretape, command.format("run.db", "run.db").split())
        assert (result.exit_code, result.stdout) == (2, "")
        return result.stderr

    return told


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_there_is_told_alike(told, command):
    assert told(command) == "Error: There is no file run.db.\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_must_not_be_read_is_told_alike(told, command, monkeypatch):
    """Whoever runs the tests may read everything, so that opening has to be denied in another way."""
    Path("run.db").write_bytes(b"tape: 1")
    opened = Path.open

    def denied(path, *args, **more):
        if path.name == "run.db":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **more)

    may = os.access
    monkeypatch.setattr(os, "access", lambda path, *how, **more: path != "run.db" and may(path, *how, **more))
    monkeypatch.setattr(Path, "open", denied)
    assert told(command) == "Error: run.db cannot be read: Permission denied.\n"
