"""What commands write is private, and replaces a file only with --force, and never a file that is read."""

import stat

import pytest
from invoke import succeed

COMMANDS = {
    "export": ("run.db", "--format", "tape"),
    "import": ("run.tape",),
    "merge": ("run.db", "other.db"),
    "recover": ("run.db",),
    "trim": ("run.db", "--exchange", 2),
}


@pytest.fixture
def write(run, session, new_builder, tmp_path, monkeypatch):
    """Run a command that writes a file."""
    monkeypatch.chdir(tmp_path)
    other = new_builder()
    other.exchange(target="/a")
    other.close().rename("other.db")
    succeed("export", session, "--format", "tape", "--output", "run.tape")
    return lambda name, to, *more: run(name, *COMMANDS[name], "--output", to, *more)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_existing_file_is_replaced_only_with_force(write, tmp_path, name):
    to = tmp_path / "made"
    assert write(name, to).exit_code == 0
    assert stat.S_IMODE(to.stat().st_mode) == 0o600
    made = to.stat().st_size
    to.write_text("mine")
    to.chmod(0o644)
    refused = write(name, to)
    assert (refused.exit_code, "made exists" in refused.stderr, to.read_text()) == (2, True, "mine")
    assert write(name, to, "--force").exit_code == 0
    assert to.stat().st_size == made
    assert stat.S_IMODE(to.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"made", "run.db", "other.db", "run.tape"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_is_read_is_never_replaced(write, tmp_path, name):
    read = tmp_path / COMMANDS[name][0]
    before = read.read_bytes()
    refused = write(name, read, "--force")
    assert (refused.exit_code, "is also an input file" in refused.stderr) == (2, True)
    assert read.read_bytes() == before
