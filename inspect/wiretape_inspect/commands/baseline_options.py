"""Options of the commands that apply a baseline, and its loading and writing."""

import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from wiretape.errors import InputError
from wiretape.files import PATH, check_writable, path_exists, replace_atomically, write_error
from wiretape.labels import count_of
from wiretape.safe_text import printable
from wiretape_inspect.commands.report_outputs import ReportOutput
from wiretape_inspect.report import baseline

_OPTIONS = (
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
)


def baseline_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options about baselines."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """The values of the options about baselines."""

    file: Path | None
    write: Path | None
    prune: bool
    strict: bool

    @classmethod
    def of(cls, file: Path | None, write: Path | None, *, prune: bool, strict: bool) -> "BaselineOptions":
        """Check the values of the options.  Raises click.UsageError."""
        if file is None and (prune or strict):
            raise click.UsageError(f"{'--prune-baseline' if prune else '--strict-baseline'} needs --baseline.")
        if prune and strict:
            raise click.UsageError("--prune-baseline and --strict-baseline cannot be combined.")
        if write and (prune or strict):
            raise click.UsageError("--write-baseline cannot be combined with --prune-baseline or --strict-baseline.")
        if write and file and not path_exists(file) and file.resolve() == write.resolve():
            # The configuration names a baseline that is only now being written.
            file = None
        return cls(file, write, prune, strict)

    def check_outputs(self, outputs: Sequence[ReportOutput]) -> None:
        """Check that no report replaces a baseline.  Raises click.UsageError."""
        if self.write == Path("-"):
            raise click.UsageError(
                "--write-baseline needs a file, because it keeps the reasons in an existing baseline."
            )
        files = {path.resolve() for path in (self.file, self.write) if path is not None}
        for output in outputs:
            if output.path is not None and output.path.resolve() in files:
                raise click.UsageError(
                    f"{printable(str(output.path))} is the baseline: choose another name for --output."
                )

    def load(self) -> tuple[list[baseline.Entry], list[baseline.Entry]]:
        """Load the entries to apply, and those of an existing file that will be replaced.

        Raises InputError if a file is not a baseline or cannot be written.
        """
        earlier: list[baseline.Entry] = []
        if self.write is not None:
            if path_exists(self.write) and not self.write.is_file():
                raise InputError(f"{self.write} is not a regular file: choose another name for --write-baseline.")
            check_writable(self.write)
            earlier = baseline.load(self.write, to_replace=True) if path_exists(self.write) else []
        return baseline.load(self.file) if self.file is not None else [], earlier

    def save(self, entries: list[baseline.Entry], earlier: list[baseline.Entry], applied: baseline.Applied) -> bool:
        """Write or prune the baseline if requested, report entries that are not needed; return whether that fails."""
        if self.write:
            built = baseline.build(applied.reports, [*entries, *earlier])
            _write_baseline(self.write, built)
            count = count_of(sum(entry.count for entry in built), "finding")
            click.echo(f"Wrote {count} to {printable(str(self.write))}.", err=True)
            return False
        if not applied.unneeded or self.file is None:
            return False
        number = len(applied.unneeded)
        noun, verb = ("entry", "is") if number == 1 else ("entries", "are")
        codes = ", ".join(sorted({printable(entry.code) for entry in applied.unneeded}))
        if self.prune:
            _write_baseline(self.file, baseline.prune(entries, applied.unneeded))
            click.echo(f"Removed {number:,} baseline {noun} that {verb} no longer needed ({codes}).", err=True)
            return False
        kept = f"{number:,} baseline {noun} {verb} no longer needed ({codes})"
        click.echo(f"{kept}; --prune-baseline removes {'it' if number == 1 else 'them'}.", err=True)
        return self.strict


def _write_baseline(path: Path, entries: Sequence[baseline.Entry]) -> None:
    """Write a baseline that everybody can read; an error never loses the reasons that people wrote."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path_exists(path) else 0o666
        with replace_atomically(path, mode) as file:
            file.write(baseline.dump(entries).encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(write_error(path, error)) from None
