"""Files on the command line: every command reports the same error in the same words."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from for_each import for_each
from invoke import refusal

from wiretape.config import find_config
from wiretape.files import replace_atomically, write_error

COMMANDS = [
    *("report {}", "show {}", "channels {}", "debug {}", "diff {} {}", "export {} --format tape", "datasette {}"),
    *("import {}", "trim {} --channel s1 -o made.db", "merge {} other.db -o made.db", "replay {} --no-config"),
]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def error_of(command: str, name: str = "run.db") -> str:
    """Run a command on a file that it cannot use; return its error."""
    return refusal(*(part.format(name, name) for part in command.split()))


@for_each("command", COMMANDS)
def test_every_command_reports_a_missing_file_alike(command):
    assert error_of(command) == "Error: There is no file run.db."


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reports_an_unreadable_file_alike(command, monkeypatch):
    """The tests may run as root, so opening is denied by a patch."""
    Path("run.db").write_bytes(b"tape: 1")
    opened = Path.open

    def denied(path, *args, **more):
        if path.name == "run.db":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **more)

    may = os.access
    monkeypatch.setattr(os, "access", lambda path, *how, **more: path != "run.db" and may(path, *how, **more))
    monkeypatch.setattr(Path, "open", denied)
    assert error_of(command) == "Error: run.db cannot be read: Permission denied."


EMPTY_PATHS = [*COMMANDS, "replay other.db --faults {}", "serve hello --service {}", "report other.db --config {}"]


@for_each("command", EMPTY_PATHS)
def test_every_command_refuses_an_empty_path(command):
    """An unset variable must not mean the current folder."""
    assert error_of(command, "").endswith(": the path is empty.")


def test_a_folder_that_accepts_no_files_is_not_reported_as_missing(tmp_path):
    """Such as /proc."""
    message = write_error(tmp_path / "run.db", FileNotFoundError(2, "No such file or directory"))
    assert message == f"{tmp_path}/run.db cannot be written: No such file or directory."


OUTPUTS = [
    *("trim run.tape --exchange 1 -o {}", "merge run.tape b.tape -o {}", "import run.tape -o {}", "demo -o {}"),
    *("export run.tape --format har -o {}", "report run.tape --no-config -o {}", "replay run.tape --record {}"),
    "report run.tape --no-config --write-baseline {}",
    *("replay run.tape --report text:{}", "proxy http://127.0.0.1:9 --output {}"),
]


@for_each("command", OUTPUTS)
def test_every_command_reports_a_missing_output_folder_alike(command):
    for name in ("run.tape", "b.tape"):
        Path(name).write_text("tape: 1\n---\nrequest: GET /\n", "utf-8")
    assert error_of(command, "none/x") == "Error: none/x cannot be written: there is no folder none."


@pytest.mark.parametrize("command", OUTPUTS)
def test_every_command_reports_an_inaccessible_output_folder_alike(command, monkeypatch):
    """The tests may run as root, so access is denied by patches."""
    for name in ("run.tape", "b.tape"):
        Path(name).write_text("tape: 1\n---\nrequest: GET /\n", "utf-8")
    Path("dark").mkdir()
    stat, make, may = os.stat, os.open, os.access

    def denied(do):
        def done(path, *args, **more):
            if str(path) == "dark/x":
                raise PermissionError(13, "Permission denied")
            return do(path, *args, **more)

        return done

    monkeypatch.setattr(os, "stat", denied(stat))
    monkeypatch.setattr(os, "open", denied(make))
    monkeypatch.setattr(os, "access", lambda path, *how, **more: str(path) != "dark" and may(path, *how, **more))
    assert error_of(command, "dark/x") == "Error: dark/x cannot be written: Permission denied."


class _FailedError(Exception):
    """A failure while a file is written."""


@pytest.mark.parametrize("before", [None, "old"])
def test_a_failed_write_leaves_the_old_file_unchanged(tmp_path, before):
    """Half a tape reads like a whole one, and half a baseline has lost its reasons."""
    path = tmp_path / "run.tape"
    if before:
        path.write_text(before, "utf-8")
    with suppress(_FailedError), replace_atomically(path, 0o600) as file:
        file.write(b"half of")
        file.flush()
        raise _FailedError
    assert [one.read_text("utf-8") for one in tmp_path.iterdir()] == ([before] if before else [])


def test_a_replaced_file_is_complete_private_and_at_the_target_of_a_link(tmp_path):
    (tmp_path / "run.tape").write_text("old and longer", "utf-8")
    (tmp_path / "link").symlink_to("run.tape")
    with replace_atomically(tmp_path / "link", 0o600) as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "run.tape").read_bytes() == b"new"
    assert (tmp_path / "run.tape").stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("import run.tape -o made", "made cannot be written: .+"),
        (
            "show run.tape",
            "The temporary recording of run.tape cannot be written: .+: set TMPDIR to a folder with enough space",
        ),
    ],
)
def test_a_recording_that_does_not_fit_is_reported_by_its_own_name_and_leaves_nothing(tmp_path, command, message):
    """The error names the recording, not the temporary file."""
    (tmp_path / "run.tape").write_text("tape: 1\n---\nrequest: GET /\n", "utf-8")
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 8 && exec "$0" -m wiretape "$@"', sys.executable, *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"Error: {message}\.\n", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]


def test_an_inaccessible_parent_folder_is_skipped_in_the_search_for_a_configuration(tmp_path, monkeypatch):
    (tmp_path / "dark" / "here").mkdir(parents=True)
    (tmp_path / "dark" / "wiretape.toml").write_text("[report]\nselect = ['SEQ']\n", "utf-8")
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, *how: Path(path) != tmp_path / "dark" and may(path, *how))
    assert find_config(tmp_path / "dark" / "here").file is None
