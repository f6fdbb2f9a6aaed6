"""Rows made from a checkpoint in the middle of a stream equal the rows of the whole stream from there on."""

import gzip

import pytest
from findings import finding
from hypothesis import given
from hypothesis import strategies as st

from wiretape.observations import Side
from wiretape.recording import open_recording
from wiretape_inspect.view import delta_folding
from wiretape_inspect.view.delta_folding import StreamFold

KINDS = ("message.delta", "message.completed", "tool.started", "comment", "blank", "pause", "bare CR")


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


def rows_from(recording, findings, checkpoint=None):
    """The rows from a checkpoint on, and the checkpoints that were passed."""
    exchange, start = recording.exchange(1), checkpoint.position.start if checkpoint else 0
    fold = StreamFold(exchange, findings, None, checkpoint)
    rows = [row for part in recording.body(1, Side.RESPONSE, start) for row in fold.feed(part)]
    return [*rows, *fold.finish()], list(fold.checkpoints)


def assert_checkpoints_hold(path, findings):
    with pytest.MonkeyPatch.context() as patch, open_recording(path) as recording:
        patch.setattr(delta_folding, "EVERY_ROWS", 2)
        rows, checkpoints = rows_from(recording, findings)
        for checkpoint in checkpoints:
            assert rows_from(recording, findings, checkpoint)[0] == rows[checkpoint.rows :]
    return len(checkpoints)


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=5, max_size=25),
    findings=st.lists(
        st.builds(finding, st.none() | st.integers(1, 20), offset=st.none() | st.integers(0, 2000)), max_size=3
    ),
)
def test_rows_from_a_checkpoint_equal_the_rest_of_all_rows(new_builder, message, kinds, findings):
    builder = new_builder()
    builder.exchange([chunk(message, kind, number) for number, kind in enumerate(kinds)])
    assert_checkpoints_hold(builder.close(), findings)


@pytest.mark.parametrize(
    ("data", "encoding", "expected"),
    [(b"id: e\ndata: x\n\n", None, 5), (b"id: e\r\r\ndata: x\r\r", None, 0), (b"id: e\ndata: x\n\n", "gzip", 0)],
    ids=["plain", "bare CR", "encoded"],
)
def test_findings_before_a_checkpoint_are_not_repeated_after_it(builder, data, encoding, expected):
    """An encoded stream has no checkpoints, nor does one whose line ends may continue."""
    headers = (("content-type", "text/event-stream"), *([("content-encoding", encoding)] if encoding else []))
    chunks = [(1, gzip.compress(data * 10))] if encoding else [(1, data)] * 10
    builder.exchange(chunks, headers=headers)
    assert assert_checkpoints_hold(builder.close(), [finding(event=event) for event in range(1, 11)]) == expected
