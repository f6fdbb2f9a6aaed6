"""Runs and tool calls, each assembled from the events with its id; and a stream at a glance, from the index alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import islice
from typing import Literal

from wiretape.agent_sessions import DELTA_TYPES, RUN_STARTED, STATUS_IDLE, TERMINAL_RUN_TYPES, TOOL_TYPES
from wiretape.recording import Exchange, Gap, Recording
from wiretape_inspect.view.timeline_rows import GAP_NS

MAX_NAMED_CALLS = 50
"""Number of tool calls whose tool name is looked up."""
MAX_FOLDED = 50
"""Number of silences that are listed: the longest ones."""
MAX_CALLS = 1000
"""Number of tool calls that are listed: more cannot be told apart."""
_END = 2**62
_STARTED = frozenset(TOOL_TYPES[:2])
_ENDED = frozenset(TOOL_TYPES[2:])


@dataclass(frozen=True, slots=True)
class EventLocation:
    """Location and time of an event."""

    exchange: int
    event: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Span:
    """A run or a tool call: all events that share its id."""

    id: str
    run_id: str | None
    """The run of a tool call; for a run, its own id."""
    began: EventLocation | None = None
    """The event that started it; None if that event was not recorded."""
    ended: EventLocation | None = None
    """The event that ended it; None while it is open."""
    outcome: str = ""
    """The type of the event that ended it; empty while it is open."""
    events: int = 0
    """Number of its events; replayed events count again."""
    name: str = ""
    """The tool that a tool call calls, if it was looked up."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None

    def with_event(
        self, at: EventLocation, run_id: str | None, outcome: str, *, begins: bool, name: str = ""
    ) -> "Span":
        """Return the span with one more event.  Replayed events do not move a beginning or an end."""
        begins = begins and self.began is None
        # The constructor is faster than `replace`.
        return Span(
            id=self.id,
            run_id=self.run_id or run_id,
            began=at if begins else self.began,
            ended=self.ended or (at if outcome else None),
            outcome=self.outcome or outcome,
            events=self.events + 1,
            name=name if begins else self.name,
        )


SessionState = Literal["running", "idle", "unknown"]
"""running: a run is open.  idle: the last event about it is `session.status_idle`.  unknown: anything else."""


class RunsAndCalls:
    """The runs and tool calls of a series of events, in the order in which they first appear."""

    def __init__(self) -> None:
        self.runs: dict[str, Span] = {}
        self.calls: dict[str, Span] = {}
        self.open_calls: dict[str, Span] = {}
        self._is_idle = False

    @property
    def session(self) -> SessionState:
        """The state of the session after the events added so far."""
        if any(run.is_open for run in self.runs.values()):
            return "running"
        return "idle" if self._is_idle else "unknown"

    def add(
        self, type_: str, run_id: str | None, tool_call_id: str | None, at: EventLocation, tool_name: str = ""
    ) -> None:
        """Add an event; `tool_name` is the tool of a call that begins with it, if it is known."""
        self._is_idle = type_ == STATUS_IDLE or (self._is_idle and type_ != RUN_STARTED)
        if run_id is not None:
            run = self.runs.get(run_id) or Span(run_id, run_id)
            outcome = type_ if type_ in TERMINAL_RUN_TYPES else ""
            self.runs[run_id] = run.with_event(at, run_id, outcome, begins=type_ == RUN_STARTED)
        if tool_call_id is not None:
            call = self.calls.get(tool_call_id) or Span(tool_call_id, run_id)
            outcome = type_ if type_ in _ENDED else ""
            call = call.with_event(at, run_id, outcome, begins=type_ in _STARTED, name=tool_name)
            self.calls[tool_call_id] = call
            if call.is_open:
                self.open_calls[tool_call_id] = call
            else:
                self.open_calls.pop(tool_call_id, None)


def runs_and_calls(recording: Recording, exchanges: Iterable[Exchange]) -> RunsAndCalls:
    """Return the runs and tool calls of several streams; one that spans two streams counts once."""
    activity = RunsAndCalls()
    for exchange in exchanges:
        if exchange.is_stream:
            for event, time_ns, type_, run_id, call, _ in recording.indexed_facts(exchange.number, _END, DELTA_TYPES):
                activity.add(type_, run_id, call, EventLocation(exchange.number, event, time_ns))
    return activity


def with_names(recording: Recording, calls: Iterable[Span]) -> Iterator[Span]:
    """Yield the tool calls, the first `MAX_NAMED_CALLS` with the tool name from their first event."""
    calls = iter(calls)
    for call in islice(calls, MAX_NAMED_CALLS):
        began = None if call.name else call.began
        event = next(recording.events(began.exchange, began.event), None) if began else None
        yield replace(call, name=event.preview) if event is not None else call
    yield from calls


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
    activity = runs_and_calls(recording, [exchange])
    last = recording.last_frame_ns(exchange.number)
    return Overview(
        exchange=exchange.number,
        began_ns=began,
        ended_ns=exchange.ended_ns if exchange.ended_ns is not None else max(last or began, began),
        silences=tuple(recording.longest_gaps(exchange.number, GAP_NS, MAX_FOLDED)),
        runs=tuple(activity.runs.values()),
        calls=tuple(with_names(recording, _longest(list(activity.calls.values()), began))),
        call_count=len(activity.calls),
        open_call_count=len(activity.open_calls),
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


def _longest(calls: Sequence[Span], began_ns: int) -> Iterable[Span]:
    """Return the `MAX_CALLS` longest calls in their order; an open call is longer than any other."""

    def length_ns(index: int) -> int:
        began, ended = calls[index].began, calls[index].ended
        return (ended.time_ns if ended else _END) - (began.time_ns if began else began_ns)

    return (calls[index] for index in sorted(nlargest(MAX_CALLS, range(len(calls)), key=length_ns)))
