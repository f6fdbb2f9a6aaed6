"""The tables and views that people query agree with the bytes."""

import gzip
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import count
from pathlib import Path

import orjson
import pytest

from wiretape.checker import Checker
from wiretape.frame_reader import ReadObservation
from wiretape.observations import Side
from wiretape.recording import derived_tables, open_recording
from wiretape.rules import Finding, Party, Severity

TOOL = b'{"type":"%s","sequence":%d,"run_id":"r1","content":{"tool_call_id":"t1"}}'
CHUNKS = [
    (
        b'id: e1\nevent: tool.started\ndata: {"type":"tool.started","sequence":1,"run_id":"r1",'
        b'"content":{"tool_call_id":"t1"}}\n\n'
    ),
    b": ping\r\n\r\n",
    (
        b'id: e2\r\nevent: tool.completed\r\ndata: {"type":"tool.completed","sequence":2,\r\ndata: "run_id":"r1",'
        b'"content":{"tool_call_id":"t1"}}\r\n\r\n'
    ),
    b"data: \xff not text\n\n",
    b"data: " + b"x" * 100_000,
    b"y\n\ndata:{}\n\n",
    b"id: 5\n\n",
]


def query(path: Path, sql: str) -> list[sqlite3.Row]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(sql).fetchall()


def test_the_events_view_matches_the_frames(begin, path) -> None:
    """Each event has one row with its data as text; data is stored only if no single segment contains it."""
    writer, talk = begin()
    writer.feed(talk.stream(*CHUNKS))
    writer.close(talk.tick())
    rows = query(path, "SELECT * FROM events ORDER BY event")
    with open_recording(path) as recording:
        messages = list(recording.events(1))
    assert [row["data"] for row in rows] == [
        seen.frame.data.decode("utf-8", "replace") if seen.frame.is_dispatched else None for seen in messages
    ]
    assert [row["sse_id"] for row in rows] == [seen.frame.id for seen in messages]
    assert [row["at_ms"] for row in rows] == [seen.time_ns // 1_000_000 for seen in messages]
    assert (rows[0]["type"], rows[0]["sequence"], rows[0]["session_id"]) == ("tool.started", 1, "s1")
    (call,) = query(path, "SELECT * FROM tool_calls")
    assert (call["tool_call_id"], call["outcome"], call["events"]) == ("t1", "tool.completed", 2)
    stored = query(path, "SELECT event FROM frame WHERE data IS NOT NULL ORDER BY event")
    assert [row["event"] for row in stored] == [2, 3, 4], "only data that is not contiguous in one segment"


def test_the_index_and_the_rules_decode_the_data_of_an_event_once(begin, path, monkeypatch) -> None:
    """Deltas that are only counted, durable events, and data that is not JSON."""
    decoded, loads = Counter[bytes](), orjson.loads
    monkeypatch.setattr(orjson, "loads", lambda data: decoded.update([data]) or loads(data))
    delta = b'event: message.delta\ndata: {"type":"message.delta","run_id":"r","delta":{"text":"%d"}}\n\n'
    writer, talk = begin()
    checker = Checker(readers=writer.tables.readers)
    writer.feed(talk.stream(*(delta % number for number in range(3)), *CHUNKS, b"data: no JSON\n\n"))
    writer.commit()
    while writer.derive(checker.feed_read):
        pass
    writer.close(talk.tick())
    monkeypatch.undo()
    with open_recording(path) as recording:
        assert "EVT001" in {found.code for found in recording.findings()}
        data = [event.data for event in recording.events()]
    assert {text: decoded[text] for text in data} == dict.fromkeys(data, 1)


def test_the_events_of_an_encoded_stream_are_indexed(begin, path) -> None:
    """The bytes are stored encoded, and the events decoded."""
    writer, talk = begin()
    packed = gzip.compress(b"id: 1\ndata: {}\n\n")
    writer.feed(
        talk.stream(
            packed[:9], packed[9:], headers=(("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip"))
        )
    )
    writer.close(talk.tick())
    assert [row["data"] for row in query(path, "SELECT data FROM events")] == ["{}"]
    assert query(path, "SELECT bytes FROM segment")[0]["bytes"] == packed


def test_consecutive_blank_lines_of_one_chunk_are_one_row(begin, path) -> None:
    """Blank lines with different arrival times have separate rows, and the rows cover all bytes."""
    writer, talk = begin()
    chunks = [b"data: 1\n\n\n\n\n", b"\n\n", b"\n: ping\n\n\ndata: 2\n\n", b"\n" * 20_000]
    writer.feed(talk.stream(*chunks))
    writer.close(talk.tick())
    rows = query(path, "SELECT * FROM frame JOIN word ON word.id = kind ORDER BY start")
    kinds = ["message", "blank", "blank", "blank", "comment", "blank", "message", "blank"]
    assert [row["text"] for row in rows] == kinds
    assert [row["length"] for row in rows] == [9, 3, 2, 1, 7, 2, 9, 20_000]
    assert [row["start"] for row in rows] == [sum(row["length"] for row in rows[:at]) for at in range(len(rows))]
    with open_recording(path) as recording:
        times = {frame.frame.start: frame.time_ns for frame in recording.frames(1)}
    assert [row["time_ns"] for row in rows] == [times[row["start"]] for row in rows]


def test_chunk_boundaries_can_be_queried(begin, path) -> None:
    """The view has the end and the time of each chunk, for runs of one chunk and of several."""
    writer, talk = begin()
    writer.feed([talk.ask(), talk.answer(), talk.send(b"ab", b"c", b"def")])
    writer.commit()
    writer.feed([talk.send(b"g")])
    writer.close(talk.tick())
    rows = query(path, "SELECT end_offset, time_ns, side FROM chunks ORDER BY time_ns")
    with open_recording(path) as recording:
        runs = list(recording.body(1, Side.RESPONSE))
    assert [row["end_offset"] for row in rows] == [2, 3, 6, 7] == [end for run in runs for end in run.ends]
    assert [row["time_ns"] for row in rows] == [time_ns for run in runs for time_ns in run.times]


def test_resumes_gaps_and_findings_can_be_queried(begin, path) -> None:
    """The views contain the cursor, the length of a gap, and the event of a finding."""
    writer, talk = begin()
    writer.feed([talk.ask(headers=(("last-event-id", "e7"),)), talk.answer(), talk.send(CHUNKS[0])])
    talk.now_ns += 2_500_000_000
    writer.feed([talk.send(CHUNKS[2])])
    writer.commit()
    while writer.derive():
        pass
    finding = Finding("SEQ001", Severity.ERROR, Party.SERVICE, 1, 2, 2, 130, talk.tick(), "went back")
    writer.add_findings([finding])
    writer.close(talk.tick())
    (resume,) = query(path, "SELECT last_event_id, first_sequence FROM resumes")
    assert tuple(resume) == ("e7", 1)
    (gap,) = query(path, "SELECT gap_ms FROM gaps")
    assert gap["gap_ms"] == 2501
    (found,) = query(path, "SELECT * FROM findings_with_events")
    assert (found["code"], found["sse_id"], orjson.loads(found["data"])["sequence"]) == ("SEQ001", "e2", 2)
    with open_recording(path) as recording:
        assert [row.message for row in recording.findings()] == ["went back"]


@pytest.mark.parametrize("step", [1, 512])
def test_stored_findings_that_the_rules_no_longer_prove_are_deleted(step, begin, path, monkeypatch) -> None:
    """However the steps divide what was recorded before, and only if the rules checked it."""
    monkeypatch.setattr(derived_tables, "_STEP_OBSERVATIONS", step)
    writer, talk = begin()
    writer.feed(talk.stream(*CHUNKS))
    finding = Finding("SEQ001", Severity.ERROR, Party.SERVICE, 1, 2, 2, 130, talk.tick(), "went back")
    writer.add_findings([finding])
    writer.close(talk.tick())
    for check, expected in ((None, [finding]), (lambda _read: None, [finding]), (lambda _read: (), [])):
        writer, talk = begin(append=True)
        while writer.derive(check):
            pass
        writer.close(talk.tick())
        with open_recording(path) as recording:
            assert list(recording.findings()) == expected
        assert writer.tables.has_replaced_findings is (expected == [])


@pytest.mark.parametrize("is_full", [False, True])
def test_no_stored_finding_is_repeated_if_checks_fail_or_the_disk_is_full(is_full, begin, path, monkeypatch) -> None:
    """While what was recorded before is read: a rule fails in the middle of a step, or a step cannot be written."""
    monkeypatch.setattr(derived_tables, "_STEP_OBSERVATIONS", 6)

    def check(read: ReadObservation) -> list[Finding]:
        seen = read.observation
        return [Finding("SEQ001", Severity.ERROR, Party.SERVICE, seen.exchange, 1, 1, 0, seen.time_ns, "went back")]

    writer, talk = begin()
    for _ in range(4):
        writer.feed(talk.stream(*CHUNKS))
    writer.commit()
    while writer.derive(check):
        pass
    writer.close(talk.tick())
    with open_recording(path) as recording:
        stored = list(recording.findings())

    writer, talk = begin(append=True)
    if is_full:
        with monkeypatch.context() as disk:
            disk.setattr(writer._file.space, "has_room", False)
            assert writer.derive(check)
        while writer.derive(check):
            pass
    else:
        reads = count(1)
        while writer.derive(lambda read: check(read) if next(reads) <= 9 else None):
            pass
    writer.close(talk.tick())
    with open_recording(path) as recording:
        assert list(recording.findings()) == stored
