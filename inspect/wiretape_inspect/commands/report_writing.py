"""The commands that write reports: their common options, and what these request.

That is the configuration, pairs of a format and a file, which findings fail, and a baseline to apply and to write.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import click

from wiretape.config import FAIL_ON, INCONCLUSIVE, Config, find_config, load_config, threshold_of
from wiretape.errors import InputError
from wiretape.files import PATH, is_input_error, is_same_file, path_exists
from wiretape.recording import check_not_recording
from wiretape.rules import RuleSet, Severity
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import open_output
from wiretape_inspect.report import FORMATS, Report, ReportOptions, load_format
from wiretape_inspect.report.baseline import BaselineUse
from wiretape_inspect.terminal_output import Line, find_terminal, write_lines

_ORDER = "wiretape.order"
_DEFAULT = "text"
_OPTIONS = (
    click.option(
        "-f",
        "--format",
        "formats",
        type=click.Choice(list(FORMATS)),
        multiple=True,
        help="text: for people. concise: one line per finding. json, ndjson: everything, for programs. "
        "junit, github, gitlab, sarif: for CI. markdown: for a pull request comment. html: a self-contained page. "
        "Repeatable.  [default: text]",
    ),
    click.option(
        "-o",
        "--output",
        "outputs",
        type=PATH,
        multiple=True,
        metavar="FILE",
        help="Write to this file instead of standard output; applies to the preceding --format.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice(FAIL_ON),
        help="Exit with status 1 if any finding or failed case is at least this severe. With inconclusive, exit with "
        "status 1 if there is any finding or anything inconclusive.  [default: error]",
    ),
    click.option(
        "--baseline", "baseline_file", type=PATH, metavar="FILE", help="Ignore the findings listed in this file."
    ),
    click.option("--write-baseline", type=PATH, metavar="FILE", help="Write all findings to a baseline file."),
    click.option("--prune-baseline", is_flag=True, help="Remove baseline entries that are no longer needed."),
    click.option(
        "--strict-baseline",
        is_flag=True,
        help="Exit with status 1 if the baseline lists findings that no longer occur.",
    ),
    click.option(
        "--config",
        "config_file",
        type=PATH,
        metavar="FILE",
        help="Configuration file to use instead of the nearest wiretape.toml or pyproject.toml.",
    ),
    click.option("--no-config", is_flag=True, help="Do not read a configuration file."),
)


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `ReportWriting` reads; the class of the command is OrderedCommand."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class OrderedCommand(click.Command):
    """A command that remembers the order of its options, which click does not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse twice: once for the order alone."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


@dataclass(frozen=True, slots=True)
class ReportOutput:
    """A format, and the file it is written to; None and `-` are standard output."""

    format: str
    path: Path | None

    @property
    def file(self) -> Path | None:
        """The file; None for standard output."""
        return None if self.path == Path("-") else self.path


class ReportWriting:
    """What the options of a command request."""

    def __init__(
        self, ctx: click.Context, inputs: Sequence[Path], contracts: Sequence[RuleSet] = (), **shown: bool
    ) -> None:
        """Check the options, and load the configuration and the baseline.  Raises InputError and click.UsageError.

        No output may replace one of the `inputs`; the configuration may name codes of the `contracts`.  `shown` are
        further members of the `ReportOptions`.
        """
        given = ctx.params
        self.outputs = _pair_outputs(ctx, given["formats"], given["outputs"])
        self.config = _read_config(given["config_file"], contracts, no_config=given["no_config"])
        self.fail_on: str = given["fail_on"] or self.config.fail_on or Severity.ERROR.value
        terminal = find_terminal()
        self.options = ReportOptions(
            threshold=threshold_of(self.fail_on),
            fail_on_inconclusive=self.fail_on == INCONCLUSIVE,
            docs_url=self.config.docs_url,
            width=terminal.width if terminal else None,
            **shown,
        )
        applied, written = _baseline_files(given, self.config.baseline)
        paths = [output.file for output in self.outputs if output.file is not None]
        _check_baseline_is_kept({applied, written}, paths)
        _refuse_recordings("--output", paths, inputs)
        _refuse_recordings("--write-baseline", filter(None, [written]), inputs)
        self._baseline = BaselineUse(applied, written, prune=given["prune_baseline"], strict=given["strict_baseline"])
        self.apply_baseline = self._baseline.apply

    def write(self, reports: Sequence[Report]) -> bool:
        """Write the reports, and the baseline if requested; return whether the command fails.  Raises InputError."""
        for output in self.outputs:
            _write_report(output, reports, self.options)
        if self._baseline.write(reports):
            return False
        is_stale = self._baseline.report_unneeded()
        return is_stale or any(report.fails(self.options) for report in reports)


def _pair_outputs(ctx: click.Context, formats: Sequence[str], paths: Sequence[Path]) -> list[ReportOutput]:
    """Pair the values of `--format` and `--output`.  Raises click.UsageError."""
    if len(formats) <= 1 and len(paths) <= 1:
        # With one of each the order does not matter.
        return [ReportOutput(next(iter(formats), _DEFAULT), next(iter(paths), None))]
    outputs: list[ReportOutput] = []
    left_formats, left_paths = iter(formats), iter(paths)
    for name in ctx.meta[_ORDER]:
        if name == "formats":
            outputs.append(ReportOutput(next(left_formats), None))
        elif name == "outputs":
            path = next(left_paths)
            if not outputs:
                raise click.UsageError(f"--output {printable(str(path))} has no --format before it.")
            if outputs[-1].path is not None:
                raise click.UsageError(
                    f"--format {outputs[-1].format} has two outputs: put each --output after its --format."
                )
            outputs[-1] = replace(outputs[-1], path=path)
    _check_destinations(outputs)
    return outputs


def _check_destinations(outputs: Sequence[ReportOutput]) -> None:
    printed = [output.format for output in outputs if output.file is None]
    if len(printed) > 1:
        raise click.UsageError(
            f"{' and '.join(printed)} would both go to standard output: specify --output for all but one."
        )
    paths = [output.file.resolve() for output in outputs if output.file is not None]
    for path in paths:
        if paths.count(path) > 1:
            raise click.UsageError(f"Two formats would be written to {printable(path.name)}.")


def _refuse_recordings(option: str, paths: Iterable[Path], checked: Sequence[Path]) -> None:
    """Raise InputError if a report would replace a recording; it may replace an older report."""
    for path in paths:
        if not path_exists(path) or not path.is_file():
            continue
        check_not_recording(path, option)
        if any(is_same_file(path, file) for file in checked):
            raise InputError(is_input_error(path, option))


def _write_report(output: ReportOutput, reports: Sequence[Report], options: ReportOptions) -> None:
    """Write a report to its file, or to standard output.  Raises InputError."""
    make_lines = load_format(output.format)
    if output.file is None and output.format != "html":
        write_lines(cast("Iterator[Line | str]", make_lines(reports, options)))  # only HTML is bytes
        return
    with open_output(output.file, force=True, recording=reports[0].recording.path) as file:
        for line in make_lines(reports, replace(options, width=None)):
            file.write(line if isinstance(line, bytes) else f"{line}\n".encode())


def _read_config(path: Path | None, contracts: Sequence[RuleSet], *, no_config: bool) -> Config:
    """Read the configuration that the options name, or the nearest one.  Raises InputError."""
    if path is not None and no_config:
        raise click.UsageError("--config and --no-config cannot be combined.")
    if no_config:
        return Config()
    return load_config(path, contracts) if path is not None else find_config(Path.cwd(), contracts)


def _baseline_files(given: Mapping[str, Any], configured: Path | None) -> tuple[Path | None, Path | None]:
    """Return the baselines to apply and to write.  Raises click.UsageError if the options cannot be combined."""
    file: Path | None = given["baseline_file"] or configured
    written, prune, strict = given["write_baseline"], given["prune_baseline"], given["strict_baseline"]
    if file is None and (prune or strict):
        raise click.UsageError(f"{'--prune-baseline' if prune else '--strict-baseline'} needs --baseline.")
    if prune and strict:
        raise click.UsageError("--prune-baseline and --strict-baseline cannot be combined.")
    if written and (prune or strict):
        raise click.UsageError("--write-baseline cannot be combined with --prune-baseline or --strict-baseline.")
    if written == Path("-"):
        raise click.UsageError("--write-baseline needs a file, because it keeps the reasons in an existing baseline.")
    # The configuration may name a baseline that is only now being written.
    is_new = written and file and not path_exists(file) and file.resolve() == written.resolve()
    return None if is_new else file, written


def _check_baseline_is_kept(baselines: Collection[Path | None], paths: Sequence[Path]) -> None:
    """Check that no report replaces a baseline.  Raises click.UsageError."""
    files = {path.resolve() for path in baselines if path is not None}
    for path in paths:
        if path.resolve() in files:
            raise click.UsageError(f"{printable(str(path))} is the baseline: choose another name for --output.")
