"""What faults do, as actions: no socket, no clock."""

from itertools import pairwise
from random import Random

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.observations import Ending
from wiretape.sse import FrameKind, Parser
from wiretape_replay.answers.requests import Requests
from wiretape_replay.faults.actions import Drop, Mark, Reply, Reset, Wait, Write, ends
from wiretape_replay.faults.changes import corrupted, data_size, oversized, pieces
from wiretape_replay.faults.deed import (
    Corrupt,
    Cut,
    Damage,
    Do,
    Duplicate,
    ExpireCursor,
    Oversize,
    Pause,
    Refuse,
    Reorder,
    Resync,
    Seam,
    Split,
)
from wiretape_replay.faults.injector import Faults
from wiretape_replay.faults.rehearsal import listing, rehearse
from wiretape_replay.faults.script import Address, Events, Fault, Moment, Script
from wiretape_replay.front.asked import NO_BODY, Asked
from wiretape_replay.session.session_log import EntryKind, LogEntry, SessionLog

AT, BEFORE, AFTER = Moment.AT, Moment.BEFORE, Moment.AFTER
COMMENT = LogEntry(EntryKind.EPHEMERAL, 0, b": keep-alive\n\n")
END = LogEntry(EntryKind.ENDING, 0, ending=Ending.SERVICE_CLOSED)


def durable(sequence, kind="message.completed", text="Grüße", **more):
    told = {"id": f"e{sequence}", "sequence": sequence, "type": kind, "content": text}
    raw = b"event: %b\nid: e%d\ndata: %b\n\n" % (kind.encode(), sequence, orjson.dumps(told))
    return LogEntry(EntryKind.DURABLE, sequence, raw, f"e{sequence}", kind, sequence, run_id="r1", **more)


def delta(text="Hal"):
    told = {"type": "message.delta", "run_id": "r1", "delta": {"text": text}}
    return LogEntry(EntryKind.EPHEMERAL, 0, b"data: %b\n\n" % orjson.dumps(told), type="message.delta", run_id="r1")


LOG = [durable(1, "run.started"), COMMENT, delta(), delta("lo"), durable(2), durable(3, "run.completed")]


def stream(session="s1", cursor=None):
    headers = (("Last-Event-ID", cursor),) if cursor else ()
    return Asked("GET", f"/v1/sessions/{session}/events/stream?event_deltas=true", NO_BODY, headers)


CANCEL = Asked("POST", "/base/v1/sessions/s1/runs/r1/cancel", NO_BODY)


def fault(deed, moment=None, *, do=Do.DROP, name="f", times=None, skip=0, probability=1.0, address=None, **event):
    events = None if moment is None else Events(moment, **event)
    return Fault(name, do, deed, address or Address(), events, skip, times, probability)


def played(faults, asked=None, entries=LOG):
    """Everything that is done on a stream that carries `entries`, but for marks."""
    injection = faults.request(asked or stream())
    done = list(injection.before)
    if not any(ends(action) for action in done):
        for entry in entries:
            done += injection.stream.entry(entry) if injection.stream else [Write(entry.data)]
        done += injection.stream.flush() if injection.stream else []
    return [action for action in done if not isinstance(action, Mark)]


def one(deed, moment=None, **more):
    return played(Faults(Script((fault(deed, moment, **more),))))


def writes(entries):
    return [Write(entry.data) for entry in entries]


def test_a_script_without_faults_changes_nothing():
    injection = Faults(Script()).request(stream())
    assert (injection.before, injection.stream) == ((), None)


def test_a_fault_elsewhere_changes_nothing():
    assert one(Cut(), AFTER, sequences=(99,)) == writes(LOG)


@pytest.mark.parametrize(("deed", "end"), [(Cut(), Drop()), (Cut(reset=True), Reset()), (Pause(), Wait(None))])
@pytest.mark.parametrize(("moment", "sent"), [(BEFORE, 4), (AFTER, 5)])
def test_a_stream_ends_before_or_after_an_event(deed, end, moment, sent):
    assert one(deed, moment, sequences=(2,)) == [*writes(LOG[:sent]), end]


@pytest.mark.parametrize(("offset", "sent"), [(None, len(LOG[4].data) // 2), (7, 7), (len(LOG[4].data) - 1, -1)])
def test_a_stream_ends_inside_an_event(offset, sent):
    done = one(Cut(offset=offset), AT, sequences=(2,))
    assert done == [*writes(LOG[:4]), Write(LOG[4].data[:sent]), Drop()]


def test_an_offset_behind_the_end_of_an_event_does_not_hit_it():
    assert one(Cut(offset=len(LOG[4].data)), AT, sequences=(2,)) == writes(LOG)


def test_events_are_counted_without_comments():
    assert one(Cut(), AFTER, numbers=(2,)) == [*writes(LOG[:3]), Drop()]


def test_an_event_is_addressed_by_everything_that_is_said_of_it():
    assert one(Cut(), AFTER, types=("message.*",), ids=("e2",), runs=("r1",)) == [*writes(LOG[:5]), Drop()]


def test_a_tool_call_is_addressed_by_its_id():
    log = [durable(1), durable(2, "tool.started", tool_call_id="t1"), durable(3)]
    done = played(Faults(Script((fault(Cut(), BEFORE, tool_calls=("t1",)),))), entries=log)
    assert done == [*writes(log[:1]), Drop()]


def test_a_pause_with_an_end_is_gone_on_from():
    assert one(Pause(5), AFTER, sequences=(1,)) == [Write(LOG[0].data), Wait(5), *writes(LOG[1:])]
    cut = one(Pause(5, 10), AT, sequences=(1,))
    assert cut[:3] == [Write(LOG[0].data[:10]), Wait(5), Write(LOG[0].data[10:])]


def test_an_event_is_sent_again():
    assert one(Duplicate(2), AT, sequences=(2,)) == writes([*LOG[:4], LOG[4], LOG[4], LOG[4], LOG[5]])


def test_an_event_changes_its_place():
    assert one(Reorder(), AT, sequences=(1,)) == writes([LOG[1], LOG[2], LOG[0], *LOG[3:]])
    assert one(Reorder(2), AT, sequences=(1,)) == writes([LOG[1], LOG[2], LOG[3], LOG[0], *LOG[4:]])


def test_an_event_that_waits_for_others_is_sent_before_the_stream_ends():
    assert one(Reorder(9), AT, sequences=(2,)) == writes([*LOG[:4], LOG[5], LOG[4]])


def test_every_event_reordered_changes_places_in_pairs():
    events = [entry for entry in LOG if entry.is_event]
    done = played(Faults(Script((fault(Reorder(), AT),))), entries=events)
    assert done == writes([events[1], events[0], events[3], events[2], events[4]])


def test_a_resync_is_inserted_without_an_id_or_with_the_one_given():
    (_, ephemeral, *_) = one(Resync(), AFTER, sequences=(1,))
    assert ephemeral == Write(
        b'event: stream.resync\ndata: {"type":"stream.resync","session_id":"s1","run_id":"r1"}\n\n'
    )
    (_, stored, *_) = one(Resync("e1b", 7), AFTER, sequences=(1,))
    assert stored.data.startswith(
        b'event: stream.resync\nid: e1b\ndata: {"id":"e1b","sequence":7,"type":"stream.resync"'
    )


def test_faults_of_one_event_add_up():
    faults = Faults(
        Script(
            (
                fault(Cut(), AFTER, name="end", sequences=(1,)),
                fault(Duplicate(), AT, name="again", sequences=(1,)),
                fault(Split((4,)), AT, name="split", sequences=(1,)),
                fault(Resync(), BEFORE, name="resync", sequences=(1,)),
            )
        )
    )
    resync, *rest = played(faults)
    twice = [Write(LOG[0].data[:4]), Write(LOG[0].data[4:])] * 2
    assert resync.data.startswith(b"event: stream.resync")
    assert rest == [*twice, Drop()]
    assert faults.done == {"end": 1, "again": 1, "split": 1, "resync": 1}


def test_what_comes_behind_an_end_is_not_done_nor_counted():
    faults = Faults(Script((fault(Cut(), BEFORE, name="a"), fault(Resync(), AFTER, name="b"))))
    assert played(faults) == [Drop()]
    assert faults.done == {"a": 1, "b": 0}


def test_a_connection_is_counted_for_each_session():
    faults = Faults(Script((fault(Cut(), AFTER, numbers=(1,), address=Address(connections=(2,))),)))
    assert played(faults, stream("s1")) == writes(LOG)
    assert played(faults, stream("s2")) == writes(LOG)
    assert played(faults, stream("s1")) == [*writes(LOG[:1]), Drop()]
    assert played(faults, stream("s1")) == writes(LOG)


def test_a_rewound_server_does_the_same_again():
    faults = Faults(Script((fault(Cut(), AFTER, times=1, address=Address(connections=(1,))),)))
    first = played(faults)
    assert played(faults) == writes(LOG)
    faults.rewind()
    assert played(faults) == first == [*writes(LOG[:1]), Drop()]
    assert list(faults.done.values()) == [2], "what was done before counts, too"


def test_the_first_hits_can_be_skipped_and_the_rest_limited():
    assert one(Cut(), AFTER, skip=2, times=1) == [*writes(LOG[:4]), Drop()]
    done = one(Duplicate(), AT, skip=1, times=2)
    assert done == writes([*LOG[:2], LOG[2], LOG[2], LOG[3], LOG[3], *LOG[4:]])


@pytest.mark.parametrize(("deed", "action"), [(Cut(), Drop()), (Cut(reset=True), Reset()), (Pause(), Wait(None))])
def test_an_answer_does_not_come(deed, action):
    assert one(deed) == [action]


def test_a_late_answer_still_comes():
    assert one(Pause(5)) == [Wait(5), *writes(LOG)]


def test_an_error_is_answered_to_what_is_addressed():
    busy = fault(Refuse("SESSION_BUSY"), address=Address((Requests.of("cancel"),), ("s1",), ("r1",)))
    faults = Faults(Script((busy,)))
    assert faults.request(stream()).before == ()
    mark, reply = faults.request(CANCEL).before
    assert mark == Mark("f", "Fault f: error SESSION_BUSY before the answer (POST /base/v1/sessions/s1/runs/r1/cancel)")
    assert isinstance(reply, Reply)
    assert (reply.active.session_id, reply.active.run_id, reply.active.base) == ("s1", "r1", "/base")


@pytest.mark.parametrize(
    ("wanted", "cursor", "refused"),
    [((), "e1", True), (("e1",), "e1", True), (("e2",), "e1", False), ((), None, False)],
)
def test_a_cursor_expires(wanted, cursor, refused):
    faults = Faults(
        Script((fault(ExpireCursor(wanted), do=Do.EXPIRE_CURSOR, address=Address((Requests.of("stream"),))),))
    )
    before = faults.request(stream(cursor=cursor)).before
    assert [action.code for action in before if isinstance(action, Reply)] == ["invalid_cursor"] * refused


def test_the_log_says_what_was_done_and_where():
    faults = Faults(Script((fault(Cut(), AFTER, name="late", sequences=(2,)),)))
    injection = faults.request(stream())
    marks = [action for entry in LOG for action in injection.stream.entry(entry) if isinstance(action, Mark)]
    text = "Fault late: drop after event 4, message.completed, sequence 2 (session s1, connection 1)"
    assert marks == [Mark("late", text)]


# What is done to bytes.

FRAME = LOG[4].data


def events_in(data):
    parser = Parser()
    return [frame for frame in [*parser.feed(data), *parser.close()] if frame.kind is FrameKind.MESSAGE]


def test_a_turned_bit_changes_the_data_and_nothing_else():
    changed = corrupted(FRAME, Corrupt(count=3), Random(1))
    assert changed.partition(b"data: ")[0] == FRAME.partition(b"data: ")[0]
    differences = [(one ^ other).bit_count() for one, other in zip(FRAME, changed, strict=True) if one != other]
    assert differences == [1, 1, 1]


def test_bad_utf_8_stands_inside_a_text():
    changed = corrupted(FRAME, Corrupt(Damage.UTF_8), Random(1))
    with pytest.raises(UnicodeDecodeError):
        changed.decode()
    assert orjson.loads(events_in(changed)[0].data.decode("utf-8", "replace"))["content"] == "\ufffdGrüße"


def test_broken_json_is_a_whole_event_still():
    changed = corrupted(FRAME, Corrupt(Damage.JSON), Random(1))
    (event,) = events_in(changed)
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(event.data)


def test_a_text_is_replaced_wherever_it_stands():
    changed = corrupted(FRAME, Corrupt(Damage.REPLACE, find=b"e2", put=b"e9"), Random(1))
    assert changed == FRAME.replace(b"e2", b"e9") != FRAME
    assert corrupted(FRAME, Corrupt(Damage.REPLACE, find=b"nowhere"), Random(1)) is None


def test_a_frame_is_split_inside_characters_and_line_ends():
    parts = pieces(FRAME, Split(Seam.UTF_8))
    assert [part[-1:] + following[:1] for part, following in pairwise(parts)] == [
        "ü".encode(),
        "ß".encode(),
    ]
    assert pieces(b"data: 1\r\n\r\n", Split(Seam.CRLF)) == [b"data: 1\r", b"\n\r", b"\n"]
    assert pieces(FRAME, Split(Seam.CRLF)) is None
    assert pieces(b"data: plain\n\n", Split(Seam.UTF_8)) is None


def test_an_oversized_event_says_what_it_said():
    changed = oversized(FRAME, Oversize(5_000))
    (event,), (before,) = events_in(changed), events_in(FRAME)
    assert len(event.data) == data_size(changed) == 5_000
    assert orjson.loads(event.data) == orjson.loads(before.data)
    assert oversized(changed, Oversize(5_000)) is None


line = st.sampled_from([b"data: ", b"data:", b"data", b"id: 1", b"event: x", b": c", b"x"])
frame = st.lists(
    st.tuples(line, st.binary(max_size=6).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b"")))
    .map(b"".join)
    .flatmap(lambda text: st.sampled_from([text + end for end in (b"\n", b"\r", b"\r\n")])),
    min_size=1,
    max_size=5,
).map(lambda lines: b"".join(lines) + b"\n\n")


@settings(max_examples=50)
@given(frame, st.sampled_from(Seam) | st.lists(st.integers(1, 40), min_size=1).map(tuple))
def test_pieces_joined_are_the_frame(data, where):
    parts = pieces(data, Split(where))
    assert parts is None or (b"".join(parts) == data and len(parts) > 1 and all(parts))


@settings(max_examples=50)
@given(frame, st.integers(1, 200))
def test_an_oversized_event_has_the_size_that_was_asked_for(data, size):
    changed = oversized(data, Oversize(size))
    if changed is not None:
        (event,) = events_in(changed)
        assert len(event.data) == size


@settings(max_examples=50)
@given(frame, st.integers(0, 99))
def test_turned_bits_leave_the_framing(data, seed):
    changed = corrupted(data, Corrupt(count=4), Random(seed))
    if changed is not None:
        assert [frame.kind for frame in Parser().feed(changed)] == [frame.kind for frame in Parser().feed(data)]


# What holds for every script.

deeds_at = st.one_of(
    st.builds(Corrupt, st.sampled_from([Damage.FLIP, Damage.UTF_8, Damage.JSON]), st.integers(1, 3)),
    st.builds(Split, st.sampled_from(Seam)),
    st.builds(Duplicate, st.integers(1, 3)),
    st.builds(Reorder, st.integers(1, 3)),
    st.builds(Oversize, st.integers(50, 300)),
    st.builds(Pause, st.integers(1, 5)),
)
deeds_between = st.builds(Pause, st.integers(1, 5)) | st.just(Resync()) | st.just(Cut()) | st.just(Cut(reset=True))
addresses = st.builds(
    dict,
    sequences=st.sampled_from([(), (1,), (2, 3)]),
    types=st.sampled_from([(), ("message.*",)]),
    numbers=st.sampled_from([(), (1,), (3,)]),
)
limits = st.fixed_dictionaries(
    {
        "skip": st.integers(0, 2),
        "times": st.none() | st.integers(1, 3),
        "probability": st.sampled_from([1.0, 0.5, 0.1]),
    }
)


@st.composite
def scripts(draw, **fixed):
    faults = []
    for number in range(draw(st.integers(1, 4))):
        moment = draw(st.sampled_from(Moment))
        deed = draw(deeds_at if moment is AT else deeds_between)
        faults.append(fault(deed, moment, name=f"f{number}", **draw(addresses), **{**draw(limits), **fixed}))
    return Script(tuple(faults), draw(st.integers(0, 3)))


requests = st.lists(st.sampled_from(["s1", "s2"]), min_size=1, max_size=4)


@settings(max_examples=50)
@given(scripts(), requests)
def test_the_same_script_and_requests_have_the_same_actions(script, sessions):
    one, other = Faults(script), Faults(script)
    assert [played(one, stream(name)) for name in sessions] == [played(other, stream(name)) for name in sessions]
    assert one.done == other.done


@settings(max_examples=50)
@given(scripts(times=None, skip=0), st.booleans())
def test_chance_does_not_depend_on_other_streams(script, first):
    """Two streams are read in turns, or one after the other."""
    alone = Faults(script)
    ones = [played(alone, stream("s1")), played(alone, stream("s2"))]
    faults = Faults(script)
    injections = [faults.request(stream("s1")), faults.request(stream("s2"))]
    mixed = [[], []]
    for entry in LOG:
        for at in (0, 1) if first else (1, 0):
            mixed[at] += injections[at].stream.entry(entry)
    for at in (0, 1):
        mixed[at] += injections[at].stream.flush()
    assert [[action for action in done if not isinstance(action, Mark)] for done in mixed] == ones


@settings(max_examples=50)
@given(st.integers(1, 5), st.integers(0, 3), st.integers(1, 4))
def test_a_fault_hits_as_often_as_it_may(times, skip, connections):
    faults = Faults(Script((fault(Duplicate(), AT, times=times, skip=skip),)))
    done = [played(faults) for _ in range(connections)]
    fitted = connections * sum(entry.is_event for entry in LOG)
    extra = sum(len(actions) for actions in done) - connections * len(LOG)
    assert extra == faults.done["f"] == max(0, min(times, fitted - skip))


@settings(max_examples=50)
@given(scripts())
def test_nothing_is_lost_but_by_an_end(script):
    """Every byte of an event that was not corrupted or made longer is sent, unless the stream ended."""
    if any(isinstance(fault.deed, Corrupt | Oversize) for fault in script.faults):
        return
    done = played(Faults(script))
    if not any(ends(action) for action in done):
        sent = b"".join(action.data for action in done if isinstance(action, Write))
        frames = [frame.raw for frame in Parser().feed(sent)]
        assert {frame.raw for entry in LOG for frame in Parser().feed(entry.data)} <= set(frames)


# Rehearsals.

LOGS = {"s1": SessionLog("s1", [*LOG, END]), "s2": SessionLog("s2", [durable(1), durable(2)])}


def test_a_rehearsal_names_the_events_that_would_be_hit():
    script = Script(
        (
            fault(Cut(), AFTER, name="drop", sequences=(2,), times=1),
            fault(Cut(), AFTER, name="each", sequences=(2,)),
            fault(Corrupt(), AT, name="flaky", do=Do.CORRUPT, types=("message.delta",), probability=0.5, times=1),
            fault(Split(Seam.CRLF), AT, name="none", do=Do.SPLIT),
            fault(Refuse("RATE_LIMITED"), name="busy", do=Do.ERROR, address=Address((Requests.of("cancel"),))),
            fault(Cut(), BEFORE, name="second", numbers=(1,), address=Address((), ("s2",), (), (2,))),
        )
    )
    hits = [(hit.fault, hit.certain, hit.session, hit.place, hit.type, hit.sequence) for hit in rehearse(script, LOGS)]
    assert hits == [
        ("drop", True, "s1", 4, "message.completed", 2),
        ("each", True, "s1", 4, "message.completed", 2),
        ("each", True, "s2", 1, "message.completed", 2),
        ("flaky", False, "s1", 2, "message.delta", None),
        ("flaky", False, "s1", 3, "message.delta", None),
        ("busy", True, None, None, None, None),
        ("second", True, "s2", 0, "message.completed", 1),
    ]
    assert list(listing(script, LOGS)) == [
        "drop: drop (once, counted over all sessions as they are asked for)",
        "  session s1, place 4: after message.completed, sequence 2",
        "each: drop",
        "  session s1, place 4: after message.completed, sequence 2",
        "  session s2, place 1: after message.completed, sequence 2",
        "flaky: corrupt (flip) (once, counted over all sessions as they are asked for, with probability 0.5)",
        "  may: session s1, place 2: at message.delta",
        "  may: session s1, place 3: at message.delta",
        "none: split (crlf)",
        "  hits nothing in this recording",
        "busy: error RATE_LIMITED",
        "  any cancel request",
        "second: drop",
        "  session s2, place 0: before message.completed, sequence 1, on connection 2",
    ]


def test_a_rehearsal_says_which_cursors_are_meant_and_which_sessions_there_are_not():
    one = ExpireCursor(("e4", "e5\x1b"))
    script = Script(
        (
            fault(
                one,
                name="one",
                do=Do.EXPIRE_CURSOR,
                address=Address((Requests.of("stream"),), ("s1", "s9", "known")),
                times=2,
            ),
            fault(
                ExpireCursor(),
                name="any",
                do=Do.EXPIRE_CURSOR,
                address=Address((Requests.of("stream"),), ("s1",)),
                times=1,
            ),
        )
    )
    assert list(listing(script, LOGS, ["known"])) == [
        "one: expire-cursor (2 times, counted over all sessions as they are asked for)",
        "  any stream request with the cursor e4 or e5\\x1b of session s1",
        "  there is no session s9 in this recording",
        "any: expire-cursor (once)",
        "  any stream request with a cursor of session s1",
    ]


def test_a_listing_is_short_where_much_is_hit():
    logs = {"s1": SessionLog("s1", [durable(number) for number in range(1, 51)])}
    lines = list(listing(Script((fault(Oversize(256 * 1024 * 1024), AT, do=Do.OVERSIZE),)), logs))
    assert len(lines) == 22
    assert lines[-1] == "  and 30 more"


@settings(max_examples=50)
@given(scripts(probability=1.0, skip=0, times=None))
def test_a_rehearsal_says_what_would_be_done_where_nothing_ends_a_stream(script):
    if any(isinstance(fault.deed, Cut | Reorder | Split | Corrupt | Oversize) for fault in script.faults):
        return
    faults = Faults(script)
    played(faults)
    hits = [hit.fault for hit in rehearse(script, {"s1": SessionLog("s1", LOG)})]
    assert {fault.name: hits.count(fault.name) for fault in script.faults} == faults.done
