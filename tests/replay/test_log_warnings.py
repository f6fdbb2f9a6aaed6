"""Recordings that begin late, are incomplete, or show a service that misbehaves: what is replayed, and the warnings."""

import gzip
import json

import pytest
from for_each import for_each
from service_contracts import SERVICE

from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape.sse import DEFAULT_LIMIT
from wiretape_replay.channel.channel_log import ChannelLog, EntryKind, LogEntry, LogReader
from wiretape_replay.channel.recorded_channels import build_channels

STREAM = "/v1/sessions/s1/events/stream"


def message(identity, document, *, end="\n"):
    lines = ["event: x", *([] if identity is None else [f"id: {identity}"]), f"data: {json.dumps(document)}"]
    return (end.join([*lines, "", ""])).encode()


def event(sequence, identity=..., **more):
    return message(f"e{sequence}" if identity is ... else identity, {"type": "x", "sequence": sequence} | more)


@pytest.fixture
def build(builder):
    """End the recording and build its sessions: returns the log of `s1` and the warnings, without the prefix."""

    def _build():
        warnings = []
        with open_recording(builder.close()) as recording:
            sessions = build_channels(recording, warnings.append, SERVICE).by_name
        assert all(sentence.endswith(".") and "\n" not in sentence for sentence in warnings)
        prefix = "Session `s1`: "
        return sessions["s1"].log if sessions else None, [sentence.removeprefix(prefix) for sentence in warnings]

    return _build


def data(log):
    return [entry.data for entry in log.entries]


def kinds(log):
    return [entry.kind.value for entry in log.entries]


def cursor(identity):
    return (("Last-Event-ID", identity),)


# The session began before the recording.


def test_a_cursor_from_before_the_recording_resumes_where_it_resumed_then(builder, build):
    builder.exchange([event(8), event(9)], request_headers=cursor("e7"), ending=Ending.CLIENT_CLOSED)
    builder.exchange([event(10)], request_headers=cursor("e9"), ending=Ending.CLIENT_CLOSED)
    log, warnings = build()
    for known, after in {"e7": [8, 9, 10], "e9": [10]}.items():
        reader = LogReader(log, len(log), cursor=known, deltas=False)
        assert [entry.sequence for entry in reader.read(len(log))] == after
    then = "a client that sends it gets the events that were sent then"
    assert warnings == [
        f"the cursor `e7` of exchange 1 matches no recorded event; {then}.",
        "its recording begins in the middle, with sequence 8.",
    ]


def test_a_cursor_without_an_event_resumes_where_it_resumed_then(builder, build):
    builder.exchange([event(1), event(2)], ending=Ending.CLIENT_CLOSED)
    builder.exchange([event(3)], request_headers=cursor("odd"), ending=Ending.CLIENT_CLOSED)
    builder.exchange([], request_headers=cursor("odder"), ending=Ending.CLIENT_CLOSED)
    log, warnings = build()
    for known, after in {"odd": [3], "odder": []}.items():
        reader = LogReader(log, len(log), cursor=known, deltas=False)
        assert [entry.sequence for entry in reader.read(len(log))] == after
    problem = "the cursor `odd` of exchange 2 matches no recorded event, nor do those of 1 other exchange"
    assert warnings == [f"{problem}; a client that sends it gets the events that were sent then."]


@pytest.mark.parametrize(("identity", "after"), [("é", "e2"), ("e0", "é")], ids=["not ASCII", "earlier"])
def test_a_client_with_an_unusual_cursor_gets_a_stream(builder, serve, call, identity, after):
    builder.exchange([event(1, "é"), event(2)], request_headers=cursor("e0"), ending=Ending.CLIENT_CLOSED)
    url = serve(builder.close(), mode="channel").url
    first, then = call(url), call(url)
    key = "Authorization: Bearer k\r\n"
    first.ask(extra=key)
    first.read_past(event(2))
    then.ask(extra=f"{key}Last-Event-ID: {identity.encode().decode('latin-1')}\r\n")
    assert then.read_past(b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"\nid: {after}\n".encode() in then.read_past(b"\n\n")


# The service misbehaves, or the recording is incomplete.

BARE = {name: message(name, {"type": "x"}) for name in "abcdefg"}
ARRIVED = "events are replayed in the order in which they first arrived"
WHOLE = event(2)


def connection(*chunks, after=None, ending=Ending.CLIENT_CLOSED):
    return {"chunks": chunks, "ending": ending} | ({} if after is None else {"request_headers": cursor(after)})


def in_arrival(why, *sequences):
    """Events whose sequences define no order."""
    frames = [event(sequence, f"e{place}") for place, sequence in enumerate(sequences)]
    return [connection(*frames)], frames, f"{why}; {ARRIVED}."


CASES = {
    "a copy with a different content": (
        [connection(event(1), event(2)), connection(event(1), event(2, run_id="other"))],
        [event(1), event(2)],
        "id `e2` arrived again with different content; the first version is replayed.",
    ),
    "a copy in different bytes": (
        [connection(event(1)), connection(message("e1", {"sequence": 1, "type": "x"}, end="\r"))],
        [event(1)],
        "1 replayed copy has the same JSON in different bytes; the first version is replayed.",
    ),
    "an event that arrives twice on one connection": (
        [connection(event(1), event(2), event(1))],
        [event(1), event(2)],
        "id `e1` arrived twice on one connection, but is replayed once.",
    ),
    "copies of events without ids": (
        [connection(event(1, None), event(2, None)), connection(event(1, None), event(2, None), event(3))],
        [event(1, None), event(2, None), event(3)],
        "2 events have sequences but no ids; they are replayed, but no cursor can point to them.",
    ),
    "descending sequences": in_arrival("on one connection, sequence 2 comes after sequence 3", 1, 3, 2),
    "a long sequence": in_arrival(
        "on one connection, sequence 2 comes after sequence of more than 40 digits", 1, 10**50, 2
    ),
    "a missing sequence": in_arrival("1 of its 3 durable events has no sequence", None, 2, 3),
    "sequences that are no integers": in_arrival("2 of its 3 durable events have no sequence", 1, 1.5, "2"),
    "two events with the same sequence": (
        [connection(event(1), event(2, "a")), connection(event(2, "b"), event(3), after="a")],
        [event(1), event(2, "a"), event(2, "b"), event(3)],
        f"different events have the same sequence; {ARRIVED}.",
    ),
    "events without sequences, replayed before known ones": (
        [
            connection(BARE["d"], BARE["f"], after="c"),
            connection(*(BARE[name] for name in "bdefg")),
            connection(*BARE.values()),
        ],
        list(BARE.values()),
        f"7 of its 7 durable events have no sequence; {ARRIVED}.",
    ),
    "a cursor that is not ASCII": (
        [connection(event(1, "é"), event(2)), connection(event(2), after="é".encode().decode("latin-1"))],
        [event(1, "é"), event(2)],
        None,
    ),
    "lost bytes": (
        [
            connection(event(1), WHOLE[:10], 20, WHOLE[30:] + event(3)),
            connection(7, ending=Ending.COMPLETE),
        ],
        [event(1), event(3), b""],
        "27 bytes of exchanges 1, 2 were not recorded; the events that contained them are missing.",
    ),
    "the rest of an event after a gap": (
        [connection(event(1), 5, b"not the beginning", ending=Ending.SERVICE_CLOSED)],
        [event(1), b""],
        "5 bytes of exchange 1 were not recorded; the events that contained them are missing.",
    ),
    "an event that was lost on one connection": (
        [connection(event(1), len(WHOLE), b"\n\n", event(3)), connection(WHOLE, event(3), after="e1")],
        [event(1), WHOLE, event(3)],
        f"{len(WHOLE)} bytes of exchange 1 were not recorded; the events that contained them are missing.",
    ),
    "no durable events": (
        [connection(b": hello\n\n", ending=Ending.SERVICE_RESET)],
        [b": hello\n\n", b""],
        "it has no durable events.",
    ),
    "no events": ([connection(ending=Ending.SERVICE_RESET)], [b""], "it has no durable events."),
}


@pytest.mark.parametrize(("connections", "replayed", "warning"), CASES.values(), ids=CASES)
def test_oddities_are_replayed_with_one_warning(builder, build, connections, replayed, warning):
    for each in connections:
        builder.exchange(**each)
    log, warnings = build()
    assert (data(log), warnings) == (replayed, [] if warning is None else [warning])


def test_different_events_with_the_same_id_are_all_replayed(builder, build):
    frames = [event(1, "same"), event(2, "same"), event(3, "same")]
    builder.exchange(frames, ending=Ending.CLIENT_CLOSED)
    builder.exchange(frames[1:], request_headers=cursor("same"), ending=Ending.CLIENT_CLOSED)
    log, warnings = build()
    assert data(log) == frames
    assert log.position_of("same") == 0
    problem = "id `same` arrived on one connection for different events"
    assert warnings == [f"{problem}; all are replayed; as a cursor, the id refers to the first."]


def test_a_delta_with_an_id_can_be_a_cursor(builder, build):
    delta = b'event: message.delta\nid: d1\ndata: {"type":"message.delta"}\n\n'
    builder.exchange([event(1), delta, event(2)], ending=Ending.CLIENT_CLOSED)
    log, warnings = build()
    assert data(log) == [event(1), delta, event(2)]
    assert log.position_of("d1") == 1
    assert warnings[1:] == ["1 delta has an id; it is replayed like a durable event."]


def test_an_id_without_data_is_a_cursor_unless_it_repeats_an_earlier_one(builder, build):
    builder.exchange([event(1), b"id: e1\n\n", b"id: checkpoint\n\n", event(2)], ending=Ending.CLIENT_CLOSED)
    log, _ = build()
    assert kinds(log) == ["durable", "ephemeral", "durable", "durable"]
    assert log.position_of("checkpoint") == 2


@pytest.mark.parametrize(
    "frame",
    [
        b"data: not JSON\n\n",
        b"data: [1]\n\n",
        b"data\n\n",
        b"nonsense\n\n",
        b"event: x\n\n",
        b"id: a\0b\ndata: {}\n\n",
        b"id\ndata: {}\n\n",
        b"\n",
        b'data: {"type":5,"run_id":[],"content":7,"data":{"tool_call_id":{}}}\n\n',
        b'data: {"type":"\\ud800","sequence":null}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
    ],
)
def test_everything_but_durable_events_is_ephemeral(builder, build, frame):
    builder.exchange([event(1), frame, event(2)], ending=Ending.CLIENT_CLOSED)
    log, warnings = build()
    assert data(log) == [event(1), frame, event(2)]
    assert kinds(log) == ["durable", "ephemeral", "durable"]
    assert warnings == []


@pytest.mark.parametrize(
    ("coding", "kept"), [("gzip", [event(1)]), ("x-rot13", [])], ids=["broken gzip", "an unknown coding"]
)
def test_a_body_that_cannot_be_decoded_keeps_the_events_before(builder, build, coding, kept):
    headers = (("Content-Type", "text/event-stream"), ("Content-Encoding", coding))
    chunks = [gzip.compress(event(1)), b"\x1f\x8bbroken"]
    builder.exchange(chunks, headers=headers, ending=Ending.CLIENT_CLOSED)
    log, warnings = build()
    assert data(log) == kept
    assert warnings[-1].startswith("exchange 1 cannot be decoded completely (`")


@pytest.mark.parametrize("ending", [Ending.SERVICE_CLOSED, Ending.CLIENT_CLOSED])
def test_an_unfinished_event_is_replayed_if_the_service_ended_the_stream_in_it(builder, build, ending):
    builder.exchange([event(1), b"id: e2\ndata: {"], ending=ending)
    builder.exchange([event(2)], request_headers=cursor("e1"), ending=Ending.CLIENT_CLOSED)
    log, warnings = build()
    if ending is Ending.CLIENT_CLOSED:
        assert data(log) == [event(1), event(2)]
        assert warnings == ["the unfinished event at the end of exchange 1 is left out."]
    else:
        assert data(log) == [event(1), b"id: e2\ndata: {", b"", event(2)]
        assert kinds(log) == ["durable", "ephemeral", "ending", "durable"]
        assert warnings == []


@pytest.mark.parametrize("whole", [True, False])
def test_an_event_over_the_size_limit_is_one_ephemeral_entry(builder, build, whole):
    large = b"id: e2\ndata: " + b"x" * DEFAULT_LIMIT + (b"\n\n" if whole else b"")
    builder.exchange([event(1), large, *([event(3)] if whole else [])], ending=Ending.CLIENT_CLOSED)
    log, warnings = build()
    # Compare lengths: pytest would print sixteen million bytes.
    assert [len(entry.data) for entry in log.entries] == [
        len(piece) for piece in [event(1), large, event(3)][: 3 * whole or 1]
    ]
    assert all(entry.kind is EntryKind.EPHEMERAL for entry in log.entries if len(entry.data) > DEFAULT_LIMIT)
    assert (
        f"1 event of up to {len(large)} bytes exceeded the size limit; connected clients get them, but they are never "
        "replayed." in warnings
    )
    assert ("the unfinished event at the end of exchange 1 is left out." in warnings) is not whole


# There is no complete stream.


def test_a_recording_without_a_stream_has_no_sessions(builder, build):
    builder.exchange([b"{}"], target="/v1/sessions/s1", headers=(("Content-Type", "application/json"),))
    assert build() == (None, ["The recording contains no stream of any session."])


def test_refused_requests_are_counted_and_otherwise_ignored(builder, build):
    plain = (("Content-Type", "text/plain"),)
    builder.exchange([b"{}"], status=429)
    builder.exchange([event(9)], status=429)
    builder.exchange([event(9)], status=404)
    builder.exchange(status=None, ending=Ending.SERVICE_UNREACHABLE)
    builder.exchange([event(9)], headers=plain)
    builder.exchange([event(1)], ending=Ending.CLIENT_CLOSED)
    log, warnings = build()
    assert data(log) == [event(1)]
    assert warnings == [
        "5 requests for its stream failed (200 without an event stream: 1, 404: 1, 429: 2, no response: 1)."
    ]


def test_a_session_whose_stream_was_only_refused_has_no_log(builder, build):
    builder.exchange([b"{}"], status=429)
    assert build() == (
        None,
        ["1 request for its stream failed (429: 1).", "The recording contains no stream of any session."],
    )


@for_each(
    ("ids", "cursor", "position"),
    [
        (["a", " b "], "b", 1),
        (["a", "\tb"], " b", 1),
        ([" b ", "b"], "b", 1),
        ([" b ", "b "], "b", None),
        ([" b ", "b "], "b ", 1),
        ([" b", "x", " b"], "b", 0),
        (["b"], " b", None),
    ],
)
def test_a_cursor_is_found_without_the_whitespace_that_http_strips(ids, cursor, position):
    """A header value has no whitespace at its ends; if several ids are possible, the cursor names none."""
    assert ChannelLog("s1", [LogEntry(EntryKind.DURABLE, 0, id=one) for one in ids]).position_of(cursor) == position
