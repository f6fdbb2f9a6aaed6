"""`wiretape merge`: several proxies' recordings as one."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

import click

from wiretape.files import PATH, is_same_file
from wiretape.labels import count_of
from wiretape.recording import Recording, RecordingSource, open_recording
from wiretape.safe_text import printable
from wiretape_inspect import atomic_output
from wiretape_inspect.merging import Joined, conflicts, joined

_TOLD = 20
"""How many conflicts are told one by one."""


@click.command()
@click.argument("files", type=PATH, nargs=-1, required=True, metavar="FILE FILE...")
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", required=True, help="The merged recording.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def merge(files: tuple[Path, ...], *, to: Path, force: bool) -> None:
    """Make one recording of several, in the order of the clock on the wall.

    Exchanges get new numbers, which are told. So is what does not go together: clocks that contradict each other,
    differing upstreams, traffic that two proxies recorded, recordings that were never closed. The rules are asked
    anew, about all of it.

    \b
    Example:
        wiretape merge eu.db us.db --output both.db
    """
    if len(files) < 2:
        raise click.UsageError("Give two recordings or more.")
    if any(is_same_file(one, other) for one, other in combinations(files, 2)):
        raise click.UsageError("One recording is given twice.")
    atomic_output.check(to, files, force=force)
    with ExitStack() as opened:
        recordings = [opened.enter_context(open_recording(file)) for file in files]
        together = joined(recordings)
        told = list(conflicts(together))
        atomic_output.place(RecordingSource(together.head(), together.observations()), to)
        with open_recording(to) as made:
            told += _findings(together, made)
            _say(together, made, to)
    for sentence in told[:_TOLD]:
        click.echo(printable(sentence), err=True)
    if len(told) > _TOLD:
        click.echo(f"… and {len(told) - _TOLD} more conflicts.", err=True)


def _say(together: Joined, made: Recording, to: Path) -> None:
    total = sum(map(len, together.numbers))
    found = sum(1 for _ in made.findings())
    click.echo(f"{printable(str(to))}: {count_of(total, 'exchange')}, {count_of(found, 'finding')}.")
    for recording, numbers in zip(together.recordings, together.numbers, strict=True):
        pairs = ", ".join(_runs(numbers)) or "no exchange"
        click.echo(f"  {printable(str(recording.path))}: {pairs}")


def _runs(numbers: dict[int, int]) -> Iterator[str]:
    """Old and new numbers, those that follow each other together: `1-3 → 4-6`."""
    runs: list[tuple[int, int, int]] = []
    for old, new in sorted(numbers.items()):
        if runs and (old, new) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((old, new, 1))
    for old, new, length in runs:
        yield f"{old} → {new}" if length == 1 else f"{old}-{old + length - 1} → {new}-{new + length - 1}"


def _findings(together: Joined, made: Recording) -> Iterator[str]:
    """What the live findings of the parts and those of the whole do not share."""
    before = Counter(
        key
        for recording, numbers in zip(together.recordings, together.numbers, strict=True)
        for key in _keys(recording, numbers)
    )
    after = Counter(_keys(made, None))
    gone, new = (before - after).total(), (after - before).total()
    if gone:
        yield f"{count_of(gone, 'live finding')} of the recordings alone did not come up in the whole."
    if new:
        yield f"{count_of(new, 'finding')} came up only in the whole."


def _keys(recording: Recording, numbers: dict[int, int] | None) -> Iterable[tuple[object, ...]]:
    """What tells findings apart: rule, exchange, event."""
    for finding in recording.findings():
        number = finding.exchange
        yield finding.code, number if numbers is None else numbers.get(number), finding.event
