"""`wiretape report`: check recordings against the specification."""

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from typing import Any

import click

from wiretape.contract import CodeUse
from wiretape.errors import InputError
from wiretape.files import PATH
from wiretape.json_codec import dump_json
from wiretape.recording.rotated_parts import open_wholes
from wiretape_inspect.commands.report_writing import OrderedCommand, ReportWriting, report_options
from wiretape_inspect.contract_options import allow_code_option, load_contracts
from wiretape_inspect.report import ReportOptions
from wiretape_inspect.report.file_reports import (
    SMALL,
    RuleChoice,
    Totals,
    body_bytes,
    check_recordings,
    executor_for,
    open_file,
    print_note,
    summarize_files,
)
from wiretape_inspect.report.recording_report import add_cases
from wiretape_inspect.report.remote_files import expand_name, is_url, shown_name

_NOT_WITH_SUMMARY = {
    "formats": "--format",
    "outputs": "--output",
    "all_findings": "--all",
    "statistics": "--statistics",
    "baseline_file": "--baseline",
    "write_baseline": "--write-baseline",
    "prune_baseline": "--prune-baseline",
    "strict_baseline": "--strict-baseline",
}


@click.command(cls=OrderedCommand)
@click.argument("names", type=click.Path(readable=False), nargs=-1, required=True, metavar="FILE...")
@report_options
@click.option(
    "--select", multiple=True, metavar="CODES", help="Check only these rules: codes or families, such as SEQ,RES001."
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODES",
    help="Skip these rules; if a rule also matches --select, the longer code wins.",
)
@click.option(
    "--base",
    metavar="PATH_OR_URL",
    help="Base path or URL of the service: the part before /v1.",
)
@click.option(
    "--contract",
    "contracts",
    multiple=True,
    metavar="NAME_OR_FILE",
    help="Check with this contract; `wiretape contract list` prints names. Repeatable.  [default: that of the "
    "configuration or the recording]",
)
@allow_code_option
@click.option("--exit-zero", is_flag=True, help="Exit with status 0 even if there are findings.")
@click.option("--all", "all_findings", is_flag=True, help="With text or html: show every finding of each rule.")
@click.option("--statistics", is_flag=True, help="With text: only count the findings of each rule.")
@click.option(
    "--summary",
    is_flag=True,
    help="Print a line of JSON for each file as it is checked, then totals by rule and date. Useful with many files.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    metavar="N",
    help="Check so many files at the same time, each in a process.  [default: number of cores]",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Check the files on a Dask cluster, one task per file; ADDRESS is that of its scheduler.",
)
@click.pass_context
def report(
    ctx: click.Context,
    /,
    *,
    names: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    base: str | None,
    contracts: tuple[str, ...],
    allow_code: bool,
    exit_zero: bool,
    all_findings: bool,
    statistics: bool,
    summary: bool,
    jobs: int,
    dask: str | None,
    **_read_by_writing: Any,
) -> None:
    """Check recordings against every rule that follows from the specification.

    A rule that never applied is reported as not exercised: the recording proves nothing about it. `wiretape rule CODE`
    explains a rule.

    Exit status: 0 if there are no findings at or above --fail-on, 1 if there are, 2 if the report could not be
    produced.

    \b
    Examples:
        wiretape report run.db
        wiretape report *.db --select SEQ,RES --fail-on warning
        wiretape report run.db --format junit --output report.xml --format text
        wiretape report run.db --write-baseline known.json
        wiretape report run.db --baseline known.json
        wiretape report run.db --contract sse
    """
    files = [PATH.convert(name, None, ctx) for name in names if not is_url(name)]
    loaded = load_contracts(contracts, allow_code=allow_code)
    writing = ReportWriting(ctx, files, loaded, all_findings=all_findings, statistics=statistics)
    _check_formats({output.format for output in writing.outputs}, all_findings=all_findings, statistics=statistics)
    if contracts and base is not None:
        raise click.UsageError("--contract and --base cannot be combined: a contract names its own paths.")
    if not loaded and base is None:
        loaded = load_contracts(writing.config.contracts, allow_code=allow_code)
    rules = RuleChoice(
        writing.config,
        loaded,
        base,
        _split_codes("--select", select),
        _split_codes("--ignore", ignore),
        CodeUse.RUN if allow_code else CodeUse.SKIP,
    )
    if summary and (given := [option for name, option in _NOT_WITH_SUMMARY.items() if ctx.params[name]]):
        raise click.UsageError(f"--summary and {given[0]} cannot be combined.")
    files_and_urls = list(chain.from_iterable(map(expand_name, names)))
    if summary:
        status = _summarize(files_and_urls, executor_for(jobs, dask), rules, writing.options)
        ctx.exit(0 if exit_zero and status == 1 else status)
    failed: list[InputError] = []

    def fail(error: InputError) -> None:
        if len(files_and_urls) == 1:
            raise error
        failed.append(error)
        click.echo(f"Error: {error}", err=True)

    with ExitStack() as opened:
        wholes = list(
            open_wholes(
                files_and_urls,
                lambda name: opened.enter_context(open_file(name)),
                opened,
                note=print_note,
                fail=lambda _name, error: fail(error),
                shown_name=shown_name,
            )
        )
        size = sum(body_bytes(recording) for _, recording in wholes)
        is_hidden = size <= SMALL or not sys.stderr.isatty()
        steps = size // 200 + 1  # how often to draw the bar
        with click.progressbar(
            length=size, label="checking", hidden=is_hidden, file=sys.stderr, update_min_steps=steps
        ) as bar:
            checked = check_recordings(wholes, jobs, dask, rules, advance=bar.update, fail=fail)
            reports = [add_cases(each) if not each.settings.contracts else each for each in checked]
        if not reports:
            raise InputError("None of the files can be checked.")
        writing.apply_baseline(reports)
        fails = writing.write(reports)
    ctx.exit(2 if failed else int(fails and not exit_zero))


def _summarize(
    files: Iterable[str],
    executor: AbstractContextManager[Executor | None],
    rules: RuleChoice,
    options: ReportOptions,
) -> int:
    """Print a summary of each file and totals; return the exit status."""
    totals = Totals()
    with executor as running:
        for each in summarize_files(files, running, rules):
            totals.add(each)
            click.echo(dump_json(each.document))
    click.echo(dump_json(totals.document()))
    if totals.unreadable:
        return 2
    has_failed = any(severity.reaches(options.threshold) for severity in totals.severities)
    return int(has_failed or (options.fail_on_inconclusive and totals.has_inconclusive))


def _check_formats(formats: Collection[str], *, all_findings: bool, statistics: bool) -> None:
    if all_findings and not {"text", "html"}.intersection(formats):
        raise click.UsageError("--all needs --format text or html; json always contains every finding.")
    if statistics and "text" not in formats:
        raise click.UsageError("--statistics needs --format text; the other formats contain the numbers anyway.")


def _split_codes(option: str, values: Sequence[str]) -> list[str]:
    """Return the code prefixes of comma-separated lists.  Raises InputError if a list is empty."""
    lists = [[prefix.strip() for prefix in value.split(",") if prefix.strip()] for value in values]
    if not all(lists):
        raise InputError(f"{option} matches no rules: use codes or code prefixes, such as SEQ,RES001.")
    return [prefix for prefixes in lists for prefix in prefixes]
