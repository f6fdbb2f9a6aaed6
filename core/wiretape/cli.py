"""The `wiretape` command: finds the subcommand that was asked for, and loads nothing else."""

import errno
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from wiretape import __version__
from wiretape.errors import WiretapeError
from wiretape.files import STDOUT_ERROR, discard_output

FAILED = 2
"""Exit status when the command cannot do what was asked; click uses it for usage errors as well."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells count it (128 + SIGINT)."""
NOBODY_READS = 141
"""Exit status when the reader of our output went away, as shells count it (128 + SIGPIPE)."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _Entry(click.Command):
    """The line of a subcommand in `wiretape --help`, and where the subcommand itself is to be found."""

    def __init__(self, name: str, where: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._where = where

    def load(self) -> click.Command:
        """The subcommand itself."""
        module, _, attribute = self._where.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


_GROUPS = {
    "Record and play": (
        _Entry("proxy", "wiretape_proxy.cli:proxy", "Record what passes between clients and a service."),
        _Entry("replay", "wiretape_replay.cli:replay", "Play a recording back as an offline service."),
        _Entry("serve", "wiretape_replay.service.cli:serve", "Play the whole service, as a scenario says."),
        _Entry("control", "wiretape_replay.control.control_command:control", "Move the playheads of a running replay."),
    ),
    "Look and judge": (
        _Entry("report", "wiretape_inspect.commands.report:report", "Judge recordings against the specification."),
        _Entry("rule", "wiretape_inspect.commands.rule:rule", "Explain the rules that recordings are judged by."),
        _Entry("sessions", "wiretape_inspect.commands.sessions:sessions", "List the sessions of a recording."),
        _Entry("show", "wiretape_inspect.commands.show:show", "Show a recording as a timeline."),
        _Entry("debug", "wiretape_inspect.commands.debug:debug", "Look at a recording in a browser, event by event."),
        _Entry("diff", "wiretape_inspect.commands.diff:diff", "Tell what differs between two recordings."),
    ),
    "Convert, merge and trim": (
        _Entry("export", "wiretape_inspect.commands.export:export", "Write recordings as files of other formats."),
        _Entry(
            "import", "wiretape_inspect.commands.importing:import_", "Make a recording of a file of another format."
        ),
        _Entry("merge", "wiretape_inspect.commands.merge:merge", "Make one recording of several."),
        _Entry("trim", "wiretape_inspect.commands.trim:trim", "Make a smaller recording of one, or redact it."),
        _Entry("datasette", "wiretape_inspect.commands.datasette:datasette", "Tell datasette about a recording."),
    ),
    "Try it": (
        _Entry("demo", "wiretape_inspect.demo:demo", "Record, judge and replay a small service on this machine."),
    ),
}
"""What `wiretape --help` lists, under which headings."""
_ENTRIES = tuple(entry for group in _GROUPS.values() for entry in group)


def subcommand(name: str) -> click.Command:
    """A subcommand itself, for another that needs what it does: the programs do not import each other."""
    (entry,) = (entry for entry in _ENTRIES if entry.name == name)
    return entry.load()


class _CommandError(click.ClickException):
    """An error of the library, printed by click as `Error: …`."""

    exit_code = FAILED


class _Programs(click.Group):
    """A group whose subcommands are imported when they are run, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - the same
        width = max(len(entry.name or "") for entry in _ENTRIES)
        for title, group in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{entry.name:{width}}", entry.short_help or "") for entry in group])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, entry, rest = super().resolve_command(ctx, args)
        return name, entry.load() if isinstance(entry, _Entry) else entry, rest

    def invoke(self, ctx: click.Context) -> Any:
        with _in_plain_words(ctx):
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()


@contextmanager
def _in_plain_words(ctx: click.Context) -> Iterator[None]:
    """Turn the ends that a subcommand can come to from outside into an exit status of ours and one sentence at most."""
    try:
        yield
    except WiretapeError as error:
        raise _CommandError(str(error)) from error
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mitmproxy":
            raise
        raise _CommandError(
            "Recording needs mitmproxy, which is not installed: pip install 'wiretape[proxy]'"
        ) from error
    except KeyboardInterrupt:
        ctx.exit(INTERRUPTED)
    except BrokenPipeError:
        discard_output(sys.stdout)
        ctx.exit(NOBODY_READS)
    except SystemExit as end:
        # rich ends the program with status 1 on a broken pipe; 1 means findings here.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        discard_output(sys.stdout)
        ctx.exit(NOBODY_READS)


@click.group(
    cls=_Programs,
    commands=_ENTRIES,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 all is well, 1 there are findings or differences, 2 the command could not do what was "
    "asked, 130 it was interrupted.",
)
@click.version_option(__version__, prog_name="wiretape")
def wiretape() -> None:
    """Record, judge and replay the event streams of the Agent Session Service."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command with `args` (those of the process by default) and exit with its status."""
    try:
        wiretape.main(args=args, prog_name="wiretape")
    except OSError as error:
        # Of a file that has a name, whoever writes it says what is wrong with it.
        if error.filename is not None or error.errno not in _FULL:
            raise
        _end_unsaid(error)


def _end_unsaid(error: OSError) -> NoReturn:
    """End as for any file that cannot be written, where it is standard output or standard error that is full."""
    with suppress(OSError):
        click.echo(f"Error: {STDOUT_ERROR}: {error.strerror}.", err=True)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            discard_output(stream)
    sys.exit(FAILED)
