"""`wiretape report`: recordings judged against the specification."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from wiretape.config import NEVER, Config, find_config, load_config
from wiretape.errors import InputError
from wiretape.recording import Recording, open_recording
from wiretape.rules import Severity
from wiretape.rules.selection import UnknownCodeError, selected
from wiretape.text import printable
from wiretape_inspect import output
from wiretape_inspect.commands.pairs import Pair, PairingCommand, pairs
from wiretape_inspect.lines import STYLES
from wiretape_inspect.report import FORMS, Options, Report, baseline, judge
from wiretape_inspect.report.options import plain
from wiretape_inspect.report.progress import watched
from wiretape_inspect.words import count

_SQLITE = b"SQLite format 3\0"
_FORMS = (
    "text: for people. concise: a line for each finding. json, ndjson: everything, for programs. "
    "junit, github, sarif: for CI. markdown: for a comment. html: one file. Can be given several times."
)


@dataclass(frozen=True, slots=True)
class Known:
    """What the command line says of a baseline."""

    file: Path | None
    write: Path | None
    prune: bool
    strict: bool


def _baseline_options(command: Callable[..., None]) -> Callable[..., None]:
    path = click.Path(path_type=Path)
    for option in (
        click.option("--strict-baseline", is_flag=True, help="Fail when the baseline knows more than there is."),
        click.option("--prune-baseline", is_flag=True, help="Take out of the baseline what is no longer needed."),
        click.option("--write-baseline", type=path, metavar="F", help="Write all findings into a baseline."),
        click.option("--baseline", type=path, metavar="F", help="Let the findings pass that this file knows."),
    ):
        command = option(command)
    return command


def _config_options(command: Callable[..., None]) -> Callable[..., None]:
    where = click.Path(path_type=Path)
    for option in (
        click.option("--no-config", is_flag=True, help="Read no configuration."),
        click.option(
            "--config",
            type=where,
            metavar="F",
            help="Configuration to read, instead of wiretape.toml or [tool.wiretape] in pyproject.toml, here or above.",
        ),
    ):
        command = option(command)
    return command


@click.command(cls=PairingCommand)
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "forms", type=click.Choice(list(FORMS)), multiple=True, help=f"[default: text]  {_FORMS}")
@click.option(
    "--output",
    "outputs",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="F",
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
@_baseline_options
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
    fail_on = given["fail_on"] or config.fail_on or Severity.ERROR.value
    threshold = None if fail_on == NEVER else Severity(fail_on)
    codes = _selected(given["select"] or config.select, given["ignore"] or config.ignore)
    known = _known(given, config)
    entries = baseline.load(known.file) if known.file else []
    for pair in made:
        _spare_recordings(pair.to)
    _spare_recordings(known.write)
    with ExitStack() as opened:
        recordings = [opened.enter_context(open_recording(file)) for file in files]
        reports = [
            judge(
                recording,
                str(file),
                partial(watched, recording),
                settings=config.settings,
                selected=codes,
            )
            for file, recording in zip(files, recordings, strict=True)
        ]
        applied = baseline.apply(entries, reports) if known.file else baseline.Applied(reports, [])
        options = Options(
            everything=given["everything"],
            statistics=given["statistics"],
            threshold=threshold,
            docs_url=config.docs_url,
        )
        for pair in made:
            _write(pair, applied.reports, options)
        stale = _keep_baseline(known, entries, applied)
    failed = threshold is not None and any(each.reaches(threshold) for each in applied.reports)
    if ((failed and not known.write) or stale) and not given["exit_zero"]:
        ctx.exit(1)


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


def _selected(select: Sequence[str], ignore: Sequence[str]) -> frozenset[str]:
    try:
        codes = selected(_listed(select), _listed(ignore))
    except UnknownCodeError as error:
        raise InputError(printable(str(error))) from None
    if not codes:
        raise InputError("No rule is left: what --select names, --ignore takes away.")
    return codes


def _listed(values: Sequence[str]) -> list[str]:
    """The prefixes in comma lists."""
    return [prefix.strip() for value in values for prefix in value.split(",") if prefix.strip()]


def _known(given: dict[str, Any], config: Config) -> Known:
    known = Known(
        given["baseline"] or config.baseline, given["write_baseline"], given["prune_baseline"], given["strict_baseline"]
    )
    if known.file is None and (known.prune or known.strict):
        name = "--prune-baseline" if known.prune else "--strict-baseline"
        raise click.UsageError(f"{name} needs a --baseline.")
    if known.prune and known.strict:
        raise click.UsageError("Give --prune-baseline or --strict-baseline: what is pruned is needed.")
    if known.write and (known.prune or known.strict):
        raise click.UsageError("--write-baseline writes a baseline that fits; give it alone.")
    if known.write and config.baseline == known.write and given["baseline"] is None and not known.write.exists():
        # The project names a baseline that is only now being made.
        return Known(None, known.write, prune=False, strict=False)
    return known


def _keep_baseline(known: Known, entries: list[baseline.Entry], applied: baseline.Applied) -> bool:
    """Write the baseline where that was asked for, say what of it is no longer needed; whether that is a failure."""
    if known.write:
        earlier = [*entries, *(baseline.load(known.write) if known.write.exists() else [])]
        made = baseline.of_reports(applied.reports, earlier)
        _save(known.write, made)
        click.echo(f"{printable(str(known.write))} knows {count(sum(e.count for e in made), 'finding')}.", err=True)
        return False
    if not applied.unneeded or known.file is None:
        return False
    said = count(len(applied.unneeded), "entry").replace("entrys", "entries")
    verb = "is" if len(applied.unneeded) == 1 else "are"
    codes = ", ".join(sorted({printable(entry.code) for entry in applied.unneeded}))
    if known.prune:
        _save(known.file, baseline.pruned(entries, applied.unneeded))
        click.echo(f"{said} of the baseline {verb} no longer needed and pruned ({codes}).", err=True)
        return False
    click.echo(f"{said} of the baseline {verb} no longer needed ({codes}); --prune-baseline removes them.", err=True)
    return known.strict


def _save(path: Path, entries: Sequence[baseline.Entry]) -> None:
    try:
        path.write_bytes(baseline.dumped(entries).encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(f"{printable(str(path))} cannot be written: {error.strerror}.") from None


def _spare_recordings(path: Path | None) -> None:
    """A report replaces an older one, but a slip of the hand must not replace a recording."""
    if path is None or not path.is_file():
        return
    try:
        with path.open("rb") as file:
            begins = file.read(len(_SQLITE))
    except OSError:
        return
    if begins == _SQLITE:
        raise InputError(f"{printable(str(path))} is a recording or another database: give --output another name.")


def _write(pair: Pair, reports: Sequence[Report], options: Options) -> None:
    recording: Recording = reports[0].recording
    paint = _coloured if pair.form == "text" and pair.to is None and output.paper().colour else plain
    lines = FORMS[pair.form](reports, _with(options, paint))
    if pair.to is None:
        output.write_lines(lines)
        return
    with output.opened(pair.to, force=True, recording=recording.path) as file:
        file.writelines(_encoded(lines))


def _with(options: Options, paint: Callable[[str, str], str]) -> Options:
    return Options(options.everything, options.statistics, options.threshold, options.docs_url, paint)


def _encoded(lines: Iterator[str]) -> Iterator[bytes]:
    return (f"{line}\n".encode() for line in lines)


def _coloured(text: str, style: str) -> str:
    return click.style(text, **STYLES[style])
