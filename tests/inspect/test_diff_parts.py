"""Alignment, order and timing in isolation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.recording import open_recording
from wiretape_inspect.diff.alignment import find_delays, out_of_order, pair_items
from wiretape_inspect.diff.diff_model import DiffOptions, DiffTotal
from wiretape_inspect.diff.recording_diff import RecordingDiff


@given(st.permutations(range(9)))
def test_as_few_items_as_possible_are_out_of_order(places):
    out = out_of_order(places)
    rest = [place for index, place in enumerate(places) if index not in out]
    assert rest == sorted(rest)
    assert len(rest) == _longest_rise(places)


def _longest_rise(places):
    best = []
    for index, place in enumerate(places):
        best.append(1 + max((best[at] for at in range(index) if places[at] < place), default=0))
    return max(best)


@pytest.mark.parametrize(
    ("first", "second", "pairs", "left"),
    [
        ("x1 x2 y3 x4", "x5 z6 x7", "x1-x5 x2-x7", ["y3 x4", "z6"]),
        ("x1 x2 x3", "y4 y5 y6 x7 x8", "x1-x7 x2-x8", ["x3", "y4 y5 y6"]),
    ],
)
def test_items_with_the_same_key_are_paired_in_order(first, second, pairs, left):
    unpaired = ([], [])
    found = pair_items(
        first.split(), second.split(), [lambda item: item[0]], lambda item: int(item[1]), unpaired=unpaired
    )
    assert " ".join(map("-".join, found)) == pairs
    assert list(map(" ".join, unpaired)) == left


def test_items_without_a_pair_are_paired_by_the_next_key():
    left = ([], [])
    keys = [lambda item: item[:2] if item[0] else None, lambda item: item[1]]
    pairs = pair_items(
        [("a", 1, 1), ("", 2, 2), ("c", 3, 3)], [("a", 1, 1), ("b", 2, 2)], keys, lambda item: item[2], unpaired=left
    )
    assert list(pairs) == [(("a", 1, 1), ("a", 1, 1)), (("", 2, 2), ("b", 2, 2))]
    assert left == ([("c", 3, 3)], [])


@pytest.mark.parametrize(
    ("drifts", "delays"),
    [
        ([0, 5, -5, 0], []),
        ([0, 50, 50, 50], [(1, 50)]),
        ([0, 50, 0, 0], [(1, 50)]),
        ([0, 50, 100, 100], [(1, 50), (2, 50)]),
        ([0, 50, 50, 0, 0], [(1, 50), (3, -50)]),
        ([-40, -40], [(0, -40)]),
        ([9, 18, 27, 36], []),
    ],
)
def test_one_delay_does_not_make_later_events_late(drifts, delays):
    times = [(1000 * index, 1000 * index + drift) for index, drift in enumerate(drifts)]
    assert list(find_delays(times, 10)) == delays


def test_thousands_of_waiting_events_are_spooled_and_restored(new_tape, message):
    """All ids differ, so that no event has a counterpart until the end; then they are paired by sequence."""
    count, paths = 1500, []
    for name in "ab":
        tape = new_tape()
        tape.exchange(
            chunks=[(1, b"".join(message("run.started", id=f"{name}{n}", sequence=n, x=n) for n in range(count)))]
        )
        paths.append(tape.close())
    with open_recording(paths[0]) as first, open_recording(paths[1]) as second:
        (found,) = RecordingDiff(first, second, DiffOptions(limit=2)).compare_all()
        (normalized,) = RecordingDiff(first, second, DiffOptions(ids=True)).compare_all()
    total = DiffTotal()
    total.add(found)
    assert (total.counts, total.omitted, len(found.entries)) == ({"changed": count}, count - 2, 2)
    assert [(one.sequence, [field.path for field in one.fields]) for one in found.entries] == [
        (0, ["SSE id", "$.id"]),
        (1, ["SSE id", "$.id"]),
    ]
    assert not normalized.counts


def test_spooled_events_are_still_paired_by_content(new_tape, message):
    count, paths = 1100, []
    for name, order in (("a", range(count)), ("b", [*range(1, count), 0])):
        tape = new_tape()
        tape.exchange(chunks=[(1, b"".join(message("run.started", id=f"{name}{n}", x=n) for n in order))])
        paths.append(tape.close())
    with open_recording(paths[0]) as first, open_recording(paths[1]) as second:
        (found,) = RecordingDiff(first, second, DiffOptions(limit=0)).compare_all()
    assert found.counts == {"changed": count, "moved": 1}
    assert {field.path for one in found.entries for field in one.fields} == {"SSE id", "$.id"}
