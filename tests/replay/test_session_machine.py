"""Streams on a log whose playhead is moved in any way, in any order, against a simple model of what they are sent.

Log, LogReader and Playhead as session mode uses them, without sockets; the clock is a number.
"""

import math
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from wiretape.observations import Ending
from wiretape_replay.session.playhead import Breakpoint, Playhead, StepTarget
from wiretape_replay.session.session_log import EntryKind, LogEntry, LogReader, SessionLog, UnknownCursorError

SECOND = 1_000_000_000
DELTA = "message.delta"
TYPES = ["run.started", "tool.started", "tool.completed", "message.completed"]


@st.composite
def logs(draw):
    """Entries of every kind, a few seconds apart or at once; ids may come twice."""
    entries, now_ns = [], 0
    kinds = st.sampled_from(["durable"] * 4 + ["live"] * 4 + ["comment", "end"])
    for number, kind in enumerate(draw(st.lists(kinds, min_size=draw(st.sampled_from([0, 12, 12])), max_size=20))):
        now_ns += draw(st.sampled_from([0, 0, 1, SECOND, 7 * SECOND, 30 * SECOND]))
        more = {"time_ns": now_ns, "findings": draw(st.sampled_from([(), (), ("RES001",), ("RES001", "SEQ003")]))}
        data = b"%d" % number
        if kind == "durable":
            identity = f"e{draw(st.integers(0, number)) if draw(st.integers(0, 4)) == 0 else number}"
            more |= {"id": identity, "sequence": number, "type": draw(st.sampled_from(TYPES))}
            more["tool_call_id"] = draw(st.sampled_from([None, "call_1", "call_2"]))
            entries.append(LogEntry(EntryKind.DURABLE, data=data, **more))
        elif kind == "end":
            entries.append(LogEntry(EntryKind.ENDING, now_ns, ending=draw(st.sampled_from(list(Ending)))))
        else:
            of = draw(st.sampled_from([DELTA, "reasoning.delta", "session.error"])) if kind == "live" else None
            entries.append(LogEntry(EntryKind.EPHEMERAL, data=data, type=of, **more))
    return entries


POINTS = st.just([]) | st.lists(
    st.sampled_from(
        [
            {"type": "tool.*"},
            {"type": DELTA},
            {"sequence": 2},
            {"tool_call_id": "call_1"},
            {"finding": ""},
            {"finding": "SEQ"},
            {"type": "tool.started", "finding": "RES001"},
        ]
    ),
    min_size=1,
    max_size=3,
)


def fits(point, entry):
    """Whether a breakpoint is at an entry, as the documentation has it."""
    found = [code for code in entry.findings if code.startswith(point.get("finding", ""))]
    return (
        fnmatchcase(entry.type or "", point.get("type", "*"))
        and point.get("sequence", entry.sequence) == entry.sequence
        and point.get("tool_call_id", entry.tool_call_id) == entry.tool_call_id
        and (bool(found) or "finding" not in point)
    )


@dataclass
class Stream:
    """What one client is to be sent, and what it was sent."""

    follower: LogReader
    deltas: bool
    prompt: bool
    """Whether it reads at once whatever there is."""
    reached: int
    """The farthest place of the playhead since it connected."""
    due: list
    """What it is to be sent until now, in order."""
    ended: bool = False
    got: list = field(default_factory=list)

    def pass_to(self, entries, place):
        """The playhead has passed what is before `place`."""
        for entry in entries[self.reached : place]:
            if not self.ended and (self.deltas or entry.type not in {DELTA, "reasoning.delta"}):
                self.due.append(entry)
                self.ended = entry.kind is EntryKind.ENDING
        self.reached = max(self.reached, place)

    def read(self, place):
        for entry in self.follower.read(place):
            if self.got and self.got[-1].kind is EntryKind.ENDING:
                break
            self.got.append(entry)


class Streams(RuleBasedStateMachine):
    """Moves a playhead, its model beside it."""

    @initialize(
        entries=logs(),
        speed=st.sampled_from([1, 2, 10, math.inf, math.inf]),
        paused=st.sampled_from([False, False, True]),
        points=POINTS,
        listener=st.booleans(),
    )
    def begin(self, entries, speed, paused, points, listener):
        self.entries, self.speed, self.paused_at_first = entries, speed, paused
        self.log = SessionLog("s1", entries)
        self.playhead = Playhead(self.log, speed=speed, paused=paused)
        self.now_ns = 12345
        self.streams = []
        # The model: a place, a moment of the log, and whether it moves.
        self.place, self.moment_ns, self.started, self.paused = 0, 0, False, paused
        self.stopped = False
        self.set_breakpoints(points)
        if listener:
            self.join(None, deltas=True, prompt=True)

    # What is done.

    @rule(data=st.data(), deltas=st.booleans(), prompt=st.booleans())
    def connect(self, data, deltas, prompt):
        known = [entry.id for entry in self.entries if entry.id is not None]
        near = [entry.id for entry in self.entries[max(0, self.place - 1) : self.place + 1] if entry.id is not None]
        cursor = data.draw(st.sampled_from([None, "unknown"]) | st.sampled_from(known + near or [None]))
        first = next((place for place, entry in enumerate(self.entries) if entry.id == cursor), None)
        if cursor is not None and (first is None or first >= self.place):
            with pytest.raises(UnknownCursorError):
                LogReader(self.log, self.playhead.position, cursor=cursor, deltas=deltas)
            return
        self.join(cursor, deltas=deltas, prompt=prompt, begin=0 if cursor is None else first + 1)

    def join(self, cursor, *, deltas, prompt, begin=0):
        follower = LogReader(self.log, self.playhead.position, cursor=cursor, deltas=deltas)
        behind = self.entries[begin : self.place]
        persisted = [entry for entry in behind if entry.kind is EntryKind.DURABLE]
        self.streams.append(Stream(follower, deltas, prompt, self.place, persisted))
        self.playhead.start(self.now_ns)
        self.started = True
        self.settle()

    @rule(ns=st.sampled_from([0, 1, SECOND // 3, SECOND, 5 * SECOND, 30 * SECOND]))
    def wait(self, ns):
        self.now_ns += ns
        if self.moves and self.speed != math.inf:
            self.moment_ns += ns * self.speed
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
                self.go(self.place + 1)
        self.settle()

    @rule(to=st.sampled_from(list(StepTarget)))
    def step(self, to):
        wanted = {
            StepTarget.DURABLE: lambda entry: entry.kind is EntryKind.DURABLE,
            StepTarget.FINDING: lambda entry: entry.findings != (),
            StepTarget.EVENT: lambda entry: entry.type is not None or entry.kind is not EntryKind.EPHEMERAL,
        }[to]
        places = [place for place in range(self.place, len(self.entries)) if wanted(self.entries[place])]
        passed = self.playhead.step(self.now_ns, to)
        assert passed == (self.entries[places[0]] if places else None)
        self.started = self.paused = True
        self.go(places[0] + 1 if places else len(self.entries))
        self.settle()

    @rule(data=st.data(), into_ns=st.sampled_from([0, 1, SECOND, 100 * SECOND]))
    def seek(self, data, into_ns):
        place = data.draw(st.integers(-1, len(self.entries) + 1))
        self.playhead.seek(self.now_ns, place, log_time_ns=into_ns)
        self.place = min(max(place, 0), len(self.entries))
        self.stopped = False
        if self.speed == math.inf and self.started and self.place < len(self.entries):
            self.paused = True
        behind_ns = self.entries[self.place - 1].time_ns if self.place else 0
        ahead_ns = self.entries[self.place].time_ns if self.place < len(self.entries) else into_ns
        self.moment_ns = max(behind_ns, min(into_ns, ahead_ns))
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
        self.place, self.moment_ns, self.started, self.paused = 0, 0, False, self.paused_at_first
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
        return self.started and not self.paused and self.place < len(self.entries)

    def go(self, place):
        """Pass everything before `place` by hand."""
        self.place = place
        self.stopped = False
        if place:
            self.moment_ns = max(self.moment_ns, self.entries[place - 1].time_ns)

    def settle(self):
        """Pass what is due, in the model and in earnest, and let streams have it."""
        while self.moves and (self.speed == math.inf or self.entries[self.place].time_ns <= self.moment_ns):
            entry = self.entries[self.place]
            if any(fits(point, entry) for point in self.points):
                self.paused = self.stopped = True
                self.moment_ns = entry.time_ns
            else:
                self.place += 1
        self.playhead.advance(self.now_ns)
        for stream in self.streams:
            stream.pass_to(self.entries, self.place)
            if stream.prompt:
                stream.read(self.playhead.position)

    # What holds.

    @invariant()
    def the_playhead_is_where_the_model_is(self):
        playhead = self.playhead
        assert (playhead.position, playhead.paused, playhead.started) == (self.place, self.paused, self.started)
        assert (playhead.stopped_by is not None) == self.stopped
        assert playhead.is_moving is self.moves
        assert playhead.at_end == (self.place == len(self.entries))

    @invariant()
    def the_clock_is_due_when_the_model_says(self):
        due_ns = self.playhead.due_ns()
        if not self.moves:
            assert due_ns is None
        else:
            assert self.speed != math.inf
            left_ns = self.entries[self.place].time_ns - self.moment_ns
            assert due_ns == self.now_ns + math.ceil(left_ns / self.speed)
        if self.place < len(self.entries):
            assert self.playhead.log_time_ns(self.now_ns) == self.moment_ns

    @invariant()
    def every_stream_was_sent_what_it_is_due_and_no_more(self):
        for stream in self.streams:
            assert stream.got == stream.due[: len(stream.got)]
            if stream.prompt and self.place >= stream.reached:
                assert stream.got == stream.due

    def teardown(self):
        """Whoever has not read anything yet does so in the end."""
        if hasattr(self, "playhead"):
            for stream in self.streams:
                stream.pass_to(self.entries, len(self.entries))
                stream.read(len(self.entries))
                assert stream.got == stream.due


TestStreams = Streams.TestCase
TestStreams.settings = settings(max_examples=60, stateful_step_count=40)
