"""Streams on a log whose playhead is moved in any order, compared with a simple model of what they carry.

Log, LogReader and Playhead as channel mode uses them, but without sockets; the clock is a number.
"""

import math
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from wiretape.observations import Ending
from wiretape_replay.channel.channel_log import ChannelLog, EntryKind, LogEntry, LogReader, UnknownCursorError
from wiretape_replay.channel.playhead import Breakpoint, Playhead, StepTarget

SECOND = 1_000_000_000
DELTA = "message.delta"
TYPES = ["run.started", "tool.started", "tool.completed", "message.completed"]


@st.composite
def logs(draw):
    """Entries of every kind, simultaneous or a few seconds apart; ids may occur twice."""
    entries, now_ns = [], 0
    kinds = st.sampled_from(["durable"] * 4 + ["live"] * 4 + ["comment", "end"])
    for number, kind in enumerate(draw(st.lists(kinds, min_size=draw(st.sampled_from([0, 12, 12])), max_size=20))):
        now_ns += draw(st.sampled_from([0, 0, 1, SECOND, 7 * SECOND, 30 * SECOND]))
        more = {"time_ns": now_ns, "findings": draw(st.sampled_from([(), (), ("RES001",), ("RES001", "SEQ003")]))}
        data = b"%d" % number
        if kind == "durable":
            identity = f"e{draw(st.integers(0, number)) if draw(st.integers(0, 4)) == 0 else number}"
            more |= {"id": identity, "sequence": number, "type": draw(st.sampled_from(TYPES))}
            call = draw(st.sampled_from([None, "call_1", "call_2"]))
            more["keys"] = {} if call is None else {"tool_call": call}
            entries.append(LogEntry(EntryKind.DURABLE, data=data, **more))
        elif kind == "end":
            entries.append(LogEntry(EntryKind.ENDING, now_ns, ending=draw(st.sampled_from(list(Ending)))))
        else:
            of = draw(st.sampled_from([DELTA, "reasoning.delta", "session.error"])) if kind == "live" else None
            more["is_optional"] = of in {DELTA, "reasoning.delta"}
            entries.append(LogEntry(EntryKind.EPHEMERAL, data=data, type=of, **more))
    return entries


POINTS = st.just([]) | st.lists(
    st.sampled_from(
        [
            {"type": "tool.*"},
            {"type": DELTA},
            {"sequence": 2},
            {"keys": {"tool_call": "call_1"}},
            {"finding": ""},
            {"finding": "SEQ"},
            {"type": "tool.started", "finding": "RES001"},
        ]
    ),
    min_size=1,
    max_size=3,
)


def matches(point, entry):
    """Whether a breakpoint matches an entry, according to the documentation."""
    found = [code for code in entry.findings if code.startswith(point.get("finding", ""))]
    return (
        fnmatchcase(entry.type or "", point.get("type", "*"))
        and point.get("sequence", entry.sequence) == entry.sequence
        and point.get("keys", {}).items() <= entry.keys.items()
        and (bool(found) or "finding" not in point)
    )


@dataclass
class Stream:
    """What one client should get, and what it got."""

    reader: LogReader
    deltas: bool
    prompt: bool
    """Whether it reads everything at once."""
    reached: int
    """The farthest position of the playhead since it connected."""
    due: list
    """What it should have got until now, in order."""
    ended: bool = False
    got: list = field(default_factory=list)

    def pass_to(self, entries, position):
        """The playhead has passed the entries before `position`."""
        for entry in entries[self.reached : position]:
            if not self.ended and (self.deltas or not entry.is_optional):
                self.due.append(entry)
                self.ended = entry.kind is EntryKind.ENDING
        self.reached = max(self.reached, position)

    def read(self, position):
        for entry in self.reader.read(position):
            if self.got and self.got[-1].kind is EntryKind.ENDING:
                break
            self.got.append(entry)


class Streams(RuleBasedStateMachine):
    """Moves a playhead and its model."""

    @initialize(
        entries=logs(),
        speed=st.sampled_from([1, 2, 10, math.inf, math.inf]),
        paused=st.sampled_from([False, False, True]),
        points=POINTS,
        listener=st.booleans(),
    )
    def begin(self, entries, speed, paused, points, listener):
        self.entries, self.speed, self.paused_at_first = entries, speed, paused
        self.log = ChannelLog("s1", entries)
        self.playhead = Playhead(self.log, speed=speed, paused=paused)
        self.now_ns = 12345
        self.streams = []
        # The model: a position, a time of the log, and whether it moves.
        self.position, self.log_time_ns, self.started, self.paused = 0, 0, False, paused
        self.stopped = False
        self.set_breakpoints(points)
        if listener:
            self.join(None, deltas=True, prompt=True)

    # The operations.

    @rule(data=st.data(), deltas=st.booleans(), prompt=st.booleans())
    def connect(self, data, deltas, prompt):
        known = [entry.id for entry in self.entries if entry.id is not None]
        near = [
            entry.id for entry in self.entries[max(0, self.position - 1) : self.position + 1] if entry.id is not None
        ]
        cursor = data.draw(st.sampled_from([None, "unknown"]) | st.sampled_from(known + near or [None]))
        first = next((position for position, entry in enumerate(self.entries) if entry.id == cursor), None)
        if cursor is not None and (first is None or first >= self.position):
            with pytest.raises(UnknownCursorError):
                LogReader(self.log, self.playhead.position, cursor=cursor, deltas=deltas)
            return
        self.join(cursor, deltas=deltas, prompt=prompt, begin=0 if cursor is None else first + 1)

    def join(self, cursor, *, deltas, prompt, begin=0):
        reader = LogReader(self.log, self.playhead.position, cursor=cursor, deltas=deltas)
        behind = self.entries[begin : self.position]
        persisted = [entry for entry in behind if entry.kind is EntryKind.DURABLE]
        self.streams.append(Stream(reader, deltas, prompt, self.position, persisted))
        self.playhead.start(self.now_ns)
        self.started = True
        self.settle()

    @rule(ns=st.sampled_from([0, 1, SECOND // 3, SECOND, 5 * SECOND, 30 * SECOND]))
    def wait(self, ns):
        self.now_ns += ns
        if self.moves and self.speed != math.inf:
            self.log_time_ns += ns * self.speed
        self.settle()

    @rule()
    def pause(self):
        self.playhead.pause(self.now_ns)
        self.paused = True
        self.settle()

    @rule()
    def resume(self):
        self.playhead.resume(self.now_ns)
        if self.paused:
            self.paused = False
            if self.stopped:
                self.go(self.position + 1)
        self.settle()

    @rule(to=st.sampled_from(list(StepTarget)))
    def step(self, to):
        wanted = {
            StepTarget.DURABLE: lambda entry: entry.kind is EntryKind.DURABLE,
            StepTarget.FINDING: lambda entry: entry.findings != (),
            StepTarget.EVENT: lambda entry: entry.type is not None or entry.kind is not EntryKind.EPHEMERAL,
        }[to]
        positions = [position for position in range(self.position, len(self.entries)) if wanted(self.entries[position])]
        passed = self.playhead.step(self.now_ns, to)
        assert passed == (self.entries[positions[0]] if positions else None)
        self.started = self.paused = True
        self.go(positions[0] + 1 if positions else len(self.entries))
        self.settle()

    @rule(data=st.data(), into_ns=st.sampled_from([0, 1, SECOND, 100 * SECOND]))
    def seek(self, data, into_ns):
        position = data.draw(st.integers(-1, len(self.entries) + 1))
        self.playhead.seek(self.now_ns, position, log_time_ns=into_ns)
        self.position = min(max(position, 0), len(self.entries))
        self.stopped = False
        if self.speed == math.inf and self.started and self.position < len(self.entries):
            self.paused = True
        behind_ns = self.entries[self.position - 1].time_ns if self.position else 0
        ahead_ns = self.entries[self.position].time_ns if self.position < len(self.entries) else into_ns
        self.log_time_ns = max(behind_ns, min(into_ns, ahead_ns))
        self.settle()

    @rule(speed=st.sampled_from([1, 2, 10, math.inf]))
    def change_speed(self, speed):
        self.playhead.set_speed(self.now_ns, speed)
        self.speed = speed
        self.settle()

    @rule(points=POINTS)
    def break_at(self, points):
        self.set_breakpoints(points)

    def set_breakpoints(self, points):
        self.points = points
        self.playhead.breakpoints = [Breakpoint(**point) for point in points]

    @precondition(lambda self: len(self.streams) > 2)
    @rule()
    def reset(self):
        self.playhead.reset(self.now_ns)
        self.position, self.log_time_ns, self.started, self.paused = 0, 0, False, self.paused_at_first
        self.stopped = False
        self.streams.clear()
        self.settle()

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def read(self, data):
        stream = data.draw(st.sampled_from(self.streams))
        stream.read(self.playhead.position)

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def leave(self, data):
        self.streams.remove(data.draw(st.sampled_from(self.streams)))

    # The model.

    @property
    def moves(self):
        return self.started and not self.paused and self.position < len(self.entries)

    def go(self, position):
        """Pass everything before `position` by hand."""
        self.position = position
        self.stopped = False
        if position:
            self.log_time_ns = max(self.log_time_ns, self.entries[position - 1].time_ns)

    def settle(self):
        """Pass what is due, in the model and with the playhead, and let the streams read it."""
        while self.moves and (self.speed == math.inf or self.entries[self.position].time_ns <= self.log_time_ns):
            entry = self.entries[self.position]
            if any(matches(point, entry) for point in self.points):
                self.paused = self.stopped = True
                self.log_time_ns = entry.time_ns
            else:
                self.position += 1
        before = self.playhead.position
        assert self.playhead.advance(self.now_ns) == (self.playhead.position != before)
        for stream in self.streams:
            stream.pass_to(self.entries, self.position)
            if stream.prompt:
                stream.read(self.playhead.position)

    # The invariants.

    @invariant()
    def the_playhead_is_where_the_model_is(self):
        playhead = self.playhead
        assert (playhead.position, playhead.paused, playhead.started) == (self.position, self.paused, self.started)
        assert (playhead.stopped_by is not None) == self.stopped
        assert playhead.is_moving is self.moves
        assert playhead.at_end == (self.position == len(self.entries))

    @invariant()
    def the_clock_is_due_when_the_model_says(self):
        due_ns = self.playhead.due_ns()
        if not self.moves:
            assert due_ns is None
        else:
            assert self.speed != math.inf
            left_ns = self.entries[self.position].time_ns - self.log_time_ns
            assert due_ns == self.now_ns + math.ceil(left_ns / self.speed)
        if self.position < len(self.entries):
            assert self.playhead.log_time_ns(self.now_ns) == self.log_time_ns

    @invariant()
    def every_stream_got_what_it_should(self):
        for stream in self.streams:
            assert stream.got == stream.due[: len(stream.got)]
            if stream.prompt and self.position >= stream.reached:
                assert stream.got == stream.due

    def teardown(self):
        """All clients read the rest."""
        if hasattr(self, "playhead"):
            for stream in self.streams:
                stream.pass_to(self.entries, len(self.entries))
                stream.read(len(self.entries))
                assert stream.got == stream.due


TestStreams = Streams.TestCase
TestStreams.settings = settings(stateful_step_count=40)


def test_entries_added_to_the_log_are_passed():
    log = ChannelLog("s1", [LogEntry(EntryKind.DURABLE, SECOND, b"1", id="e1")])
    playhead = Playhead(log)
    playhead.start(0)
    playhead.advance(2 * SECOND)
    assert playhead.due_ns() is None

    log.append(LogEntry(EntryKind.DURABLE, 3 * SECOND, b"2", id="e2"))
    assert playhead.due_ns() == 3 * SECOND
