"""Runs and tool calls, each put together from the events that tell of it, and cursors.  Pure."""

from dataclasses import dataclass
from typing import Literal

from wiretape.contract import CURSOR_HEADER, RUN_STARTED, STATUS_IDLE, TERMINAL_RUN_TYPES, TOOL_TYPES, cursor_in
from wiretape.observations import header
from wiretape.recording import Exchange

_STARTED = frozenset(TOOL_TYPES[:2])
_ENDED = frozenset(TOOL_TYPES[2:])


@dataclass(frozen=True, slots=True)
class Moment:
    """An event in which something begins, goes on or ends."""

    exchange: int
    event: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Span:
    """A run, or a tool call: the events that share its id, as one."""

    id: str
    run_id: str | None
    """The run of a tool call; of a run, its own id."""
    began: Moment | None
    """The event that started it; None where none was seen."""
    ended: Moment | None
    """The event that ended it; None while it is open."""
    outcome: str
    """The type of that event; empty while it is open."""
    events: int = 1
    """How many events tell of it; one that was replayed counts again."""
    name: str = ""
    """What a tool call calls, where that was looked up."""

    @property
    def open(self) -> bool:
        """Whether it was seen to go on and not to end."""
        return self.ended is None


SessionState = Literal["running", "idle", "unknown"]
"""`running` while a run is open, `idle` after `session.status_idle`, otherwise nobody said."""


class Work:
    """Folds events into the runs and tool calls that they tell of, in the order in which these were first seen."""

    def __init__(self) -> None:
        self.runs: dict[str, Span] = {}
        self.calls: dict[str, Span] = {}
        self._idle = False

    @property
    def session(self) -> SessionState:
        """What is known of the session."""
        if any(run.open for run in self.runs.values()):
            return "running"
        return "idle" if self._idle else "unknown"

    def add(self, type_: str, run_id: str | None, tool_call_id: str | None, at: Moment) -> None:
        """Take an event in."""
        self._idle = type_ == STATUS_IDLE or (self._idle and type_ != RUN_STARTED)
        if run_id is not None:
            outcome = type_ if type_ in TERMINAL_RUN_TYPES else ""
            _tell(self.runs, run_id, run_id, at, begins=type_ == RUN_STARTED, outcome=outcome)
        if tool_call_id is not None:
            outcome = type_ if type_ in _ENDED else ""
            _tell(self.calls, tool_call_id, run_id, at, begins=type_ in _STARTED, outcome=outcome)


def _tell(spans: dict[str, Span], id_: str, run_id: str | None, at: Moment, *, begins: bool, outcome: str) -> None:
    known = spans.get(id_)
    if known is None:
        spans[id_] = Span(id_, run_id, at if begins else None, at if outcome else None, outcome)
        return
    # What is replayed tells of a beginning or an end that is known.  Made at once: long streams tell of many.
    spans[id_] = Span(
        id=id_,
        run_id=known.run_id or run_id,
        began=at if begins and known.began is None else known.began,
        ended=at if outcome and known.ended is None else known.ended,
        outcome=known.outcome or outcome,
        events=known.events + 1,
        name=known.name,
    )


def asked_after(exchange: Exchange) -> str | None:
    """The cursor that a request resumes after, as events spell their ids; None: from the beginning."""
    return cursor_in(header(exchange.request.headers, CURSOR_HEADER))
