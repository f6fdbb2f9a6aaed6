"""The log of a session, built from its recorded connections: what is kept, in which order, and when."""

import gzip
import json
from itertools import pairwise

import pytest

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
from wiretape_replay.http_server.response import Framing
from wiretape_replay.session.recorded.log_builder import build_sessions
from wiretape_replay.session.session_log import EntryKind

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
        """A client asks for a stream; returns its number."""
        number, self.last = self.last + 1, self.last + 1
        asked = () if cursor is None else (("Last-Event-ID", cursor),)
        head = (number, self.at(seconds), "127.0.0.1", "GET", "http", "service.test", target, "HTTP/1.1", asked)
        self.writer.feed([RequestStarted(*head), RequestEnded(number, self.at(0))])
        return number

    def begin(self, number, seconds, headers=PLAIN):
        """The stream begins."""
        self.writer.feed([ResponseStarted(number, self.at(seconds), 200, "OK", "HTTP/1.1", headers)])
        self.sent[number] = 0

    def open(self, seconds, target=STREAM, *, cursor=None, headers=PLAIN):
        """A client connects, and the stream begins; returns its number."""
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
        """What is built of it."""
        self.writer.commit()
        self.writer.close()
        said = []
        with open_recording(self.path) as recording:
            session = build_sessions(recording, said.append)[session_id]
        self.said = said
        return session

    def entries(self):
        return self.session().log.entries


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path / "run.db")


def told(entries):
    """Each entry in a word: the id, the text of a delta, the comment, the ending."""
    words = []
    for entry in entries:
        if entry.kind is EntryKind.DURABLE:
            words.append(entry.id)
        elif entry.kind is EntryKind.ENDING:
            words.append(f"<{entry.ending}>")
        else:
            words.append(json.loads(entry.data.split(b"data: ")[1])["delta"]["text"] if entry.type else entry.data)
    return words


# What is kept.


def test_frames_are_kept_to_the_byte_and_a_byte_order_mark_is_not(reel):
    frames = [
        b"data: {}\r\nid: a\r\nevent: x\r\n\r\n",
        b"id:b\rdata:{}\r\r",
        b"id: c\n: in\nretry: 5\ndata: 1\ndata: 2\n\n",
        b"event: x\ndata: \xff\n\n",
    ]
    reel.exchange([b"\xef\xbb\xbf" + frames[0], b"".join(frames[1:])])
    said = []
    with open_recording(reel.close()) as recording:
        entries = build_sessions(recording, said.append)["s1"].log.entries
    assert [entry.data for entry in entries[:-1]] == frames
    assert [entry.id for entry in entries] == ["a", "b", "c", None, None]


@pytest.mark.parametrize("coding", ["gzip", "identity"])
def test_an_encoded_stream_is_served_decoded(stage, coding):
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
    assert (session.head.status, session.head.framing, session.head.keep_alive) == (200, Framing.CHUNKED, True)


def test_an_entry_says_what_its_event_is_about_and_what_was_found_about_it(stage):
    started = event(1, "tool.started", content={"tool_call_id": "call_1"}, data={"tool_call_id": "call_1"})
    one, two = stage.open(1), stage.open(2)
    stage.send(one, 3, b": hello\n", started, live("Hi"))
    stage.send(two, 4, started)
    about = [Finding(code, Severity.NOTE, Party.SERVICE, *place, None, 0, 5, "No.") for code, place in FINDINGS]
    stage.writer.commit()
    stage.writer.add_findings(about)
    comment, tool, delta = stage.entries()
    assert (comment.type, comment.source, comment.findings) == (None, (1, None), ())
    assert (tool.type, tool.sequence, tool.run_id, tool.tool_call_id) == ("tool.started", 1, "run_1", "call_1")
    assert (tool.source, tool.findings) == ((1, 1), ("EVT004", "EVT007", "RES001"))
    assert (delta.type, delta.run_id, delta.source, delta.findings) == ("message.delta", "run_1", (1, 2), ("EVT011",))


FINDINGS = [("EVT004", (1, 1)), ("EVT007", (1, 1)), ("EVT004", (1, 1)), ("EVT011", (1, 2)), ("RES001", (2, 1))]


# Durable events, each once.


def test_what_is_replayed_is_joined_by_its_id_and_keeps_the_time_when_it_first_came(stage):
    one = stage.open(10)
    stage.send(one, 11, event(1), event(2))
    stage.end(one, 12)
    two = stage.open(13, cursor="evt_1")
    stage.send(two, 14, event(2), event(3))
    stage.send(two, 20, event(4))
    entries = stage.entries()
    assert told(entries) == ["evt_1", "evt_2", "evt_3", "evt_4"]
    assert [round(entry.time_ns / SECOND) for entry in entries] == [1, 1, 4, 10]
    assert [entry.source for entry in entries] == [(1, 1), (1, 2), (2, 2), (2, 3)]
    assert stage.said == []


def test_what_only_a_later_replay_brings_takes_its_place_by_sequence_and_holds_nothing_up(stage):
    one = stage.open(10, cursor="evt_2")
    stage.send(one, 11, event(3))
    stage.send(one, 12, event(4))
    stage.end(one, 13)
    two = stage.open(60)
    stage.send(two, 61, event(1), event(2), event(3), event(4), event(5))
    entries = [entry for entry in stage.entries() if entry.kind is EntryKind.DURABLE]
    assert told(entries) == [f"evt_{number}" for number in range(1, 6)]
    assert [round(entry.time_ns / SECOND) for entry in entries] == [1, 1, 1, 2, 51]


def test_of_copies_that_came_at_once_the_first_counts(stage):
    one, two = stage.open(1), stage.open(2)
    stage.send(two, 3, event(1))
    stage.send(one, 4, event(1), event(2))
    stage.send(two, 5, event(2))
    assert [entry.source for entry in stage.entries()] == [(2, 1), (1, 2)]


# Live output, at its place.


def test_live_output_and_comments_follow_the_durable_event_that_came_before_them(stage):
    one = stage.open(1, DELTAS)
    stage.send(one, 2, b": hello\n\n", live("a"), event(1), live("b"), b": k\n", live("c"), event(2), live("d"))
    assert told(stage.entries()) == [b": hello\n\n", "a", "evt_1", "b", b": k\n", "c", "evt_2", "d"]


def test_what_two_connections_received_at_once_comes_once(stage):
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
    assert told(stage.entries()) == ["evt_1", *"abcdef", "evt_2", "g"]


def test_what_one_connection_asked_for_without_deltas_fits_between_those_of_another(stage):
    one, two = stage.open(1), stage.open(1, DELTAS)
    stage.send(one, 2, live("m", "message.started"))
    stage.send(two, 2, live("m", "message.started"), live("a"))
    stage.send(one, 3, live("n", "message.started"))
    stage.send(two, 3, live("n", "message.started"), live("b"))
    stage.end(two, 4)
    stage.send(one, 5, live("o", "message.started"))
    assert told(stage.entries()) == ["m", "a", "n", "b", "o"]


def test_deltas_that_repeat_on_a_connection_made_afterwards_are_kept(stage):
    one = stage.open(1, DELTAS)
    stage.send(one, 2, event(1), live("a"), live("b"))
    stage.end(one, 3, Ending.SERVICE_RESET)
    two = stage.open(4, DELTAS, cursor="evt_1")
    stage.send(two, 5, live("b"), live("c"), event(2))
    assert told(stage.entries()) == ["evt_1", "a", "b", "<service-reset>", "b", "c", "evt_2"]


def test_live_output_of_a_connection_that_was_replayed_nothing_follows_its_cursor_or_comes_by_time(stage):
    one, two = stage.open(1, DELTAS), stage.open(2, DELTAS)
    stage.send(one, 3, event(1), event(2))
    stage.end(one, 4)
    stage.send(two, 5, live("a"))
    stage.end(two, 6)
    three = stage.open(7, DELTAS, cursor="evt_1")
    stage.send(three, 8, live("b"))
    assert told(stage.entries()) == ["evt_1", "b", "evt_2", "a"]


def test_live_output_before_the_first_durable_event_of_a_connection_stands_before_that(stage):
    one = stage.open(1, DELTAS)
    stage.send(one, 2, event(1), event(2))
    stage.end(one, 3)
    two = stage.open(4, DELTAS)
    stage.send(two, 5, live("a"), event(3))
    assert told(stage.entries()) == ["evt_1", "evt_2", "a", "evt_3"]


def test_live_output_comes_by_time_also_among_events_that_were_seen_late(stage):
    one = stage.open(1, cursor="evt_3")
    stage.send(one, 2, event(4))
    two = stage.open(3, DELTAS)
    stage.send(two, 4, live("a"))
    stage.end(two, 5)
    stage.send(one, 6, event(5))
    stage.end(one, 7)
    stage.send(stage.open(8), 9, *(event(number) for number in range(1, 6)))
    assert told(stage.entries()) == ["evt_1", "evt_2", "evt_3", "evt_4", "a", "evt_5"]


def test_late_live_output_does_not_hold_up_what_follows_it(stage):
    one = stage.open(0, DELTAS)
    stage.send(one, 1, event(1))
    stage.send(one, 2, event(2))
    stage.end(one, 3)
    two = stage.open(100, DELTAS)
    stage.send(two, 101, event(1), live("late"), event(2))
    entries = [entry for entry in stage.entries() if entry.data != b": keep-alive\n\n"]
    assert told(entries) == ["evt_1", "late", "evt_2"]
    assert [round(entry.time_ns / SECOND) for entry in entries] == [1, 2, 2]


# Comments.


def test_comments_are_those_of_one_connection_at_a_time(stage):
    one, two = stage.open(0), stage.open(1)
    stage.send(one, 10, b": one\n\n")
    stage.send(two, 11, b": two\n\n")
    stage.end(one, 12)
    stage.send(two, 26, b": two\n\n")
    stage.end(two, 30)
    session = stage.session()
    assert told(session.log.entries) == [b": one\n\n", b": two\n\n"]
    assert session.keep_alive == b": two\n\n"


def test_a_blank_line_belongs_to_the_comment_right_before_it_only(stage):
    stage.send(stage.open(0), 1, b": k\n\n\n", b": l\n", event(1), b"\n", event(2))
    assert told(stage.entries()) == [b": k\n\n\n", b": l\n", "evt_1", b"\n", "evt_2"]


def test_without_comments_the_keep_alive_is_that_of_wiretape(stage):
    stage.send(stage.open(0), 1, event(1))
    assert stage.session().keep_alive == b": keep-alive\n\n"


def test_where_no_connection_was_recorded_there_are_keep_alives(stage):
    one = stage.open(0)
    stage.send(one, 5, event(1), b": k\n")
    stage.end(one, 10, Ending.SERVICE_CLOSED)
    two = stage.open(60, cursor="evt_1")
    stage.send(two, 61, event(2))
    entries = stage.entries()
    assert told(entries) == ["evt_1", b": k\n", "<service-closed>", b": k\n", b": k\n", b": k\n", "evt_2"]
    assert [round(entry.time_ns / SECOND) for entry in entries] == [5, 5, 10, 25, 40, 55, 61]
    assert entries[3].source is None


def test_a_recording_gone_on_with_years_later_does_not_fill_the_memory(stage):
    stage.end(stage.open(0), 1)
    stage.send(stage.open(3e9), 3e9, event(1))
    assert len(stage.entries()) == 10_001


# Endings.


@pytest.mark.parametrize("ending", list(Ending))
def test_only_an_end_by_the_service_ends_the_streams_of_a_replay(reel, ending):
    reel.exchange([event(1)], ending=ending)
    with open_recording(reel.close()) as recording:
        entries = build_sessions(recording, lambda _: None)["s1"].log.entries
    kept = {Ending.COMPLETE, Ending.SERVICE_CLOSED, Ending.SERVICE_RESET}
    if ending is Ending.SERVICE_INVALID:
        ending, kept = Ending.SERVICE_CLOSED, {Ending.SERVICE_CLOSED}
    assert told(entries) == (["evt_1", f"<{ending}>"] if ending in kept else ["evt_1"])


def test_an_end_that_another_connection_lived_through_ends_nothing(stage):
    one, two = stage.open(1), stage.open(2)
    for number in (one, two):
        stage.send(number, 3, event(1))
    stage.end(one, 4, Ending.COMPLETE)
    stage.send(two, 5, event(2))
    stage.end(two, 6, Ending.SERVICE_RESET)
    assert told(stage.entries()) == ["evt_1", "evt_2", "<service-reset>"]
    assert stage.said == [
        "Session `s1`: the service ended exchange 1 while another stream of it went on; that is not served as an end."
    ]


def test_ends_of_all_connections_at_once_are_one_end(stage):
    one, two = stage.open(1), stage.open(2)
    stage.send(one, 3, event(1))
    stage.send(two, 3, event(1))
    stage.end(one, 4, Ending.SERVICE_RESET)
    stage.end(two, 4, Ending.SERVICE_RESET)
    three = stage.open(5)
    stage.send(three, 6, event(1), event(2))
    assert told(stage.entries()) == ["evt_1", "<service-reset>", "evt_2"]


def test_a_connection_that_nobody_saw_end_lives_no_longer_than_it_was_heard(stage):
    one = stage.open(0)
    stage.send(one, 1, event(1))
    two = stage.open(100, cursor="evt_1")
    stage.send(two, 101, event(2))
    stage.end(two, 102, Ending.SERVICE_CLOSED)
    assert told(entry for entry in stage.entries() if entry.data != b": keep-alive\n\n")[-1] == "<service-closed>"


def test_connections_begin_when_they_are_answered(stage):
    one = stage.ask(1)
    two = stage.open(2, headers=(*PLAIN, ("X-Served-By", "two")))
    stage.send(two, 3, b": two\n")
    stage.begin(one, 4)
    stage.send(one, 5, b": one\n", event(1))
    session = stage.session()
    assert ("X-Served-By", "two") in session.head.headers
    assert told(session.log.entries) == [b": two\n", "evt_1"]
    assert [round(entry.time_ns / SECOND) for entry in session.log.entries] == [2, 4]


# Several sessions.


def test_sessions_are_told_apart_whatever_their_ids_are(stage):
    odd = "/v1/sessions/a%2Fb%1B%5B31m%C3%A9/events/stream"
    stage.send(stage.open(1), 2, event(1))
    stage.send(stage.open(1, odd), 2, event(7))
    stage.writer.commit()
    stage.writer.close()
    said = []
    with open_recording(stage.path) as recording:
        sessions = build_sessions(recording, said.append)
    assert {name: told(session.log.entries) for name, session in sessions.items()} == {
        "s1": ["evt_1"],
        "a/b\x1b[31mé": ["evt_7"],
    }
    assert said == [r"Session `a/b\x1b[31mé`: the recording begins in the middle of it, with sequence 7."]
    assert all(before.time_ns <= after.time_ns for before, after in pairwise(sessions["s1"].log.entries))
