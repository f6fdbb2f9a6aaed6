"""Runs and tool calls: those seen in a session, and those that one of its streams shows to be active.

The specification does not define for most event types whether they are stored.  One that is not stored may have been
sent while no stream was open, so a run may have ended unseen.  There are two proofs that it had not:

- One connection shows it, from the moment at which it carries live output: on the first connection of a session from
  the beginning, on others from the first ephemeral event, because the replay precedes that.  Such a proof depends only
  on the order of events on that connection, never on what other connections carried before.
- A later event of the run shows it, whatever was sent unseen.  This proof depends only on the order of the session,
  and may arrive long afterwards, on another connection (`Overlap`).
"""

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct, field

from wiretape.bounded_dict import make_room, put_bounded
from wiretape.observations import RequestStarted
from wiretape.rules.finding import Location
from wiretape_contracts.agent_sessions import (
    AGENT_CUSTOM_TOOL_USE,
    EVENT_TYPES,
    RUN_CANCELLED,
    RUN_STARTED,
    SANDBOX_RECREATED,
    STATUS_IDLE,
    TERMINAL_RUN_TYPES,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_STARTED,
)
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.client_state import MOST_CLIENTS, ClientKey
from wiretape_contracts.agent_sessions.state.event_log import EventLog

MOST_RUNS = 1000
"""Runs kept for each session."""
MOST_CALLS = 5000
"""Tool calls kept for each session."""
OUTCOME_TYPES = frozenset({TOOL_COMPLETED, TOOL_FAILED})
RUN_EVENT_TYPES = frozenset(
    name for name in EVENT_TYPES if name.partition(".")[0] not in {"session", "stream", "sandbox"}
)
"""Types whose events belong to a run.  Others may name a run, but do not show its progress."""
_PROGRESS_TYPES = RUN_EVENT_TYPES - OUTCOME_TYPES
"""Types whose events show that their run is active, or end it: outcomes of tool calls can follow its end."""
_TYPES_AFTER_START = RUN_EVENT_TYPES | {SANDBOX_RECREATED}
"""Types whose events do not precede the start of the run that they name."""
_START_TYPES = frozenset({TOOL_STARTED, AGENT_CUSTOM_TOOL_USE})

Position = int
"""A position in the order of a session: twice the sequence of a durable event, and one more for what follows it."""


class Overlap(NamedTuple):
    """A run was active when another one started, or when the session was announced as idle."""

    active: str
    """The id of the run."""
    started: str | None
    """The id of the other run; None for an idle session."""
    location: Location
    """The location of that start or announcement."""


class _Claim(Struct):
    """An event that claims that no run, or no other run, is active."""

    at: Position
    started: str
    """The id of the run that starts; empty for an idle session."""
    location: Location
    is_refuted: bool
    """Whether a run is known that was active at the start.  At an idle session, any number of them may be."""


class ToolCall(Struct, eq=False):
    """One tool call."""

    id: str
    name: str | None = None
    run_id: str | None = None
    started: bool = False
    custom: bool = False
    """Whether the application has to execute it."""
    ended: bool = False
    outcome_id: str | None = None
    """The id of the event that ended it."""


class Run(Struct, eq=False):
    """One run."""

    started_ns: int | None = None
    """When `run.started` was first seen."""
    started_id: str | None = None
    ended_ns: int | None = None
    """When its first terminal event was first seen."""
    ended_id: str | None = None
    ended_sequence: int | None = None
    ended_type: str | None = None
    started_at: Position | None = None
    first_at: Position | None = None
    """Its start, or the first of its events that were seen, as long as the start was not."""
    last_at: Position | None = None
    """The last of its events that shows that it was active until then."""
    ended_at: Position | None = None
    """Its first terminal event."""
    early_location: Location | None = None
    """The first event of the run, if it was before `run.started`."""
    is_start_disputed: bool = False
    """Whether another run was active when it started."""
    is_disputed: bool = False
    """Whether it or another run was active wrongly: it proves nothing more, because it may be what is wrong."""
    called_tools: bool = False
    open_calls: dict[str, ToolCall] = field(default_factory=dict)
    """Its tool calls that have started and not ended."""
    custom_tool_uses: int = 0
    """How many application tools it requested."""
    end_delivered_to: set[ClientKey] = field(default_factory=set)
    """The clients that received a terminal event."""

    def start_call(self, call: ToolCall, *, custom: bool) -> None:
        """It calls a tool."""
        self.called_tools = True
        if len(self.open_calls) >= MOST_CALLS:
            self.open_calls.clear()
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


class SessionRuns:
    """The runs and tool calls seen in one session, on any connection."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.runs: dict[str, Run] = {}
        self.calls: dict[str, ToolCall] = {}
        self.dropped_runs = False
        """Whether runs were dropped because there were too many."""
        self.dropped_calls = False
        self.overlaps: list[Overlap] = []
        """The overlaps that were proven since the list was last emptied."""
        self.last_claim_at: Position = 0
        """The last claim that a run started or that the session is idle."""
        self._claims: list[_Claim] = []
        """The claims, in the order of the session; if there are very many, the oldest are dropped."""
        self.last_at: Position = 0
        """The last event of any run."""

    def run(self, run_id: str) -> Run:
        """Return the run with that id, which is added if it is new."""
        run = self.runs.get(run_id)
        if run is None:
            self.dropped_runs |= make_room(self.runs, MOST_RUNS, lambda old: old.ended_ns is not None)
            run = self.runs[run_id] = Run()
        return run

    def call(self, call_id: str) -> ToolCall:
        """Return the tool call with that id, which is added if it is new."""
        call = self.calls.get(call_id)
        if call is None:
            self.dropped_calls |= make_room(self.calls, MOST_CALLS, lambda old: old.ended)
            call = self.calls[call_id] = ToolCall(call_id)
        return call

    def _calls_of(self, event: SessionEvent) -> list[ToolCall]:
        """Return the tool calls that an event is about, which are added if they are new."""
        ids = event.tool_call_ids
        if event.type not in _START_TYPES or not ids:
            return [self.call(call_id) for call_id in ids]
        if self.call(ids[0]).id != ids[0]:
            # An earlier event gave the id to another call.
            del self.calls[ids[0]]
        call = self.call(ids[0])
        # One call has started, whichever of two ids is right (EVT008).
        self.calls.setdefault(ids[-1], call)
        return [call]

    def add_tool_event(self, event: SessionEvent, run_id: str | None) -> list[ToolCall]:
        """Add a tool lifecycle event, and return the calls that it is about."""
        calls = self._calls_of(event)
        run = self.run(run_id) if run_id is not None else None
        for call in calls:
            if event.type in _START_TYPES:
                call.started = True
                if run is not None:
                    run.start_call(call, custom=event.type == AGENT_CUSTOM_TOOL_USE)
            elif not call.ended:
                call.ended, call.outcome_id = True, event.cursor
                if run is not None:
                    run.open_calls.pop(call.id, None)
            call.name, call.run_id = call.name or event.tool_name, call.run_id or run_id
        return calls

    def add_claim(self, started: str | None, at: Position, location: Location) -> None:
        """A run starts, or the session is announced as idle; runs that are known may refute that."""
        claims = self._claims
        run = self.runs.get(started or "")
        claim = _Claim(at, started or "", location, is_refuted=run is not None and run.is_start_disputed)
        index = bisect_left(claims, _order(claim), key=_order)
        if index < len(claims) and _order(claims[index]) == _order(claim):
            # Another connection carried it before.
            return
        claims.insert(index, claim)
        self.last_claim_at = claims[-1].at
        if len(claims) > 2 * MOST_RUNS:
            del claims[:MOST_RUNS]
        if at < self.last_at:
            for run_id, other in list(self.runs.items()):
                self.refute_claims(run_id, other)

    def doubt_order(self) -> None:
        """Forget the claims, because sequences do not show the order of the session."""
        self.log.has_disorder = True
        self._claims.clear()
        self.last_claim_at = 0

    def refute_claims(self, run_id: str, run: Run) -> None:
        """Find the first claim between the first and the last event of a run, which shows that the claim is wrong."""
        claims, first, last = self._claims, run.first_at, run.last_at
        if first is None or last is None:
            return
        self.last_at = max(self.last_at, last)
        if run.is_disputed or not claims or claims[-1].at <= first:
            return
        begin, end = bisect_right(claims, first, key=_position), bisect_left(claims, last, key=_position)
        claim = next((claim for claim in claims[begin:end] if claim.started != run_id and not claim.is_refuted), None)
        if claim is None:
            return
        run.is_disputed = True
        self.overlaps.append(Overlap(run_id, claim.started or None, claim.location))
        if claim.started:
            self.dispute_start(claim.started)

    def dispute_start(self, run_id: str) -> None:
        """Another run was active when a run started."""
        run = self.run(run_id)
        run.is_start_disputed = run.is_disputed = True
        for claim in self._claims:
            claim.is_refuted |= claim.started == run_id


_position = attrgetter("at")
_order = attrgetter("at", "started")
"""Sort key of a claim, which identifies its event."""


class StreamRuns:
    """The runs and tool calls of a session as one of its streams shows them."""

    def __init__(self, all_runs: SessionRuns, client: ClientKey, request: RequestStarted, *, live: bool) -> None:
        self._all = all_runs
        self._client = client
        self._exchange, self._opened_ns = request.exchange, request.time_ns
        self.is_live = live
        """Whether events on the stream are known to be live output."""
        self.active: dict[str, Run] = {}
        """The runs that were active while it was live and did not end on it."""
        self.ended: dict[str, None] = {}
        """The runs that ended while it was live."""
        self.started: dict[str, None] = {}
        """The runs that started while it was live."""
        self.complete: dict[str, None] = {}
        """Those of which it has carried every event."""
        self._idle: dict[str, None] = {}
        """The runs during which it announced that the session is idle."""
        self._early: dict[str, Location] = {}
        """The first event of each run that has not started on it, while it was live."""
        self._calls: dict[str, bool] = {}
        """The tool calls that it showed while it was live: whether each has ended."""
        self._has_dropped_calls = False
        self._open_calls: dict[str, str | None] = {}
        """Those that started while it was live and did not end on it, with their runs."""
        self._unclear: dict[str, None] = {}
        """The runs with a tool event that could not be attributed to a call."""
        self._covered_from: Position | None = None
        """Where its unbroken part begins in the order of the session; None if that joins what is known."""
        self._is_after_gap = False
        """Whether the next event begins an unbroken part."""

    def find_overlapping(self, event: SessionEvent, run_id: str) -> str | None:
        """Return a run that the stream shows as active when another run starts; None if there is none."""
        run = self._all.runs.get(run_id)
        if run is not None and not self._is_first_start(run, run_id, event):
            return None
        return next((other for other in self.active if other != run_id), None)

    def find_early_event(self, event: SessionEvent, run_id: str, *, whole: bool) -> Location | None:
        """Return the location of the first event of a run if that precedes its start.

        The session has to be recorded from its first event; `whole` is whether this stream has carried all of it.
        """
        run = self._all.runs.get(run_id)
        if run is None or not self._is_first_start(run, run_id, event):
            return None
        if whole and run_id in self._early:
            return self._early[run_id]
        if run.started_ns is not None or run.early_location is None:
            return None
        early = run.early_location
        if early.sequence is not None and event.sequence is not None:
            return early if early.sequence < event.sequence else None
        return early if early.exchange == self._exchange else None

    def may_lack_start(self, event: SessionEvent) -> bool:
        """Whether a tool call ends of which the stream has shown nothing while it was live."""
        if event.type not in OUTCOME_TYPES or not self.is_live or self._has_dropped_calls:
            return False
        ids = event.tool_call_ids
        if not ids or ids[0] in self._calls or ids[-1] in self._calls:
            return False
        return event.run_id not in self._unclear

    def open_calls(self, run_id: str) -> list[str]:
        """Return the tool calls of a run that the stream shows as open."""
        if run_id in self._unclear:
            return []
        return [call_id for call_id, owner in self._open_calls.items() if owner == run_id]

    def is_after_end(self, event: SessionEvent, run_id: str) -> bool | None:
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
        if event.sequence is not None and run.ended_sequence is not None and not self._all.log.has_disorder:
            return event.sequence > run.ended_sequence
        return True if run_id in self.ended else None

    def add_delta(self, event: SessionEvent, *, live: bool) -> None:
        """Add a delta; `live` is whether it is certainly live output."""
        self.is_live |= live
        self._note_early_event(event)

    def add(self, event: SessionEvent, run_id: str, *, overlapping: str | None, after_end: bool | None) -> None:
        """Add another event of a run that is not replayed; what is known of it was found out when it arrived."""
        name = event.type
        if name == RUN_STARTED:
            self._start(self._all.run(run_id), run_id, event, overlapping)
            return
        self._note_early_event(event)
        if name in TERMINAL_RUN_TYPES:
            self._end(self._all.run(run_id), run_id, event)
            self.deliver_end(event)
        elif name in _PROGRESS_TYPES and self.is_live and event.is_durable and not after_end:
            self._set_active(self._all.run(run_id), run_id)

    def add_tool_event(self, event: SessionEvent, run_id: str | None) -> None:
        """Add a tool lifecycle event that is not replayed."""
        calls = self._all.add_tool_event(event, run_id)
        if not self.is_live:
            return
        if run_id is not None and not calls:
            put_bounded(self._unclear, run_id, None, MOST_RUNS)
        if len(self._calls) >= MOST_CALLS:
            self._calls.clear()
            self._open_calls.clear()
            self._has_dropped_calls = True
        has_ended, ids = event.type in OUTCOME_TYPES, event.tool_call_ids
        for call in calls:
            for call_id in (call.id, *ids):
                self._calls[call_id] = has_ended or self._calls.get(call_id, False)
            if has_ended:
                self._open_calls.pop(call.id, None)
            elif not self._calls[call.id]:
                self._open_calls[call.id] = run_id

    def place(self, event: SessionEvent, at: Position, *, alone: bool) -> None:
        """Add an event, replayed or not, at a position in the order of the session.

        `alone` is whether no other stream of the session is open, which could carry earlier events later.
        """
        if self._is_after_gap:
            self._covered_from, self._is_after_gap = at, False
        name, run_id = event.type, event.run_id
        if name == STATUS_IDLE:
            self._all.add_claim(None, at, Location.of(event))
        elif run_id is not None and name in _PROGRESS_TYPES:
            run = self._all.run(run_id)
            last, is_end = run.last_at, name in TERMINAL_RUN_TYPES
            is_unbroken = last is not None and last < at and self._covered_from is None and run.ended_at is None
            if name == RUN_STARTED:
                self._place_start(run, run_id, at, event)
            elif is_unbroken and not is_end and self._all.last_claim_at <= (last or 0):
                # No claim lies between the last event of the run and this one, which is usual.
                run.last_at = at
                self._all.last_at = max(self._all.last_at, at)
            else:
                self._place_progress(run, run_id, at, is_end=is_end, alone=alone)

    def doubt(self) -> None:
        """Events may have been lost, or were not understood."""
        self.active.clear()
        self.complete.clear()
        self._open_calls.clear()
        self._is_after_gap = True

    def deliver_end(self, event: SessionEvent) -> None:
        """The client received the terminal event of a run."""
        run = self._all.runs.get(event.run_id or "")
        if run is not None and len(run.end_delivered_to) < MOST_CLIENTS:
            run.end_delivered_to.add(self._client)

    def set_idle(self) -> None:
        """The session is idle."""
        for run_id, run in self.active.items():
            run.is_disputed = True
            put_bounded(self._idle, run_id, None, MOST_RUNS)
        self.active.clear()

    def _is_first_start(self, run: Run, run_id: str, event: SessionEvent) -> bool:
        """Whether a `run.started` is the first of its run, possibly seen on another stream before."""
        if run.started_ns is None:
            return True
        is_same = run.started_id == event.cursor and run.started_ns >= self._opened_ns
        return is_same and run_id not in self.started

    def _note_early_event(self, event: SessionEvent) -> None:
        """Keep the location of the first event of a run that has not started."""
        run_id = event.run_id
        if run_id is None or event.type not in _TYPES_AFTER_START:
            return
        if self.is_live and run_id not in self.started and run_id not in self._early:
            put_bounded(self._early, run_id, Location.of(event), MOST_RUNS)
        run = self._all.run(run_id)
        if run.started_ns is None and run.early_location is None:
            run.early_location = Location.of(event)

    def _start(self, run: Run, run_id: str, event: SessionEvent, overlapping: str | None) -> None:
        if overlapping is not None:
            self.active[overlapping].is_disputed = True
            self._all.dispute_start(run_id)
        others = any(other != run_id for other in self.active)
        if others:
            # One of two runs is wrong, but it is unknown which (RUN001).
            self.active.clear()
        if run.started_ns is None:
            run.started_ns, run.started_id = event.time_ns, event.cursor
        if self.is_live:
            put_bounded(self.started, run_id, None, MOST_RUNS)
            put_bounded(self.complete, run_id, None, MOST_RUNS)
            if not others:
                self._set_active(run, run_id)

    def _set_active(self, run: Run, run_id: str) -> None:
        if run.started_ns is not None and run_id not in self.ended and run_id not in self._idle:
            put_bounded(self.active, run_id, run, MOST_RUNS)

    def _end(self, run: Run, run_id: str, event: SessionEvent) -> None:
        self._open_calls = {call_id: owner for call_id, owner in self._open_calls.items() if owner != run_id}
        if run.ended_ns is None:
            run.ended_ns, run.ended_type = event.time_ns, event.type
            run.ended_id, run.ended_sequence = event.cursor, event.sequence
        self.active.pop(run_id, None)
        if self.is_live:
            put_bounded(self.ended, run_id, None, MOST_RUNS)

    def _place_start(self, run: Run, run_id: str, at: Position, event: SessionEvent) -> None:
        if run.started_at is None or at < run.started_at:
            run.started_at = run.first_at = at
            run.last_at = at if run.last_at is None else max(at, run.last_at)
        elif at > run.started_at:
            # A worker started it again.
            return
        self._all.add_claim(run_id, at, Location.of(event))
        self._all.refute_claims(run_id, run)

    def _place_progress(self, run: Run, run_id: str, at: Position, *, is_end: bool, alone: bool) -> None:
        if run.ended_at is not None and at > run.ended_at:
            # RUN002 or RUN003 reports it.
            return
        if run.started_at is None and (run.first_at is None or at < run.first_at):
            run.first_at = at
        if is_end:
            run.ended_at = at
        start, last = self._covered_from, run.last_at
        if last is None or start is None or last >= start or (is_end and alone):
            # No earlier end of the run can be hidden between its last event and this one.
            run.last_at = at if last is None else max(at, last)
        self._all.refute_claims(run_id, run)
