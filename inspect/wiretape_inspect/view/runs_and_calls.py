"""Runs and tool calls, each assembled from the events with its id."""

from dataclasses import dataclass
from typing import Literal

from wiretape.contract import CURSOR_HEADER, RUN_STARTED, STATUS_IDLE, TERMINAL_RUN_TYPES, TOOL_TYPES, cursor_in
from wiretape.observations import header
from wiretape.recording import Exchange

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
    began: EventLocation | None
    """The event that started it; None if that event was not recorded."""
    ended: EventLocation | None
    """The event that ended it; None while it is open."""
    outcome: str
    """The type of the event that ended it; empty while it is open."""
    events: int = 1
    """Number of its events; replayed events count again."""
    name: str = ""
    """The tool that a tool call calls, if it was looked up."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None


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

    def add(self, type_: str, run_id: str | None, tool_call_id: str | None, at: EventLocation) -> None:
        """Add an event."""
        self._is_idle = type_ == STATUS_IDLE or (self._is_idle and type_ != RUN_STARTED)
        if run_id is not None:
            outcome = type_ if type_ in TERMINAL_RUN_TYPES else ""
            _extend(self.runs, run_id, run_id, at, begins=type_ == RUN_STARTED, outcome=outcome)
        if tool_call_id is not None:
            outcome = type_ if type_ in _ENDED else ""
            _extend(self.calls, tool_call_id, run_id, at, begins=type_ in _STARTED, outcome=outcome)
            call = self.calls[tool_call_id]
            if call.is_open:
                self.open_calls[tool_call_id] = call
            else:
                self.open_calls.pop(tool_call_id, None)


def _extend(
    spans: dict[str, Span], id_: str, run_id: str | None, at: EventLocation, *, begins: bool, outcome: str
) -> None:
    """Add an event to the span with this id."""
    span = spans.get(id_)
    if span is None:
        spans[id_] = Span(id_, run_id, at if begins else None, at if outcome else None, outcome)
        return
    # Replayed events do not move a beginning or an end.  The constructor is faster than `replace`.
    spans[id_] = Span(
        id=id_,
        run_id=span.run_id or run_id,
        began=at if begins and span.began is None else span.began,
        ended=at if outcome and span.ended is None else span.ended,
        outcome=span.outcome or outcome,
        events=span.events + 1,
        name=span.name,
    )


def request_cursor(exchange: Exchange) -> str | None:
    """Return the cursor that the request resumes after; None if it starts from the beginning."""
    return cursor_in(header(exchange.request.headers, CURSOR_HEADER))
