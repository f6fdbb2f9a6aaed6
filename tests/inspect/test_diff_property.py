"""A recording is compared with itself, with one that differs in ids and times, and with one planted difference."""

import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.recording import open_recording
from wiretape_inspect.diff.diff_model import DiffOptions, DiffTotal
from wiretape_inspect.diff.recording_diff import RecordingDiff

NORMALIZED = DiffOptions(ids=True, times=True, tolerance_ns=30_000_000)
STRICT = DiffOptions(tolerance_ns=30_000_000)


@dataclass(frozen=True)
class Event:
    """An event without its ids; a text alone is a delta."""

    number: int
    kind: str
    call: int
    text: str
    wait: int = 1
    planted: bool = False


EVENTS = st.lists(
    st.one_of(
        st.text("ab ", min_size=1, max_size=5),
        st.tuples(
            st.sampled_from(["tool.started", "tool.completed", "message.completed"]),
            st.integers(1, 3),
            st.text(max_size=3),
        ),
    ),
    min_size=1,
    max_size=12,
).map(lambda drawn: [one if isinstance(one, str) else Event(number, *one) for number, one in enumerate(drawn, 1)])
"""Deltas and events.  The numbers, which become ids and sequences, skip the deltas."""


@pytest.fixture(scope="session")
def compare(new_builder, message):
    """The differences between two lists of events whose ids have these prefixes."""

    def rendered(one, name):
        if isinstance(one, str):
            return (1, message("message.delta", run_id=f"{name}run", delta={"text": one}))
        fields = {
            "id": f"{name}e{one.number}",
            "sequence": one.number,
            "type": one.kind,
            "run_id": f"{name}run",
            "created_at": f"2026-01-01T00:00:{len(name):02}.{one.number:03}Z",
            "content": {"tool_call_id": f"{name}c{one.call}", "text": one.text},
            "data": {"note": f"call {name}c{one.call} of {name}run"} | ({"planted": 1} if one.planted else {}),
        }
        return (one.wait, f"event: {one.kind}\nid: {fields['id']}\ndata: {json.dumps(fields)}\n\n".encode())

    def make(events, name):
        builder = new_builder()
        builder.exchange([rendered(one, name) for one in events], target=f"/v1/sessions/{name}session/events/stream")
        return builder.close()

    def _compare(first, second, options, names=("", "")):
        paths = [make(events, name) for events, name in zip((first, second), names, strict=True)]
        with open_recording(paths[0]) as here, open_recording(paths[1]) as there:
            found = list(RecordingDiff(here, there, options).compare_all())
        total = DiffTotal()
        for one in found:
            total.add(one)
        return total, [difference for one in found for difference in one.entries]

    return _compare


BOTH = pytest.mark.parametrize(("options", "names"), [(STRICT, ("", "")), (NORMALIZED, ("a", "other-"))])


@BOTH
@given(events=EVENTS)
@settings(max_examples=15)
def test_a_recording_is_equal_to_itself_with_other_normalized_ids(compare, options, names, events):
    total, _ = compare(events, events, options, names)
    assert total.is_equal
    assert (total.exchanges, total.events) == (1, (len(events), len(events)))


@BOTH
@pytest.mark.parametrize("kind", ["missing", "added", "changed", "moved", "time"])
@given(events=EVENTS, data=st.data())
@settings(max_examples=10)
def test_one_planted_difference_is_the_only_one_found(compare, options, names, kind, events, data):
    events = [*events, Event(98, "run.completed", 1, ""), Event(99, "session.status_idle", 1, "")]
    stored = [place for place, one in enumerate(events) if isinstance(one, Event)]
    place = data.draw(st.sampled_from(stored if kind != "moved" else stored[:-1]))
    other = _planted(kind, events, place)
    first, second = (other, events) if kind == "added" else (events, other)
    total, found = compare(first, second, options, names)
    assert total.counts == {kind: 1}
    expected = {events[place].number} | ({events[stored[stored.index(place) + 1]].number} if kind == "moved" else set())
    assert found[0].sequence in expected
    assert found[0].subject == "event"
    assert [field.path for field in found[0].fields] == (["$.data.planted"] if kind == "changed" else [])
    assert found[0].later_ns == (100_000_000 if kind == "time" else None)


def _planted(kind, events, place):
    """The events with one dropped, changed, swapped with the next durable one, or delayed."""
    before, one, after = events[:place], events[place], events[place + 1 :]
    if kind in {"missing", "added"}:
        return before + after
    if kind == "changed":
        return [*before, replace(one, planted=True), *after]
    if kind == "time":
        return [*before, replace(one, wait=101), *after]
    following = next(at for at, other in enumerate(after) if isinstance(other, Event))
    return [*before, after[following], *after[:following], one, *after[following + 1 :]]


@given(events=EVENTS, data=st.data())
@settings(max_examples=15)
def test_a_reference_to_another_id_is_found_among_normalized_ids(compare, events, data):
    events = [*events, Event(98, "tool.started", 4, ""), Event(99, "tool.started", 5, "")]
    stored = [place for place, one in enumerate(events) if isinstance(one, Event)]
    place = data.draw(st.sampled_from(stored))
    calls = {events[at].call for at in stored if at != place} - {events[place].call}
    call = data.draw(st.sampled_from(sorted(calls)))
    other = [*events[:place], replace(events[place], call=call), *events[place + 1 :]]
    total, found = compare(events, other, NORMALIZED, ("a", "b"))
    assert set(total.counts) == {"changed"}
    paths = {field.path for difference in found for field in difference.fields}
    assert "$.content.tool_call_id" in paths
    assert paths <= {"$.content.tool_call_id", "$.data.note"}
