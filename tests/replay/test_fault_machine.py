"""Requests, steps, seeks and faults in any order, against a simple model of the bytes on the wire.

The parts of session mode without sockets: a log, a playhead, readers of the log, and faults.
"""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from wiretape.observations import Ending
from wiretape_replay.faults.fault_schedule import FaultSchedule
from wiretape_replay.faults.fault_script import decode_fault_script
from wiretape_replay.faults.frame_damage import LogFault, SendBytes, SendError
from wiretape_replay.http_server.http_messages import NO_BODY, HttpRequest
from wiretape_replay.session.playhead import Playhead, StepTarget
from wiretape_replay.session.session_log import EntryKind, LogEntry, LogReader, SessionLog, UnknownCursorError

TARGET = "/v1/sessions/s1/events/stream?event_deltas=true"
TYPES = ["tool.started", "tool.completed", "message.delta"]
TIMES = st.sampled_from([None, 1, 2])


@st.composite
def logs(draw):
    entries = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from([*TYPES, None]), max_size=15))):
        durable = kind in {"tool.started", "tool.completed"}
        more = {"id": f"e{number}", "sequence": number} if durable else {}
        kind_of_entry = EntryKind.DURABLE if durable else EntryKind.EPHEMERAL
        entries.append(LogEntry(kind_of_entry, number, b"%d;" % number, type=kind, **more))
    return entries


@st.composite
def faults(draw):
    """At most one of each: an error for a stream; a reset before, a duplicate of, a drop after an event."""
    chosen = []
    for do, moment in (("error", None), ("reset", "before"), ("duplicate", "at"), ("drop", "after")):
        if draw(st.booleans()):
            fault = {"do": do, "times": draw(TIMES)}
            if moment is None:
                fault |= {"code": "RATE_LIMITED", "connection": draw(st.integers(1, 3))}
            else:
                where = st.fixed_dictionaries({"type": st.sampled_from(TYPES)}) | st.fixed_dictionaries(
                    {"event": st.integers(1, 6)}
                )
                fault[moment] = draw(where)
            chosen.append({key: value for key, value in fault.items() if value is not None})
    return chosen


class Connection:
    """A stream, and its model."""

    def __init__(self, reader, stream_faults):
        self.reader, self.faults = reader, stream_faults
        self.events = 0
        self.over = self.model_over = None
        self.wire, self.model_wire = b"", b""


class Faulted(RuleBasedStateMachine):
    @initialize(entries=logs(), chosen=faults(), speed=st.sampled_from([1, math.inf]))
    def begin(self, entries, chosen, speed):
        self.entries, self.chosen = entries, chosen
        self.log = SessionLog("s1", entries)
        self.playhead = Playhead(self.log, speed=speed, paused=True)
        self.faults = FaultSchedule(decode_fault_script({"fault": chosen}, "faults.toml"))
        self.open, self.asked = [], 0
        self.done, self.before = [0] * len(chosen), [0] * len(chosen)

    def hits(self, do, matches):
        """Whether the fault with this action, if there is one, is applied again."""
        for number, fault in enumerate(self.chosen):
            if fault["do"] == do and matches(fault) and self.done[number] < fault.get("times", math.inf):
                self.done[number] += 1
                return True
        return False

    def in_all(self):
        """How often each fault was applied, before resets too."""
        return [before + done for before, done in zip(self.before, self.done, strict=True)]

    @rule(cursor=st.none() | st.integers(0, 15))
    def connect(self, cursor):
        sent = None if cursor is None else f"e{cursor}"
        self.asked += 1
        headers = () if sent is None else (("Last-Event-ID", sent),)
        injection = self.faults.inject(HttpRequest("GET", TARGET, NO_BODY, headers))
        refused = self.hits("error", lambda fault: fault["connection"] == self.asked)
        assert any(isinstance(action, SendError) for action in injection.before) == refused
        if refused:
            return
        known = {entry.id for entry in self.entries[: self.playhead.position]} - {None}
        if sent is not None and sent not in known:
            with pytest.raises(UnknownCursorError):
                LogReader(self.log, self.playhead.position, cursor=sent, deltas=True)
            return
        reader = LogReader(self.log, self.playhead.position, cursor=sent, deltas=True)
        self.open.append(Connection(reader, injection.stream))

    @rule(to=st.sampled_from(list(StepTarget)))
    def step(self, to):
        self.playhead.step(0, to)

    @rule(place=st.integers(0, 16))
    def seek(self, place):
        self.playhead.seek(0, place)

    @rule()
    def rewind(self):
        """What a reset by control does."""
        self.faults.rewind()
        self.playhead.reset(0)
        self.open.clear()
        self.before = self.in_all()
        self.asked, self.done = 0, [0] * len(self.chosen)

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 20))
    def read(self, which):
        connection = self.open[which % len(self.open)]
        for entry in connection.reader.read(self.playhead.position):
            if connection.over is not None:
                break
            self.expect(connection, entry)
            self.send(connection, entry)

    def send(self, connection, entry):
        actions = [SendBytes(entry.data)] if connection.faults is None else connection.faults.apply(entry)
        for action in actions:
            if isinstance(action, SendBytes):
                connection.wire += action.data
            elif not isinstance(action, LogFault):
                connection.over = action.ending

    def expect(self, connection, entry):
        """The model: what a person who reads the script expects."""
        if entry.type is None:
            connection.model_wire += entry.data
            return
        connection.events += 1

        def at(moment):
            return lambda fault: (
                fault[moment].get("type", entry.type) == entry.type
                and fault[moment].get("event", connection.events) == connection.events
            )

        if self.hits("reset", at("before")):
            connection.model_over = Ending.SERVICE_RESET
            return
        connection.model_wire += entry.data * (2 if self.hits("duplicate", at("at")) else 1)
        if self.hits("drop", at("after")):
            connection.model_over = Ending.SERVICE_CLOSED

    @invariant()
    def the_wire_carries_what_the_script_says(self):
        for connection in self.open if hasattr(self, "open") else ():
            assert (connection.wire, connection.over) == (connection.model_wire, connection.model_over)

    @invariant()
    def faults_are_counted(self):
        if hasattr(self, "faults"):
            assert list(self.faults.counts.values()) == self.in_all()


TestFaulted = Faulted.TestCase
TestFaulted.settings = settings(stateful_step_count=30)
