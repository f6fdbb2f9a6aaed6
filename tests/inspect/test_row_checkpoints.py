"""Rows made from a checkpoint in the middle of a stream equal the rows of the whole stream from there on."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.observations import Side
from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_inspect.view import delta_folding
from wiretape_inspect.view.delta_folding import StreamFold
from wiretape_inspect.view.filter_grammar import parse_filter
from wiretape_inspect.view.filter_match import compile_filter

KINDS = ("message.delta", "message.completed", "tool.started", "comment", "blank", "pause", "bare CR")
FILTERS = ("", "type:message.*", "-kind:delta", "gap:>1s", "kind:comment,end", "rule:SEQ*", "event:3..9")


def chunk(message, kind, number):
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


def rows_from(recording, findings, matches, checkpoint=None):
    """The rows from a checkpoint on, and the checkpoints that were passed."""
    exchange, start = recording.exchange(1), checkpoint.position.start if checkpoint else 0
    fold = StreamFold(exchange, findings, matches, checkpoint)
    rows = [row for part in recording.body(1, Side.RESPONSE, start) for row in fold.feed(part)]
    return [*rows, *fold.finish()], list(fold.checkpoints)


def assert_checkpoints_hold(path, findings, matches=None):
    with pytest.MonkeyPatch.context() as patch, open_recording(path) as recording:
        patch.setattr(delta_folding, "EVERY_ROWS", 2)
        rows, checkpoints = rows_from(recording, findings, matches)
        for checkpoint in checkpoints:
            assert rows_from(recording, findings, matches, checkpoint)[0] == rows[checkpoint.rows :]
    return checkpoints


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=5, max_size=25),
    findings=st.lists(st.builds(finding, st.none() | st.integers(1, 20), st.none() | st.integers(0, 2000)), max_size=3),
    written=st.sampled_from(FILTERS),
)
def test_rows_from_a_checkpoint_equal_the_rest_of_all_rows(new_tape, message, kinds, findings, written):
    tape = new_tape()
    tape.exchange(chunks=[chunk(message, kind, number) for number, kind in enumerate(kinds)])
    assert_checkpoints_hold(tape.close(), findings, compile_filter(parse_filter(written)))


@pytest.mark.parametrize(
    "event_of", [lambda message: message("a", id="e", sequence=1), lambda _: b"id: e\r\r\ndata: x\r\r"]
)
def test_findings_before_a_checkpoint_are_not_repeated_after_it(tape, message, event_of):
    tape.exchange(chunks=[(1, event_of(message)) for _ in range(8)])
    assert_checkpoints_hold(tape.close(), [finding(event=event) for event in range(1, 9)])


def test_a_long_stream_has_checkpoints_and_an_encoded_one_has_none(new_tape, message):
    data = [message("a", id=f"e{number}", sequence=number) for number in range(20)]
    plain, encoded = new_tape(), new_tape()
    plain.exchange(chunks=[(1, event) for event in data])
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    encoded.exchange(chunks=[(1, gzip.compress(b"".join(data)))], headers=headers)
    assert len(assert_checkpoints_hold(plain.close(), [])) == 10
    assert assert_checkpoints_hold(encoded.close(), []) == []
