"""A stream at a glance: its time axis with the idle time folded, its runs and tool calls, from the index alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import accumulate, pairwise

from wiretape.contract import DELTA_TYPES
from wiretape.recording import Exchange, Gap, Recording
from wiretape_inspect.view.rows import GAP_NS
from wiretape_inspect.view.state import named
from wiretape_inspect.view.work import Moment, Span, Work

FOLDED = 50
"""How many silences are folded: the longest ones."""
SHOWN = 1000
"""How many tool calls are told of one by one: more of them nobody could tell apart."""
_END = 2**62


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of the time axis."""

    since_ns: int
    until_ns: int
    folded: bool
    """Whether it is a silence that takes less room than its time would."""
    begin: float
    """Where on the axis it begins, from 0 to 1; `end` is where it ends."""
    end: float


@dataclass(frozen=True, slots=True)
class Overview:
    """A stream at a glance.  Plain data: `jsonlines.dump` writes it as it is."""

    exchange: int
    began_ns: int
    """When the response began."""
    ended_ns: int
    """When it ended, or when the last message came of one that is open."""
    axis: tuple[Stretch, ...]
    """The time from `began_ns` to `ended_ns`, without holes."""
    silences: tuple[Gap, ...]
    """The `FOLDED` longest times of a second and more before a message, in order."""
    runs: tuple[Span, ...]
    calls: tuple[Span, ...]
    """The `SHOWN` tool calls that took longest, in order; those that are `open` have no `ended`."""
    calls_seen: int
    """How many tool calls there were."""
    calls_open: int
    """How many of them did not end."""


def overview(recording: Recording, exchange: Exchange) -> Overview:
    """A stream at a glance, as far as it is indexed, which for a recording that grows may be a little behind."""
    began = exchange.response.time_ns if exchange.response else exchange.request.time_ns
    silences = recording.longest_gaps(exchange.number, GAP_NS, FOLDED)
    work = work_of(recording, [exchange])
    last = recording.last_frame_ns(exchange.number)
    ended = exchange.ended_ns if exchange.ended_ns is not None else max(last or began, began)
    return Overview(
        exchange=exchange.number,
        began_ns=began,
        ended_ns=ended,
        axis=tuple(axis(began, ended, silences)),
        silences=tuple(silences),
        runs=tuple(work.runs.values()),
        calls=tuple(named(recording, iter(_longest(list(work.calls.values()), began)))),
        calls_seen=len(work.calls),
        calls_open=sum(call.open for call in work.calls.values()),
    )


def _longest(calls: Sequence[Span], began_ns: int) -> Sequence[Span]:
    """The `SHOWN` calls that took longest, in their order; one that is open takes longest of all."""
    if len(calls) <= SHOWN:
        return calls

    def taken_ns(at: int) -> int:
        call = calls[at]
        since = call.began.time_ns if call.began else began_ns
        return (call.ended.time_ns if call.ended else _END) - since

    return [calls[at] for at in sorted(nlargest(SHOWN, range(len(calls)), key=taken_ns))]


def work_of(recording: Recording, exchanges: Iterable[Exchange]) -> Work:
    """The runs and tool calls that streams tell of, one after the other: one that goes on over two streams is one."""
    work = Work()
    for exchange in exchanges:
        if exchange.is_stream:
            for told in recording.indexed_events(exchange.number, _END, DELTA_TYPES):
                at = Moment(exchange.number, told.event, told.time_ns)
                work.add(told.type, told.run_id, told.tool_call_id, at)
    return work


def axis(began_ns: int, ended_ns: int, silences: Sequence[Gap]) -> Iterator[Stretch]:
    """The time from `began_ns` to `ended_ns` in stretches, silences no wider than a twentieth of the rest, or a second.

    `silences` come in order and do not overlap.
    """
    cuts = sorted(
        {began_ns, ended_ns, *(time for silence in silences for time in (silence.since_ns, silence.until_ns))}
    )
    quiet = {silence.since_ns for silence in silences}
    stretches = [(since, until, since in quiet) for since, until in pairwise(cuts)]
    busy = sum(until - since for since, until, folded in stretches if not folded)
    room = max(busy // 20, GAP_NS)
    widths = [min(until - since, room) if folded else until - since for since, until, folded in stretches]
    whole = sum(widths) or 1
    places = accumulate(widths, initial=0)
    for (since, until, folded), (begin, end) in zip(stretches, pairwise(places), strict=True):
        yield Stretch(since, until, folded, begin / whole, end / whole)
