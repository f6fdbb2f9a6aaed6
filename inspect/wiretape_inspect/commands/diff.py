"""`wiretape diff`: compare two recordings."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import click

from wiretape.files import PATH
from wiretape.json_path import JsonPath
from wiretape.recording import Recording, open_recording
from wiretape.safe_text import printable
from wiretape.units import Duration
from wiretape_inspect.diff import diff_output
from wiretape_inspect.diff.diff_model import DeltaComparison, DiffOptions, DiffTotal, ExchangeDiff
from wiretape_inspect.diff.recording_diff import RecordingDiff
from wiretape_inspect.terminal_output import Line, labelled, write_lines

_FORMAT = 1
_EXCHANGES = re.compile(r"(\d{1,18})(?::(\d{1,18}))?", re.ASCII)
_NORMALIZED = ("ids", "times")


def _normalized(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> frozenset[str]:
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in _NORMALIZED:
            raise click.BadParameter(f"Invalid value {printable(name)!r}: choose from {', '.join(_NORMALIZED)}.")
    return frozenset(names)


def _exchanges(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    match = _EXCHANGES.fullmatch(given.strip())
    if match is None:
        raise click.BadParameter(f"Invalid exchanges {printable(given)!r}: expected N or N:M, for example 2:5.")
    return int(match[1]), int(match[2] or match[1])


@click.command()
@click.argument("first", metavar="A", type=PATH)
@click.argument("second", metavar="[B]", required=False, type=PATH)
@click.option(
    "--exchange",
    "numbers",
    metavar="N[:M]",
    callback=_exchanges,
    help="Compare only exchange N of A with exchange M of B, or with exchange M of A if B is not given.",
)
@click.option(
    "--normalize",
    metavar="ids,times",
    multiple=True,
    callback=_normalized,
    help="Values that may differ: ids (in the same places), timestamps in JSON.",
)
@click.option(
    "--timing",
    metavar="TOLERANCE",
    type=Duration("50ms"),
    help="Also report events that arrived later or earlier by more than this, e.g. 50ms.",
)
@click.option("--ignore-path", metavar="PATH", multiple=True, help="Ignore this JSON path. Repeatable.")
@click.option("--match-header", metavar="NAME", multiple=True, help="Also compare this header. Repeatable.")
@click.option(
    "--deltas",
    type=click.Choice(get_args(DeltaComparison)),
    default="text",
    show_default=True,
    help="Compare the joined text of deltas, compare each delta as well, or ignore deltas.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Maximum number of differences of each kind per pair; 0 for all.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
@click.option("--no-pager", is_flag=True, help="Do not use a pager, even if the output is long.")
@click.pass_context
def diff(
    ctx: click.Context,
    first: Path,
    second: Path | None,
    *,
    numbers: tuple[int, int] | None,
    normalize: frozenset[str],
    timing: int | None,
    ignore_path: Sequence[str],
    match_header: Sequence[str],
    deltas: DeltaComparison,
    limit: int,
    as_json: bool,
    no_pager: bool,
) -> None:
    """Compare two recordings, A and B, or two exchanges of one recording.

    Channels, such as sessions, are paired by id, streams of a channel by order, events by durable id, and other
    exchanges by method, path and order. The output lists what is missing, added, changed (with its JSON paths) or
    moved in B.

    With --normalize ids,times, two recordings of the same scenario compare equal: ids may differ but must appear in
    the same places, and a reference to the wrong id is still reported.

    \b
    Examples:
        wiretape diff before.db after.db
        wiretape diff before.db after.db --normalize ids,times --timing 200ms
        wiretape diff run.db --exchange 2:5
        wiretape diff before.db after.db --ignore-path '$..usage' --json

    Exit status: 0 if equal, 1 if different, 2 if the recordings could not be compared.
    """
    if second is None and (numbers is None or numbers[0] == numbers[1]):
        raise click.UsageError(
            "Specify two recordings, or use --exchange N:M to compare two exchanges of one recording."
        )
    options = DiffOptions(
        ids="ids" in normalize,
        times="times" in normalize,
        ignored=tuple(map(JsonPath.of, ignore_path)),
        headers=tuple(dict.fromkeys(name.lower() for name in match_header)),
        deltas=deltas,
        tolerance_ns=timing,
        limit=limit,
    )
    total = DiffTotal()
    with ExitStack() as opened:
        recordings = [opened.enter_context(open_recording(path)) for path in (first, second or first)]
        diffs = _compare(RecordingDiff(recordings[0], recordings[1], options), recordings, numbers)
        lines: Iterator[Line | str]
        if as_json:
            names = dict(zip("ab", (str(recording.path) for recording in recordings), strict=True))
            head = {"format": _FORMAT, **names, "normalized": sorted(normalize)}
            lines = diff_output.json_lines(recordings, diffs, total, head)
        else:
            lines = _lines(recordings, diffs, total, options)
        write_lines(lines, page=not as_json and not no_pager)
    ctx.exit(0 if total.is_equal else 1)


def _compare(
    comparison: RecordingDiff, recordings: Sequence[Recording], numbers: tuple[int, int] | None
) -> Iterator[ExchangeDiff]:
    if numbers is None:
        return comparison.compare_all()
    first, second = (recording.exchange(number) for recording, number in zip(recordings, numbers, strict=True))
    return iter([comparison.compare_pair(first, second)])


def _lines(
    recordings: Sequence[Recording], diffs: Iterator[ExchangeDiff], total: DiffTotal, options: DiffOptions
) -> Iterator[Line]:
    for name, recording in zip("AB", recordings, strict=True):
        yield labelled((f"{name}  ", "head"), str(recording.path), (f"  {recording.info.started:%F %TZ}", "dim"))
    for each in diffs:
        total.add(each)
        yield from diff_output.diff_lines(each)
    yield from diff_output.total_lines(total, ids=options.ids)
