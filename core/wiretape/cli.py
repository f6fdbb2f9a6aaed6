"""The `wiretape` command. Each subcommand is imported when it runs."""

import errno
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from wiretape.errors import WiretapeError, missing_package_error
from wiretape.files import STDOUT_ERROR, discard_output
from wiretape.safe_text import closest_match, shorten
from wiretape.terminal_styles import color_choice, styled

FAILED = 2
"""Exit status if the command cannot do what was asked; click uses it for usage errors as well."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells (128 + SIGINT)."""
BROKEN_PIPE = 141
"""Exit status if the reader of standard output closes it, as in shells (128 + SIGPIPE)."""
_NOT_A_CHOICE = re.compile("'(.*?)' is not ")
_NEEDED_BY = {"mitmproxy": "Recording", "opentelemetry": "Exporting OTLP"}
_COMPLETION_VARIABLE = "_WIRETAPE_COMPLETE"
"""The environment variable in which the script asks for completions; click derives its name from the program's."""
_EXAMPLES = re.compile("^Examples?(?=:$)", re.MULTILINE)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _HelpFormatter(click.HelpFormatter):
    """Help with styles, which click strips where colors are off."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, styled("Usage: ", "head") if prefix is None else prefix)

    def write_heading(self, heading: str) -> None:
        super().write_heading(styled(heading, "head"))

    def write_text(self, text: str) -> None:
        super().write_text(_EXAMPLES.sub(lambda match: styled(match.group(), "head"), text))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(styled(term, "term"), text) for term, text in rows], col_max, col_spacing)


click.Context.formatter_class = _HelpFormatter


class _LazyCommand(click.Command):
    """A subcommand's line in `wiretape --help`, and where to import the subcommand from."""

    def __init__(self, name: str, import_path: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._import_path = import_path

    def load(self) -> click.Command:
        """Import the subcommand."""
        module, _, attribute = self._import_path.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


class _Demo(_LazyCommand):
    """The demo, which belongs to a contract."""

    def load(self) -> click.Command:
        """Import the demo of the installed contract that has one."""
        from wiretape.installed_parts import load_part  # noqa: PLC0415 - other commands need no entry points

        return load_part("wiretape.demos", "demo", click.Command)


_REPLAY, _INSPECT = "wiretape_replay.commands", "wiretape_inspect.commands"
_TABLE = {
    "Record and replay": {
        "proxy": ("wiretape_proxy.cli:proxy", "Record the traffic between clients and a service."),
        "replay": (f"{_REPLAY}.replay:replay", "Replay a recording as an offline service."),
        "cassette": (f"{_REPLAY}.cassette:cassette", "Run tests with a tape, and record what it lacks."),
        "serve": (f"{_REPLAY}.serve:serve", "Simulate the whole service from a scenario."),
        "control": (f"{_REPLAY}.control:control", "Move the playheads of a replay or stand-in."),
    },
    "Check and inspect": {
        "report": (f"{_INSPECT}.report:report", "Check recordings against the specification."),
        "probe": (f"{_INSPECT}.probe:probe", "Test a service in every situation that the specification describes."),
        "rule": (f"{_INSPECT}.rule:rule", "Explain the rules that recordings are checked against."),
        "contract": (f"{_INSPECT}.contract:contract", "List, show, test, begin and learn contracts of APIs."),
        "channels": (f"{_INSPECT}.channels:channels", "List the channels of a recording."),
        "show": (f"{_INSPECT}.show:show", "Show a recording as a timeline."),
        "debug": (f"{_INSPECT}.debug:debug", "Inspect a recording in a browser, event by event."),
        "diff": (f"{_INSPECT}.diff:diff", "Show the differences between two recordings."),
    },
    "Convert, merge and trim": {
        "export": (f"{_INSPECT}.export:export", "Export recordings to other formats."),
        "import": (f"{_INSPECT}.import_recording:import_", "Create a recording from a file in another format."),
        "merge": (f"{_INSPECT}.merge:merge", "Merge several recordings into one."),
        "trim": (f"{_INSPECT}.trim:trim", "Make a smaller or redacted copy of a recording."),
        "tape": (f"{_INSPECT}.tape:tape", "Rewrite tapes, so that recording again gives a small diff."),
        "recover": (f"{_INSPECT}.recover:recover", "Save whatever can be read from a damaged recording."),
        "datasette": (f"{_INSPECT}.datasette:datasette", "Prepare a recording for datasette."),
    },
    "Get started": {
        "demo": ("", "Record, check and replay a small service on this machine."),
        "completion": ("wiretape.cli:completion", "Print the completion script for a shell."),
        "doctor": (f"{_INSPECT}.doctor:doctor", "Check this machine, and list anything missing."),
    },
}
"""The subcommands in `wiretape --help`, by section: where each is, and what it does."""
_COMMANDS = {
    name: (_LazyCommand if path else _Demo)(name, path, short_help)
    for section in _TABLE.values()
    for name, (path, short_help) in section.items()
}


def subcommand(name: str) -> click.Command:
    """Import a subcommand by name; the programs do not import each other."""
    return _COMMANDS[name].load()


class _CommandError(click.ClickException):
    """An error of the library, which click prints as `Error: …`."""

    exit_code = FAILED


class _LazyGroup(click.Group):
    """A group that imports a subcommand when it runs, not when it is listed."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        width = max(map(len, _COMMANDS))
        for title, section in _TABLE.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", short_help) for name, (_, short_help) in section.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `help COMMAND` as `COMMAND --help`."""
        ctx.color = color_choice()
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, _LazyCommand) else command, rest

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_as_exit_status(ctx):
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()


@contextmanager
def _errors_as_exit_status(ctx: click.Context) -> Iterator[None]:
    """Turn exceptions into an exit status and at most one line on standard error."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        ctx.exit(_interrupt_status(interrupt))
    except BrokenPipeError:
        discard_output(sys.stdout)
        ctx.exit(BROKEN_PIPE)
    except (click.NoSuchOption, click.exceptions.NoSuchCommand) as error:
        del (error.possibilities or [])[1:]
        raise
    except click.BadParameter as error:
        raise _with_suggestion(error) from error
    except SystemExit as end:
        # rich exits with status 1 on a broken pipe, which means findings here.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        discard_output(sys.stdout)
        ctx.exit(BROKEN_PIPE)
    except Exception as error:
        if isinstance(error, click.ClickException | click.exceptions.Exit | click.Abort) or _is_full(error):
            raise
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 replaces it while it makes a class
            ctx.exit(_interrupt_status(error.__cause__))
        raise _CommandError(_redact(_message(error, ctx))) from error


def _interrupt_status(interrupt: KeyboardInterrupt) -> int:
    """Return the exit status: for signals other than that of Ctrl-C, it comes with the exception."""
    return int(*interrupt.args or [INTERRUPTED])


def _with_suggestion(error: click.BadParameter) -> click.BadParameter:
    """Suggest the closest choice, as click does for commands and options."""
    kind, wrong = error.param and error.param.type, _NOT_A_CHOICE.match(error.message)
    similar = closest_match(wrong[1], kind.choices) if wrong and isinstance(kind, click.Choice) else None
    if similar is None:
        return error
    return click.BadParameter(f"{error.message} Did you mean {similar!r}?", error.ctx, error.param, error.param_hint)


def _is_full(error: Exception) -> bool:
    """Whether standard output or standard error cannot be written; an error about a file names the file."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _FULL


def _message(error: Exception, ctx: click.Context) -> str:
    """Return the line to print; the details of an unexpected error come before it if they are wanted."""
    if isinstance(error, WiretapeError):
        return str(error)
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in _NEEDED_BY:
        return str(missing_package_error(package, _NEEDED_BY[package]))
    if ctx.params.get("traceback"):
        traceback.print_exc()
    what = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":").removesuffix(".")
    return (
        f"wiretape failed because of a bug ({shorten(what)}): please report the output of "
        f"wiretape --traceback {ctx.invoked_subcommand or 'COMMAND'} with the same arguments."
    )


def _redact(message: str) -> str:
    """Redact the credentials of URLs: logs of CI contain what is printed."""
    if "://" not in message:
        return message
    from wiretape.recording import redact_urls  # noqa: PLC0415 - loaded only when it is used

    return redact_urls(message)


def _print_versions(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from wiretape.versions import version_lines  # noqa: PLC0415 - loaded only when it is used

        click.echo("\n".join(version_lines()))
        ctx.exit()


@click.group(
    cls=_LazyGroup,
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`wiretape help COMMAND` explains a command. Exit status: 0 for success; 1 for differences, or findings "
    "at or above --fail-on; 2 if the command could not do what was asked; 130 if it was interrupted.",
)
@click.option("--traceback", is_flag=True, help="Print the details of an unexpected error, for a bug report.")
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Print the versions to include in a bug report, and exit.",
)
def wiretape(traceback: bool) -> None:
    """Record, check and replay the event streams of an API."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell script that completes commands, options, choices and file names.

    \b
    Examples:
        wiretape completion bash > ~/.local/share/bash-completion/completions/wiretape
        wiretape completion zsh > ~/.zfunc/_wiretape
        wiretape completion fish > ~/.config/fish/completions/wiretape.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - loaded only when it is used

    root = ctx.find_root().command
    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(root, {}, "wiretape", _COMPLETION_VARIABLE).source(), nl=False)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command with `args` (by default those of the process) and exit with its status."""
    try:
        wiretape.main(args=args, prog_name="wiretape")
    except OSError as error:
        if not _is_full(error):
            raise
        _exit_after_write_error(error)


def _exit_after_write_error(error: OSError) -> NoReturn:
    """Report that standard output or standard error cannot be written, and exit."""
    with suppress(OSError):
        click.echo(f"Error: {STDOUT_ERROR}: {error.strerror}.", err=True)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            discard_output(stream)
    sys.exit(FAILED)
