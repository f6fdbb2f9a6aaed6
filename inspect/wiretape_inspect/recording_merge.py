"""Merge recordings of several proxies in wall-clock order, and find where they contradict each other."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from itertools import pairwise

from wiretape.content_encoding import decode_beginning
from wiretape.observations import BytesArrived, Observation, Side, header
from wiretape.recording import Capture, Exchange, Recording, RecordingMetadata
from wiretape.safe_text import printable
from wiretape.units import format_duration
from wiretape.upstreams import join_upstreams
from wiretape_inspect.timeline_text import bytes_before_loss

Timed = tuple[int, int, Observation]
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


@dataclass(frozen=True, slots=True)
class MergedRecording:
    """Several recordings, read as one."""

    recordings: Sequence[Recording]
    shifts: Sequence[int]
    """For each, how long after the first it began (ns, wall clock)."""
    numbers: Sequence[dict[int, int]]
    """For each, the new number of each of its exchanges."""

    def metadata(self) -> RecordingMetadata:
        """The metadata of the whole, with the upstreams of all."""
        first = self.recordings[self.shifts.index(0)].info
        upstream = join_upstreams(recording.info.upstream for recording in self.recordings)
        return RecordingMetadata(upstream, first.started_unix_ns, self._captures(), self._redacted())

    def observations(self) -> Iterator[Observation]:
        """All observations in order of time; equal times are pushed apart by a nanosecond."""
        last_ns = 0
        merged = heapq.merge(*map(self._timed, range(len(self.recordings))), key=lambda timed: timed[:2])
        for time_ns, which, seen in merged:
            last_ns = max(time_ns, last_ns + 1)
            yield _renumbered(seen, self.numbers[which][seen.exchange], last_ns)

    def _timed(self, which: int) -> Iterator[Timed]:
        shift = self.shifts[which]
        for seen in self.recordings[which].observations():
            for each in _split_chunks(seen):
                yield each.time_ns + shift, which, each

    def _captures(self) -> tuple[Capture, ...]:
        """The captures of all recordings, each once: parts of one recording share them."""
        captures: dict[Capture, None] = {}
        for recording, shift in zip(self.recordings, self.shifts, strict=True):
            for each in closed_captures(recording):
                ended_ns = None if each.ended_ns is None else each.ended_ns + shift
                captures[Capture(each.tool, each.began_ns + shift, ended_ns)] = None
        merged = sorted(captures, key=lambda each: each.began_ns)
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


def merge_recordings(recordings: Sequence[Recording]) -> MergedRecording:
    """Merge recordings.  Exchanges are renumbered in the order in which they began."""
    began = [recording.info.started_unix_ns for recording in recordings]
    shifts = [each - min(began) for each in began]
    starts = [
        (exchange.request.time_ns + shift, which, exchange.number)
        for which, (recording, shift) in enumerate(zip(recordings, shifts, strict=True))
        for exchange in recording.exchanges()
    ]
    numbers: list[dict[int, int]] = [{} for _ in recordings]
    for new, (_, which, old) in enumerate(sorted(starts), 1):
        numbers[which][old] = new
    return MergedRecording(recordings, shifts, numbers)


def closed_captures(recording: Recording) -> tuple[Capture, ...]:
    """The captures of a recording; if it was never closed, the last one ends with the last observation."""
    captures = recording.captures()
    if captures[-1].ended_ns is None:
        ended_ns = max(captures[-1].began_ns, last_ns(recording.observations()))
        captures[-1] = replace(captures[-1], ended_ns=ended_ns)
    return tuple(captures)


def last_ns(observations: Iterable[Observation]) -> int:
    """The time of the last observation; 0 if there are none."""
    last = 0
    for seen in observations:
        last = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
    return last


def _split_chunks(seen: Observation) -> Iterator[Observation]:
    """The chunks of a run, one by one."""
    if not isinstance(seen, BytesArrived):
        yield seen
        return
    start = seen.start
    for time_ns, data in seen.chunks():
        yield BytesArrived(seen.exchange, seen.side, start, data, (start + len(data),), (time_ns,))
        start += len(data)


def _renumbered(seen: Observation, number: int, time_ns: int) -> Observation:
    if isinstance(seen, BytesArrived):
        return BytesArrived(number, seen.side, seen.start, seen.data, seen.ends, (time_ns,))
    return replace(seen, exchange=number, time_ns=time_ns)


@dataclass(frozen=True, slots=True)
class _MergedExchange:
    """An exchange with its merged number and times."""

    which: int
    exchange: Exchange
    number: int
    began_ns: int
    responded_ns: int | None
    ended_ns: int | None


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
    """Exchanges that passed both recorders."""
    groups: dict[tuple[object, ...], list[_MergedExchange]] = defaultdict(list)
    for each in _merged_exchanges(merged):
        request, response = each.exchange.request, each.exchange.response
        same = [header(request.headers, name) for name in _UNCHANGED_HEADERS]
        groups[(request.method, request.target, response.status if response else None, *same)].append(each)
    for group in groups.values():
        for one, other in _close_pairs(sorted(group, key=lambda each: each.began_ns)):
            if _has_same_bodies(merged, one, other):
                yield from _duplicate_sentences(merged, one, other)


def _merged_exchanges(merged: MergedRecording) -> Iterator[_MergedExchange]:
    for which, (recording, shift) in enumerate(zip(merged.recordings, merged.shifts, strict=True)):
        for exchange in recording.exchanges():
            responded = exchange.response.time_ns + shift if exchange.response else None
            ended = exchange.ended_ns + shift if exchange.ended_ns is not None else None
            number = merged.numbers[which][exchange.number]
            yield _MergedExchange(which, exchange, number, exchange.request.time_ns + shift, responded, ended)


def _close_pairs(group: list[_MergedExchange]) -> Iterator[tuple[_MergedExchange, _MergedExchange]]:
    """Pairs from two recordings that began within a short time and overlap; each exchange is in one pair at most."""
    paired: set[int] = set()
    recent: list[_MergedExchange] = []
    for placed in group:
        recent = [
            one for one in recent if placed.began_ns - one.began_ns <= _MAX_PROXY_DELAY_NS and one.number not in paired
        ]
        for one in recent:
            overlaps = one.ended_ns is None or one.ended_ns > placed.began_ns
            if one.which != placed.which and overlaps:
                paired |= {one.number, placed.number}
                yield one, placed
                break
        recent.append(placed)


def _has_same_bodies(merged: MergedRecording, one: _MergedExchange, other: _MergedExchange) -> bool:
    """Whether the bodies have the same beginning, as far as both have bytes."""
    for side in Side:
        first, second = (_beginning(merged, each, side) for each in (one, other))
        if first[: len(second)] != second[: len(first)]:
            return False
    return True


def _beginning(merged: MergedRecording, placed: _MergedExchange, side: Side) -> bytes:
    parts = bytes_before_loss(merged.recordings[placed.which].body(placed.exchange.number, side))
    return decode_beginning(None, parts, _COMPARED_BYTES)[0]


def _duplicate_sentences(merged: MergedRecording, one: _MergedExchange, other: _MergedExchange) -> Iterator[str]:
    names = [f"exchange {each.number} ({_name(merged, each.which)} {each.exchange.number})" for each in (one, other)]
    yield f"E{names[0][1:]} and {names[1]} look like the same traffic recorded twice; both are kept."
    if one.responded_ns is not None and other.responded_ns is not None and one.responded_ns < other.responded_ns:
        delay = format_duration(other.responded_ns - one.responded_ns)
        yield (
            f"The clocks contradict each other: the request of {names[0]} is the earlier one, so its "
            f"response should be the later one; it is {delay} earlier than that of {names[1]}."
        )


def _name(merged: MergedRecording, which: int) -> str:
    return printable(merged.recordings[which].path.name)
