"""The options of `wiretape report` about baselines, and what they do."""

import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from wiretape.config import Config
from wiretape.errors import InputError
from wiretape.files import PATH, check_writable, path_exists, replace_atomically, write_error
from wiretape.safe_text import printable
from wiretape_inspect.commands.output_options import Pair
from wiretape_inspect.humanize import count
from wiretape_inspect.report import baseline


@dataclass(frozen=True, slots=True)
class Known:
    """What the command line says of a baseline."""

    file: Path | None
    write: Path | None
    prune: bool
    strict: bool


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options about baselines."""
    for option in (
        click.option("--strict-baseline", is_flag=True, help="Fail when the baseline knows more than there is."),
        click.option("--prune-baseline", is_flag=True, help="Take out of the baseline what is no longer needed."),
        click.option("--write-baseline", type=PATH, metavar="FILE", help="Write all findings into a baseline."),
        click.option("--baseline", type=PATH, metavar="FILE", help="Let the findings pass that this file knows."),
    ):
        command = option(command)
    return command


def known_of(given: Mapping[str, Any], config: Config) -> Known:
    """What the command line and the configuration say together.  Raises click.UsageError."""
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
    if known.write and known.file and not path_exists(known.file) and known.file.resolve() == known.write.resolve():
        # It is only now being made.
        return Known(None, known.write, prune=False, strict=False)
    return known


def check_outputs(known: Known, made: Sequence[Pair]) -> None:
    """See that no report is written over a baseline.  Raises click.UsageError."""
    if known.write == Path("-"):
        raise click.UsageError("--write-baseline needs the name of a file: it keeps what an older one holds.")
    files = {path.resolve() for path in (known.file, known.write) if path is not None}
    for pair in made:
        if pair.to is not None and pair.to.resolve() in files:
            raise click.UsageError(f"{printable(str(pair.to))} is the baseline: give --output another name.")


def load(known: Known) -> tuple[list[baseline.Entry], list[baseline.Entry]]:
    """The entries that are applied, and those of an older file that is written anew.

    Raises InputError; what is to be written is looked at first, for only a baseline may be replaced.
    """
    older = known.write if known.write is not None and path_exists(known.write) else None
    if older is not None and not older.is_file():
        raise InputError(f"{printable(str(older))} is no regular file: give --write-baseline another name.")
    if known.write is not None:
        check_writable(known.write)
    earlier = baseline.load(older, replacing=True) if older is not None else []
    return baseline.load(known.file) if known.file is not None else [], earlier


def keep(known: Known, entries: list[baseline.Entry], earlier: list[baseline.Entry], applied: baseline.Applied) -> bool:
    """Write the baseline where that was asked for, say what of it is no longer needed; whether that is a failure."""
    if known.write:
        made = baseline.of_reports(applied.reports, [*entries, *earlier])
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
    """Write what is kept beside the code, for everybody to read; reasons that people wrote are never lost half-way."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path_exists(path) else 0o666
        with replace_atomically(path, mode) as file:
            file.write(baseline.dumped(entries).encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(write_error(path, error)) from None
