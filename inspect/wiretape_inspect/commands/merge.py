"""`wiretape merge`: merge the recordings of several proxies."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.files import PATH, is_same_file
from wiretape.labels import count_of
from wiretape.recording import Recording, RecordingSource, open_recording
from wiretape.recording.rotated_parts import open_wholes
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import check_recording_output, describe_contents, print_sentences, write_recording
from wiretape_inspect.recording_merge import MergedRecording, find_conflicts, merge_recordings


@click.command()
@click.argument("files", type=PATH, nargs=-1, required=True, metavar="FILE FILE...")
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", required=True, help="Recording to write.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def merge(files: tuple[Path, ...], *, to: Path, force: bool) -> None:
    """Merge several recordings into one, in wall-clock order.

    Exchanges are renumbered, and the new numbers are printed. The command also reports conflicts: clocks that
    disagree, different upstreams, traffic that two proxies recorded, and recordings that were never closed. The rules
    are run again on the merged recording.

    \b
    Example:
        wiretape merge eu.db us.db --output both.db
    """
    if len(files) < 2:
        raise click.UsageError("Specify at least two recordings.")
    if any(is_same_file(one, other) for one, other in combinations(files, 2)):
        raise click.UsageError("The same recording is listed twice.")
    check_recording_output(to, files, force=force)
    with ExitStack() as opened:
        notes: list[str] = []
        wholes = open_wholes(
            [str(file) for file in files],
            lambda name: opened.enter_context(open_recording(Path(name))),
            opened,
            note=notes.append,
            fail=_fail,
        )
        merged = merge_recordings([recording for _, recording in wholes])
        conflicts = [*notes, *find_conflicts(merged)]
        write_recording(RecordingSource(merged.metadata(), merged.observations()), to)
        with open_recording(to) as written:
            conflicts += _finding_changes(merged, written)
            _print_summary(merged, written, to)
    print_sentences(conflicts, "more conflict")


def _fail(_name: str, error: InputError) -> None:
    raise error


def _print_summary(merged: MergedRecording, written: Recording, to: Path) -> None:
    click.echo(f"{printable(str(to))}: {describe_contents(written)}")
    for recording, numbers in zip(merged.recordings, merged.numbers, strict=True):
        pairs = ", ".join(_number_ranges(numbers)) or "no exchanges"
        click.echo(f"  {printable(str(recording.path))}: {pairs}")


def _number_ranges(numbers: dict[int, int]) -> Iterator[str]:
    """Old and new numbers as ranges: `1-3 → 4-6`."""
    runs: list[tuple[int, int, int]] = []
    for old, new in sorted(numbers.items()):
        if runs and (old, new) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((old, new, 1))
    for old, new, length in runs:
        yield f"{old} → {new}" if length == 1 else f"{old}-{old + length - 1} → {new}-{new + length - 1}"


def _finding_changes(merged: MergedRecording, written: Recording) -> Iterator[str]:
    """The findings that only the parts or only the whole have."""
    before = Counter(
        key
        for recording, numbers in zip(merged.recordings, merged.numbers, strict=True)
        for key in _keys(recording, numbers)
    )
    after = Counter(_keys(written, None))
    gone, new = (before - after).total(), (after - before).total()
    if gone:
        yield f"Only in the separate recordings: {count_of(gone, 'live finding')}."
    if new:
        yield f"Only in the merged recording: {count_of(new, 'finding')}."


def _keys(recording: Recording, numbers: dict[int, int] | None) -> Iterable[tuple[object, ...]]:
    """What identifies a finding: rule, exchange, event."""
    for finding in recording.findings():
        number = finding.exchange
        yield finding.code, number if numbers is None else numbers.get(number), finding.event
