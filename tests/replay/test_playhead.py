"""Examples of what the playhead does; test_session_machine tries any order of operations."""

import math

import pytest
from for_each import for_each

from wiretape.observations import Ending
from wiretape_replay.channel.channel_log import ChannelLog, EntryKind, LogEntry
from wiretape_replay.channel.playhead import Breakpoint, Playhead, StepTarget

MS = 1_000_000


def durable(sequence: int, at_ms: int, type_: str = "tool.started", **more: object) -> LogEntry:
    more = {"id": f"e{sequence}", "sequence": sequence, "type": type_, **more}
    return LogEntry(EntryKind.DURABLE, at_ms * MS, b"data: x\n\n", **more)


DELTA = LogEntry(EntryKind.EPHEMERAL, 20 * MS, b"data: d\n\n", type="message.delta")
COMMENT = LogEntry(EntryKind.EPHEMERAL, 30 * MS, b":\n\n")
LOG = ChannelLog(
    "s1",
    [
        durable(1, 10, "run.started"),
        DELTA,
        COMMENT,
        durable(2, 40, keys={"tool_call": "t1"}, findings=("SEQ001",)),
        durable(3, 40, "tool.completed", keys={"tool_call": "t1"}),
        LogEntry(EntryKind.ENDING, 60 * MS, ending=Ending.SERVICE_CLOSED),
    ],
)
END = len(LOG)


def moving(speed: float = 1.0, *, log: ChannelLog = LOG, now_ms: float = 0) -> Playhead:
    playhead = Playhead(log, speed=speed)
    playhead.start(round(now_ms * MS))
    return playhead


def test_the_clock_starts_once_and_not_by_a_seek_or_resume():
    playhead = Playhead(LOG, paused=True)
    playhead.seek(0, 1)
    playhead.resume(0)
    assert (playhead.due_ns(), playhead.advance(10**18), playhead.is_moving) == (None, False, False)
    playhead.start(100 * MS)
    playhead.start(105 * MS)
    assert (playhead.position, playhead.due_ns()) == (1, 110 * MS)


@pytest.mark.parametrize(("speed", "due_ms"), [(1, 10), (10, 1), (0.5, 20)])
def test_entries_are_due_according_to_the_speed(speed, due_ms):
    playhead = moving(speed)

    assert playhead.due_ns() == due_ms * MS
    playhead.advance(due_ms * MS)
    assert playhead.due_ns() == 2 * due_ms * MS, "times are relative to the beginning, not to the last entry"


def test_the_log_time_follows_the_clock_up_to_the_next_entry():
    playhead = moving(2)

    assert playhead.log_time_ns(3 * MS) == 6 * MS
    assert playhead.log_time_ns(100 * MS) == 10 * MS, "the entry at 10 ms has not been passed"


def test_resume_continues_at_the_log_time_of_the_pause():
    playhead = moving()
    playhead.advance(10 * MS)
    playhead.pause(15 * MS)

    assert (playhead.log_time_ns(15 * MS), playhead.log_time_ns(10**15)) == (15 * MS, 15 * MS)
    assert not playhead.advance(10**15)
    playhead.resume(10**15)
    assert playhead.due_ns() == 10**15 + 5 * MS


def test_pausing_and_resuming_are_idempotent():
    playhead = moving()
    playhead.pause(4 * MS)
    playhead.pause(9 * MS)
    assert playhead.log_time_ns(9 * MS) == 4 * MS

    playhead.resume(20 * MS)
    playhead.resume(25 * MS)
    assert playhead.due_ns() == 26 * MS


@for_each(
    ("point", "position"),
    [
        (Breakpoint(type="tool.*"), 3),
        (Breakpoint(type="message.delta"), 1),
        (Breakpoint(sequence=3), 4),
        (Breakpoint(keys={"tool_call": "t1"}), 3),
        (Breakpoint(type="tool.completed", keys={"tool_call": "t1"}), 4),
        (Breakpoint(finding="SEQ"), 3),
        (Breakpoint(finding=""), 3),
        (Breakpoint(finding="EVT"), END),
        (Breakpoint(type="tool"), END),
        (Breakpoint(sequence=2, keys={"tool_call": "t2"}), END),
    ],
)
@for_each("speed", [1, math.inf])
def test_the_playhead_stops_before_an_entry_that_matches_a_breakpoint(speed, point, position):
    playhead = moving(speed)
    playhead.breakpoints = [point]
    playhead.advance(10**12)

    assert playhead.position == position
    assert playhead.paused == (position != END)
    assert playhead.stopped_by == (point if position != END else None)


def test_resume_continues_to_the_next_breakpoint():
    playhead = moving()
    playhead.breakpoints = [Breakpoint(keys={"tool_call": "t1"})]
    playhead.advance(100 * MS)
    assert (playhead.position, playhead.log_time_ns(100 * MS)) == (3, 40 * MS)

    playhead.resume(200 * MS)
    assert (playhead.position, playhead.stopped_by) == (4, None)
    playhead.advance(200 * MS)
    assert (playhead.position, playhead.paused) == (4, True), "the second event of the tool call, at the same time"
    playhead.resume(300 * MS)
    assert playhead.due_ns() == 320 * MS


@pytest.mark.parametrize(
    ("to", "positions"),
    [(StepTarget.EVENT, [1, 2, 4, 5, 6]), (StepTarget.DURABLE, [1, 4, 5, 6]), (StepTarget.FINDING, [4, 6])],
)
def test_steps_stop_after_their_target_or_at_the_end(to, positions):
    playhead = Playhead(LOG)
    playhead.breakpoints = [Breakpoint(type="*")]
    reached = []
    while not playhead.at_end:
        entry = playhead.step(0, to)
        reached.append(playhead.position)
        assert entry is None or entry is LOG.entries[playhead.position - 1]

    assert reached == positions
    assert playhead.step(0, to) is None


def test_a_step_pauses_at_the_log_time_of_the_entry_it_passed():
    playhead = moving()
    playhead.step(4 * MS, StepTarget.EVENT)

    assert (playhead.paused, playhead.log_time_ns(10**12)) == (True, 10 * MS)
    playhead.resume(50 * MS)
    assert playhead.due_ns() == 60 * MS


def test_a_moving_playhead_continues_after_a_seek():
    playhead = moving()
    playhead.seek(100 * MS, 3)
    assert (playhead.position, playhead.due_ns()) == (3, 110 * MS)

    playhead.seek(200 * MS, 1)
    assert (playhead.position, playhead.log_time_ns(200 * MS), playhead.due_ns()) == (1, 10 * MS, 210 * MS)


@for_each(
    ("position", "time_ms", "arrives", "log_time_ms"),
    [(1, 15, 1, 15), (1, 99, 1, 20), (-5, 99, 0, 10), (99, 99, END, 60)],
)
def test_a_seek_stays_in_the_log_and_before_the_next_entry(position, time_ms, arrives, log_time_ms):
    playhead = moving()
    playhead.seek(0, position, log_time_ns=time_ms * MS)

    assert (playhead.position, playhead.log_time_ns(0)) == (arrives, log_time_ms * MS)


def test_a_seek_pauses_the_playhead_at_infinite_speed():
    playhead = moving(math.inf)
    playhead.advance(0)
    playhead.seek(0, 2)
    assert (playhead.advance(10**15), playhead.position, playhead.paused) == (False, 2, True)

    playhead.resume(0)
    playhead.advance(0)
    assert playhead.at_end


def test_a_seek_before_the_start_does_not_pause_the_playhead_at_infinite_speed():
    playhead = Playhead(LOG, speed=math.inf)
    playhead.seek(0, 4)
    playhead.start(0)
    playhead.advance(0)
    assert (playhead.at_end, playhead.log_time_ns(0)) == (True, 60 * MS)


def test_a_seek_away_from_a_breakpoint_clears_stopped_by():
    playhead = moving()
    playhead.breakpoints = [Breakpoint(sequence=2)]
    playhead.advance(100 * MS)
    playhead.seek(100 * MS, 0)
    assert (playhead.stopped_by, playhead.paused) == (None, True)

    playhead.resume(100 * MS)
    assert playhead.position == 0, "resume passes no entry after a seek"


def test_reset_restores_everything_but_the_breakpoints():
    playhead = moving()
    playhead.breakpoints = [Breakpoint(sequence=2)]
    playhead.advance(100 * MS)
    playhead.reset(200 * MS)

    assert (playhead.position, playhead.started, playhead.paused, playhead.stopped_by) == (0, False, False, None)
    assert playhead.log_time_ns(300 * MS) == 0
    assert playhead.breakpoints == [Breakpoint(sequence=2)]


def test_entries_added_to_the_log_are_passed():
    log = ChannelLog("s1", [durable(1, 10)])
    playhead = moving(log=log)
    playhead.advance(100 * MS)
    assert playhead.due_ns() is None

    log.append(durable(2, 150))
    assert playhead.due_ns() == 150 * MS


def test_another_speed_applies_from_now_on():
    playhead = moving(1)
    playhead.set_speed(5 * MS, 0.5)
    assert playhead.due_ns() == 15 * MS
    playhead.set_speed(7 * MS, math.inf)
    assert playhead.due_ns() == 7 * MS
