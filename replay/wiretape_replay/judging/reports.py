"""Reports on what the client did: those of `wiretape report`, made of a recording of what passed."""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from wiretape.cli import subcommand
from wiretape.config import NEVER
from wiretape.errors import InputError
from wiretape.files import check_writable
from wiretape.recording import check_not_recording
from wiretape.rules import CATALOGUE, Party
from wiretape.safe_text import closest_match, printable

_STDOUT = "-"
CLIENT_RULES = tuple(code for code, rule in CATALOGUE.items() if rule.side is Party.CLIENT)
"""The codes of the rules for clients."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A report that is wanted."""

    form: str
    file: str
    """`-` for standard output."""

    @classmethod
    def of(cls, text: str) -> "Wanted":
        """Read FORMAT:FILE.  Raises InputError."""
        form, colon, file = text.partition(":")
        forms = _forms()
        if not colon or not file:
            raise InputError(f"{printable(text)!r} is no report to write: give FORMAT:FILE, such as junit:report.xml.")
        if form not in forms:
            similar = closest_match(form, forms)
            guess = f"did you mean {similar}?" if similar else f"there are {', '.join(forms)}."
            raise InputError(f"There is no report in the form {printable(form)!r}; {guess}")
        if file != _STDOUT:
            check_writable(Path(file))
            check_not_recording(Path(file), "--report")
        return cls(form, file)


def check_apart(wanted: Sequence[Wanted], record: Path | None) -> None:
    """Raises InputError where two of the files that are to be written in the end would be one."""
    written = {record.absolute()} if record is not None else set()
    for report in wanted:
        file = Path(report.file).absolute()
        if file in written:
            raise InputError(f"Two things would be written to {printable(report.file)}: give --report another name.")
        written.add(file)


@contextmanager
def recorded(record: Path | None, wanted: Sequence[Wanted]) -> Iterator[Path | None]:
    """Where to record what passes: where it is to be kept, or for reports alone, until the block is left."""
    if record is not None or not wanted:
        yield record
        return
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        yield Path(folder) / "replayed.db"


def write(
    wanted: Sequence[Wanted],
    recording: Path,
    config: Sequence[str],
    *,
    rules: Collection[str] = CLIENT_RULES,
    fail_on: str = NEVER,
) -> bool:
    """Write the reports, about the client's `rules` only; `config` are the options that name a configuration.

    Returns whether there is a finding that stands and is as bad as `fail_on`, or worse.
    Raises InputError when one cannot be written.
    """
    asked = [str(recording), "--select", ",".join(rules), "--fail-on", fail_on, *config]
    for report in wanted:
        asked += ["--format", report.form]
        asked += ["--output", report.file] if report.file != _STDOUT else []
    return bool(subcommand("report").main(asked, prog_name="wiretape report", standalone_mode=False))


def _forms() -> Sequence[str]:
    """The forms that `wiretape report` has."""
    kinds = (option.type for option in subcommand("report").params if "--format" in option.opts)
    return [str(form) for kind in kinds if isinstance(kind, click.Choice) for form in kind.choices]
