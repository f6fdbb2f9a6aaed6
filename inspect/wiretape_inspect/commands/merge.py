"""`wiretape merge`: merge the recordings of several proxies, and find where they contradict each other."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from itertools import combinations, pairwise
from pathlib import Path

import click

from wiretape.addresses import join_upstreams
from wiretape.content_encoding import decode_beginning
from wiretape.files import PATH, is_same_file
from wiretape.labels import count_of
from wiretape.observations import BytesArrived, Observation, Side, header
from wiretape.recording import (
    Capture,
    Exchange,
    Recording,
    RecordingMetadata,
    RecordingSource,
    join_contracts,
    move_observation,
    observe_body,
    open_recording,
    order_observations,
)
from wiretape.recording.rotated_parts import open_wholes
from wiretape.safe_text import printable
from wiretape.units import format_duration
from wiretape_inspect.atomic_output import check_recording_output, describe_contents, print_sentences, write_recording
from wiretape_inspect.exchange_selection import closed_captures
from wiretape_inspect.timeline_text import bytes_before_loss

"""Time (ns since the first recording began), index of the recording, observation."""
_DATE_PRECISION_NS = 2_000_000_000
"""`Date` counts seconds, so it only shows clock differences of two seconds and more."""
_MAX_PROXY_DELAY_NS = 5_000_000_000
"""A request that passes two proxies reaches both within this time."""
_DAY_NS = 86_400_000_000_000
_MAX_DAYS_APART = 365
"""Recordings further apart suggest a clock that was never set, or a tape without a date."""
_COMPARED_BYTES = 4096
"""How many bytes of two bodies are compared."""
_UNCHANGED_HEADERS = ("user-agent", "last-event-id", "idempotency-key", "content-length")
"""Request headers that a proxy does not change."""


class MergedRecording:
    """Several recordings, read as one.  Exchanges are renumbered in the order in which they began."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.recordings = recordings
        began = [recording.info.started_unix_ns for recording in recordings]
        self.shifts = [each - min(began) for each in began]
        """For each, how long after the first it began (ns, wall clock)."""
        self.numbers: list[dict[int, int]] = [{} for _ in recordings]
        """For each, the new number of each of its exchanges."""
        starts = sorted((each.began_ns, each.which, each.exchange.number) for each in self.exchanges())
        for new, (_, which, old) in enumerate(starts, 1):
            self.numbers[which][old] = new

    def metadata(self) -> RecordingMetadata:
        """The metadata of the whole, with the upstreams of all."""
        first = self.recordings[self.shifts.index(0)].info
        upstream = join_upstreams(recording.info.upstream for recording in self.recordings)
        contracts = join_contracts(recording.info.contracts for recording in self.recordings)
        return RecordingMetadata(upstream, first.started_unix_ns, self._captures(), self._redacted(), contracts)

    def exchanges(self) -> Iterator["_MergedExchange"]:
        """Yield the exchanges of all recordings."""
        for which, (recording, shift) in enumerate(zip(self.recordings, self.shifts, strict=True)):
            yield from (_MergedExchange(which, exchange, shift) for exchange in recording.exchanges())

    def observations(self) -> Iterator[Observation]:
        """All observations in order of time; equal times are pushed apart by a nanosecond."""
        return order_observations(map(self._moved, range(len(self.recordings))), step_ns=1)

    def _moved(self, which: int) -> Iterator[Observation]:
        """The observations of a recording, chunk by chunk, with their numbers and times in the whole."""
        for seen in self.recordings[which].observations():
            number = self.numbers[which][seen.exchange]
            if isinstance(seen, BytesArrived):
                single: Iterable[Observation] = observe_body(number, seen.side, seen.chunks(), seen.start)
            else:
                single = [replace(seen, exchange=number)]
            for each in single:
                yield move_observation(each, each.time_ns + self.shifts[which])

    def _captures(self) -> tuple[Capture, ...]:
        """The captures of all recordings, each once: parts of one recording share them."""
        captures: set[Capture] = set()
        for recording, shift in zip(self.recordings, self.shifts, strict=True):
            for each in closed_captures(recording):
                ended_ns = None if each.ended_ns is None else each.ended_ns + shift
                captures.add(Capture(each.tool, each.began_ns + shift, ended_ns))
        merged = sorted(captures, key=lambda each: (each.began_ns, each.tool))
        if merged[-1].ended_ns is None:
            # A recording is closed if its last capture has ended, and this one is closed.
            merged[-1] = replace(merged[-1], ended_ns=max(each.ended_ns or each.began_ns for each in merged))
        return tuple(merged)

    def _redacted(self) -> int:
        """How many secrets were replaced; parts of one recording all have its total, which counts once."""
        by_start: dict[int, int] = {}
        for info in (recording.info for recording in self.recordings):
            by_start[info.started_unix_ns] = max(info.redacted, by_start.get(info.started_unix_ns, 0))
        return sum(by_start.values())


@dataclass(frozen=True, slots=True)
class _MergedExchange:
    """An exchange, the index of its recording, and how long after the first that one began."""

    which: int
    exchange: Exchange
    shift: int

    @property
    def began_ns(self) -> int:
        """When it began in the merged recording."""
        return self.exchange.request.time_ns + self.shift


def find_conflicts(merged: MergedRecording) -> Iterator[str]:
    """Each conflict as a sentence; contains file names and recorded text that are not escaped."""
    yield from _metadata_conflicts(merged)
    yield from _clocks(merged)
    yield from _same_traffic(merged)


def _metadata_conflicts(merged: MergedRecording) -> Iterator[str]:
    for recording in merged.recordings:
        if recording.info.ended_ns is None:
            yield f"{recording.path} was never closed: it is still being recorded, or its end is missing."
    if len({recording.info.upstream for recording in merged.recordings}) > 1:
        yield f"The recordings have different upstreams: the merged recording has {merged.metadata().upstream}."
    ordered = sorted(merged.recordings, key=lambda recording: recording.info.started_unix_ns)
    first, last = ordered[0], ordered[-1]
    days = (last.info.started_unix_ns - first.info.started_unix_ns) // _DAY_NS
    if days >= _MAX_DAYS_APART:
        yield f"{last.path} began {days:,} days after {first.path} (a tape without the key `started` begins in 1970)."
    # Each recording has its own fingerprint key; parts of one recording share it.
    redacted = {each.info.started_unix_ns for each in merged.recordings if each.info.redacted}
    if len(redacted) > 1:
        yield (
            "The same credential has a different fingerprint in each recording, so one client may count as "
            f"{len(redacted)} clients."
        )


def _clocks(merged: MergedRecording) -> Iterator[str]:
    """The `Date` of a service is a clock that all its recordings share: a response arrives then or a little later."""
    ahead: dict[str, dict[int, int]] = defaultdict(dict)
    for which, recording in enumerate(merged.recordings):
        for authority, least_ns in _ahead_of_service(recording):
            known = ahead[authority].get(which, least_ns)
            ahead[authority][which] = min(known, least_ns)
    for authority, least in ahead.items():
        for (one, early), (other, late) in pairwise(sorted(least.items(), key=lambda item: item[1])):
            if late - early >= _DATE_PRECISION_NS:
                yield (
                    f"The clocks contradict each other: according to the Date headers of {authority}, the clock of "
                    f"{_name(merged, other)} is about {format_duration(late - early)} "
                    f"ahead of that of {_name(merged, one)}."
                )


def _ahead_of_service(recording: Recording) -> Iterator[tuple[str, int]]:
    """For each response with a `Date`: the service, and how far the recorder's clock was ahead."""
    for exchange in recording.exchanges():
        date = header(exchange.response.headers, "date") if exchange.response else None
        if exchange.response is None or date is None:
            continue
        try:
            date_ns = int(parsedate_to_datetime(date).timestamp()) * 1_000_000_000
        except (ValueError, OverflowError):
            continue
        yield exchange.request.authority, recording.info.started_unix_ns + exchange.response.time_ns - date_ns


def _same_traffic(merged: MergedRecording) -> Iterator[str]:
    """Report exchanges that passed both recorders."""
    groups: dict[tuple[object, ...], list[_MergedExchange]] = defaultdict(list)
    for each in merged.exchanges():
        request, response = each.exchange.request, each.exchange.response
        same = [header(request.headers, name) for name in _UNCHANGED_HEADERS]
        groups[(request.method, request.target, response.status if response else None, *same)].append(each)
    for group in groups.values():
        for one, other in _close_pairs(sorted(group, key=lambda each: each.began_ns)):
            if _has_same_bodies(merged, one, other):
                yield from _duplicate_sentences(merged, one, other)


def _close_pairs(group: list[_MergedExchange]) -> Iterator[tuple[_MergedExchange, _MergedExchange]]:
    """Pairs from two recordings that began within a short time and overlap; each exchange is in one pair at most."""
    unpaired: list[_MergedExchange] = []
    for other in group:
        unpaired = [one for one in unpaired if other.began_ns - one.began_ns <= _MAX_PROXY_DELAY_NS]
        for one in unpaired:
            ended_ns = one.exchange.ended_ns
            if one.which != other.which and (ended_ns is None or ended_ns + one.shift > other.began_ns):
                unpaired.remove(one)
                yield one, other
                break
        else:
            unpaired.append(other)


def _has_same_bodies(merged: MergedRecording, *pair: _MergedExchange) -> bool:
    """Whether the bodies have the same beginning, as far as both have bytes."""
    for side in Side:
        bodies = (merged.recordings[each.which].body(each.exchange.number, side) for each in pair)
        first, second = (decode_beginning(None, bytes_before_loss(body), _COMPARED_BYTES)[0] for body in bodies)
        if first[: len(second)] != second[: len(first)]:
            return False
    return True


def _duplicate_sentences(merged: MergedRecording, one: _MergedExchange, other: _MergedExchange) -> Iterator[str]:
    names = [
        f"exchange {merged.numbers[each.which][each.exchange.number]} ({_name(merged, each.which)} "
        f"{each.exchange.number})"
        for each in (one, other)
    ]
    yield f"E{names[0][1:]} and {names[1]} look like the same traffic recorded twice; both are kept."
    first, second = one.exchange.response, other.exchange.response
    if first is not None and second is not None:
        delay_ns = second.time_ns + other.shift - first.time_ns - one.shift
        if delay_ns > 0:
            yield (
                f"The clocks contradict each other: the request of {names[0]} is the earlier one, so its response "
                f"should be the later one; it is {format_duration(delay_ns)} earlier than that of {names[1]}."
            )


def _name(merged: MergedRecording, which: int) -> str:
    return printable(merged.recordings[which].path.name)


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
        )
        merged = MergedRecording([recording for _, recording in wholes])
        conflicts = [*notes, *find_conflicts(merged)]
        write_recording(RecordingSource(merged.metadata(), merged.observations()), to)
        with open_recording(to) as written:
            conflicts += _finding_changes(merged, written)
            _print_summary(merged, written, to)
    print_sentences(conflicts, "more conflict")


def _print_summary(merged: MergedRecording, written: Recording, to: Path) -> None:
    click.echo(f"{printable(str(to))}: {describe_contents(written)}.")
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
    pairs = zip(merged.recordings, merged.numbers, strict=True)
    before = Counter(
        (each.code, numbers[each.exchange], each.event) for recording, numbers in pairs for each in recording.findings()
    )
    after = Counter((each.code, each.exchange, each.event) for each in written.findings())
    gone, new = (before - after).total(), (after - before).total()
    if gone:
        yield f"Only in the separate recordings: {count_of(gone, 'live finding')}."
    if new:
        yield f"Only in the merged recording: {count_of(new, 'finding')}."
