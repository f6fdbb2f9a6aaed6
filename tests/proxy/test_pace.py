"""When the recorder checks, and when it only stores; and what is said of what is not yet checked."""

import io

import pytest

from wiretape.recording import LARGE_SLICE, SMALL_SLICE, TINY_SLICE
from wiretape_proxy import lines
from wiretape_proxy.pace import MOST_BYTES, Pace
from wiretape_proxy.reports import CatchingUp, OpenStream, Progress, read, write
from wiretape_proxy.view import View

MUCH = 500_000
LITTLE = 500


def a_pace(volume, *, share):
    """At 10 s, input came; at 10.01 s, a turn of 5 ms ended that had a core for so much of the time."""
    pace = Pace()
    pace.heard(10.0, volume)
    pace.turned(10.01, 0.005, 0.005 * share)
    return pace


@pytest.mark.parametrize(("volume", "share"), [(LITTLE, 0.4), (MUCH, 0.95), (LITTLE, 0.95)])
def test_what_comes_is_checked_at_once_where_it_is_little_or_cores_are_free(volume, share):
    assert a_pace(volume, share=share).patience(10.01, MUCH) == 0


def test_a_flood_on_a_busy_machine_is_stored_first_and_checked_now_and_then():
    pace = a_pace(MUCH, share=0.4)
    assert pace.patience(10.01, MUCH) == pytest.approx(0.09)  # the flood may have ended by then
    pace.heard(10.25, MUCH)
    assert pace.patience(10.25, MUCH) == pytest.approx(0.01)  # it has not, but findings must go on
    assert pace.patience(10.26, MUCH) == 0


def test_checking_goes_on_when_the_flood_ends():
    assert a_pace(MUCH, share=0.4).patience(10.1, MUCH) == 0


def test_what_is_not_checked_never_grows_beyond_a_bound():
    assert a_pace(MUCH, share=0.4).patience(10.01, MOST_BYTES + 1) == 0


def test_turns_are_short_while_more_input_is_likely():
    pace = a_pace(LITTLE, share=1)
    assert [pace.most(now, MUCH) for now in (10.01, 10.09, 10.2)] == [SMALL_SLICE, SMALL_SLICE, LARGE_SLICE]
    assert pace.most(10.01, MOST_BYTES + 1) is LARGE_SLICE


@pytest.mark.parametrize("share", [0.4, 0.95])
def test_a_little_is_checked_in_the_smallest_turns_with_rests_that_leave_the_core_to_others(share):
    pace = a_pace(LITTLE, share=share)
    assert pace.most(10.01, LITTLE) is TINY_SLICE
    assert [pace.patience(now, LITTLE) for now in (10.01, 10.011, 10.02)] == [
        pytest.approx(0.0015),
        pytest.approx(0.0005),
        0,
    ]
    assert (pace.most(10.2, LITTLE), pace.patience(10.2, LITTLE)) == (LARGE_SLICE, 0)  # nothing more is likely
    assert pace.most(10.01, MUCH) is SMALL_SLICE
    pace.heard(10.01, MUCH)  # of requests without bodies, say
    assert pace.most(10.01, 0) is SMALL_SLICE


@pytest.mark.parametrize(("unchecked", "told"), [(12_345_678, True), (20_000, False)])
def test_the_view_says_what_is_not_yet_checked(unchecked, told):
    stream = OpenStream(1, "ses_1", 5, 4, 0.1)
    progress = read(write(Progress(1, 5, 0, 1, [stream], [], [], unchecked)))
    screen = io.StringIO()
    view = View(screen)
    view.draw([], progress)
    view.close()
    assert ("0 findings, 12.3 MB not yet checked" in screen.getvalue()) is told


def test_a_long_close_says_what_it_waits_for():
    report = read(write(CatchingUp(4_200_000)))
    assert lines.catching_up(report) == "All is stored, 4.2 MB not yet checked: closing takes a moment."
