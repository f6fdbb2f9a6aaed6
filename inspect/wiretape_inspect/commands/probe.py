"""`wiretape probe`: test a service in every situation that the specification describes."""

import asyncio
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from wiretape.config import override_base
from wiretape.errors import InputError
from wiretape.files import PATH, file_errors, path_exists, write_error
from wiretape.installed_parts import load_part
from wiretape.recording import delete_recording, open_recording
from wiretape.safe_text import printable
from wiretape.terminal_styles import STYLES
from wiretape_inspect.atomic_output import check_recording_output
from wiretape_inspect.child_process import DemoError
from wiretape_inspect.commands.report_writing import OrderedCommand, ReportWriting, report_options
from wiretape_inspect.probe.probe_case import SUITES, ProbeSuite
from wiretape_inspect.probe.probe_runner import (
    OnChange,
    ProbeOptions,
    ProbeSetup,
    run_probe,
    select_cases,
)
from wiretape_inspect.probe.reproduction import judge
from wiretape_inspect.report.case_results import SERVICE_RULES, CaseDescription, CaseResult, CaseVerdict
from wiretape_inspect.terminal_output import Line, labelled, write_lines

_DEFAULT_FILE = Path("probe.toml")
_STYLES = {
    CaseVerdict.HELD: STYLES["good"],
    CaseVerdict.BROKEN: STYLES["error"],
    CaseVerdict.INCONCLUSIVE: STYLES["gap"],
    CaseVerdict.NOT_POSSIBLE: STYLES["dim"],
}


@click.command(cls=OrderedCommand)
@click.argument("file", type=PATH, default=_DEFAULT_FILE, metavar="[FILE]")
@click.option("--contract", metavar="NAME", help="Contract whose cases to run, if several have some.")
@click.option("--discover", "url", metavar="URL", help="Try out the service at URL, write a FILE for it, and exit.")
@click.option("--list", "lists", is_flag=True, help="List the cases, and exit.")
@click.option(
    "--only",
    multiple=True,
    metavar="CASES",
    help="Run only these cases: names, groups, rule codes, or the word 'unsafe'.",
)
@click.option("--skip", multiple=True, metavar="CASES", help="Do not run these cases; takes the same values as --only.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed for the order of the cases.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    metavar="N",
    help="Number of cases to run at the same time.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Maximum time to wait for a response or an event.",
)
@click.option(
    "--limits", is_flag=True, help="Also exceed the rate limits, which affects other clients of the same tenant."
)
@click.option(
    "--shrink/--no-shrink",
    default=True,
    help="For each broken rule, rerun the case with fewer steps to find the smallest recording that shows it.",
)
@click.option("--through-proxy", is_flag=True, help="Record through wiretape proxy instead of directly at the socket.")
@click.option("--record", type=PATH, metavar="FILE", help="Recording to write.  [default: wiretape-probe-DATE-TIME.db]")
@click.option("--force", is_flag=True, help="Replace the recording if it exists; with --discover, complete FILE.")
@report_options
@click.pass_context
def probe(
    ctx: click.Context,
    /,
    *,
    file: Path,
    contract: str | None,
    url: str | None,
    lists: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    seed: int,
    jobs: int,
    timeout: float,
    limits: bool,
    shrink: bool,
    through_proxy: bool,
    record: Path | None,
    force: bool,
    **_read_by_writing: Any,
) -> None:
    """Test a service in every situation that the specification describes.

    Each case sends requests and reads streams; all of this traffic is recorded and checked. The report
    shows the cases that failed or were not possible; the rules that were broken, each with the smallest recording and
    the commands that reproduce the problem; and the rules that no case could exercise, with the reason.

    FILE, by default probe.toml, describes the service and names the environment variables that contain the API keys.

    Exit status: 0 if there is no failure at or above --fail-on, 1 if there is, 2 if the service could not be probed.

    \b
    Examples:
        wiretape probe --discover http://127.0.0.1:8090
        wiretape probe --record probe.db --format junit --output probe.xml --format text
        wiretape probe --only replay,RES002 --skip unsafe
        wiretape probe --write-baseline known.json
    """
    suite = load_part(SUITES, "probe suite", ProbeSuite, contract)
    if url is not None:
        ctx.exit(_discover(suite, file, url, timeout, force=force))
    options = ProbeOptions(_split("--only", only), _split("--skip", skip), seed, jobs, timeout, limits, shrink)
    cases = select_cases(suite.cases, options)
    if lists:
        write_lines(line for case in sorted(cases, key=lambda each: each.name) for line in _describe(case))
        return
    described = suite.read_file(file)
    keys = suite.read_keys(described)
    # With microseconds, so that several probes can begin in one second.
    record = record or Path(f"wiretape-probe-{datetime.now():%Y-%m-%d-%H%M%S-%f}.db")  # noqa: DTZ005 - for people
    check_recording_output(record, [file], force=force, option="--record")
    writing = ReportWriting(ctx, [record, file])
    settings = override_base(writing.config.settings, described.base_url)
    codes = writing.config.rule_codes() & SERVICE_RULES
    if path_exists(record):
        _delete(record)
    setup = ProbeSetup(suite, described, keys, record, settings, codes, options, through_proxy=through_proxy)

    async def run() -> bool:
        with _progress() as on_change:
            results, runner = await run_probe(setup, cases, on_change)
        with open_recording(record) as recording:
            return writing.write([await judge(recording, results, runner, writing.apply_baseline)])

    try:
        fails = asyncio.run(run())
    except DemoError as error:
        raise InputError(str(error)) from None
    except KeyboardInterrupt:
        if path_exists(record):
            click.echo(f"Interrupted: {printable(str(record))} contains the requests sent so far.", err=True)
        raise
    click.echo(f"The recording is {printable(str(record))}.", err=True)
    ctx.exit(int(fails))


def _discover(suite: ProbeSuite, path: Path, url: str, timeout_s: float, *, force: bool) -> int:
    """Write a file for the service at a URL; return the exit status.  Raises InputError."""
    if path_exists(path) and not force:
        raise InputError(f"{path} already exists: add --force to complete it (its comments are replaced).")
    found = asyncio.run(suite.discover(url, path, timeout_s))
    with file_errors(path, write_error):
        path.write_text(found.text, "utf-8")
    for sentence in found.sentences:
        click.echo(printable(sentence))
    name = "" if path == _DEFAULT_FILE else f" {shlex.quote(str(path))}"
    again = f"correct {found.blocker} in it, and run wiretape probe --discover {url} --force{name}"
    missing = "add what was not found and your service has, and " if not found.is_complete else ""
    rest = again if found.blocker else f"{missing}run wiretape probe{name}"
    click.echo(printable(f"Wrote {path}: {rest}."))
    return 2 if found.blocker else 0


def _delete(path: Path) -> None:
    with file_errors(path, write_error):
        delete_recording(path)


def _split(option: str, values: Sequence[str]) -> tuple[str, ...]:
    parts = [part.strip() for value in values for part in value.split(",")]
    if not all(parts):
        raise InputError(f"{option} has an empty value: specify names, groups or rule codes, such as replay,RES001.")
    return tuple(parts)


def _describe(case: CaseDescription) -> Iterator[Line]:
    yield Line([(case.name, "head"), "" if case.is_safe else ("  not safe in production", "warning")])
    for label, text in (
        ("clause", case.clause),
        ("expects", case.about),
        ("steps", case.steps),
        ("rules", " ".join(case.rules) or "none"),
        ("leaves", case.leaves),
    ):
        yield labelled((f"    {label + ':':<9}", "dim"), text)


@contextmanager
def _progress() -> Iterator[OnChange]:
    """Show each case on stderr when it has ended, and on a terminal also those that run."""
    # rich takes long to import, and is needed here only.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    running: dict[str, None] = {}
    ended = 0
    live = Live(console=console, transient=True, auto_refresh=False) if sys.stderr.isatty() else None

    def change(case: CaseDescription, result: CaseResult | None) -> None:
        nonlocal ended
        if result is None:
            running[case.name] = None
        else:
            running.pop(case.name, None)
            ended += 1
            why = f"  {result.problem}" if result.problem else ""
            console.print(Text.assemble((f"{result.verdict:<13}", _STYLES[result.verdict]), printable(case.name + why)))
        if live is not None:
            live.update(Text(f"{ended} ended, running: {', '.join(running)}", style="dim", no_wrap=True), refresh=True)

    if live is None:
        yield change
        return
    with live:
        yield change
