"""The log of a session built from its recorded connections: its entries, their order and their times."""

import gzip
import json
from itertools import pairwise

import pytest
from observation_builder import EVENT_STREAM, STREAM, ObservationBuilder
from service_contracts import SERVICE
from tables import read_tables

from wiretape.observations import Ending
from wiretape.recording import Writer, open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_replay.channel.channel_log import EntryKind
from wiretape_replay.channel.recorded_channels import build_channels
from wiretape_replay.http_server.http_messages import BodyFraming

TABLES = read_tables(__file__)

SECOND = 1_000_000_000
DELTAS = f"{STREAM}?event_deltas=true"


def event(sequence, kind="session.error", **more):
    document = {"id": f"evt_{sequence}", "sequence": sequence, "type": kind, "run_id": "run_1"} | more
    return f"event: {kind}\nid: evt_{sequence}\ndata: {json.dumps(document)}\n\n".encode()


def live(text, kind="message.delta"):
    document = {"type": kind, "run_id": "run_1", "delta": {"text": text}}
    return f"event: {kind}\ndata: {json.dumps(document)}\n\n".encode()


class Stage:
    """A recording of connections that are open at the same time.  Times are seconds."""

    def __init__(self, path):
        self.path = path
        self.writer = Writer.create(path, upstream="http://service.test")
        self.made = ObservationBuilder()

    def feed(self, seconds, *steps):
        self.made.now_ns = max(self.made.now_ns, round(seconds * SECOND))
        for step in steps:
            self.writer.feed([step()])

    def ask(self, seconds, target=STREAM, *, cursor=None):
        """A client requests a stream; return its number."""
        headers = () if cursor is None else (("Last-Event-ID", cursor),)
        self.feed(seconds, lambda: self.made.ask(target, headers), self.made.asked)
        return self.made.exchange

    def begin(self, number, seconds, headers=EVENT_STREAM):
        """The stream begins."""
        self.feed(seconds, lambda: self.made.answer(headers, number))

    def open(self, seconds, target=STREAM, *, cursor=None, headers=EVENT_STREAM):
        """A client connects, and the stream begins; return its number."""
        number = self.ask(seconds, target, cursor=cursor)
        self.begin(number, seconds, headers)
        return number

    def send(self, number, seconds, *frames):
        self.feed(seconds, *(lambda data=data: self.made.send(data, exchange=number) for data in frames))

    def end(self, number, seconds, ending=Ending.CLIENT_CLOSED):
        self.feed(seconds, lambda: self.made.end(ending, number))

    def session(self, session_id="s1"):
        """End the recording and build a session of it."""
        self.writer.commit()
        self.writer.close()
        warnings = []
        with open_recording(self.path) as recording:
            session = build_channels(recording, warnings.append, SERVICE).by_name[session_id]
        self.warnings = warnings
        return session

    def entries(self):
        return self.session().log.entries


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path / "run.db")


def summary(entries):
    """A short form of each entry: the id, the text of a delta, the comment, or the ending."""
    parts = []
    for entry in entries:
        if entry.kind is EntryKind.DURABLE:
            parts.append(entry.id)
        elif entry.kind is EntryKind.ENDING:
            parts.append(f"<{entry.ending}>")
        else:
            parts.append(json.loads(entry.data.split(b"data: ")[1])["delta"]["text"] if entry.type else entry.data)
    return parts


@pytest.mark.parametrize("row", TABLES["logs"], ids=lambda row: row["of"])
def test_connections_become_one_log(stage, row):
    numbers = {}
    for seconds, name, *what in row["steps"]:
        if what[0] == "open":
            cursor = what[-1].removeprefix("after ") if "after" in what[-1] else None
            numbers[name] = stage.open(seconds, DELTAS if "deltas" in what else STREAM, cursor=cursor)
        elif what[0].startswith("<"):
            stage.end(numbers[name], seconds, Ending(what[0].strip("<>")))
        else:
            stage.send(numbers[name], seconds, *map(frame_of, what))
    session = stage.session()
    numbered = {number: name for name, number in numbers.items()}
    assert summary(session.log.entries) == [text.encode() if "\n" in text else text for *_, text in row["log"]]
    assert [round(entry.time_ns / SECOND) for entry in session.log.entries] == [seconds for seconds, *_ in row["log"]]
    sources = [entry.source and f"{numbered[entry.source[0]]} {entry.source[1] or ''}" for entry in session.log.entries]
    assert [(source or "").strip() for source in sources] == [source for _, source, _ in row["log"]]
    assert stage.warnings == row.get("warnings", [])
    assert session.keep_alive == row.get("keep-alive", ": keep-alive\n\n").encode()


def frame_of(text):
    """A frame of a table: an event with an id, a comment, or another event of a type."""
    if "\n" in text:
        return text.encode()
    return event(int(text[4:])) if text.startswith("evt_") else live(*text.split())


# What is kept.


def test_frames_keep_their_bytes_and_a_byte_order_mark_is_dropped(builder):
    frames = [
        b"data: {}\r\nid: a\r\nevent: x\r\n\r\n",
        b"id:b\rdata:{}\r\r",
        b"id: c\n: in\nretry: 5\ndata: 1\ndata: 2\n\n",
        b"event: x\ndata: \xff\n\n",
    ]
    builder.exchange([b"\xef\xbb\xbf" + frames[0], b"".join(frames[1:])])
    warnings = []
    with open_recording(builder.close()) as recording:
        entries = build_channels(recording, warnings.append, SERVICE).by_name["s1"].log.entries
    assert [entry.data for entry in entries[:-1]] == frames
    assert [entry.id for entry in entries] == ["a", "b", "c", None, None]


@pytest.mark.parametrize("coding", ["gzip", "identity"])
def test_an_encoded_stream_is_replayed_decoded(stage, coding):
    body = event(1) + live("Hi")
    headers = (
        ("Content-Type", "text/event-stream"),
        ("content-encoding", coding),
        ("Content-Length", "99"),
        ("Date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("X-A", "1"),
        ("X-A", "2"),
    )
    one = stage.open(1, DELTAS, headers=headers)
    stage.send(one, 1, gzip.compress(body) if coding == "gzip" else body)
    session = stage.session()
    assert b"".join(entry.data for entry in session.log.entries) == body
    assert session.head.headers == (headers[0], *headers[3:], ("Transfer-Encoding", "chunked"))
    assert (session.head.status, session.head.framing, session.head.keep_alive) == (200, BodyFraming.CHUNKED, True)


def test_an_entry_has_the_fields_and_the_findings_of_its_event(stage):
    started = event(1, "tool.started", content={"tool_call_id": "call_1"}, data={"tool_call_id": "call_1"})
    one, two = stage.open(1), stage.open(2)
    stage.send(one, 3, b": hello\n", started, live("Hi"))
    stage.send(two, 4, started)
    about = [Finding(code, Severity.NOTE, Party.SERVICE, *place, None, 0, 5, "No.") for code, place in FINDINGS]
    stage.writer.commit()
    stage.writer.add_findings(about)
    comment, tool, delta = stage.entries()
    assert (comment.type, comment.source, comment.findings) == (None, (1, None), ())
    assert (tool.type, tool.sequence) == ("tool.started", 1)
    assert tool.keys == {"run": "run_1", "tool_call": "call_1"}
    assert (tool.source, tool.findings) == ((1, 1), ("EVT004", "EVT007", "RES001"))
    assert (delta.type, delta.keys["run"], delta.source, delta.findings) == (
        "message.delta",
        "run_1",
        (1, 2),
        ("EVT011",),
    )


FINDINGS = [("EVT004", (1, 1)), ("EVT007", (1, 1)), ("EVT004", (1, 1)), ("EVT011", (1, 2)), ("RES001", (2, 1))]


def test_a_gap_of_years_gets_a_limited_number_of_keep_alives(stage):
    stage.end(stage.open(0), 1)
    stage.send(stage.open(3e9), 3e9, event(1))
    assert len(stage.entries()) == 10_001


# Endings.


@pytest.mark.parametrize("ending", list(Ending))
def test_only_endings_by_the_service_are_replayed(builder, ending):
    builder.exchange([event(1)], ending=ending)
    with open_recording(builder.close()) as recording:
        entries = build_channels(recording, lambda _: None, SERVICE).by_name["s1"].log.entries
    kept = {Ending.COMPLETE, Ending.SERVICE_CLOSED, Ending.SERVICE_RESET}
    if ending is Ending.SERVICE_INVALID:
        ending, kept = Ending.SERVICE_CLOSED, {Ending.SERVICE_CLOSED}
    assert summary(entries) == (["evt_1", f"<{ending}>"] if ending in kept else ["evt_1"])


def test_connections_begin_with_their_response(stage):
    one = stage.ask(1)
    two = stage.open(2, headers=(*EVENT_STREAM, ("X-Served-By", "two")))
    stage.send(two, 3, b": two\n")
    stage.begin(one, 4)
    stage.send(one, 5, b": one\n", event(1))
    session = stage.session()
    assert ("X-Served-By", "two") in session.head.headers
    assert summary(session.log.entries) == [b": two\n", "evt_1"]
    assert [round(entry.time_ns / SECOND) for entry in session.log.entries] == [2, 4]


# Several sessions.


def test_sessions_are_separated_by_any_id(stage):
    odd = "/v1/sessions/a%2Fb%1B%5B31m%C3%A9/events/stream"
    stage.send(stage.open(1), 2, event(1))
    stage.send(stage.open(1, odd), 2, event(7))
    stage.writer.commit()
    stage.writer.close()
    warnings = []
    with open_recording(stage.path) as recording:
        sessions = build_channels(recording, warnings.append, SERVICE).by_name
    assert {name: summary(session.log.entries) for name, session in sessions.items()} == {
        "s1": ["evt_1"],
        "a/b\x1b[31mé": ["evt_7"],
    }
    assert warnings == [r"Session `a/b\x1b[31mé`: its recording begins in the middle, with sequence 7."]
    assert all(before.time_ns <= after.time_ns for before, after in pairwise(sessions["s1"].log.entries))
