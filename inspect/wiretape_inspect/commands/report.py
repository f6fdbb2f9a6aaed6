"""`wiretape report`: a recording judged against the specification."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.recording import Recording, open_recording
from wiretape.rules import Severity
from wiretape.text import printable
from wiretape_inspect import output
from wiretape_inspect.lines import STYLES
from wiretape_inspect.report import Report, json_lines, judge, text_lines
from wiretape_inspect.report.progress import watched
from wiretape_inspect.report.text_form import plain

_NEVER = "never"
_SQLITE = b"SQLite format 3\0"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: for people. json: every rule with its verdict and every finding, for programs.",
)
@click.option("--output", "to", type=click.Path(path_type=Path), metavar="F", help="Write to this file, not to stdout.")
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in Severity), _NEVER]),
    default=Severity.ERROR.value,
    show_default=True,
    help="Exit with status 1 when there is a finding as bad as this, or worse.",
)
@click.option("--all", "everything", is_flag=True, help="With text: show every finding, however many a rule has.")
@click.pass_context
def report(ctx: click.Context, file: Path, *, kind: str, to: Path | None, fail_on: str, everything: bool) -> None:
    """Judge recording FILE by every rule that follows from the specification.

    A rule that never came up is not exercised, and the recording proves nothing about it. Exit status: 0 no
    finding that --fail-on names, 1 such findings, 2 the report could not be made.

    \b
    Examples:
        wiretape report run.db
        wiretape report run.db --fail-on warning
        wiretape report run.db --format json --output report.json
    """
    if everything and kind != "text":
        raise click.UsageError("--all goes with --format text; json always has every finding.")
    to = None if to == Path("-") else to
    _spare_recordings(to)
    with open_recording(file) as recording:
        judged = judge(recording, str(file), partial(watched, recording))
        _write(judged, recording, kind=kind, to=to, everything=everything)
    if fail_on != _NEVER and judged.reaches(Severity(fail_on)):
        ctx.exit(1)


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


def _write(judged: Report, recording: Recording, *, kind: str, to: Path | None, everything: bool) -> None:
    if kind == "json":
        lines = json_lines(judged)
    else:
        paint = _coloured if to is None and output.paper().colour else plain
        lines = text_lines(judged, recording, everything=everything, paint=paint)
    if to is None:
        output.write_lines(lines)
        return
    with output.opened(to, force=True, recording=recording.path) as file:
        file.writelines(_encoded(lines))


def _encoded(lines: Iterator[str]) -> Iterator[bytes]:
    return (f"{line}\n".encode() for line in lines)


def _coloured(text: str, style: str) -> str:
    return click.style(text, **STYLES[style])
