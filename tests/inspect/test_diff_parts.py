"""Which events count as moved, and recordings of which nothing has a counterpart for long."""

from hypothesis import given
from hypothesis import strategies as st

from wiretape.recording import open_recording
from wiretape_inspect.diff.alignment import out_of_order
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


def test_thousands_of_waiting_events_are_spooled_and_restored(new_builder, message):
    """All ids differ, so that no event has a counterpart until the end; then they are paired by sequence."""
    count, paths = 1500, []
    for name in "ab":
        builder = new_builder()
        builder.exchange([b"".join(message("run.started", id=f"{name}{n}", sequence=n, x=n) for n in range(count))])
        paths.append(builder.close())
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


def test_spooled_events_are_still_paired_by_content(new_builder, message):
    count, paths = 1100, []
    for name, order in (("a", range(count)), ("b", [*range(1, count), 0])):
        builder = new_builder()
        builder.exchange([b"".join(message("run.started", id=f"{name}{n}", x=n) for n in order)])
        paths.append(builder.close())
    with open_recording(paths[0]) as first, open_recording(paths[1]) as second:
        (found,) = RecordingDiff(first, second, DiffOptions(limit=0)).compare_all()
    assert found.counts == {"changed": count, "moved": 1}
    assert {field.path for one in found.entries for field in one.fields} == {"SSE id", "$.id"}
