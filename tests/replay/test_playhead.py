"""The playhead by itself: no event loop, and a clock that is handed in."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.observations import Ending
from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.playhead import Playhead, Step
from wiretape_replay.session.session_log import EntryKind, LogEntry, SessionLog

MS = 1_000_000


def durable(sequence: int, at_ms: int, type_: str = "tool.started", **more: object) -> LogEntry:
    more = {"id": f"e{sequence}", "sequence": sequence, "type": type_, **more}
    return LogEntry(EntryKind.DURABLE, at_ms * MS, b"data: x\n\n", **more)


DELTA = LogEntry(EntryKind.EPHEMERAL, 20 * MS, b"data: d\n\n", type="message.delta")
COMMENT = LogEntry(EntryKind.EPHEMERAL, 30 * MS, b":\n\n")
LOG = SessionLog(
    "s1",
    [
        durable(1, 10, "run.started"),
        DELTA,
        COMMENT,
        durable(2, 40, tool_call_id="t1", findings=("SEQ001",)),
        durable(3, 40, "tool.completed", tool_call_id="t1"),
        LogEntry(EntryKind.ENDING, 60 * MS, ending=Ending.SERVICE_CLOSED),
    ],
)
END = len(LOG)


def moving(speed: float = 1.0, *, log: SessionLog = LOG, now_ms: float = 0) -> Playhead:
    playhead = Playhead(log, speed=speed)
    playhead.start(round(now_ms * MS))
    return playhead


def test_it_waits_for_its_start_however_late_that_comes():
    playhead = Playhead(LOG)
    assert (playhead.due_ns(), playhead.advance(10**18), playhead.standing) == (None, False, True)

    playhead.start(10**18)
    assert playhead.due_ns() == 10**18 + 10 * MS
    assert not playhead.advance(10**18 + 10 * MS - 1)
    assert playhead.advance(10**18 + 10 * MS)
    assert playhead.place == 1


def test_starting_again_does_not_turn_the_clock_back():
    playhead = moving()
    playhead.start(5 * MS)

    assert playhead.due_ns() == 10 * MS


@pytest.mark.parametrize(("speed", "due_ms"), [(1, 10), (10, 1), (0.5, 20)])
def test_entries_are_due_as_fast_as_it_moves(speed, due_ms):
    playhead = moving(speed)

    assert playhead.due_ns() == due_ms * MS
    playhead.advance(due_ms * MS)
    assert playhead.due_ns() == 2 * due_ms * MS, "times add up from the beginning, not from the last entry"


def test_all_that_came_at_one_time_is_passed_at_once():
    playhead = moving()
    playhead.advance(40 * MS)

    assert playhead.place == 5
    assert playhead.position_ns(40 * MS) == 40 * MS


def test_at_once_is_at_the_end_as_soon_as_it_starts():
    playhead = Playhead(LOG, speed=math.inf)
    assert playhead.place == 0
    playhead.start(7)

    assert playhead.advance(7)
    assert playhead.at_end
    assert playhead.position_ns(7) == 60 * MS


def test_the_position_is_that_of_the_clock_and_never_beyond_what_is_ahead():
    playhead = moving(2)

    assert playhead.position_ns(3 * MS) == 6 * MS
    assert playhead.position_ns(100 * MS) == 10 * MS, "the entry at 10 ms has not been passed"


def test_a_pause_keeps_the_position_and_resume_goes_on_from_there():
    playhead = moving()
    playhead.advance(10 * MS)
    playhead.pause(15 * MS)

    assert (playhead.position_ns(15 * MS), playhead.position_ns(10**15)) == (15 * MS, 15 * MS)
    assert not playhead.advance(10**15)
    playhead.resume(10**15)
    assert playhead.due_ns() == 10**15 + 5 * MS


def test_pausing_or_resuming_twice_is_as_once():
    playhead = moving()
    playhead.pause(4 * MS)
    playhead.pause(9 * MS)
    assert playhead.position_ns(9 * MS) == 4 * MS

    playhead.resume(20 * MS)
    playhead.resume(25 * MS)
    assert playhead.due_ns() == 26 * MS


def test_resumed_before_its_start_it_still_waits():
    playhead = Playhead(LOG, paused=True)
    playhead.resume(0)
    assert playhead.due_ns() is None

    playhead.start(100 * MS)
    assert playhead.due_ns() == 110 * MS


@pytest.mark.parametrize(
    ("point", "place"),
    [
        (Breakpoint(type="tool.*"), 3),
        (Breakpoint(type="message.delta"), 1),
        (Breakpoint(sequence=3), 4),
        (Breakpoint(tool_call_id="t1"), 3),
        (Breakpoint(type="tool.completed", tool_call_id="t1"), 4),
        (Breakpoint(finding="SEQ"), 3),
        (Breakpoint(finding=""), 3),
        (Breakpoint(finding="EVT"), END),
        (Breakpoint(type="tool"), END),
        (Breakpoint(sequence=2, tool_call_id="t2"), END),
    ],
)
@pytest.mark.parametrize("speed", [1, math.inf])
def test_it_stops_before_what_a_breakpoint_fits(speed, point, place):
    playhead = moving(speed)
    playhead.breakpoints = [point]
    playhead.advance(10**12)

    assert playhead.place == place
    assert playhead.paused == (place != END)
    assert playhead.stopped_by == (point if place != END else None)


def test_resume_passes_the_breakpoint_and_stops_at_the_next_one():
    playhead = moving()
    playhead.breakpoints = [Breakpoint(tool_call_id="t1")]
    playhead.advance(100 * MS)
    assert (playhead.place, playhead.position_ns(100 * MS)) == (3, 40 * MS)

    playhead.resume(200 * MS)
    assert (playhead.place, playhead.stopped_by) == (4, None)
    playhead.advance(200 * MS)
    assert (playhead.place, playhead.paused) == (4, True), "the second event of the call, at the same moment"
    playhead.resume(300 * MS)
    assert playhead.due_ns() == 320 * MS


def test_a_breakpoint_that_is_set_while_it_is_paused_stops_it_at_the_next_entry():
    playhead = moving()
    playhead.pause(0)
    playhead.breakpoints = [Breakpoint(sequence=1)]
    playhead.resume(0)
    playhead.advance(10 * MS)

    assert (playhead.place, playhead.paused) == (0, True)


@pytest.mark.parametrize(
    ("to", "places"), [(Step.EVENT, [1, 2, 4, 5, 6]), (Step.DURABLE, [1, 4, 5, 6]), (Step.FINDING, [4, 6])]
)
def test_steps_end_behind_what_they_go_to_or_at_the_end(to, places):
    playhead = Playhead(LOG)
    playhead.breakpoints = [Breakpoint(type="*")]
    reached = []
    while not playhead.at_end:
        entry = playhead.step(to, 0)
        reached.append(playhead.place)
        assert entry is None or entry is LOG.entries[playhead.place - 1]

    assert reached == places
    assert playhead.step(to, 0) is None


def test_a_step_pauses_where_the_clock_is_and_goes_on_from_what_it_passed():
    playhead = moving()
    playhead.step(Step.EVENT, 4 * MS)

    assert (playhead.paused, playhead.position_ns(10**12)) == (True, 10 * MS)
    playhead.resume(50 * MS)
    assert playhead.due_ns() == 60 * MS


def test_seeking_forward_and_back_keeps_it_moving_from_there():
    playhead = moving()
    playhead.seek(3, 100 * MS)
    assert (playhead.place, playhead.due_ns()) == (3, 110 * MS)

    playhead.seek(1, 200 * MS)
    assert (playhead.place, playhead.position_ns(200 * MS), playhead.due_ns()) == (1, 10 * MS, 210 * MS)


def test_a_moment_between_two_entries_can_be_sought():
    playhead = moving()
    playhead.seek(1, 0, position_ns=15 * MS)

    assert (playhead.position_ns(0), playhead.due_ns()) == (15 * MS, 5 * MS)


@pytest.mark.parametrize(("place", "arrives"), [(-5, 0), (99, END)])
def test_seeking_beyond_the_log_arrives_at_its_ends(place, arrives):
    playhead = moving()
    playhead.seek(place, 0, position_ns=10**15)

    assert playhead.place == arrives
    assert playhead.position_ns(0) == (10 * MS if arrives == 0 else 60 * MS)


def test_at_once_it_pauses_where_it_is_sought_since_it_would_be_gone_again():
    playhead = moving(math.inf)
    playhead.advance(0)
    playhead.seek(2, 0)
    assert (playhead.advance(10**15), playhead.place, playhead.paused) == (False, 2, True)

    playhead.resume(0)
    playhead.advance(0)
    assert playhead.at_end


@pytest.mark.parametrize("speed", [1, math.inf])
def test_sought_before_its_start_it_stands_there_until_then(speed):
    playhead = Playhead(LOG, speed=speed)
    playhead.seek(4, 0)
    assert (playhead.advance(10**15), playhead.place) == (False, 4)

    playhead.start(10**15)
    playhead.advance(10**15 + 20 * MS)
    assert playhead.at_end


def test_seeking_away_from_a_breakpoint_forgets_that_it_stopped_there():
    playhead = moving()
    playhead.breakpoints = [Breakpoint(sequence=2)]
    playhead.advance(100 * MS)
    playhead.seek(0, 100 * MS)
    assert (playhead.stopped_by, playhead.paused) == (None, True)

    playhead.resume(100 * MS)
    assert playhead.place == 0, "nothing is passed that was not stopped at"


def test_reset_is_as_in_the_beginning_but_for_breakpoints():
    playhead = moving()
    playhead.breakpoints = [Breakpoint(sequence=2)]
    playhead.advance(100 * MS)
    playhead.reset(200 * MS, paused=False)

    assert (playhead.place, playhead.started, playhead.paused, playhead.stopped_by) == (0, False, False, None)
    assert playhead.position_ns(300 * MS) == 0
    assert playhead.breakpoints == [Breakpoint(sequence=2)]


def test_a_log_that_grows_is_passed_on():
    log = SessionLog("s1", [durable(1, 10)])
    playhead = moving(log=log)
    playhead.advance(100 * MS)
    assert playhead.due_ns() is None

    log.append(durable(2, 150))
    assert playhead.due_ns() == 150 * MS


def test_an_empty_log_is_at_its_end():
    playhead = Playhead(SessionLog("s1"), speed=math.inf, paused=True)
    playhead.start(0)
    playhead.resume(0)

    assert playhead.at_end
    assert (playhead.advance(0), playhead.step(Step.EVENT, 0), playhead.position_ns(0)) == (False, None, 0)


_SPEEDS = st.sampled_from([0.5, 1, 3, 10, math.inf])
_DEEDS = st.one_of(
    st.tuples(st.just("wait"), st.integers(0, 30 * MS)),
    st.sampled_from([("pause",), ("resume",), ("start",)]),
    st.tuples(st.just("step"), st.sampled_from(list(Step))),
    st.tuples(st.just("seek"), st.integers(0, END)),
    st.tuples(st.just("reset"), st.booleans()),
    st.tuples(st.just("break"), st.sampled_from([[], [Breakpoint(type="tool.*")], [Breakpoint(sequence=1)]])),
)


def _do(playhead: Playhead, deed: tuple, now_ns: int) -> None:
    match deed:
        case ("step", to):
            playhead.step(to, now_ns)
        case ("seek", place):
            playhead.seek(place, now_ns)
        case ("reset", paused):
            playhead.reset(now_ns, paused=paused)
        case ("break", points):
            playhead.breakpoints = points
        case ("pause" | "resume" | "start" as name,):
            getattr(playhead, name)(now_ns)


@settings(max_examples=50)
@given(_SPEEDS, st.booleans(), st.lists(_DEEDS, max_size=25))
def test_whatever_is_done_it_only_goes_back_when_told_and_passes_nothing_too_early(speed, paused, deeds):
    playhead = Playhead(LOG, speed=speed, paused=paused)
    now_ns = 0
    for deed in deeds:
        place, position_ns = playhead.place, playhead.position_ns(now_ns)
        if deed[0] == "wait":
            now_ns += deed[1]
        _do(playhead, deed, now_ns)
        if deed[0] not in {"seek", "reset"}:
            assert playhead.place >= place
            assert playhead.position_ns(now_ns) >= position_ns
        position_ns, place = playhead.position_ns(now_ns), playhead.place

        due_ns = playhead.due_ns()
        moved = playhead.advance(now_ns)

        assert moved == (playhead.place > place)
        assert not moved or (due_ns is not None and due_ns <= now_ns)
        assert playhead.position_ns(now_ns) >= position_ns
        assert playhead.standing or playhead.due_ns() > now_ns, "all that is due was passed"
        if playhead.place < END:
            assert playhead.position_ns(now_ns) <= LOG.entries[playhead.place].time_ns
        if playhead.place:
            assert playhead.position_ns(now_ns) >= LOG.entries[playhead.place - 1].time_ns


@settings(max_examples=50)
@given(_SPEEDS, st.lists(st.integers(0, 20 * MS), min_size=1, max_size=20))
def test_what_was_passed_by_a_moment_does_not_depend_on_how_often_it_was_asked(speed, waits):
    often, once = moving(speed), moving(speed)
    now_ns = 0
    for wait_ns in waits:
        now_ns += wait_ns
        often.advance(now_ns)
    once.advance(now_ns)

    assert often.place == once.place
    assert often.position_ns(now_ns) == once.position_ns(now_ns)
