"""The log of a session built from its recorded connections: its entries, their order and their times."""

import gzip
import json
from itertools import pairwise

import pytest
from service_contracts import SERVICE

from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Writer, open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_replay.channel.channel_log import EntryKind
from wiretape_replay.channel.recorded_channels import build_channels
from wiretape_replay.http_server.http_messages import BodyFraming

SECOND = 1_000_000_000
STREAM = "/v1/sessions/s1/events/stream"
DELTAS = f"{STREAM}?event_deltas=true"
PLAIN = (("Content-Type", "text/event-stream"),)


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
        self.now_ns = 0
        self.sent = {}
        self.last = 0

    def at(self, seconds):
        self.now_ns = max(self.now_ns + 10, round(seconds * SECOND))
        return self.now_ns

    def ask(self, seconds, target=STREAM, *, cursor=None):
        """A client requests a stream; return its number."""
        number, self.last = self.last + 1, self.last + 1
        headers = () if cursor is None else (("Last-Event-ID", cursor),)
        head = (number, self.at(seconds), "127.0.0.1", "GET", "http", "service.test", target, "HTTP/1.1", headers)
        self.writer.feed([RequestStarted(*head), RequestEnded(number, self.at(0))])
        return number

    def begin(self, number, seconds, headers=PLAIN):
        """The stream begins."""
        self.writer.feed([ResponseStarted(number, self.at(seconds), 200, "OK", "HTTP/1.1", headers)])
        self.sent[number] = 0

    def open(self, seconds, target=STREAM, *, cursor=None, headers=PLAIN):
        """A client connects, and the stream begins; return its number."""
        number = self.ask(seconds, target, cursor=cursor)
        self.begin(number, seconds, headers)
        return number

    def send(self, number, seconds, *frames):
        for data in frames:
            start = self.sent[number]
            self.sent[number] += len(data)
            end = self.sent[number]
            self.writer.feed([BytesArrived(number, Side.RESPONSE, start, data, (end,), (self.at(seconds),))])

    def end(self, number, seconds, ending=Ending.CLIENT_CLOSED):
        self.writer.feed([ExchangeEnded(number, self.at(seconds), ending)])

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


# Durable events, each once.


def test_copies_are_recognised_by_their_id_and_keep_the_earliest_time(stage):
    one = stage.open(10)
    stage.send(one, 11, event(1), event(2))
    stage.end(one, 12)
    two = stage.open(13, cursor="evt_1")
    stage.send(two, 14, event(2), event(3))
    stage.send(two, 20, event(4))
    entries = stage.entries()
    assert summary(entries) == ["evt_1", "evt_2", "evt_3", "evt_4"]
    assert [round(entry.time_ns / SECOND) for entry in entries] == [1, 1, 4, 10]
    assert [entry.source for entry in entries] == [(1, 1), (1, 2), (2, 2), (2, 3)]
    assert stage.warnings == []


def test_an_event_that_only_a_later_connection_carried_is_put_in_order_by_sequence_without_delay(stage):
    one = stage.open(10, cursor="evt_2")
    stage.send(one, 11, event(3))
    stage.send(one, 12, event(4))
    stage.end(one, 13)
    two = stage.open(60)
    stage.send(two, 61, event(1), event(2), event(3), event(4), event(5))
    entries = [entry for entry in stage.entries() if entry.kind is EntryKind.DURABLE]
    assert summary(entries) == [f"evt_{number}" for number in range(1, 6)]
    assert [round(entry.time_ns / SECOND) for entry in entries] == [1, 1, 1, 2, 51]


def test_the_first_of_simultaneous_copies_is_kept(stage):
    one, two = stage.open(1), stage.open(2)
    stage.send(two, 3, event(1))
    stage.send(one, 4, event(1), event(2))
    stage.send(two, 5, event(2))
    assert [entry.source for entry in stage.entries()] == [(2, 1), (1, 2)]


# Live output, at its place.


def test_ephemeral_events_and_comments_follow_the_durable_event_before_them(stage):
    one = stage.open(1, DELTAS)
    stage.send(one, 2, b": hello\n\n", live("a"), event(1), live("b"), b": k\n", live("c"), event(2), live("d"))
    assert summary(stage.entries()) == [b": hello\n\n", "a", "evt_1", "b", b": k\n", "c", "evt_2", "d"]


def test_events_that_two_connections_received_at_once_are_taken_once(stage):
    one, two = stage.open(1, DELTAS), stage.open(1, DELTAS)
    for number in (one, two):
        stage.send(number, 2, event(1))
    for number, text in enumerate("abcdef"):
        if text < "e":
            stage.send(one, 3 + number, live(text))
        if text > "b":
            stage.send(two, 3 + number, live(text))
    stage.end(one, 20)
    stage.send(two, 21, event(2), live("g"))
    assert summary(stage.entries()) == ["evt_1", *"abcdef", "evt_2", "g"]


def test_events_of_a_connection_without_deltas_go_between_the_deltas_of_another(stage):
    one, two = stage.open(1), stage.open(1, DELTAS)
    stage.send(one, 2, live("m", "message.started"))
    stage.send(two, 2, live("m", "message.started"), live("a"))
    stage.send(one, 3, live("n", "message.started"))
    stage.send(two, 3, live("n", "message.started"), live("b"))
    stage.end(two, 4)
    stage.send(one, 5, live("o", "message.started"))
    assert summary(stage.entries()) == ["m", "a", "n", "b", "o"]


def test_repeated_deltas_of_a_later_connection_are_kept(stage):
    one = stage.open(1, DELTAS)
    stage.send(one, 2, event(1), live("a"), live("b"))
    stage.end(one, 3, Ending.SERVICE_RESET)
    two = stage.open(4, DELTAS, cursor="evt_1")
    stage.send(two, 5, live("b"), live("c"), event(2))
    assert summary(stage.entries()) == ["evt_1", "a", "b", "<service-reset>", "b", "c", "evt_2"]


def test_ephemeral_events_of_a_connection_without_durable_ones_follow_its_cursor_or_their_time(stage):
    one, two = stage.open(1, DELTAS), stage.open(2, DELTAS)
    stage.send(one, 3, event(1), event(2))
    stage.end(one, 4)
    stage.send(two, 5, live("a"))
    stage.end(two, 6)
    three = stage.open(7, DELTAS, cursor="evt_1")
    stage.send(three, 8, live("b"))
    assert summary(stage.entries()) == ["evt_1", "b", "evt_2", "a"]


def test_ephemeral_events_before_the_first_durable_event_of_a_connection_stay_before_it(stage):
    one = stage.open(1, DELTAS)
    stage.send(one, 2, event(1), event(2))
    stage.end(one, 3)
    two = stage.open(4, DELTAS)
    stage.send(two, 5, live("a"), event(3))
    assert summary(stage.entries()) == ["evt_1", "evt_2", "a", "evt_3"]


def test_ephemeral_events_are_ordered_by_time_among_events_that_were_recorded_late(stage):
    one = stage.open(1, cursor="evt_3")
    stage.send(one, 2, event(4))
    two = stage.open(3, DELTAS)
    stage.send(two, 4, live("a"))
    stage.end(two, 5)
    stage.send(one, 6, event(5))
    stage.end(one, 7)
    stage.send(stage.open(8), 9, *(event(number) for number in range(1, 6)))
    assert summary(stage.entries()) == ["evt_1", "evt_2", "evt_3", "evt_4", "a", "evt_5"]


def test_late_ephemeral_events_do_not_delay_the_entries_after_them(stage):
    one = stage.open(0, DELTAS)
    stage.send(one, 1, event(1))
    stage.send(one, 2, event(2))
    stage.end(one, 3)
    two = stage.open(100, DELTAS)
    stage.send(two, 101, event(1), live("late"), event(2))
    entries = [entry for entry in stage.entries() if entry.data != b": keep-alive\n\n"]
    assert summary(entries) == ["evt_1", "late", "evt_2"]
    assert [round(entry.time_ns / SECOND) for entry in entries] == [1, 2, 2]


# Comments.


def test_comments_are_taken_from_one_connection_at_a_time(stage):
    one, two = stage.open(0), stage.open(1)
    stage.send(one, 10, b": one\n\n")
    stage.send(two, 11, b": two\n\n")
    stage.end(one, 12)
    stage.send(two, 26, b": two\n\n")
    stage.end(two, 30)
    session = stage.session()
    assert summary(session.log.entries) == [b": one\n\n", b": two\n\n"]
    assert session.keep_alive == b": two\n\n"


def test_a_blank_line_belongs_only_to_the_comment_directly_before_it(stage):
    stage.send(stage.open(0), 1, b": k\n\n\n", b": l\n", event(1), b"\n", event(2))
    assert summary(stage.entries()) == [b": k\n\n\n", b": l\n", "evt_1", b"\n", "evt_2"]


def test_a_session_without_comments_gets_the_default_keep_alive(stage):
    stage.send(stage.open(0), 1, event(1))
    assert stage.session().keep_alive == b": keep-alive\n\n"


def test_gaps_between_connections_are_filled_with_keep_alives(stage):
    one = stage.open(0)
    stage.send(one, 5, event(1), b": k\n")
    stage.end(one, 10, Ending.SERVICE_CLOSED)
    two = stage.open(60, cursor="evt_1")
    stage.send(two, 61, event(2))
    entries = stage.entries()
    assert summary(entries) == ["evt_1", b": k\n", "<service-closed>", b": k\n", b": k\n", b": k\n", "evt_2"]
    assert [round(entry.time_ns / SECOND) for entry in entries] == [5, 5, 10, 25, 40, 55, 61]
    assert entries[3].source is None


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


def test_an_ending_that_another_connection_survived_is_dropped(stage):
    one, two = stage.open(1), stage.open(2)
    for number in (one, two):
        stage.send(number, 3, event(1))
    stage.end(one, 4, Ending.COMPLETE)
    stage.send(two, 5, event(2))
    stage.end(two, 6, Ending.SERVICE_RESET)
    assert summary(stage.entries()) == ["evt_1", "evt_2", "<service-reset>"]
    (warning,) = stage.warnings
    assert warning == (
        "Session `s1`: the service ended exchange 1 while another stream of the channel continued; "
        "this is not replayed as an ending."
    )


def test_simultaneous_endings_of_all_connections_are_one_ending(stage):
    one, two = stage.open(1), stage.open(2)
    stage.send(one, 3, event(1))
    stage.send(two, 3, event(1))
    stage.end(one, 4, Ending.SERVICE_RESET)
    stage.end(two, 4, Ending.SERVICE_RESET)
    three = stage.open(5)
    stage.send(three, 6, event(1), event(2))
    assert summary(stage.entries()) == ["evt_1", "<service-reset>", "evt_2"]


def test_a_connection_without_a_recorded_end_ends_after_its_last_bytes(stage):
    one = stage.open(0)
    stage.send(one, 1, event(1))
    two = stage.open(100, cursor="evt_1")
    stage.send(two, 101, event(2))
    stage.end(two, 102, Ending.SERVICE_CLOSED)
    assert summary(entry for entry in stage.entries() if entry.data != b": keep-alive\n\n")[-1] == "<service-closed>"


def test_connections_begin_with_their_response(stage):
    one = stage.ask(1)
    two = stage.open(2, headers=(*PLAIN, ("X-Served-By", "two")))
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
