"""The `wiretape` command without its subcommands."""

import platform
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner, Result
from for_each import for_each
from invoke import succeed

from wiretape import __version__, cli
from wiretape.errors import InputError

_NAMES = (
    "proxy replay cassette serve control report probe rule contract channels show debug "
    "diff export import merge trim tape recover datasette demo completion doctor"
)
COMMANDS = _NAMES.split()


_INSTALLED_SCRIPT = "from wiretape.__main__ import main; main()"
"""The code of the script that an installation puts on the PATH."""


def run(*args, program=cli.wiretape) -> Result:
    return CliRunner().invoke(program, args)


def python(code: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run code, or a command that gets the interpreter and the code."""
    words = [*command, sys.executable, *([] if command else ["-c"]), code]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=50)


@pytest.fixture
def program(monkeypatch):
    """Return a function that makes a program with one subcommand, `fake`, that calls `action`."""

    def make(action):
        module = ModuleType("wiretape_fake")
        module.fake = click.command()(action)
        monkeypatch.setitem(sys.modules, "wiretape_fake", module)
        return cli._LazyGroup("wiretape", commands=[cli._LazyCommand("fake", "wiretape_fake:fake", "Do it.")])

    return make


def _caused_by(cause: BaseException) -> Exception:
    """An error as Python 3.11 makes it of what a descriptor raises while a class is made."""
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = cause
    return error


def raising(error: BaseException):
    def action():
        raise error

    return action


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_lists_every_command_in_groups(flag):
    result = succeed(flag)
    lines = result.output.partition("Exit status")[0].splitlines()
    listed = [line for line in lines if re.match("  [a-z]+ ", line)]
    assert [line.split()[0] for line in listed] == COMMANDS
    assert len({len(re.match("  [a-z]+ +", line)[0]) for line in listed}) == 1, "one column for all sections"
    headings = re.findall(r"^(\S.*):$", result.output, re.MULTILINE)
    assert headings == ["Options", "Record and replay", "Check and inspect", "Convert, merge and trim", "Get started"]


@for_each("name", COMMANDS)
def test_every_listed_command_exists_and_has_a_help_text(name):
    result = succeed(name, "--help")
    assert result.output.startswith(f"Usage: wiretape {name} ")
    assert "\\b" not in result.output, "click wants a backspace here, so the docstring must not be a raw one"


@pytest.mark.parametrize("arguments", [(), ("rule",), ("control",)])
def test_help_is_also_a_command(arguments):
    assert run("help", *arguments).output == run(*arguments, "--help").output


@pytest.mark.parametrize("arguments", [(), ("show",), ("replay",), ("contract", "learn")])
def test_help_has_colours_unless_they_are_off(monkeypatch, arguments):
    plain = run(*arguments, "--help").output
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run(*arguments, "--help").output
    for text in ("\x1b[1mUsage: ", "\x1b[1mOptions", "\x1b[36m-h, --help"):
        assert text in coloured
    assert click.unstyle(coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(*arguments, "--help").output == plain


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_versions_are_those_of_the_installed_packages(flag):
    lines = run(flag).output.splitlines()
    assert lines[0] == f"wiretape {__version__}"
    assert {f"CPython {platform.python_version()}", f"mitmproxy {version('mitmproxy')}"} <= set(lines)


def test_similar_commands_are_suggested_for_a_mistyped_one():
    result = run("repot")
    assert result.exit_code == 2
    assert "No such command 'repot'." in result.stderr
    assert "'report'" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_asks_the_program_for_completions(shell):
    result = succeed("completion", shell)
    assert f"_WIRETAPE_COMPLETE={shell}_complete" in result.output


@for_each(
    ("typed", "completions"),
    [
        ("wiretape rep", ["replay", "report"]),
        ("wiretape help rep", ["replay", "report"]),
        ("wiretape report --form", ["--format"]),
        ("wiretape report -f j", ["json", "junit"]),
        ("wiretape rule sse01", ["SSE010", "SSE011"]),
        ("wiretape show x", ["x"]),
    ],
)
def test_words_are_completed(typed, completions):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    environment = {"_WIRETAPE_COMPLETE": "bash_complete", **words}
    result = CliRunner().invoke(cli.wiretape, [], prog_name="wiretape", env=environment)
    assert [line.partition(",")[2] for line in result.output.splitlines()] == completions


@pytest.mark.parametrize(
    ("wrong", "suggestion"), [("txt", "Did you mean 'text'?"), ("jso", "Did you mean 'json'?"), ("xyz", None)]
)
def test_a_similar_choice_is_suggested_for_a_mistyped_one(wrong, suggestion):
    result = run("rule", "-f", wrong)
    expected = f"Error: Invalid value for '-f' / '--format': {wrong!r} is not one of 'text', 'json', 'markdown'."
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (f"{expected} {suggestion}" if suggestion else expected)


@pytest.mark.parametrize(
    ("args", "unwanted"),
    [
        (["--help"], ["mitmproxy", "aiohttp", "sqlite3", "orjson", "rich", "wiretape_proxy", "wiretape_inspect"]),
        (["proxy", "--help"], ["mitmproxy", "wiretape_replay", "wiretape_inspect"]),
        (["replay", "--help"], ["mitmproxy", "wiretape_proxy", "wiretape_inspect"]),
        (["report", "--help"], ["mitmproxy", "aiohttp", "wiretape_proxy", "wiretape_replay"]),
        (["show", "--help"], ["mitmproxy", "aiohttp", "wiretape_proxy", "wiretape_replay"]),
    ],
)
def test_a_command_imports_only_what_it_needs(args, unwanted):
    result = python(
        "import sys\n"
        "before = set(sys.modules)\n"  # measuring coverage imports modules too
        "from wiretape.cli import main\n"
        "try:\n"
        f"    main({args!r})\n"
        "finally:\n"
        f"    print('LOADED', *(set({unwanted!r}) & set(sys.modules) - before))\n"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "LOADED"


_FLOWS = Path(__file__).parents[1] / "formats" / "written" / "mitmproxy-12.flows"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("proxy", "--listen", "127.0.0.1:0", "--output", "run.db", "http://127.0.0.1:9"), "Recording"),
        (("import", str(_FLOWS), "--output", "run.db"), "Reading flow files"),
    ],
)
def test_without_mitmproxy_the_error_shows_how_to_install_it(tmp_path, arguments, what):
    code = f"""
import os, sys
sys.modules["mitmproxy"] = None
sys.meta_path.insert(0, type("Gone", (), {{"find_spec": staticmethod(lambda name, *_: refuse(name))}}))
def refuse(name):
    if name.partition(".")[0] == "mitmproxy":
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
from wiretape.cli import main
os.chdir({str(tmp_path)!r})
main({arguments!r})
"""
    result = python(code)
    problem = f"{what} needs mitmproxy, which is not installed: run pip install 'mitmproxy>=11.0.2,<13'"
    assert (result.returncode, result.stderr) == (2, f"Error: {problem}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.DatabaseError("malformed\nimage"),
        RecursionError("malformed image"),
        ModuleNotFoundError("No module named 'mitmproxy_of_another_name'", name="mitmproxy_of_another_name"),
    ],
)
def test_an_unexpected_error_is_one_line_that_says_how_to_report_it(program, error):
    """Status 1 would mean findings."""
    result = run("fake", program=program(raising(error)))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"Error: wiretape failed because of a bug ({type(error).__name__}: {' '.join(str(error).split())}): "
        "please report the output of wiretape --traceback fake with the same arguments.\n"
    )


def test_traceback_prints_the_details_of_an_unexpected_error(monkeypatch):
    def fail(_command):
        raise ValueError("what went wrong")

    monkeypatch.setattr(cli._LazyCommand, "load", fail)
    result = run("--traceback", "rule")
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert "\nValueError: what went wrong\nError: wiretape failed because " in result.stderr


@pytest.mark.parametrize(
    ("error", "status", "output"),
    [
        (InputError("There is no file a\nb."), 2, "Error: There is no file a\\nb.\n"),
        (KeyboardInterrupt(), 130, ""),
        (_caused_by(KeyboardInterrupt(143)), 143, ""),
        *((SystemExit(status), status, "") for status in (0, 1, 2)),
    ],
)
def test_the_end_of_a_command_is_its_exit_status_and_at_most_one_line(program, error, status, output):
    result = run("fake", program=program(raising(error)))
    assert (result.exit_code, result.stdout, result.stderr) == (status, "", output)


@pytest.mark.parametrize("kind", [InputError, ValueError])
def test_an_error_does_not_print_the_credentials_of_a_url(program, kind):
    error = kind("Cannot read 'https://user:secret-1@h/run.db?sig=secret-2&part=1'.")
    result = run("fake", program=program(raising(error)))
    assert "'https://[redacted]@h/run.db?sig=[redacted]&part=1'" in result.stderr
    assert "secret" not in result.stderr


def test_an_interrupt_during_import_exits_quietly(tmp_path):
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n", "utf-8")
    result = python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{_INSTALLED_SCRIPT}")
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


_FAKE = """
import contextlib, sys, types, click, rich.console
from wiretape import cli
from wiretape.installed_parts import load_entry_point
@click.command()
def fake():
    with contextlib.ExitStack() as stack:
        stack.callback(print, 'cleaned up')
        print('ready', flush=True)
        READ
        BODY
sys.modules['wiretape_fake'] = types.ModuleType('wiretape_fake')
sys.modules['wiretape_fake'].fake = fake
cli.wiretape.commands['fake'] = cli._LazyCommand('fake', 'wiretape_fake:fake', '')
sys.argv[1:] = ['fake']
"""


@contextmanager
def running(body, read="sys.stdin.read()"):
    """Run a command that prints a line, reads its input and then does something."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", _FAKE.replace("READ", read).replace("BODY", body) + _INSTALLED_SCRIPT]
    with subprocess.Popen(command, **pipes, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process


@for_each("number", [signal.SIGTERM, signal.SIGHUP])
@for_each("read", ["sys.stdin.read()", "load_entry_point(types.SimpleNamespace(load=sys.stdin.read), 'It')"])
def test_a_signal_lets_a_command_clean_up(number, read):
    """A command may use temporary recordings, which must not stay behind.  It may import a package at that time."""
    with running("pass", read) as process:
        process.send_signal(number)
        output = process.communicate(timeout=50)
    assert (process.returncode, output) == (128 + number, ("cleaned up\n", ""))


@pytest.mark.parametrize(
    "body",
    ["click.echo('lost')", "rich.console.Console().print('lost')", "sys.stdout.write('in the buffer'); sys.exit(1)"],
    ids=["click", "rich", "not flushed"],
)
def test_a_broken_pipe_exits_quietly_with_status_141(body):
    """`wiretape show run.db | head -1` prints a line without an error, and status 1 would mean findings."""
    with running(body) as process:
        process.stdout.close()
        process.stdin.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, "")


def test_a_broken_pipe_is_noticed_without_buffers_after_half_of_the_output(monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    with running("sys.stdout.write('x' * 1_000_000); stack.pop_all()") as process:
        process.stdin.close()
        assert process.stdout.read(1) == "x"
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_output_to_a_closed_stream_is_discarded(closed, tmp_path):
    """A file opened later must not get the number of the closed stream, and then its output."""
    written = tmp_path / "number"
    code = f"import os; os.fstat(0), os.fstat(1), os.fstat(2); open({str(written)!r}, 'w').write('whole')"
    loaded, called = _INSTALLED_SCRIPT.split("; ")
    program = f"import sys; sys.argv[1:] = ['--help']\n{loaded}\ntry:\n    {called}\nfinally:\n    {code}"
    result = python(program, "sh", "-c", f'"$0" -c "$1" {closed}')
    assert (result.returncode, result.stderr) == (0, "")
    assert written.read_text("utf-8") == "whole"


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "full", "message"),
    [
        ("--help", "stdout", "Error: Cannot write to standard output: No space left on device.\n"),
        ("rule --help", "stdout", "Error: Cannot write to standard output: No space left on device.\n"),
        ("--nope", "stderr", ""),
    ],
)
def test_a_full_output_device_is_reported_on_the_other_stream(arguments, full, message, buffered, monkeypatch):
    """Status 1 would mean findings. With PYTHONUNBUFFERED, a write fails at once, otherwise when it is flushed."""
    monkeypatch.setenv("PYTHONUNBUFFERED", buffered)
    with open("/dev/full", "wb") as nowhere:  # noqa: PTH123 - a device
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {full: nowhere}
        command = [sys.executable, "-m", "wiretape", *arguments.split()]
        done = subprocess.run(command, **streams, text=True, check=False, timeout=50)
    assert (done.returncode, done.stderr or "") == (2, message)
