"""Pages of rows: whatever page is asked for, it is a slice of all rows."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.observations import Side
from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_inspect.view import folder, folding
from wiretape_inspect.view.filters import parse
from wiretape_inspect.view.matching import taker
from wiretape_inspect.view.pages import Pages, last_event

KINDS = ("message.delta", "message.completed", "tool.started", "comment", "blank", "pause", "bare CR")
FILTERS = ("", "type:message.*", "-kind:delta", "gap:>1s", "kind:comment,end", "rule:SEQ*", "event:3..9")


def piece(message, kind, number):
    if kind == "comment":
        return 1, b": keep-alive\n"
    if kind == "blank":
        return 1, b"\n"
    if kind == "bare CR":
        return 1, b"event: c\rdata: x\r\r"
    if kind == "pause":
        return 1500, message("message.completed", id=f"p{number}", sequence=number)
    if kind == "message.delta":
        return 1, message(kind, run_id="r1", delta={"text": "ab"})
    return 1, message(kind, id=f"e{number}", sequence=number)


def finding(event=None, offset=None):
    return Finding("SEQ001", Severity.ERROR, Party.SERVICE, 1, event, None, offset, 0, "It is wrong.")


@settings(max_examples=30)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=5, max_size=25),
    asked=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 8)), min_size=1, max_size=5),
    findings=st.lists(st.builds(finding, st.none() | st.integers(1, 20), st.none() | st.integers(0, 2000)), max_size=3),
    written=st.sampled_from(FILTERS),
)
def test_a_page_is_a_slice_of_all_rows(new_tape, message, kinds, asked, findings, written):
    tape = new_tape()
    tape.exchange(chunks=[piece(message, kind, number) for number, kind in enumerate(kinds)])
    with pytest.MonkeyPatch.context() as patch, open_recording(tape.close()) as recording:
        patch.setattr(folder, "EVERY_ROWS", 2)
        exchange, take = recording.exchange(1), taker(parse(written))
        every = list(folding.stream_rows(exchange, recording.body(1, Side.RESPONSE), findings, take))
        pages = Pages(recording, exchange, findings, take)
        for first, count in asked:
            assert pages.rows(first, count) == every[first : first + count]
        assert pages.count() == len(every)
        # Now there are checkpoints to begin at.
        for first in range(len(every)):
            assert pages.rows(first, 2) == every[first : first + 2]


def test_a_message_is_found_in_its_row(tape, message):
    tape.exchange(chunks=[piece(message, kind, number) for number, kind in enumerate(KINDS[:4] * 4)])
    with open_recording(tape.close()) as recording:
        pages = Pages(recording, recording.exchange(1))
        for event in range(1, 13):
            row = pages.rows(pages.find(event), 1)[0]
            assert row.event <= event <= last_event(row)
        assert pages.find(13) is None


def test_only_the_part_before_the_page_is_not_read_again(tape, message):
    """With checkpoints, a late page of a long stream starts in the middle of the body."""
    tape.exchange(chunks=[(1, message("a", id=f"e{number}", sequence=number)) for number in range(2000)])
    with open_recording(tape.close()) as recording:
        pages = Pages(recording, recording.exchange(1))
        assert pages.count() == 2001
        begins = []
        body = recording.body

        def watched(number, side, start=0):
            begins.append(start)
            return body(number, side, start)

        recording.body = watched
        assert [row.event for row in pages.rows(1900, 3)] == [1901, 1902, 1903]
        assert begins[0] > 100_000


def test_an_encoded_stream_has_the_same_pages(tape, message):
    data = b"".join(message("a", id=f"e{number}", sequence=number) for number in range(600))
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    tape.exchange(chunks=[(1, gzip.compress(data))], headers=headers)
    with open_recording(tape.close()) as recording:
        pages = Pages(recording, recording.exchange(1))
        assert pages.count() == 601
        assert [row.event for row in pages.rows(590, 3)] == [591, 592, 593]


@pytest.mark.parametrize(
    "piece_of", [lambda message: message("a", id="e", sequence=1), lambda _: b"id: e\r\r\ndata: x\r\r"]
)
def test_findings_everywhere_are_shown_once(monkeypatch, tape, message, piece_of):
    """However late a page begins, what stands before it is not told again, and no line end is taken for another."""
    monkeypatch.setattr(folder, "EVERY_ROWS", 1)
    tape.exchange(chunks=[(1, piece_of(message)) for _ in range(8)])
    findings = [finding(event=event) for event in range(1, 9)]
    with open_recording(tape.close()) as recording:
        exchange = recording.exchange(1)
        every = list(folding.stream_rows(exchange, recording.body(1, Side.RESPONSE), findings))
        pages = Pages(recording, exchange, findings)
        pages.count()
        for first in range(len(every)):
            assert pages.rows(first, 20) == every[first:]
