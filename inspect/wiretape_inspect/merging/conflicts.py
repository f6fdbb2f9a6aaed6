"""What in several recordings does not go together, a sentence each."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import pairwise

from wiretape.observations import BytesLost, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import printable
from wiretape_inspect.humanize import duration
from wiretape_inspect.merging.joining import Joined

_COARSE_NS = 2_000_000_000
"""A `Date` is told in seconds, so by it two clocks are only seen to differ from two seconds on."""
_TOGETHER_NS = 5_000_000_000
"""A request that passes two proxies reaches both within this time."""
_DAY_NS = 86_400_000_000_000
_DAYS_APART = 365
"""What is merged tells of one time; from here on, some clock was never set, or a date never said."""
_COMPARED = 4096
"""How many bytes of two bodies are looked at to see whether they are one."""
_SAME = ("user-agent", "last-event-id", "idempotency-key", "content-length")
"""Request headers that a proxy leaves as they are."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """An exchange in the merged order."""

    which: int
    exchange: Exchange
    number: int
    began_ns: int
    answered_ns: int | None
    ended_ns: int | None


def conflicts(joined: Joined) -> Iterator[str]:
    """Each conflict as a sentence; file names and recorded text in it are not yet escaped."""
    yield from _unclosed(joined)
    yield from _upstreams(joined)
    yield from _years(joined)
    yield from _fingerprints(joined)
    yield from _clocks(joined)
    yield from _same_traffic(joined)


def _unclosed(joined: Joined) -> Iterator[str]:
    for recording in joined.recordings:
        if recording.info.ended_ns is None:
            yield f"{recording.path} was never closed: it is still being recorded, or its end may be missing."


def _years(joined: Joined) -> Iterator[str]:
    """Most likely a tape written by hand, and everything else comes decades behind it."""
    ordered = sorted(joined.recordings, key=lambda recording: recording.info.started_unix_ns)
    first, last = ordered[0], ordered[-1]
    days = (last.info.started_unix_ns - first.info.started_unix_ns) // _DAY_NS
    if days >= _DAYS_APART:
        yield (
            f"{last.path} began {days:,} days after {first.path}, and stands that far behind it "
            "(a tape that does not say when it `started` began in 1970)."
        )


def _upstreams(joined: Joined) -> Iterator[str]:
    upstreams = dict.fromkeys(recording.info.upstream for recording in joined.recordings)
    if len(upstreams) > 1:
        kept = joined.head().upstream
        yield f"The recordings have differing upstreams ({', '.join(upstreams)}); the merged one says {kept}."


def _fingerprints(joined: Joined) -> Iterator[str]:
    """Each recording has its own key; parts of one recording share it."""
    redacted = {each.info.started_unix_ns for each in joined.recordings if each.info.redacted}
    if len(redacted) > 1:
        yield (
            "One secret has another fingerprint in each recording, so that one client with one key counts as "
            f"{len(redacted)} clients."
        )


def _clocks(joined: Joined) -> Iterator[str]:
    """A service's `Date` is a clock that all who record it share: it came when it said, or a little later."""
    ahead: dict[str, dict[int, int]] = defaultdict(dict)
    for which, recording in enumerate(joined.recordings):
        for authority, least_ns in _ahead_of_service(recording):
            known = ahead[authority].get(which, least_ns)
            ahead[authority][which] = min(known, least_ns)
    for authority, least in ahead.items():
        for (one, early), (other, late) in pairwise(sorted(least.items(), key=lambda item: item[1])):
            if late - early >= _COARSE_NS:
                yield (
                    f"The clocks contradict each other: by the Date of {authority}, that of {_name(joined, other)} "
                    f"is about {duration(late - early)} ahead of that of {_name(joined, one)}."
                )


def _ahead_of_service(recording: Recording) -> Iterator[tuple[str, int]]:
    """For each answer with a `Date`, who gave it and by how much the recorder's clock was ahead."""
    for exchange in recording.exchanges():
        date = header(exchange.response.headers, "date") if exchange.response else None
        if exchange.response is None or date is None:
            continue
        try:
            told = int(parsedate_to_datetime(date).timestamp()) * 1_000_000_000
        except (ValueError, OverflowError):
            continue
        yield exchange.request.authority, recording.info.started_unix_ns + exchange.response.time_ns - told


def _same_traffic(joined: Joined) -> Iterator[str]:
    """Exchanges of two recordings that are one, which passed both recorders."""
    groups: dict[tuple[object, ...], list[_Placed]] = defaultdict(list)
    for placed in _placed(joined):
        request, response = placed.exchange.request, placed.exchange.response
        same = [header(request.headers, name) for name in _SAME]
        groups[(request.method, request.target, response.status if response else None, *same)].append(placed)
    for group in groups.values():
        for one, other in _close_pairs(sorted(group, key=lambda placed: placed.began_ns)):
            if _one_body(joined, one, other):
                yield from _told(joined, one, other)


def _placed(joined: Joined) -> Iterator[_Placed]:
    for which, (recording, shift) in enumerate(zip(joined.recordings, joined.shifts, strict=True)):
        for exchange in recording.exchanges():
            answered = exchange.response.time_ns + shift if exchange.response else None
            ended = exchange.ended_ns + shift if exchange.ended_ns is not None else None
            number = joined.numbers[which][exchange.number]
            yield _Placed(which, exchange, number, exchange.request.time_ns + shift, answered, ended)


def _close_pairs(group: list[_Placed]) -> Iterator[tuple[_Placed, _Placed]]:
    """Pairs of two recordings that began within a short time and overlap; each exchange in one pair at most."""
    paired: set[int] = set()
    near: list[_Placed] = []
    for placed in group:
        near = [one for one in near if placed.began_ns - one.began_ns <= _TOGETHER_NS and one.number not in paired]
        for one in near:
            overlaps = one.ended_ns is None or one.ended_ns > placed.began_ns
            if one.which != placed.which and overlaps:
                paired |= {one.number, placed.number}
                yield one, placed
                break
        near.append(placed)


def _one_body(joined: Joined, one: _Placed, other: _Placed) -> bool:
    """Whether the bodies begin alike, as far as both have bytes."""
    for side in Side:
        first, second = (_beginning(joined, each, side) for each in (one, other))
        if first[: len(second)] != second[: len(first)]:
            return False
    return True


def _beginning(joined: Joined, placed: _Placed, side: Side) -> bytes:
    body = b""
    for part in joined.recordings[placed.which].body(placed.exchange.number, side):
        # What is missing is not compared, nor what stands behind it.
        if isinstance(part, BytesLost) or len(body) >= _COMPARED:
            break
        body += part.data
    return body[:_COMPARED]


def _told(joined: Joined, one: _Placed, other: _Placed) -> Iterator[str]:
    names = [f"exchange {each.number} ({_name(joined, each.which)} {each.exchange.number})" for each in (one, other)]
    yield f"E{names[0][1:]} and {names[1]} look like the same traffic, recorded twice; both are kept."
    if one.answered_ns is not None and other.answered_ns is not None and one.answered_ns < other.answered_ns:
        apart = duration(other.answered_ns - one.answered_ns)
        yield (
            f"The clocks contradict each other: {names[0]} was asked first, but answered {apart} before the other, "
            "through which the answer would have come."
        )


def _name(joined: Joined, which: int) -> str:
    return printable(joined.recordings[which].path.name)
