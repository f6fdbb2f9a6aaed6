"""A text of a filter that runs over several deltas."""

import json
from itertools import accumulate

import pytest
from findings import finding
from hypothesis import given
from hypothesis import strategies as st

from wiretape.observations import BytesArrived, Side
from wiretape.recording import open_recording
from wiretape_inspect import timeline_text
from wiretape_inspect.view import filters
from wiretape_inspect.view.delta_folding import StreamFold
from wiretape_inspect.view.filters import compile_filter, parse_filter
from wiretape_inspect.view.timeline_rows import DeltaRow, EventRow


@pytest.fixture
def delta(message):
    return lambda text, type_="message.delta", run="r1": message(type_, run_id=run, delta={"text": text})


def found(path, written, findings=()):
    """Return the numbers of the messages that a filter leaves in the first exchange."""
    with open_recording(path) as recording:
        take = compile_filter(parse_filter(written, ()))
        rows = list(timeline_text.matching_rows(recording, recording.exchange(1), findings, take) or ())
    events = [row for row in rows if isinstance(row, DeltaRow | EventRow)]
    return [number for row in events for number in range(row.numbers[0], row.numbers[1] + 1)]


def test_a_text_over_several_deltas_matches_those_that_have_a_part_of_it(builder, delta, run):
    texts = ["The ", "lib", "rary", " is", " OP", "en. The", " end"]
    builder.exchange([(1, delta(text)) for text in texts] + [(1, b"event: message.compl")])
    path = builder.close()
    assert found(path, '"library is open"') == [2, 3, 4, 5, 6]
    assert found(path, '-"library is open" kind:message') == [1, 7]
    assert found(path, '"library is shut"') == []
    assert found(path, "library open") == [2, 3, 5, 6]
    assert found(path, '"en. the end" or "the lib"') == [1, 2, 6, 7]
    (row,) = [json.loads(line) for line in run("show", path, '"library is open"', "--json").stdout.splitlines()][1:]
    assert (row["event"], row["last_event"], row["preview"]) == (2, 6, "library is OPen. The")


def test_pauses_keep_alives_and_findings_do_not_interrupt_a_text(builder, message, delta):
    builder.exchange([delta("one "), (20_000, b": keep-alive\n\n"), delta("two "), delta("three")])
    assert found(builder.close(), '"one two three"', [finding(2)]) == [1, 2, 3]


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(lambda delta, _: [(1, delta("", "reasoning.delta"))], id="another type"),
        pytest.param(lambda delta, _: [(1, delta("", run="r2"))], id="another run"),
        pytest.param(lambda _, message: [(1, message("run.queued"))], id="another event"),
    ],
)
def test_other_events_interrupt_a_text(builder, message, delta, between):
    builder.exchange([delta("one "), *between(delta, message), delta("two"), delta(" one two")])
    assert found(builder.close(), '"one two"') == [4]


def test_a_text_may_run_over_deltas_without_text(builder, message, delta):
    builder.exchange([delta("one"), delta(""), message("message.delta", run_id="r1"), delta("two")])
    assert found(builder.close(), "onetwo") == [1, 4]


def test_deltas_are_not_held_back_without_limit(monkeypatch, builder, delta):
    monkeypatch.setattr(filters, "_MOST_HELD", 10)
    builder.exchange([delta(text) for text in ("one", *[""] * 20, "two", "one", "two")])
    assert found(builder.close(), "onetwo") == [23, 24]


@pytest.mark.parametrize(
    ("written", "texts", "left"),
    [
        ('-"two three" kind:delta', (["one ", "two "], ["three"]), [(1, 2)]),
        ('-"two","two three four" kind:delta', (["two "], ["three"]), [(2, 2)]),
    ],
)
def test_deltas_that_are_held_back_are_released_while_nothing_arrives(builder, delta, written, texts, left):
    """`show --follow` releases them: a text that continues later matches only from there on."""
    builder.exchange([delta(text) for part in texts for text in part])
    with open_recording(builder.close()) as recording:
        fold = StreamFold(recording.exchange(1), (), compile_filter(parse_filter(written, ())))
    chunks = [b"".join(map(delta, part)) for part in texts]
    middle, end = len(chunks[0]), len(b"".join(chunks))
    parts = [
        BytesArrived(1, Side.RESPONSE, 0, chunks[0], (middle,), (5,)),
        BytesArrived(1, Side.RESPONSE, middle, chunks[1], (end,), (6,)),
    ]
    rows = [*fold.feed(parts[0]), *fold.release(), *fold.feed(parts[1]), *fold.finish()]
    assert [(row.event, row.last_event) for row in rows] == left


TEXTS = st.lists(st.text("ab", max_size=3), max_size=12)


@given(texts=TEXTS, wanted=st.lists(st.text("ab", min_size=2, max_size=5), min_size=1, max_size=2))
def test_the_deltas_of_a_match_are_those_that_overlap_it_in_the_joined_text(new_builder, message, texts, wanted):
    builder = new_builder()
    builder.exchange([message("message.delta", delta={"text": text}) for text in texts])
    joined, ends = "".join(texts), list(accumulate(map(len, texts)))
    expected = set()
    for one in wanted:
        for start in (at for at in range(len(joined)) if joined.startswith(one, at)):
            parts = zip([0, *ends], ends, strict=False)
            expected |= {
                event for event, (begin, end) in enumerate(parts, 1) if max(begin, start) < min(end, start + len(one))
            }
    assert found(builder.close(), " or ".join(f'"{one}"' for one in wanted)) == sorted(expected)
