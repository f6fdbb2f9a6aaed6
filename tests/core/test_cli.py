"""The `wiretape` command itself, without its subcommands."""

import re
import signal
import subprocess
import sys
from types import ModuleType

import click
import pytest
from click.testing import CliRunner, Result

from wiretape import __version__, cli

COMMANDS = [
    "proxy",
    "replay",
    "serve",
    "control",
    "report",
    "rule",
    "sessions",
    "show",
    "debug",
    "diff",
    "export",
    "import",
    "merge",
    "trim",
    "datasette",
    "demo",
]


_AS_INSTALLED = "from wiretape.__main__ import main; main()"
"""What the script says that an installation puts on the PATH."""


def run(*args, program=cli.wiretape) -> Result:
    return CliRunner().invoke(program, args)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=50)


@pytest.fixture
def program(monkeypatch):
    """A program with one subcommand, `fake`, that does what it is given as `does`."""

    def make(does):
        module = ModuleType("wiretape_fake")
        module.fake = click.command()(does)
        monkeypatch.setitem(sys.modules, "wiretape_fake", module)
        return cli._Programs("wiretape", commands=[cli._Entry("fake", "wiretape_fake:fake", "Do it.")])

    return make


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command_in_the_order_of_their_use(flag):
    result = run(flag)

    assert result.exit_code == 0
    lines = result.output.partition("Exit status")[0].splitlines()
    listed = [line for line in lines if re.match("  [a-z]+ ", line)]
    assert [line.split()[0] for line in listed] == COMMANDS
    assert len({len(re.match("  [a-z]+ +", line)[0]) for line in listed}) == 1, "in one column, over all groups"


def test_help_sorts_the_commands_into_groups():
    headings = re.findall(r"^(\S.*):$", run("--help").output, re.MULTILINE)

    assert headings == ["Options", "Record and play", "Look and judge", "Convert, merge and trim", "Try it"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists_and_has_help_of_its_own(name):
    result = run(name, "--help")

    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: wiretape {name} ")
    assert "\\b" not in result.output, "click wants a backspace here, so the docstring must not be a raw one"


def test_version_is_that_of_the_package():
    assert run("--version").output == f"wiretape, version {__version__}\n"


def test_python_m_wiretape_is_the_same_command():
    result = subprocess.run(
        [sys.executable, "-m", "wiretape", "--version"], capture_output=True, text=True, check=False, timeout=50
    )

    assert (result.returncode, result.stdout) == (0, f"wiretape, version {__version__}\n")


def test_a_mistyped_command_is_answered_with_the_nearest_ones():
    result = run("repot")

    assert result.exit_code == 2
    assert "No such command 'repot'." in result.stderr
    assert "'report'" in result.stderr


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
def test_a_command_loads_only_what_it_needs(args, unwanted):
    result = python(
        "import sys\n"
        "before = set(sys.modules)\n"  # measuring coverage loads modules too
        "from wiretape.cli import main\n"
        "try:\n"
        f"    main({args!r})\n"
        "finally:\n"
        f"    print('LOADED', *(set({unwanted!r}) & set(sys.modules) - before))\n"
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "LOADED"


def test_recording_without_mitmproxy_says_what_to_install(tmp_path):
    result = python(
        "import sys\n"
        "sys.modules['mitmproxy'] = None\n"
        "from wiretape.cli import main\n"
        f"main(['proxy', '--listen', '127.0.0.1:0', '--output', {str(tmp_path / 'run.db')!r}, 'http://127.0.0.1:9'])\n"
    )

    assert result.returncode == 2
    assert result.stderr == (
        "Error: Recording needs mitmproxy, which is not installed: pip install 'wiretape[proxy]'\n"
    )


def test_another_missing_module_is_not_blamed_on_mitmproxy(program):
    def does():
        import mitmproxy_of_another_name  # noqa: F401, PLC0415

    result = run("fake", program=program(does))

    assert isinstance(result.exception, ModuleNotFoundError)


def test_an_interrupt_ends_quietly_with_status_130(program):
    def does():
        raise KeyboardInterrupt

    result = run("fake", program=program(does))

    assert (result.exit_code, result.output) == (130, "")


def test_an_interrupt_while_the_command_is_loaded_ends_quietly_too(tmp_path):
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n", "utf-8")
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{_AS_INSTALLED}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )

    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


_READS_FOREVER = """
import contextlib, sys, types, click
from wiretape import cli
@click.command()
def fake():
    with contextlib.ExitStack() as stack:
        stack.callback(print, 'cleaned up')
        print('ready', flush=True)
        sys.stdin.read()
sys.modules['wiretape_fake'] = types.ModuleType('wiretape_fake')
sys.modules['wiretape_fake'].fake = fake
cli.wiretape.commands['fake'] = cli._Entry('fake', 'wiretape_fake:fake', '')
sys.argv[1:] = ['fake']
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_cleans_up(number):
    """As Ctrl-C does: a tape is read into a temporary recording, which must not stay behind."""
    with subprocess.Popen(
        [sys.executable, "-c", _READS_FOREVER + _AS_INSTALLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said = process.communicate(timeout=50)

    assert (process.returncode, said) == (128 + number, ("cleaned up\n", ""))


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_goes_nowhere(closed, tmp_path):
    """And no file gets its number, into which what is said would go then."""
    written = tmp_path / "number"
    code = f"import os; os.fstat(0), os.fstat(1), os.fstat(2); open({str(written)!r}, 'w').write('whole')"
    loaded, called = _AS_INSTALLED.split("; ")
    program = f"import sys; sys.argv[1:] = ['--help']\n{loaded}\ntry:\n    {called}\nfinally:\n    {code}"
    result = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert written.read_text("utf-8") == "whole"


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "full", "said"),
    [
        ("--help", "stdout", "Error: Standard output cannot be written: No space left on device.\n"),
        ("rule --help", "stdout", "Error: Standard output cannot be written: No space left on device.\n"),
        ("--nope", "stderr", ""),
    ],
)
def test_a_stream_that_is_full_is_told_where_there_is_room(arguments, full, said, buffered, monkeypatch):
    """Status 1 would be findings; with PYTHONUNBUFFERED a write fails at once, without it when all is flushed."""
    monkeypatch.setenv("PYTHONUNBUFFERED", buffered)
    with open("/dev/full", "wb") as nowhere:  # noqa: PTH123 - a device
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {full: nowhere}
        command = [sys.executable, "-m", "wiretape", *arguments.split()]
        done = subprocess.run(command, **streams, text=True, check=False, timeout=50)
    assert (done.returncode, done.stderr or "") == (2, said)


@pytest.mark.parametrize("status", [0, 1, 2])
def test_the_status_of_a_subcommand_is_kept(program, status):
    def does():
        sys.exit(status)

    assert run("fake", program=program(does)).exit_code == status


@pytest.mark.parametrize(
    "body",
    [
        "click.echo('lost')",
        "rich.console.Console().print('lost')",
        "sys.stdout.write('kept in the buffer'); sys.exit(1)",
    ],
    ids=["click", "rich", "not flushed"],
)
def test_a_reader_that_leaves_ends_the_output_quietly(body):
    """`wiretape show run.db | head -1` prints a line and no complaint, and does not look like findings (1)."""
    code = (
        "import sys, types, click, rich.console\n"
        "from wiretape import cli\n"
        "@click.command()\n"
        "def fake():\n"
        "    click.echo('line')\n"
        "    sys.stdin.read()\n"
        f"    {body}\n"
        "sys.modules['wiretape_fake'] = types.ModuleType('wiretape_fake')\n"
        "sys.modules['wiretape_fake'].fake = fake\n"
        "cli._Programs('wiretape', commands=[cli._Entry('fake', 'wiretape_fake:fake', '')]).main(['fake'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "line\n"
        process.stdout.close()
        process.stdin.close()
        complaints = process.stderr.read()

    assert (process.returncode, complaints) == (141, "")
