"""State of one stream: the order of its events, its silences, its replay, and what it adds to its session."""

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from wiretape.event import Shape
from wiretape.json_equality import json_hash
from wiretape.observations import Ending
from wiretape.rules.catalogue import Scope, Trigger
from wiretape.rules.exchange import EventStream, SilenceMonitor
from wiretape.rules.finding import Location
from wiretape.sse import Frame
from wiretape_contracts.agent_sessions import (
    EVENT_TYPES,
    RUN_STARTED,
    STATUS_IDLE,
    STORED_TYPES,
    STREAM_RESYNC,
    TERMINAL_RUN_TYPES,
    TOOL_TYPES,
    deltas_requested,
)
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.client_state import DeliveredIds, PendingResync, SessionReader
from wiretape_contracts.agent_sessions.state.event_log import LEAST_EVENTS, EventLog, KnownEvent
from wiretape_contracts.agent_sessions.state.runs import Position, StreamRuns
from wiretape_contracts.agent_sessions.state.session_state import SessionState

if TYPE_CHECKING:
    from wiretape_contracts.agent_sessions.state.exchange_state import ExchangeState

_MOST_IDS = 50_000
"""Ids kept for each connection, if there are not too many in all."""
_LIVE_TYPES = frozenset(EVENT_TYPES) - STORED_TYPES - {STREAM_RESYNC}
"""Types whose ephemeral events are live output of the session."""
_TYPES_WITH_RUN = TERMINAL_RUN_TYPES | {RUN_STARTED}


class Arrival(NamedTuple):
    """What is known of an event when it arrives on a stream, from everything before it in the session.

    Of ephemeral events, copies cannot be recognized: each counts as new.
    """

    known: KnownEvent | None = None
    """What is kept of it, if it was seen before on any stream."""
    is_new: bool = True
    """Whether it is certainly seen for the first time."""
    is_current: bool = True
    """Whether it was, as far as known, first seen after the stream was requested, and is not repeated on it."""
    is_repeated: bool = False
    """Whether the stream has carried it before, and not another one with its id (SEQ003)."""
    is_out_of_order: bool = False
    """Whether its sequence is not above the last one, or that of the cursor (SEQ001, SEQ002)."""
    has_used_number: bool = False
    """Whether another event has its sequence (SEQ002)."""
    overlapping: str | None = None
    """Another run that the stream shows as active, if it starts a run (RUN001)."""
    is_after_end: bool | None = False
    """If it is durable, whether it wrongly follows the end of its run (RUN002); None if that is unknown."""


_EPHEMERAL_ARRIVAL = Arrival()
# Calling `Arrival` takes three times as long.
_new_tuple = tuple.__new__


class ResumeState:
    """Which events one connection has to replay, and which it has replayed.

    The replay ends with a durable event that was not seen before the connection was opened, or with the connection.
    Only events seen before then can be expected.
    """

    def __init__(self, cursor: str, opened_ns: int, log: EventLog) -> None:
        # The service may continue after any event with that id.
        known = None if log.is_ambiguous(cursor) else log.events.get(cursor)
        self.cursor = cursor
        self.opened_ns = opened_ns
        self.sequence = known.sequence if known is not None else None
        """The sequence of the cursor's event, if the recording shows it."""
        self.cursor_ns = known.first_ns if known is not None else 0
        """When the cursor's event was first seen."""
        self.expected = {} if known is None else log.after(known, opened_ns)
        """For each event that is still to be replayed, by id, its sequence and when it was first seen, in order."""
        self.is_partly_known = self.sequence is None or (
            log.dropped_up_to is not None and self.sequence < log.dropped_up_to
        )
        """Whether more events may have to be replayed than are known."""
        self.missing: dict[str, None] = {}
        """The events that the replay skipped."""
        self._log = log
        self.location: Location | None = None
        """The first event after a missing one."""
        self.has_replayed = False
        """Whether any event was replayed."""
        self.has_losses = False
        """Whether replayed events may have been lost."""
        self.is_over = False
        self.is_checked = False
        """Whether the rules about the whole replay have run."""
        self.has_live_output = False
        """Whether an ephemeral event has arrived."""

    def is_up_to_cursor(self, event: SessionEvent) -> bool:
        """Whether the sequence of an event is not above that of the cursor."""
        return self.sequence is not None and event.sequence is not None and event.sequence <= self.sequence

    def precedes_cursor(self, known: KnownEvent | None) -> bool:
        """Whether an event with a lower sequence, of which `known` is kept, is one before the cursor.

        If the sequences of the session are out of order, the order in which its events were first seen decides.
        """
        return not self._log.has_disorder or (known is not None and known.first_ns <= self.cursor_ns)

    def is_replay(self, known: KnownEvent | None) -> bool:
        """Whether an event, of which `known` is kept, was seen before the connection was opened."""
        return known is not None and known.first_ns < self.opened_ns

    def skips(self, sequence: int) -> bool:
        """Whether events before `sequence` are still to be replayed."""
        return not self.is_over and next(iter(self.expected.values()), (sequence, 0))[0] < sequence

    def add(self, event: SessionEvent, known: KnownEvent | None) -> None:
        """Add an event with an id or a sequence that arrived before the replay was over."""
        identity = event.cursor or ""
        if identity in self.missing:
            del self.missing[identity]
            self.has_replayed = True
            return
        first_ns = event.time_ns if known is None else known.first_ns
        sequence, first_ns = self.expected.pop(identity, (event.sequence, first_ns))
        if sequence is not None:
            self._skip_to(sequence, first_ns, event)
        if self.is_replay(known):
            self.has_replayed = True
        elif event.is_durable and event.sequence is not None:
            self.is_over = True

    def _skip_to(self, sequence: int, first_ns: int, event: SessionEvent) -> None:
        """Move the expected events before an event with that sequence, first seen at that time, to the missing ones."""
        while self.expected:
            identity, (other, other_ns) = next(iter(self.expected.items()))
            if other > sequence or (self._log.has_disorder and other_ns > first_ns):
                return
            del self.expected[identity]
            # An event may arrive under another id, which SEQ002 reports.
            if other < sequence:
                self.missing[identity] = None
                self.location = self.location or Location.of(event)


REPLAY_END: Trigger[[ResumeState]] = Trigger("replay end", Scope.SESSION)
"""The replay on a stream with a cursor is over, or the stream ended."""


class StreamState(EventStream):
    """One connection on which the service streams the events of a session."""

    def __init__(
        self, exchange: "ExchangeState", session: SessionState, reader: SessionReader, silence: SilenceMonitor
    ) -> None:
        super().__init__(exchange.number, exchange.traffic, [silence])
        request, cursor = exchange.request, exchange.cursor
        self.session = session
        self.channel, self.channel_name = session, session.id
        self.reader = reader
        self.opened_ns = request.time_ns
        """When it was requested."""
        self.gone_ns: int | None = None
        """When it ended, or when bytes of it were first lost."""
        self.cursor = cursor
        self.deltas_requested = None if request.is_invented else deltas_requested(request.target)
        """Whether the request asks for deltas; None if an import invented it."""
        self.arrival = _EPHEMERAL_ARRIVAL
        """What is known of the event for which the rules run."""
        self.event_numbers: dict[str, int | None] = {}
        """For each id the number of the first event with it; if there are very many, the oldest are dropped."""
        self.dropped_ids = False
        self.created_at: datetime | None = None
        """The last valid `created_at` of a durable event."""
        self.is_out_of_step = False
        """Whether the sequence of the last event was unreadable, out of order, or not above that of the cursor."""
        self.has_gap = False
        """Whether events may have been lost since the last sequence."""
        self.is_clear = True
        """Whether all its bytes were seen and understood."""

        is_live = cursor is None and session.first_stream == request.exchange and not session.was_dropped
        # An invented request may have had a cursor; then the stream begins with a replay.
        is_live &= not request.is_invented
        self.runs = StreamRuns(session.runs, reader.key, request, live=is_live)
        self.resume = None if cursor is None else ResumeState(cursor, request.time_ns, session.log)
        if self.resume is not None and self.resume.sequence is None:
            self.runs.doubt()
        self.delivered = DeliveredIds()
        self.resync: PendingResync | None = None
        """The first `stream.resync` that was live output."""

    def holder(self, scope: object) -> object:
        """Return itself, or its session for a finding per session."""
        return self.session if scope == "session" else self

    @property
    def shows_whole_session(self) -> bool:
        """Whether it has carried the whole session, from the first event on."""
        is_first = self.session.first_stream == self.exchange and self.session.is_from_start
        return is_first and self.is_clear and self.resync is None

    def receive(self, event: SessionEvent) -> None:
        """An event arrived; the rules have not run yet."""
        self.arrival = _EPHEMERAL_ARRIVAL
        if event.is_durable:
            if self.session.first_event is None:
                self.session.begin(event, self.exchange, self.cursor)
                if self.deltas_requested is None and self.session.is_from_start:
                    # No cursor precedes the first event, so an invented request had none.
                    self.runs.is_live = True
            self.arrival = self._compare(event)
        if event.type == RUN_STARTED and event.run_id is not None:
            self.arrival = self.arrival._replace(overlapping=self.runs.find_overlapping(event, event.run_id))

    def _compare(self, event: SessionEvent) -> Arrival:
        session, log, identity, sequence = self.session, self.session.log, event.cursor, event.sequence
        known = log.find(event)
        is_new = log.is_new(event, known)
        is_repeated = identity in self.event_numbers and not log.has_other_event(event)
        is_out_of_order = has_used_number = False
        if sequence is not None:
            has_used_number = identity is not None and log.first_ids.get(sequence, identity) != identity
            if self.sequence is not None:
                is_out_of_order = sequence <= self.sequence
            elif self.resume is not None and self.resume.is_up_to_cursor(event):
                # That the event is new is certain only if every event of the session was seen.
                is_out_of_order = is_new and session.is_from_start and session.is_understood and not log.dropped
        is_current = is_new or (known is not None and known.first_ns >= self.opened_ns and not is_repeated)
        is_after_end = event.run_id is not None and self.runs.is_after_end(event, event.run_id)
        facts = (known, is_new, is_current, is_repeated, is_out_of_order, has_used_number, None, is_after_end)
        return _new_tuple(Arrival, facts)

    def add(self, event: SessionEvent) -> None:
        """Add an event, after the rules have run."""
        if event.is_delta:
            if event.id_line is not None:
                # Some clients lose their cursor (DUR004).
                self.delivered.is_unsure = True
            # The service may store and replay a delta that it numbers (DUR004, DUR005).
            is_live = not (event.has_id or event.has_sequence)
            if self.resume is not None:
                self.resume.has_live_output |= is_live
            self.runs.add_delta(event, live=is_live)
        elif event.is_durable:
            self._add_durable(event)
        elif event.shape is Shape.EPHEMERAL:
            self._add_ephemeral(event)
        else:
            self._add_unreadable(event)

    def lose(self) -> None:
        """Bytes were lost, or could not be decoded."""
        self.has_gap = self.has_unknown_end = True
        self.is_clear = False
        self.last_comment = None
        self.gone_ns = self.gone_ns or self.opened_ns
        self.session.is_understood = False
        self.runs.doubt()
        self.delivered.is_unsure = True
        self.reader.losses += 1
        if self.resume is not None:
            self.resume.has_losses = True
        if self.resync is not None:
            self.resync.is_unsure = True

    def cut_off(self, tail: Frame) -> None:
        """The stream was cut off in an event."""
        if tail.id is not None and tail.id not in self.event_numbers:
            self.delivered.incomplete = tail.id or None

    def end(self, ending: Ending, time_ns: int) -> None:
        """End the stream, after the rules have run."""
        self.gone_ns = time_ns
        self.session.log.budget.ids -= len(self.event_numbers)
        position = self.reader.close_stream(self.delivered, self.cursor, ending, self.opened_ns, time_ns)
        if self.resync is not None:
            self.resync.end(ending, time_ns, position)

    def _add_ephemeral(self, event: SessionEvent) -> None:
        if event.type not in EVENT_TYPES:
            if "run_id" in event.document:
                self._add_unknown()
            return
        if event.type in STORED_TYPES and self.resume is not None:
            # It may be an expected event without its id (DUR006).
            self.resume.has_losses = True
        if event.type in _LIVE_TYPES:
            self.runs.is_live = True
            if self.resume is not None:
                self.resume.has_live_output = True
        self._add_to_session(event)
        resume = self.resume
        if resume is not None and not resume.is_over and (resume.expected or resume.is_partly_known):
            # Events that have to be replayed may precede it (RES002, RES004).
            return
        last = self.sequence if resume is None or self.sequence is not None else resume.sequence
        if last is not None and not (self.is_out_of_step or self.has_gap or self.session.log.has_disorder):
            self._place(event, 2 * last + 1)

    def _add_durable(self, event: SessionEvent) -> None:
        log, arrival = self.session.log, self.arrival
        known = arrival.known
        self._add_to_order(event)
        if self.resume is not None and not self.resume.is_over:
            self.resume.add(event, known)
        if event.type not in EVENT_TYPES:
            self._add_unknown()
        elif arrival.is_current:
            self._add_to_session(event)
        elif event.type in TERMINAL_RUN_TYPES:
            self.runs.deliver_end(event)
        is_wrong = arrival.is_repeated or arrival.has_used_number or self.is_out_of_step or log.has_disorder
        if event.sequence is not None and not is_wrong and (known is None or known.json_hash == json_hash(event)):
            self._place(event, 2 * event.sequence)
        if arrival.is_new or (known is not None and event.cursor is not None and event.cursor not in log.events):
            log.add(event)
        if event.cursor is not None:
            self.delivered.add(event.cursor, event.time_ns)
            self.reader.deliver(event.cursor)
            if self.resync is not None:
                self.resync.deliver(event.cursor, event.time_ns)

    def _place(self, event: SessionEvent, at: Position) -> None:
        alone = event.type in TERMINAL_RUN_TYPES and len(self.session.streams) == 1
        self.runs.place(event, at, alone=alone)

    def _add_to_order(self, event: SessionEvent) -> None:
        if event.cursor is not None:
            self._add_id(event.cursor, event.number)
        if event.sequence is None:
            self.is_out_of_step = True
        else:
            is_out_of_order = self.arrival.is_out_of_order
            if is_out_of_order:
                self.session.runs.doubt_order()
            is_up_to_cursor = self.resume is not None and self.resume.is_up_to_cursor(event)
            self.is_out_of_step = is_out_of_order or is_up_to_cursor
            self.sequence = event.sequence
            self.has_gap = False
        self.created_at = event.created_at or self.created_at

    def _add_id(self, identity: str, number: int | None) -> None:
        if identity in self.event_numbers:
            return
        self.event_numbers[identity] = number
        budget, count = self.session.log.budget, len(self.event_numbers)
        budget.ids += 1
        if count > _MOST_IDS or (count > LEAST_EVENTS and budget.has_spent_ids):
            self.event_numbers = dict(islice(self.event_numbers.items(), count // 2, None))
            budget.ids -= count // 2
            self.dropped_ids = True

    def _add_unreadable(self, event: SessionEvent) -> None:
        """Add an event without data, or with data that is not a JSON object."""
        if event.id_line is not None:
            self.delivered.is_unsure = True
        if event.shape is Shape.NO_OBJECT:
            self.is_out_of_step = True
            self._add_unknown()
        if self.resume is not None and not self.resume.is_over:
            if event.cursor is not None and event.cursor in self.resume.expected:
                self.resume.add(event, self.session.log.find(event))
            elif event.shape is Shape.NO_OBJECT:
                self.resume.has_losses = True

    def _add_unknown(self) -> None:
        self.is_clear = self.session.is_understood = False
        self.runs.doubt()

    def _add_to_session(self, event: SessionEvent) -> None:
        """Add an event that is not replayed to the state of the session."""
        name, run_id, runs = event.type, event.run_id, self.runs
        if name == STREAM_RESYNC:
            self._add_resync(event)
        elif name == STATUS_IDLE:
            runs.set_idle()
        elif run_id is not None:
            runs.add(event, run_id, overlapping=self.arrival.overlapping, after_end=self.arrival.is_after_end)
        elif name in _TYPES_WITH_RUN:
            self._add_unknown()
        if name in TOOL_TYPES:
            runs.add_tool_event(event, run_id)

    def _add_resync(self, event: SessionEvent) -> None:
        # It is sent when the service could not deliver every event.
        self.runs.doubt()
        if self.resync is not None:
            return
        last = self.delivered.last or self.cursor
        cursors = dict.fromkeys([last, event.cursor or last])
        self.resync = PendingResync(event.time_ns, cursors, is_unsure=self.delivered.is_unsure)
        self.reader.add_resync(self.resync)
