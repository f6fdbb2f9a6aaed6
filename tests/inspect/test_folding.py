"""Rows of streams, made from bytes alone."""

import json
from collections.abc import Iterable

import pytest
from findings import finding

from wiretape.observations import BytesArrived, BytesLost, Ending, RequestStarted, ResponseStarted, Side
from wiretape.recording import Exchange
from wiretape_inspect.view.delta_folding import stream_rows
from wiretape_inspect.view.timeline_rows import CutRow, DeltaRow, EndRow, LostRow, OversizedRow, PauseRow

MS = 1_000_000


def exchange(ending=Ending.COMPLETE, ended_ns=None, encoding=None):
    headers = [("content-type", "text/event-stream")] + ([("content-encoding", encoding)] if encoding else [])
    return Exchange(
        number=1,
        request=RequestStarted(1, 0, "127.0.0.1", "GET", "http", "s.test", "/", "HTTP/1.1", ()),
        request_ended_ns=1,
        response=ResponseStarted(1, 10, 200, "OK", "HTTP/1.1", tuple(headers)),
        ending=ending,
        detail="",
        ended_ns=ended_ns,
        operation="stream",
        session_id="s1",
        run_id=None,
        request_bytes=0,
        response_bytes=0,
        lost_bytes=0,
    )


def body(chunks: Iterable[tuple[int, bytes]]):
    """Chunks as `(time in ms, bytes)`."""
    at = 0
    for time, data in chunks:
        yield BytesArrived(1, Side.RESPONSE, at, data, (at + len(data),), (time * MS,))
        at += len(data)


def rows(*chunks, findings=(), **more):
    return list(stream_rows(exchange(**more), body(chunks), findings))


def event(kind, sse_id=None, **fields):
    head = f"event: {kind}\n" + (f"id: {sse_id}\n" if sse_id is not None else "")
    return f"{head}data: {json.dumps({'type': kind, **fields})}\n\n".encode()


def delta(text, kind="message.delta", run="r1"):
    return event(kind, run_id=run, delta={"text": text})


def kinds(found):
    return [type(row).__name__.removesuffix("Row") for row in found]


def test_a_run_of_deltas_is_one_row_with_its_numbers():
    raw = [delta("ab"), delta("cde"), delta("f")]
    run, end = rows((10, event("run.started", "e1", sequence=1)), (20, raw[0]), (30, raw[1]), (900, raw[2]))[1:]
    assert (run.event, run.last_event, run.count, run.characters, run.preview) == (2, 4, 3, 6, "abcdef")
    assert (run.time_ns, run.until_ns, run.gap_ns) == (20 * MS, 900 * MS, 10 * MS)
    assert run.end - run.start == sum(map(len, raw))
    assert (end.durable, end.deltas) == (1, 3)


@pytest.mark.parametrize(
    "between",
    [
        delta("x", kind="reasoning.delta"),
        delta("x", run="r2"),
        event("message.completed", "e1", sequence=1),
        b": keep-alive\n\n",
    ],
    ids=["another type", "another run", "a durable event", "a keep-alive"],
)
def test_a_run_of_deltas_ends_with_anything_else(between):
    found = rows((10, delta("a")), (11, between), (12, delta("b")))
    assert kinds(found)[0] == kinds(found)[2] == "Delta"
    assert len(found) == 4


@pytest.mark.parametrize(
    "odd",
    [
        event("message.delta", "e9", delta={"text": "x"}),
        event("message.delta", sequence=4, delta={"text": "x"}),
        b"event: message.delta\ndata: {not json\n\n",
    ],
    ids=["with an id", "with a sequence", "no JSON"],
)
def test_an_unusual_delta_is_never_folded(odd):
    found = rows((10, delta("a")), (11, odd), (12, delta("b")))
    assert kinds(found) == ["Delta", "Event", "Delta", "End"]


def test_a_delta_with_a_finding_is_never_folded():
    found = rows((10, delta("a") + delta("b") + delta("c")), findings=[finding(event=2)])
    assert kinds(found) == ["Delta", "Event", "Delta", "End"]
    assert found[1].findings == (finding(event=2),)


def test_keep_alives_fold_into_the_pause_they_fill():
    found = rows(
        (10, event("run.started", "e1", sequence=1)),
        (15_010, b": ping 1\n\n"),
        (30_010, b": ping 2\n\n"),
        (34_010, event("run.completed", "e2", sequence=2)),
    )
    assert found[1] == PauseRow(10 * MS, 34_010 * MS, 2, "ping 1", silence_ns=15_000 * MS)
    assert found[1].is_gap
    assert found[2].gap_ns == 34_000 * MS
    assert found[-1].keep_alives == 2


@pytest.mark.parametrize(("wait", "shown"), [(999, ["Delta", "End"]), (1000, ["Delta", "Pause", "Delta", "End"])])
def test_a_gap_of_one_second_is_marked_and_ends_a_run_of_deltas(wait, shown):
    assert kinds(rows((10, delta("a")), (10 + wait, delta("b")))) == shown


def test_an_event_cut_off_by_the_end_is_shown_and_marks_the_ending():
    found = rows((10, event("a") + b"event: b"), ending=Ending.SERVICE_RESET, ended_ns=11 * MS)
    assert found[1] == CutRow(10 * MS, "event: b", len(event("a")), len(event("a")) + 8)
    assert found[2].ending_label == "service reset in mid-event"


def test_lost_bytes_are_shown_and_do_not_mark_the_ending():
    first, last = event("a"), event("z")
    parts = [
        BytesArrived(1, Side.RESPONSE, 0, first + b"event: b", (len(first) + 8,), (10 * MS,)),
        BytesLost(1, 11 * MS, Side.RESPONSE, len(first) + 8, 50, "disk full"),
        BytesArrived(1, Side.RESPONSE, len(first) + 58, b"x\n\n" + last, (len(first) + 61 + len(last),), (12 * MS,)),
    ]
    found = list(stream_rows(exchange(), parts, [finding(code="REC001", offset=len(first) + 8)]))
    assert kinds(found) == ["Event", "Cut", "Lost", "Cut", "Event", "End"]
    assert found[2] == LostRow(
        11 * MS, 50, len(first) + 8, "disk full", (finding(code="REC001", offset=len(first) + 8),)
    )
    assert found[-1].ending_label == "service closed"


def test_an_oversized_event_in_several_pieces_is_one_row():
    big = b"data: " + b"x" * (40 * 1024 * 1024) + b"\n\n"
    found = rows((10, event("a")), (20, big), (30, event("b")))
    assert kinds(found) == ["Event", "Oversized", "Event", "End"]
    assert (found[1].start, found[1].end) == (len(event("a")), len(event("a")) + len(big))
    assert found[1].preview.startswith("data: xxx")
    assert isinstance(found[1], OversizedRow)


def test_a_finding_about_bytes_belongs_to_the_row_with_these_bytes():
    first = event("a")
    cut = finding(code="SSE002", offset=len(first))
    found = rows((10, first + b"event: b"), findings=[cut])
    assert (found[0].findings, found[1].findings) == ((), (cut,))


def test_findings_without_a_row_belong_to_the_end():
    lost = [finding(), finding(99), finding(offset=10**6)]
    found = rows((10, event("a")), findings=lost)
    assert sorted(found[-1].findings, key=str) == sorted(lost, key=str)


def test_an_open_stream_ends_where_its_last_byte_is():
    end = rows((10, event("a")), (5000, b":\n\n"), ending=Ending.OPEN)[-1]
    assert (end.ending_label, end.time_ns, end.gap_ns) == ("still open", None, 4990 * MS)


def test_an_undecodable_body_has_its_reason_in_the_end_row():
    end = rows((10, b"this is no gzip"), encoding="gzip")[-1]
    assert isinstance(end, EndRow)
    assert end.undecodable


@pytest.mark.parametrize(
    ("raw", "note", "preview"),
    [
        (b"data: [1]\n\n", "not a JSON object", "[1]"),
        (b"data: \xff\xfe\n\n", "not a JSON object", "��"),
        (b"data\n\n", "empty data", ""),
        (b"event: x\n\n", "no data line, so clients ignore it", ""),
        (b"data: {}\n\n", "", ""),
        (b'data: {"type": 7, "sequence": true, "content": [{"text": 3}, 4]}\n\n', "", '[{"text":3},4]'),
        (b'data: {"a": ' + b"[" * 300 + b"]" * 300 + b"}\n\n", "", "(deeply nested)"),
    ],
)
def test_an_event_outside_the_contract_is_shown_unchanged(raw, note, preview):
    row = rows((10, raw))[0]
    assert (row.event.note, row.preview, row.event.sequence) == (note, preview, None)


@pytest.mark.parametrize(
    ("fields", "preview"),
    [
        ({"content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "you"}]}, '"Hello you"'),
        ({"content": {"a": 1}, "data": {"b": 2}}, '{"a":1}'),
        ({"data": {"b": 2}, "run_id": "r1"}, '{"b":2}'),
        ({"run_id": "r1", "other": 5}, '{"other":5}'),
        ({"run_id": "r1"}, ""),
    ],
)
def test_the_preview_is_the_content_of_an_event(fields, preview):
    assert rows((10, event("run.started", "e1", sequence=1, **fields)))[0].preview == preview


def test_a_huge_event_keeps_a_short_preview():
    row = rows((10, event("message.completed", "e1", sequence=1, content=[{"text": "y" * 5_000_000}])))[0]
    assert row.preview == '"' + "y" * 398 + "…"


def test_deltas_without_text_are_counted_without_characters():
    run = rows((10, event("intermediate.delta", delta={"step": 1})), (11, event("intermediate.delta", delta={})))[0]
    assert isinstance(run, DeltaRow)
    assert (run.count, run.characters) == (2, 0)


def test_a_keep_alive_separates_oversized_events():
    big = b"data: " + b"x" * (17 * 1024 * 1024) + b"\n\n"
    found = rows((10, big), (20, b": ping\n"), (30, big))
    assert kinds(found) == ["Oversized", "Pause", "Oversized", "End"]
    assert [found[0].end, found[2].start] == [len(big), len(big) + 7]
