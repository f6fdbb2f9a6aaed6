"""`wiretape diff`: what differs between two recordings."""

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
from wiretape_inspect import jsonlines, output
from wiretape_inspect.commands.times import time_like
from wiretape_inspect.comparing import telling
from wiretape_inspect.comparing.choices import Choices, Deltas
from wiretape_inspect.comparing.model import Compared
from wiretape_inspect.comparing.recordings import Comparison, Total

_FORMAT = 1
_EXCHANGES = re.compile(r"(\d{1,18})(?::(\d{1,18}))?", re.ASCII)
_NORMALIZED = ("ids", "times")


def _normalized(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> frozenset[str]:
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in _NORMALIZED:
            raise click.BadParameter(f"{printable(name)!r} is none of {', '.join(_NORMALIZED)}.")
    return frozenset(names)


def _exchanges(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    match = _EXCHANGES.fullmatch(given.strip())
    if match is None:
        raise click.BadParameter(f"{printable(given)!r} names no exchanges: write two numbers, like 2:5, or one.")
    return int(match[1]), int(match[2] or match[1])


@click.command()
@click.argument("first", metavar="A", type=PATH)
@click.argument("second", metavar="[B]", required=False, type=PATH)
@click.option(
    "--exchange",
    "numbers",
    metavar="N[:M]",
    callback=_exchanges,
    help="Only exchange N of A, with exchange M of B, or of A where there is no B.",
)
@click.option(
    "--normalize",
    metavar="ids,times",
    multiple=True,
    callback=_normalized,
    help="ids: they may be others, in the same places. times: points in time in JSON may be others.",
)
@click.option(
    "--timing",
    metavar="TOLERANCE",
    callback=time_like("50ms"),
    help="Also tell what came later or sooner by more than this: 50ms.",
)
@click.option("--ignore-path", metavar="PATH", multiple=True, help="This place in JSON does not count. Repeatable.")
@click.option("--match-header", metavar="NAME", multiple=True, help="This header counts. Repeatable.")
@click.option(
    "--deltas",
    type=click.Choice(get_args(Deltas)),
    default="text",
    show_default=True,
    help="How deltas are compared: by the text they join to, also by its pieces, or not.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Tell so many differences of each kind for a pair of exchanges; 0: all.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
@click.option("--no-pager", is_flag=True, help="Write to the terminal, also what is longer than the screen.")
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
    deltas: Deltas,
    limit: int,
    as_json: bool,
    no_pager: bool,
) -> None:
    """Compare two recordings, A and B, or two connections of one.

    Sessions are paired by their ids, their streams by their order, other exchanges by method, path and order;
    events by their durable ids. Told is what is missing in B, added, changed (with its paths in JSON) or moved.

    With --normalize ids,times two recordings of one scenario are equal: ids have to come in the same places, and a
    reference to a wrong one is still found.

    \b
    Examples:
        wiretape diff before.db after.db
        wiretape diff before.db after.db --normalize ids,times --timing 200ms
        wiretape diff run.db --exchange 2:5
        wiretape diff before.db after.db --ignore-path '$..usage' --json

    Exit status: 0 equal, 1 different, 2 the command could not do what was asked.
    """
    if second is None and (numbers is None or numbers[0] == numbers[1]):
        raise click.UsageError("Name two recordings, or two exchanges of one with --exchange N:M.")
    choices = Choices(
        ids="ids" in normalize,
        times="times" in normalize,
        ignored=tuple(map(JsonPath.of, ignore_path)),
        headers=tuple(dict.fromkeys(name.lower() for name in match_header)),
        deltas=deltas,
        tolerance_ns=timing,
        most=limit,
    )
    total = Total()
    with ExitStack() as opened:
        recordings = [opened.enter_context(open_recording(path)) for path in (first, second or first)]
        found = _compared(Comparison(recordings[0], recordings[1], choices), recordings, numbers)
        if as_json:
            lines = _documents(recordings, found, total, normalize)
        else:
            lines = _lines(recordings, found, total, choices)
        output.write_lines(lines, page=not as_json and not no_pager)
    ctx.exit(0 if total.equal else 1)


def _compared(
    comparison: Comparison, recordings: Sequence[Recording], numbers: tuple[int, int] | None
) -> Iterator[Compared]:
    if numbers is None:
        return comparison.all()
    first, second = (recording.exchange(number) for recording, number in zip(recordings, numbers, strict=True))
    return iter([comparison.pair(first, second)])


def _lines(recordings: Sequence[Recording], found: Iterator[Compared], total: Total, choices: Choices) -> Iterator[str]:
    paper = output.paper()
    for name, recording in zip("AB", recordings, strict=True):
        yield paper.line(
            [(f"{name}  ", "head"), (str(recording.path), ""), (f"  {recording.info.started:%F %TZ}", "dim")]
        )
    for compared in found:
        total.add(compared)
        yield from map(paper.line, telling.spans(compared))
    yield from map(paper.line, telling.summary(total, ids=choices.ids))


def _documents(
    recordings: Sequence[Recording], found: Iterator[Compared], total: Total, normalize: frozenset[str]
) -> Iterator[str]:
    names = dict(zip("ab", (str(recording.path) for recording in recordings), strict=True))
    yield jsonlines.dump({"row": "diff", "format": _FORMAT, **names, "normalized": sorted(normalize)})
    for compared in found:
        total.add(compared)
        yield from map(jsonlines.dump, telling.documents(compared))
    yield jsonlines.dump(telling.total_document(total))
