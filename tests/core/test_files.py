"""Files on the command line: what is wrong with one is said in one sentence, the same by every command."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.config import find_config
from wiretape.files import replace_atomically, write_error

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


def test_a_folder_that_takes_no_files_is_not_said_to_be_missing(tmp_path):
    """As /proc."""
    told = write_error(tmp_path / "run.db", FileNotFoundError(2, "No such file or directory"))
    assert told == f"{tmp_path}/run.db cannot be written: No such file or directory."


OUTPUTS = [
    *("trim run.tape --exchange 1 -o {}", "merge run.tape b.tape -o {}", "import run.tape -o {}", "demo -o {}"),
    *("export run.tape --format har -o {}", "report run.tape --no-config -o {}", "replay run.tape --record {}"),
    "report run.tape --no-config --write-baseline {}",
    *("replay run.tape --report text:{}", "proxy http://127.0.0.1:9 --output {}", "serve hello --data {}"),
]


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_file_that_cannot_be_made_is_told_alike(told, command):
    for name in ("run.tape", "b.tape"):
        Path(name).write_text("tape: 1\n---\nrequest: GET /\n", "utf-8")
    assert told(command.format("none/x")) == "Error: none/x cannot be written: there is no folder none.\n"


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_folder_that_nobody_may_look_into_is_told_alike(told, command, monkeypatch):
    """Whoever runs the tests may look into everything, so that looking has to be denied in another way."""
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
    assert told(command.format("dark/x")) == "Error: dark/x cannot be written: Permission denied.\n"


class _FailedError(Exception):
    """What goes wrong while a file is written."""


@pytest.mark.parametrize("before", [None, "old"])
def test_a_file_that_was_not_written_to_its_end_leaves_what_was_there(tmp_path, before):
    """Half a tape can be read like a whole one, and half a baseline has lost the reasons of people."""
    path = tmp_path / "run.tape"
    if before:
        path.write_text(before, "utf-8")
    with suppress(_FailedError), replace_atomically(path, 0o600) as file:
        file.write(b"half of")
        file.flush()
        raise _FailedError
    assert [one.read_text("utf-8") for one in tmp_path.iterdir()] == ([before] if before else [])


def test_a_file_that_takes_the_place_of_another_is_whole_private_and_where_a_link_leads(tmp_path):
    (tmp_path / "run.tape").write_text("old and longer", "utf-8")
    (tmp_path / "link").symlink_to("run.tape")
    with replace_atomically(tmp_path / "link", 0o600) as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "run.tape").read_bytes() == b"new"
    assert (tmp_path / "run.tape").stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("import run.tape -o made", "made cannot be written: .+"),
        (
            "show run.tape",
            "The temporary recording of run.tape cannot be written: .+: set TMPDIR to a folder with enough space",
        ),
    ],
)
def test_a_recording_that_does_not_fit_is_told_by_a_name_that_means_something_and_leaves_nothing(
    tmp_path, command, said
):
    """Not by that of the file that would have been put in its place."""
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
    assert re.fullmatch(rf"Error: {said}\.\n", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]


def test_settings_above_a_folder_that_nobody_may_look_into_are_not_looked_for(tmp_path, monkeypatch):
    (tmp_path / "dark" / "here").mkdir(parents=True)
    (tmp_path / "dark" / "wiretape.toml").write_text("[report]\nselect = ['SEQ']\n", "utf-8")
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, *how: Path(path) != tmp_path / "dark" and may(path, *how))
    assert find_config(tmp_path / "dark" / "here").file is None
