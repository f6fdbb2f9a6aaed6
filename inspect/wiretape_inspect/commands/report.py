"""`wiretape report`: check recordings against the specification."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from wiretape.config import NEVER, Config, find_config, load_config
from wiretape.errors import InputError
from wiretape.files import PATH, is_input_error, is_same_file, path_exists
from wiretape.observations import BytesArrived, Observation
from wiretape.recording import Recording, check_not_recording, open_recording
from wiretape.rules import Severity
from wiretape_inspect.atomic_output import open_output
from wiretape_inspect.commands.baseline_options import BaselineOptions, add_baseline_options
from wiretape_inspect.commands.output_options import OrderedCommand, Output, pair_outputs
from wiretape_inspect.report import FORMATS, Report, ReportOptions, baseline, check_recording, load_format
from wiretape_inspect.terminal_output import find_terminal, write_lines

PROGRESS_DELAY_S = 1.0
"""How long checking may take before a progress bar appears."""
_PROGRESS_INTERVAL_S = 0.1
_FORMAT_HELP = (
    "text: for people. concise: one line per finding. json, ndjson: everything, for programs. "
    "junit, github, sarif: for CI. markdown: for a comment. html: one file. Repeatable.  [default: text]"
)


def _add_config_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--no-config", is_flag=True, help="Read no configuration file."),
        click.option(
            "--config",
            "config_file",
            type=PATH,
            metavar="FILE",
            help="Configuration file to read, instead of the nearest wiretape.toml or pyproject.toml.",
        ),
    ):
        command = option(command)
    return command


@click.command(cls=OrderedCommand)
@click.argument("files", type=PATH, nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "formats", type=click.Choice(list(FORMATS)), multiple=True, help=_FORMAT_HELP)
@click.option(
    "-o",
    "--output",
    "outputs",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Write to this file instead of stdout; applies to the preceding --format.",
)
@click.option(
    "--select", multiple=True, metavar="CODES", help="Check only these rules: codes or families, like SEQ,RES001."
)
@click.option(
    "--ignore", multiple=True, metavar="CODES", help="Skip these rules; if --select matches too, the longer code wins."
)
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in Severity), NEVER]),
    help="Exit with status 1 if any finding is at least this severe.  [default: error]",
)
@click.option("--exit-zero", is_flag=True, help="Exit with status 0 even if there are findings.")
@click.option("--all", "all_findings", is_flag=True, help="With text or html: show every finding of each rule.")
@click.option("--statistics", is_flag=True, help="With text: only count the findings of each rule.")
@add_baseline_options
@_add_config_options
@click.pass_context
def report(
    ctx: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    formats: tuple[str, ...],
    outputs: tuple[Path, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    exit_zero: bool,
    all_findings: bool,
    statistics: bool,
    config_file: Path | None,
    no_config: bool,
    baseline_file: Path | None,
    write_baseline: Path | None,
    prune_baseline: bool,
    strict_baseline: bool,
) -> None:
    """Check recordings against every rule that follows from the specification.

    A rule that never applied is not exercised: the recording proves nothing about it. `wiretape rule CODE`
    explains a rule. Exit status: 0 no findings at or above --fail-on, 1 there are such findings, 2 the report
    could not be made.

    \b
    Examples:
        wiretape report run.db
        wiretape report *.db --select SEQ,RES --fail-on warning
        wiretape report run.db --format junit --output report.xml --format text
        wiretape report run.db --write-baseline known.json
        wiretape report run.db --baseline known.json
    """
    paired = pair_outputs(ctx, formats, outputs, "text")
    _check_formats(paired, all_findings=all_findings, statistics=statistics)
    config = _read_config(config_file, no_config=no_config)
    codes = config.rule_codes(_split_codes("--select", select), _split_codes("--ignore", ignore))
    known = BaselineOptions.of(
        baseline_file or config.baseline, write_baseline, prune=prune_baseline, strict=strict_baseline
    )
    known.check_outputs(paired)
    _refuse_recordings("--output", [output.path for output in paired], files)
    _refuse_recordings("--write-baseline", [known.write], files)
    entries, earlier = known.load()
    fail_on = fail_on or config.fail_on or Severity.ERROR.value
    terminal = find_terminal()
    options = ReportOptions(
        all_findings=all_findings,
        statistics=statistics,
        threshold=None if fail_on == NEVER else Severity(fail_on),
        docs_url=config.docs_url,
        width=terminal.width if terminal else None,
    )
    with ExitStack() as opened:
        recordings = [opened.enter_context(open_recording(file)) for file in files]
        reports = [
            check_recording(
                recording, str(file), partial(_show_progress, recording), settings=config.settings, selected=codes
            )
            for file, recording in zip(files, recordings, strict=True)
        ]
        applied = baseline.apply(entries, reports) if known.file else baseline.Applied(reports, [])
        for output in paired:
            _write(output, applied.reports, options)
        is_stale = known.save(entries, earlier, applied)
    threshold = options.threshold
    has_failed = threshold is not None and any(each.reaches(threshold) for each in applied.reports)
    if ((has_failed and not known.write) or is_stale) and not exit_zero:
        ctx.exit(1)


def _check_formats(outputs: Sequence[Output], *, all_findings: bool, statistics: bool) -> None:
    formats = {output.format for output in outputs}
    if all_findings and not formats & {"text", "html"}:
        raise click.UsageError("--all needs --format text or html; json always contains every finding.")
    if statistics and "text" not in formats:
        raise click.UsageError("--statistics needs --format text; the other formats contain the numbers anyway.")


def _read_config(path: Path | None, *, no_config: bool) -> Config:
    if path is not None and no_config:
        raise click.UsageError("--config and --no-config cannot be combined.")
    if no_config:
        return Config()
    return load_config(path) if path is not None else find_config(Path.cwd())


def _split_codes(option: str, values: Sequence[str]) -> list[str]:
    """Return the code prefixes of comma-separated lists.  Raises InputError if a list is empty."""
    lists = [[prefix.strip() for prefix in value.split(",") if prefix.strip()] for value in values]
    if not all(lists):
        raise InputError(f"{option} matches no rule: give codes or code prefixes, like SEQ,RES001.")
    return [prefix for prefixes in lists for prefix in prefixes]


def _refuse_recordings(option: str, paths: Sequence[Path | None], checked: Sequence[Path]) -> None:
    """Raise InputError if a report would replace a recording; it may replace an older report."""
    for path in paths:
        if path is None or not path_exists(path) or not path.is_file():
            continue
        check_not_recording(path, option)
        if any(is_same_file(path, file) for file in checked):
            raise InputError(is_input_error(path, option))


def _write(output: Output, reports: Sequence[Report], options: ReportOptions) -> None:
    make_lines = load_format(output.format)
    if output.path is None and output.format != "html":
        write_lines(make_lines(reports, options))
        return
    recording: Recording = reports[0].recording
    with open_output(output.path, force=True, recording=recording.path) as file:
        file.writelines(f"{line}\n".encode() for line in make_lines(reports, replace(options, width=None)))


def _show_progress(recording: Recording, observations: Iterable[Observation]) -> Iterator[Observation]:
    """Pass the observations on; on a terminal, a bar on stderr shows the progress if checking takes long."""
    if not sys.stderr.isatty():
        yield from observations
        return
    # rich takes long to import, and is needed for terminals only.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    total = sum(exchange.request_bytes + exchange.response_bytes for exchange in recording.exchanges())
    columns = (TextColumn("checking"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    task = progress.add_task("", total=total)
    size, next_s = 0, time.monotonic() + PROGRESS_DELAY_S
    try:
        for observation in observations:
            size += len(observation.data) if isinstance(observation, BytesArrived) else 0
            if time.monotonic() >= next_s:
                progress.start()
                progress.update(task, completed=size, refresh=True)
                next_s = time.monotonic() + _PROGRESS_INTERVAL_S
            yield observation
    finally:
        progress.stop()
