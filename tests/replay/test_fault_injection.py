"""What faults do, as actions: no socket, no clock."""

from random import Random

import orjson
from for_each import for_each
from hypothesis import assume, given
from hypothesis import strategies as st
from service_contracts import SERVICE

from wiretape.observations import Ending
from wiretape.sse import FrameKind, Parser
from wiretape_replay.channel.channel_log import ChannelLog, EntryKind, LogEntry
from wiretape_replay.faults.fault_preview import list_hits
from wiretape_replay.faults.fault_schedule import FaultSchedule
from wiretape_replay.faults.fault_script import (
    Corrupt,
    Damage,
    Delay,
    Drop,
    Duplicate,
    Error,
    EventFilter,
    ExpireCursor,
    FaultScript,
    Insert,
    Oversize,
    Reorder,
    Reset,
    Split,
    SplitPoint,
)
from wiretape_replay.faults.frame_damage import (
    EndResponse,
    LogFault,
    PauseSending,
    SendBytes,
    SendError,
    corrupt_frame,
    is_final,
    pad_frame,
    split_frame,
)
from wiretape_replay.http_server.http_messages import NO_BODY, HttpRequest

SECOND = 1_000_000_000
CLOSED, RESET = EndResponse(Ending.SERVICE_CLOSED), EndResponse(Ending.SERVICE_RESET)
COMMENT = LogEntry(EntryKind.EPHEMERAL, 0, b": keep-alive\n\n")
END = LogEntry(EntryKind.ENDING, 0, ending=Ending.SERVICE_CLOSED)


def json_of(error):
    """The error in the envelope of the response."""
    return orjson.loads(error.response("req_1").body)["error"]


def durable(sequence, kind="message.completed", text="Grüße", keys=(), **more):
    told = {"id": f"e{sequence}", "sequence": sequence, "type": kind, "content": text}
    raw = b"event: %b\nid: e%d\ndata: %b\n\n" % (kind.encode(), sequence, orjson.dumps(told))
    return LogEntry(
        EntryKind.DURABLE, sequence, raw, f"e{sequence}", kind, sequence, keys={"run": "r1", **dict(keys)}, **more
    )


def delta(text="Hal"):
    told = {"type": "message.delta", "run_id": "r1", "delta": {"text": text}}
    return LogEntry(
        EntryKind.EPHEMERAL, 0, b"data: %b\n\n" % orjson.dumps(told), type="message.delta", keys={"run": "r1"}
    )


LOG = [durable(1, "run.started"), COMMENT, delta(), delta("lo"), durable(2), durable(3, "run.completed")]


def stream(session="s1", cursor=None):
    headers = (("Last-Event-ID", cursor),) if cursor else ()
    return HttpRequest("GET", f"/v1/sessions/{session}/events/stream?event_deltas=true", NO_BODY, headers)


CANCEL = HttpRequest("POST", "/base/v1/sessions/s1/runs/r1/cancel", NO_BODY)


def events(**fields):
    return EventFilter(**fields)


def schedule(*faults, seed=0):
    return FaultSchedule(FaultScript(faults=faults, seed=seed), SERVICE)


def play(faults, asked=None, entries=LOG):
    """The instructions for a stream that carries `entries`, without log lines."""
    injection = faults.inject(asked or stream())
    done = list(injection.before)
    if not any(is_final(instruction) for instruction in done):
        for entry in entries:
            done += injection.stream.apply(entry) if injection.stream else [SendBytes(entry.data)]
        done += injection.stream.flush() if injection.stream else []
    return [instruction for instruction in done if not isinstance(instruction, LogFault)]


def play_one(fault):
    return play(schedule(fault))


def sends(entries):
    return [SendBytes(entry.data) for entry in entries]


def test_an_offset_after_the_end_of_an_event_does_not_hit_it():
    assert play_one(Drop(offset=len(LOG[4].data), at=events(sequence=2))) == sends(LOG)


def test_events_are_counted_without_comments():
    assert play_one(Drop(after=events(event=2))) == [*sends(LOG[:3]), CLOSED]


def test_an_event_has_to_match_every_field():
    fault = Drop(after=events(type="message.*", id="e2", keys={"run": ("r1", "r2")}))
    assert play_one(fault) == [*sends(LOG[:5]), CLOSED]


def test_a_tool_call_is_matched_by_its_id():
    log = [durable(1), durable(2, "tool.started", keys={"tool_call": "t1"}), durable(3)]
    done = play(schedule(Drop(before=events(keys={"tool_call": "t1"}))), entries=log)
    assert done == [*sends(log[:1]), CLOSED]


def test_a_stream_continues_after_a_pause():
    assert play_one(Delay(seconds=5, after=events(sequence=1))) == [
        SendBytes(LOG[0].data),
        PauseSending(5 * SECOND),
        *sends(LOG[1:]),
    ]
    inside = play_one(Delay(seconds=5, offset=10, at=events(sequence=1)))
    assert inside[:3] == [SendBytes(LOG[0].data[:10]), PauseSending(5 * SECOND), SendBytes(LOG[0].data[10:])]


def test_an_event_is_sent_later():
    assert play_one(Reorder(at=events(sequence=1))) == sends([LOG[1], LOG[2], LOG[0], *LOG[3:]])
    assert play_one(Reorder(by=2, at=events(sequence=1))) == sends([LOG[1], LOG[2], LOG[3], LOG[0], *LOG[4:]])


def test_reordering_every_event_swaps_them_in_pairs():
    entries = [entry for entry in LOG if entry.is_event]
    done = play(schedule(Reorder(at=events())), entries=entries)
    assert done == sends([entries[1], entries[0], entries[3], entries[2], entries[4]])


def test_an_event_is_inserted_without_an_id_or_with_the_given_one():
    (_, ephemeral, *_) = play_one(Insert(type="stream.resync", after=events(sequence=1)))
    assert ephemeral == SendBytes(
        b'event: stream.resync\ndata: {"type":"stream.resync","session_id":"s1","run_id":"r1"}\n\n'
    )
    (_, stored, *_) = play_one(Insert(type="stream.resync", id="e1b", sequence=7, after=events(sequence=1)))
    head, _, document = stored.data.partition(b"data: ")
    assert head == b"event: stream.resync\nid: e1b\n"
    named = {"id": "e1b", "sequence": 7, "type": "stream.resync", "session_id": "s1", "run_id": "r1"}
    assert orjson.loads(document) == named


def test_the_faults_of_one_event_add_up():
    faults = schedule(
        Drop(name="end", after=events(sequence=1)),
        Duplicate(name="again", at=events(sequence=1)),
        Split(name="split", offsets=4, at=events(sequence=1)),
        Insert(type="stream.resync", name="resync", before=events(sequence=1)),
    )
    resync, *rest = play(faults)
    twice = [SendBytes(LOG[0].data[:4]), SendBytes(LOG[0].data[4:])] * 2
    assert resync.data.startswith(b"event: stream.resync")
    assert rest == [*twice, CLOSED]
    assert faults.counts == {"end": 1, "again": 1, "split": 1, "resync": 1}


def test_faults_after_the_end_of_a_stream_are_neither_applied_nor_counted():
    faults = schedule(Drop(before=events()), Insert(type="stream.resync", after=events()))
    assert play(faults) == [CLOSED]
    assert faults.counts == {"fault-1": 1, "fault-2": 0}
    assert faults.unused == ["fault-2"]


def test_connections_are_counted_for_each_session():
    faults = schedule(Drop(after=events(event=1), connection=2))
    assert play(faults, stream("s1")) == sends(LOG)
    assert play(faults, stream("s2")) == sends(LOG)
    assert play(faults, stream("s1")) == [*sends(LOG[:1]), CLOSED]
    assert play(faults, stream("s1")) == sends(LOG)


def test_an_error_is_sent_for_the_requests_it_applies_to():
    faults = schedule(Error(name="busy", code="SESSION_BUSY", operation="cancel", channel="s1", keys={"run": "r1"}))
    assert faults.inject(stream()).before == ()
    line, error = faults.inject(CANCEL).before
    text = "Fault busy: error SESSION_BUSY instead of the response (POST /base/v1/sessions/s1/runs/r1/cancel)"
    assert line == LogFault("busy", text)
    assert isinstance(error, SendError)
    assert json_of(error)["active_run_id"] == "r1"
    assert json_of(error)["recovery"][0] == "POST /base/v1/sessions/s1/runs/r1/cancel"


def test_a_rewound_server_does_the_same_again():
    faults = schedule(Drop(after=events(), times=1, connection=1), Duplicate(at=events(event=2), skip=1))
    first = [play(faults) for _ in range(3)]
    faults.rewind()
    assert [play(faults) for _ in range(3)] == first
    assert list(faults.counts.values()) == [2, 2], "the totals include what was applied before"


@for_each(
    ("expired", "cursor", "refused"),
    [((), "e1", True), ("e1", "e1", True), (("e2", "e3"), "e1", False), ((), None, False)],
)
def test_a_cursor_expires(expired, cursor, refused):
    before = schedule(ExpireCursor(cursor=expired)).inject(stream(cursor=cursor)).before
    assert [json_of(error)["code"] for error in before if isinstance(error, SendError)] == ["invalid_cursor"] * refused


# Changes of bytes.

FRAME = LOG[4].data


def messages_in(data):
    parser = Parser()
    return [frame for frame in [*parser.feed(data), *parser.close()] if frame.kind is FrameKind.MESSAGE]


def test_flipped_bits_change_the_data_and_nothing_else():
    changed = corrupt_frame(FRAME, Corrupt(count=3), Random(1))
    assert changed.partition(b"data: ")[0] == FRAME.partition(b"data: ")[0]
    differences = [(one ^ other).bit_count() for one, other in zip(FRAME, changed, strict=True) if one != other]
    assert differences == [1, 1, 1]


line = st.sampled_from([b"data: ", b"data:", b"data", b"id: 1", b"event: x", b": c", b"x"])
frame = st.lists(
    st.tuples(line, st.binary(max_size=6).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b"")))
    .map(b"".join)
    .flatmap(lambda text: st.sampled_from([text + end for end in (b"\n", b"\r", b"\r\n")])),
    min_size=1,
    max_size=5,
).map(lambda lines: b"".join(lines) + b"\n\n")
splits = st.builds(Split, where=st.sampled_from(SplitPoint)) | st.builds(
    Split, offsets=st.lists(st.integers(1, 40), min_size=1).map(tuple)
)


@given(frame, splits)
def test_the_pieces_of_a_split_frame_joined_are_the_frame(data, split):
    parts = split_frame(data, split)
    assume(parts is not None)
    assert b"".join(parts) == data
    assert len(parts) > 1
    assert all(parts)


@given(frame, st.integers(1, 200))
def test_a_padded_event_has_the_requested_size(data, size):
    changed = pad_frame(data, size)
    assume(changed is not None)
    (event,) = messages_in(changed)
    assert len(event.data) == size


@given(frame, st.integers(0, 99))
def test_flipped_bits_do_not_change_the_framing(data, seed):
    changed = corrupt_frame(data, Corrupt(count=4), Random(seed))
    assume(changed is not None)
    assert changed != data
    assert [frame.kind for frame in Parser().feed(changed)] == [frame.kind for frame in Parser().feed(data)]


# Properties of every script.


def built(kind, **fields):
    return st.builds(lambda given: (kind, given), st.fixed_dictionaries(fields))


mutations = st.one_of(
    built(Corrupt, how=st.just(Damage.FLIP), count=st.integers(1, 3)),
    built(Corrupt, how=st.sampled_from([Damage.UTF_8, Damage.JSON])),
    built(Split, where=st.sampled_from(SplitPoint)),
    built(Duplicate, copies=st.integers(1, 3)),
    built(Reorder, by=st.integers(1, 3)),
    built(Oversize, bytes=st.integers(50, 300)),
    built(Delay, seconds=st.integers(1, 5)),
)
insertions = built(Delay, seconds=st.integers(1, 5)) | st.sampled_from(
    [(Insert, {"type": "stream.resync"}), (Drop, {}), (Reset, {})]
)
filters = st.builds(
    EventFilter,
    sequence=st.sampled_from([(), 1, (2, 3)]),
    type=st.sampled_from([(), "message.*"]),
    event=st.sampled_from([(), (1,), 3]),
)
limits = st.fixed_dictionaries(
    {"skip": st.integers(0, 2), "times": st.none() | st.integers(1, 3), "probability": st.sampled_from([1.0, 0.5, 0.1])}
)


@st.composite
def scripts(draw, **fixed):
    faults = []
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.sampled_from(["before", "at", "after"]))
        kind, fields = draw(mutations if position == "at" else insertions)
        faults.append(kind(**fields, **{position: draw(filters)}, **{**draw(limits), **fixed}))
    return FaultScript(faults=tuple(faults), seed=draw(st.integers(0, 3)))


requests = st.lists(st.sampled_from(["s1", "s2"]), min_size=1, max_size=4)


@given(scripts(), requests)
def test_the_same_script_and_requests_give_the_same_instructions(script, sessions):
    one, other = FaultSchedule(script, SERVICE), FaultSchedule(script, SERVICE)
    assert [play(one, stream(name)) for name in sessions] == [play(other, stream(name)) for name in sessions]
    assert one.counts == other.counts


@given(scripts(times=None, skip=0), st.booleans())
def test_randomness_does_not_depend_on_other_streams(script, first):
    """Two streams are read in turns, or one after the other."""
    alone = FaultSchedule(script, SERVICE)
    ones = [play(alone, stream("s1")), play(alone, stream("s2"))]
    faults = FaultSchedule(script, SERVICE)
    injections = [faults.inject(stream("s1")), faults.inject(stream("s2"))]
    mixed = [[], []]
    for entry in LOG:
        for at in (0, 1) if first else (1, 0):
            mixed[at] += injections[at].stream.apply(entry)
    for at in (0, 1):
        mixed[at] += injections[at].stream.flush()
    assert [[done for done in each if not isinstance(done, LogFault)] for each in mixed] == ones


@given(st.integers(1, 5), st.integers(0, 3), st.integers(1, 4))
def test_a_fault_hits_as_often_as_it_may(times, skip, connections):
    faults = schedule(Duplicate(at=events(), times=times, skip=skip))
    done = [play(faults) for _ in range(connections)]
    matched = connections * sum(entry.is_event for entry in LOG)
    extra = sum(len(instructions) for instructions in done) - connections * len(LOG)
    assert extra == faults.counts["fault-1"] == max(0, min(times, matched - skip))


@given(scripts())
def test_only_the_end_of_a_stream_loses_events(script):
    """Every byte of an event that was not corrupted or padded is sent, unless the stream ended."""
    assume(not any(isinstance(fault, Corrupt | Oversize) for fault in script.faults))
    done = play(FaultSchedule(script, SERVICE))
    assume(not any(is_final(instruction) for instruction in done))
    sent = b"".join(instruction.data for instruction in done if isinstance(instruction, SendBytes))
    frames = [frame.raw for frame in Parser().feed(sent)]
    assert {frame.raw for entry in LOG for frame in Parser().feed(entry.data)} <= set(frames)


# Dry runs.

LOGS = {"s1": ChannelLog("s1", [*LOG, END], "session"), "s2": ChannelLog("s2", [durable(1), durable(2)], "session")}


def test_a_dry_run_lists_the_events_that_would_be_hit():
    script = FaultScript(
        faults=(
            Drop(name="drop", after=events(sequence=2), times=1),
            Drop(name="each", after=events(sequence=2)),
            Corrupt(name="flaky", at=events(type="message.delta"), probability=0.5, times=1),
            Split(name="none", where=SplitPoint.CRLF, at=events()),
            Corrupt(name="absent", how=Damage.REPLACE, find="e9", replacement="e2", at=events()),
            Error(name="busy", code="RATE_LIMITED", operation="cancel"),
            Drop(name="second", before=events(event=1), channel="s2", connection=2),
            Reset(name="next", at=events(type="message.completed"), skip=1, times=1),
        )
    )
    assert list(list_hits(script, LOGS, SERVICE)) == [
        "drop: drop (once, counted across all sessions, in the order of the requests)",
        "  session s1, position 4: after message.completed, sequence 2",
        "each: drop",
        "  session s1, position 4: after message.completed, sequence 2",
        "  session s2, position 1: after message.completed, sequence 2",
        "flaky: corrupt (flip) (once, counted across all sessions, in the order of the requests, with probability 0.5)",
        "  may: session s1, position 2: at message.delta",
        "  may: session s1, position 3: at message.delta",
        "none: split (crlf)",
        "  hits nothing in this recording",
        "absent: corrupt (replace)",
        "  hits nothing in this recording",
        "busy: error RATE_LIMITED",
        "  any cancel request",
        "second: drop",
        "  session s2, position 0: before message.completed, sequence 1, on connection 2",
        "next: reset (after the first 1, once, counted across all sessions, in the order of the requests)",
        "  session s2, position 0: at message.completed, sequence 1",
    ]


def test_a_dry_run_names_cursors_and_missing_sessions():
    script = FaultScript(
        faults=(
            ExpireCursor(name="one", cursor=("e4", "e5\x1b"), channel=("s1", "s9", "known"), times=2),
            ExpireCursor(name="any", channel="s1", times=1),
        )
    )
    assert list(list_hits(script, LOGS, SERVICE, ["known"])) == [
        "one: expire-cursor (2 times, counted across all sessions, in the order of the requests)",
        "  any stream request with the cursor e4 or e5\\x1b of session s1",
        "  this recording has no session s9",
        "any: expire-cursor (once)",
        "  any stream request with a cursor of session s1",
    ]


def test_a_dry_run_lists_at_most_twenty_events_of_a_fault():
    logs = {"s1": ChannelLog("s1", [durable(number) for number in range(1, 51)])}
    lines = list(list_hits(FaultScript(faults=(Oversize(bytes=256 * 1024 * 1024, at=events()),)), logs, SERVICE))
    assert len(lines) == 22
    assert lines[-1] == "  and 30 more"


@given(scripts(probability=1.0, skip=0, times=None))
def test_a_dry_run_lists_what_is_applied_unless_a_stream_ends(script):
    if any(isinstance(fault, Drop | Reset | Reorder | Split | Corrupt | Oversize) for fault in script.faults):
        return
    faults = FaultSchedule(script, SERVICE)
    play(faults)
    listed = {}
    for line in list_hits(script, {"s1": ChannelLog("s1", LOG)}, SERVICE):
        if not line.startswith(" "):
            name = line.partition(":")[0]
        listed[name] = listed.get(name, -1) + ("hits nothing" not in line)
    assert listed == faults.counts
