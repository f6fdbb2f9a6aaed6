"""`wiretape report`: recordings judged against the specification."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from wiretape.config import NEVER, Config, find_config, load_config
from wiretape.errors import InputError
from wiretape.files import PATH, is_input_error, is_same_file, path_exists
from wiretape.recording import Recording, check_not_recording, open_recording
from wiretape.rules import Severity
from wiretape_inspect import terminal_output
from wiretape_inspect.commands import baseline_options
from wiretape_inspect.commands.output_options import Pair, PairingCommand, pairs
from wiretape_inspect.report import FORMS, Options, Report, baseline, judge
from wiretape_inspect.report.progress import watched
from wiretape_inspect.timeline_text import PLAIN

_FORMS = (
    "text: for people. concise: a line for each finding. json, ndjson: everything, for programs. "
    "junit, github, sarif: for CI. markdown: for a comment. html: one file. Repeatable."
)


def _config_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--no-config", is_flag=True, help="Read no configuration."),
        click.option(
            "--config",
            type=PATH,
            metavar="FILE",
            help="Configuration to read, instead of wiretape.toml or [tool.wiretape] in pyproject.toml, here or above.",
        ),
    ):
        command = option(command)
    return command


@click.command(cls=PairingCommand)
@click.argument("files", type=PATH, nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "forms", type=click.Choice(list(FORMS)), multiple=True, help=f"{_FORMS}  [default: text]")
@click.option(
    "-o",
    "--output",
    "outputs",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Write to this file, not to stdout; belongs to the --format before it.",
)
@click.option("--select", multiple=True, metavar="CODES", help="Only these rules: codes or families, like SEQ,RES001.")
@click.option(
    "--ignore", multiple=True, metavar="CODES", help="Not these rules; where both fit, the longer one counts."
)
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in Severity), NEVER]),
    help="Exit with status 1 when there is a finding as bad as this, or worse.  [default: error]",
)
@click.option("--exit-zero", is_flag=True, help="Exit with status 0 whatever is found.")
@click.option("--all", "everything", is_flag=True, help="With text, html: show every finding, however many a rule has.")
@click.option("--statistics", is_flag=True, help="With text: only count the findings of each rule.")
@baseline_options.options
@_config_options
@click.pass_context
def report(ctx: click.Context, /, files: tuple[Path, ...], **given: Any) -> None:
    """Judge recordings by every rule that follows from the specification.

    A rule that never came up is not exercised, and the recording proves nothing about it. `wiretape rule CODE`
    explains a rule. Exit status: 0 no finding that --fail-on names, 1 such findings, 2 the report could not be made.

    \b
    Examples:
        wiretape report run.db
        wiretape report *.db --select SEQ,RES --fail-on warning
        wiretape report run.db --format junit --output report.xml --format text
        wiretape report run.db --write-baseline known.json
        wiretape report run.db --baseline known.json
    """
    made = pairs(ctx, given["forms"], given["outputs"], "text")
    _check(made, everything=given["everything"], statistics=given["statistics"])
    config = _config(given["config"], without=given["no_config"])
    options = _options(given, config)
    codes = config.rule_codes(_listed("--select", given["select"]), _listed("--ignore", given["ignore"]))
    base = baseline_options.known_of(given, config)
    baseline_options.check_outputs(base, made)
    _spare_recordings("--output", [pair.to for pair in made], files)
    _spare_recordings("--write-baseline", [base.write], files)
    entries, earlier = baseline_options.load(base)
    with ExitStack() as opened:
        recordings = [opened.enter_context(open_recording(file)) for file in files]
        reports = [_judged(recording, file, config, codes) for file, recording in zip(files, recordings, strict=True)]
        applied = baseline.apply(entries, reports) if base.file else baseline.Applied(reports, [])
        for pair in made:
            _write(pair, applied.reports, options)
        stale = baseline_options.keep(base, entries, earlier, applied)
    threshold = options.threshold
    failed = threshold is not None and any(each.reaches(threshold) for each in applied.reports)
    if ((failed and not base.write) or stale) and not given["exit_zero"]:
        ctx.exit(1)


def _judged(recording: Recording, file: Path, config: Config, codes: frozenset[str]) -> Report:
    watch = partial(watched, recording)
    return judge(recording, str(file), watch, settings=config.settings, selected=codes)


def _options(given: dict[str, Any], config: Config) -> Options:
    fail_on = given["fail_on"] or config.fail_on or Severity.ERROR.value
    return Options(
        everything=given["everything"],
        statistics=given["statistics"],
        threshold=None if fail_on == NEVER else Severity(fail_on),
        docs_url=config.docs_url,
    )


def _check(made: Sequence[Pair], *, everything: bool, statistics: bool) -> None:
    forms = {pair.form for pair in made}
    if everything and not forms & {"text", "html"}:
        raise click.UsageError("--all goes with --format text or html; json always has every finding.")
    if statistics and "text" not in forms:
        raise click.UsageError("--statistics goes with --format text; the other forms have the numbers anyway.")


def _config(path: Path | None, *, without: bool) -> Config:
    if path is not None and without:
        raise click.UsageError("Give --config or --no-config, not both.")
    if without:
        return Config()
    return load_config(path) if path is not None else find_config(Path.cwd())


def _listed(option: str, values: Sequence[str]) -> list[str]:
    """The prefixes in comma lists.  Raises InputError where a list is empty."""
    lists = [[prefix.strip() for prefix in value.split(",") if prefix.strip()] for value in values]
    if not all(lists):
        raise InputError(f"{option} names no rule: give codes or the beginnings of codes, like SEQ,RES001.")
    return [prefix for prefixes in lists for prefix in prefixes]


def _spare_recordings(option: str, paths: Sequence[Path | None], judged: Sequence[Path]) -> None:
    """A report replaces an older one, but a slip of the hand must not replace a recording.  Raises InputError."""
    for path in paths:
        if path is None or not path_exists(path) or not path.is_file():
            continue
        check_not_recording(path, option)
        if any(is_same_file(path, file) for file in judged):
            raise InputError(is_input_error(path, option))


def _write(pair: Pair, reports: Sequence[Report], options: Options) -> None:
    recording: Recording = reports[0].recording
    paper = terminal_output.paper() if pair.form == "text" and pair.to is None else PLAIN
    lines = FORMS[pair.form](reports, replace(options, paper=paper))
    if pair.to is None and pair.form != "html":
        terminal_output.write_lines(lines)
        return
    with terminal_output.opened(pair.to, force=True, recording=recording.path) as file:
        file.writelines(_encoded(lines))


def _encoded(lines: Iterator[str]) -> Iterator[bytes]:
    return (f"{line}\n".encode() for line in lines)
