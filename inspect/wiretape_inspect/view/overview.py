"""A stream at a glance: its longest silences, its runs and its tool calls, from the index alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest

from wiretape.contract import DELTA_TYPES
from wiretape.recording import Exchange, Gap, Recording
from wiretape_inspect.view.client_state_at_event import with_names
from wiretape_inspect.view.runs_and_calls import EventLocation, RunsAndCalls, Span
from wiretape_inspect.view.timeline_rows import GAP_NS

MAX_FOLDED = 50
"""Number of silences that are listed: the longest ones."""
MAX_CALLS = 1000
"""Number of tool calls that are listed: more cannot be told apart."""
_END = 2**62


@dataclass(frozen=True, slots=True)
class Overview:
    """A stream at a glance, as plain data for `dump_json`."""

    exchange: int
    began_ns: int
    """When the response began."""
    ended_ns: int
    """When the stream ended; while it is open, when the last event arrived."""
    silences: tuple[Gap, ...]
    """The `MAX_FOLDED` longest times of a second or more before an event, in order."""
    runs: tuple[Span, ...]
    calls: tuple[Span, ...]
    """The `MAX_CALLS` longest tool calls, in order; open ones have no `ended`."""
    call_count: int
    """Number of tool calls."""
    open_call_count: int
    """Number of tool calls that did not end."""


def overview(recording: Recording, exchange: Exchange) -> Overview:
    """Return a stream at a glance, as far as it is indexed; the index of a growing recording may lag behind."""
    began = exchange.began_ns
    silences = recording.longest_gaps(exchange.number, GAP_NS, MAX_FOLDED)
    activity = runs_and_calls(recording, [exchange])
    last = recording.last_frame_ns(exchange.number)
    ended = exchange.ended_ns if exchange.ended_ns is not None else max(last or began, began)
    return Overview(
        exchange=exchange.number,
        began_ns=began,
        ended_ns=ended,
        silences=tuple(silences),
        runs=tuple(activity.runs.values()),
        calls=tuple(with_names(recording, iter(_longest(list(activity.calls.values()), began)))),
        call_count=len(activity.calls),
        open_call_count=sum(call.is_open for call in activity.calls.values()),
    )


def longest_silence(recording: Recording, exchanges: Iterable[Exchange]) -> dict[str, int] | None:
    """Return the longest time before an event: `{exchange, since_ns, until_ns, event}`; None if there are no events."""
    found = [
        {"exchange": exchange.number, **gap._asdict()}
        for exchange in exchanges
        if exchange.is_stream
        for gap in recording.longest_gaps(exchange.number, 0, 1)
    ]
    return max(found, key=lambda gap: gap["until_ns"] - gap["since_ns"], default=None)


def _longest(calls: Sequence[Span], began_ns: int) -> Sequence[Span]:
    """Return the `MAX_CALLS` longest calls in their order; an open call is longer than any other."""
    if len(calls) <= MAX_CALLS:
        return calls

    def length_ns(index: int) -> int:
        call = calls[index]
        since = call.began.time_ns if call.began else began_ns
        return (call.ended.time_ns if call.ended else _END) - since

    return [calls[index] for index in sorted(nlargest(MAX_CALLS, range(len(calls)), key=length_ns))]


def runs_and_calls(recording: Recording, exchanges: Iterable[Exchange]) -> RunsAndCalls:
    """Return the runs and tool calls of several streams; one that spans two streams counts once."""
    activity = RunsAndCalls()
    for exchange in exchanges:
        if exchange.is_stream:
            for event, time_ns, type_, run_id, call, _ in recording.indexed_facts(exchange.number, _END, DELTA_TYPES):
                activity.add(type_, run_id, call, EventLocation(exchange.number, event, time_ns))
    return activity
