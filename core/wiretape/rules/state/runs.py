"""Runs and tool calls: those seen in a session, and those that one of its streams shows to be active.

The specification does not define for most event types whether they are stored.  One that is not stored may have been
sent while nobody listened, so a run may have ended unseen.  That something has *not* happened is therefore proven only
on one connection, from the moment at which it carried live output: on the first connection of a session from the
beginning, on others from the first ephemeral event, because the replay precedes that.
"""

from wiretape.bounded_dict import make_room
from wiretape.contract import (
    AGENT_CUSTOM_TOOL_USE,
    EVENT_TYPES,
    RUN_CANCELLED,
    RUN_STARTED,
    SANDBOX_RECREATED,
    TERMINAL_RUN_TYPES,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_STARTED,
)
from wiretape.rules.finding import Location
from wiretape.rules.parsed_event import ParsedEvent
from wiretape.rules.state.client_state import MOST_CLIENTS, ClientKey

MOST_RUNS = 1000
"""Runs kept for each session."""
MOST_CALLS = 5000
"""Tool calls kept for each session."""
OUTCOME_TYPES = frozenset({TOOL_COMPLETED, TOOL_FAILED})
RUN_EVENT_TYPES = frozenset(
    name for name in EVENT_TYPES if name.partition(".")[0] not in {"session", "stream", "sandbox"}
)
"""Types whose events belong to a run.  Others may name a run, but do not show its progress."""
_TYPES_AFTER_START = RUN_EVENT_TYPES | {SANDBOX_RECREATED}
"""Types whose events do not precede the start of the run that they name."""
_START_TYPES = frozenset({TOOL_STARTED, AGENT_CUSTOM_TOOL_USE})


class Run:
    """One run."""

    __slots__ = (
        "called_tools",
        "custom_tool_uses",
        "early_location",
        "early_sequence",
        "end_delivered_to",
        "ended_id",
        "ended_ns",
        "ended_sequence",
        "ended_type",
        "has_event_after_end",
        "has_unclear_call",
        "open_calls",
        "started_ns",
        "was_idle",
    )

    def __init__(self) -> None:
        self.started_ns: int | None = None
        """When `run.started` was first seen."""
        self.ended_ns: int | None = None
        """When its first terminal event was first seen."""
        self.ended_id: str | None = None
        self.ended_sequence: int | None = None
        self.ended_type: str | None = None
        self.early_location: Location | None = None
        """The first event of the run, if it was before `run.started`."""
        self.early_sequence: int | None = None
        self.has_event_after_end = False
        self.was_idle = False
        """Whether `session.status_idle` arrived before its end."""
        self.has_unclear_call = False
        """Whether a tool event of the run could not be attributed to a call."""
        self.called_tools = False
        self.open_calls: dict[str, ToolCall] = {}
        """Its tool calls that have started and not ended."""
        self.custom_tool_uses = 0
        """How many application tools it requested."""
        self.end_delivered_to: set[ClientKey] = set()
        """The clients that received a terminal event."""

    def start_call(self, call: "ToolCall", *, custom: bool) -> None:
        """It calls a tool."""
        self.called_tools = True
        if len(self.open_calls) >= MOST_CALLS:
            self.open_calls.clear()
            self.has_unclear_call = True
        if not call.ended:
            self.open_calls[call.id] = call
        if custom and not call.custom:
            call.custom = True
            self.custom_tool_uses += 1

    @property
    def is_active(self) -> bool:
        """Whether it has started and not ended."""
        return self.started_ns is not None and self.ended_ns is None

    @property
    def waiting_calls(self) -> int:
        """How many application tools have no result yet."""
        return sum(call.custom for call in self.open_calls.values())


class ToolCall:
    """One tool call."""

    __slots__ = ("custom", "ended", "exchange", "has_changed", "id", "name", "outcome_id", "run_id", "started")

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name: str | None = None
        self.run_id: str | None = None
        self.started = False
        self.custom = False
        """Whether the application has to execute it."""
        self.exchange: int | None = None
        """The exchange on which its start was live output."""
        self.ended = False
        self.outcome_id: str | None = None
        """The id of the event that ended it."""
        self.has_changed = False
        """Whether its events disagreed."""

    def start(self, live: int | None) -> None:
        """It starts."""
        if not self.started:
            self.exchange = live
        self.started = True


class SessionRuns:
    """The runs and tool calls seen in one session, on any connection."""

    __slots__ = ("calls", "dropped_calls", "dropped_runs", "runs")

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.calls: dict[str, ToolCall] = {}
        self.dropped_runs = False
        """Whether runs were dropped because there were too many."""
        self.dropped_calls = False

    def run(self, run_id: str) -> Run:
        """Return the run with that id, which is added if it is new."""
        run = self.runs.get(run_id)
        if run is None:
            self.dropped_runs |= make_room(self.runs, MOST_RUNS, lambda old: old.ended_ns is not None)
            run = self.runs[run_id] = Run()
        return run

    def call(self, call_id: str) -> ToolCall:
        """Return the tool call with that id, which is added if it is new."""
        return self.calls.get(call_id) or self._add_call(call_id)

    def _add_call(self, call_id: str) -> ToolCall:
        self.dropped_calls |= make_room(self.calls, MOST_CALLS, lambda old: old.ended)
        call = self.calls[call_id] = ToolCall(call_id)
        return call

    def _calls_of(self, event: ParsedEvent) -> list[ToolCall]:
        """Return the tool calls that an event is about, which are added if they are new."""
        ids = event.tool_call_ids
        if event.type not in _START_TYPES or not ids:
            return [self.call(call_id) for call_id in ids]
        call = self.call(ids[0])
        if call.id != ids[0]:
            call = self._add_call(ids[0])
        # One call has started, whichever of two ids is right (EVT008).
        self.calls.setdefault(ids[-1], call)
        return [call]

    def add_tool_event(self, event: ParsedEvent, run_id: str | None, live: int | None) -> None:
        """Add a tool lifecycle event; `live` is the exchange on which it is known to be live output."""
        calls = self._calls_of(event)
        run = self.run(run_id) if run_id is not None else None
        if run is not None and not calls:
            run.has_unclear_call = True
        for call in calls:
            if event.type in _START_TYPES:
                call.start(live)
                if run is not None:
                    run.start_call(call, custom=event.type == AGENT_CUSTOM_TOOL_USE)
            elif not call.ended:
                call.ended, call.outcome_id = True, event.id
                if run is not None:
                    run.open_calls.pop(call.id, None)
            if call.name is None and call.run_id is None:
                call.name, call.run_id = event.tool_name, run_id
            else:
                call.has_changed |= find_disagreement(call, event) is not None
                call.name, call.run_id = call.name or event.tool_name, call.run_id or run_id


def find_disagreement(call: ToolCall, event: ParsedEvent) -> tuple[str, str, str] | None:
    """Return what an event changes about its tool call: the noun, the earlier value and the new value."""
    pairs = (("tool name", call.name, event.tool_name), ("run", call.run_id, event.run_id))
    for noun, before, now in pairs:
        if before is not None and now is not None and before != now:
            return noun, before, now
    return None


class StreamRuns:
    """The runs of a session as one of its streams shows them."""

    __slots__ = ("_all", "_client", "_exchange", "_noted_run_id", "active", "ended", "is_live", "started")

    def __init__(self, all_runs: SessionRuns, client: ClientKey, exchange: int, *, live: bool) -> None:
        self._all = all_runs
        self._client = client
        self._exchange = exchange
        self._noted_run_id: object = None
        self.is_live = live
        """Whether events on the stream are known to be live output."""
        self.active: dict[str, Run] = {}
        """The runs that were active while it was live and did not end on it."""
        self.ended: set[str] = set()
        """The runs that ended while it was live."""
        self.started: set[str] = set()
        """The runs that started while it was live."""

    def is_after_end(self, event: ParsedEvent, run_id: str) -> bool | None:
        """Whether an event of a run wrongly arrived after the end of the run; None if that is unknown."""
        run = self._all.runs.get(run_id)
        if event.type in OUTCOME_TYPES and run is not None and run.ended_type == RUN_CANCELLED:
            # Tool calls in progress when the run is cancelled end as well.
            return False
        if event.is_delta:
            # Deltas can repeat after a reconnect, but not those of a run that started on this stream.
            return run_id in self.ended and run_id in self.started
        if not event.is_durable:
            return run_id in self.ended
        if run is None or run.ended_ns is None:
            return None if run is None and self._all.dropped_runs else False
        if event.sequence is not None and run.ended_sequence is not None:
            return event.sequence > run.ended_sequence
        return True if run_id in self.ended else None

    def add_delta(self, event: ParsedEvent) -> None:
        """Add a delta."""
        self.is_live = True
        run_id = event.document.get("run_id")
        if run_id != self._noted_run_id:
            self._note_early_event(event)
        if self.ended and type(run_id) is str and self.is_after_end(event, run_id):
            self._all.run(run_id).has_event_after_end = True

    def add(self, event: ParsedEvent, run_id: str, *, new: bool) -> None:
        """Add another event of a run that is not replayed; `new` if it was never seen before."""
        if event.type == RUN_STARTED:
            self._start(self._all.run(run_id), run_id, event)
        elif event.type in RUN_EVENT_TYPES:
            after_end = self.is_after_end(event, run_id)
            self._note_early_event(event)
            run = self._all.run(run_id)
            if event.type in TERMINAL_RUN_TYPES:
                self._end(run, run_id, event)
                self.deliver_end(event)
                return
            run.has_event_after_end |= bool(after_end)
            if new and self.is_live and event.is_durable:
                self._set_active(run, run_id)
        else:
            self._note_early_event(event)

    def deliver_end(self, event: ParsedEvent) -> None:
        """The client received the terminal event of a run."""
        run = self._all.runs.get(event.run_id or "")
        if run is not None and len(run.end_delivered_to) < MOST_CLIENTS:
            run.end_delivered_to.add(self._client)

    def set_idle(self) -> None:
        """The session is idle."""
        for run in self.active.values():
            run.was_idle = True
        self.active.clear()

    def _note_early_event(self, event: ParsedEvent) -> None:
        """Keep the location of the first event of a run that has not started."""
        run_id = event.run_id
        self._noted_run_id = run_id
        if run_id is None or event.type not in _TYPES_AFTER_START:
            return
        run = self._all.run(run_id)
        if run.started_ns is None and run.early_location is None:
            run.early_location, run.early_sequence = event.location(self._exchange), event.sequence

    def _start(self, run: Run, run_id: str, event: ParsedEvent) -> None:
        others = any(other is not run and other.ended_ns is None for other in self.active.values())
        if others:
            # One of two runs is wrong, but it is unknown which (RUN001).
            self.active.clear()
        if run.started_ns is None:
            run.started_ns = event.time_ns
        if self.is_live:
            _add_bounded(self.started, run_id)
            if not others:
                self._set_active(run, run_id)

    def _set_active(self, run: Run, run_id: str) -> None:
        if run.is_active and not run.was_idle:
            if len(self.active) >= MOST_RUNS:
                self.active.clear()
            self.active[run_id] = run

    def _end(self, run: Run, run_id: str, event: ParsedEvent) -> None:
        if run.ended_ns is None:
            run.ended_ns, run.ended_type = event.time_ns, event.type
            run.ended_id, run.ended_sequence = event.id, event.sequence
        self.active.pop(run_id, None)
        if self.is_live:
            _add_bounded(self.ended, run_id)


def _add_bounded(runs: set[str], run_id: str) -> None:
    if len(runs) >= MOST_RUNS:
        runs.clear()
    runs.add(run_id)
