"""Options of the commands that write reports: pairs of a format and a file, and the configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from wiretape.config import Config, find_config, load_config
from wiretape.errors import InputError
from wiretape.files import PATH, is_input_error, is_same_file, path_exists
from wiretape.recording import Recording, check_not_recording
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import open_output
from wiretape_inspect.report import FORMATS, Report, ReportOptions, load_format
from wiretape_inspect.terminal_output import write_lines

_FORMAT_HELP = (
    "text: for people. concise: one line per finding. json, ndjson: everything, for programs. "
    "junit, github, gitlab, sarif: for CI. markdown: for a pull request comment. html: a self-contained page. "
    "Repeatable.  [default: text]"
)
_ORDER = "wiretape.order"


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--format` and `--output`, which repeat in pairs; the class of the command is OrderedCommand."""
    to = "Write to this file instead of standard output; applies to the preceding --format."
    command = click.option("-o", "--output", "outputs", type=PATH, multiple=True, metavar="FILE", help=to)(command)
    formats = click.Choice(list(FORMATS))
    return click.option("-f", "--format", "formats", type=formats, multiple=True, help=_FORMAT_HELP)(command)


@dataclass(frozen=True, slots=True)
class ReportOutput:
    """A format, and the file it is written to; None is standard output."""

    format: str
    path: Path | None


class OrderedCommand(click.Command):
    """A command that remembers the order of its options, which click does not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse twice: once for the order alone."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


def pair_outputs(ctx: click.Context, formats: Sequence[str], paths: Sequence[Path], default: str) -> list[ReportOutput]:
    """Pair the values of `--format` and `--output`.  Raises click.UsageError."""
    if len(formats) <= 1 and len(paths) <= 1:
        # With one of each the order does not matter.
        return [ReportOutput(formats[0] if formats else default, _path(paths[0]) if paths else None)]
    outputs: list[ReportOutput] = []
    has_path: list[bool] = []
    left_formats, left_paths = iter(formats), iter(paths)
    for name in ctx.meta[_ORDER]:
        if name == "formats":
            outputs.append(ReportOutput(next(left_formats), None))
            has_path.append(False)
        elif name == "outputs":
            path = next(left_paths)
            if not outputs:
                raise click.UsageError(f"--output {printable(str(path))} has no --format before it.")
            if has_path[-1]:
                raise click.UsageError(
                    f"--format {outputs[-1].format} has two outputs: put each --output after its --format."
                )
            outputs[-1], has_path[-1] = ReportOutput(outputs[-1].format, _path(path)), True
    _check_destinations(outputs)
    return outputs


def _path(path: Path) -> Path | None:
    return None if path == Path("-") else path


def _check_destinations(outputs: Sequence[ReportOutput]) -> None:
    printed = [output.format for output in outputs if output.path is None]
    if len(printed) > 1:
        raise click.UsageError(
            f"{' and '.join(printed)} would both go to standard output: specify --output for all but one."
        )
    paths = [output.path.resolve() for output in outputs if output.path is not None]
    for path in paths:
        if paths.count(path) > 1:
            raise click.UsageError(f"Two formats would be written to {printable(path.name)}.")


def refuse_recordings(option: str, paths: Sequence[Path | None], checked: Sequence[Path]) -> None:
    """Raise InputError if a report would replace a recording; it may replace an older report."""
    for path in paths:
        if path is None or not path_exists(path) or not path.is_file():
            continue
        check_not_recording(path, option)
        if any(is_same_file(path, file) for file in checked):
            raise InputError(is_input_error(path, option))


def write_report(output: ReportOutput, reports: Sequence[Report], options: ReportOptions) -> None:
    """Write a report to its file, or to standard output.  Raises InputError."""
    make_lines = load_format(output.format)
    if output.path is None and output.format != "html":
        write_lines(make_lines(reports, options))
        return
    recording: Recording = reports[0].recording
    with open_output(output.path, force=True, recording=recording.path) as file:
        file.writelines(f"{line}\n".encode() for line in make_lines(reports, replace(options, width=None)))


def read_config(path: Path | None, *, no_config: bool) -> Config:
    """Read the configuration that the options name, or the nearest one.  Raises InputError."""
    if path is not None and no_config:
        raise click.UsageError("--config and --no-config cannot be combined.")
    if no_config:
        return Config()
    return load_config(path) if path is not None else find_config(Path.cwd())
