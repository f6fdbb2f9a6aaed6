"""Two connections of a session side by side."""

import json

import pytest

from wiretape.errors import InputError
from wiretape.recording import open_recording
from wiretape_inspect.diff.reconnection import compare_connections


def events(message, *numbers, **changed):
    return [
        (1, message("run.started", id=f"e{number}", sequence=number, text=changed.get(f"e{number}", "as it was")))
        for number in numbers
    ]


@pytest.fixture
def view(tape, message):
    """The resume view of two streams with these events, the second after this cursor."""

    def make(first, second, cursor=None, **changed):
        headers = (("Last-Event-ID", cursor),) if cursor else ()
        tape.exchange(chunks=[*events(message, *first), (1, message("message.delta", id="d1"))])
        tape.exchange(chunks=events(message, *second, **changed), request_headers=headers)
        with open_recording(tape.close()) as recording:
            return compare_connections(recording, recording.exchange(1), recording.exchange(2))

    return make


def statuses(view):
    return {row.id: row.status for row in view.rows}


@pytest.mark.parametrize(
    ("first", "second", "cursor", "expected"),
    [
        ((1, 2, 3, 4), (3, 4, 5), "e2", {"e1": "known", "e2": "known", "e3": "same", "e4": "same", "e5": "new"}),
        ((1, 2, 3, 4), (4, 5), "e2", {"e1": "known", "e2": "known", "e3": "lost", "e4": "same", "e5": "new"}),
        ((1, 2, 3, 4), (3,), "e2", {"e1": "known", "e2": "known", "e3": "same", "e4": "pending"}),
        ((1, 2, 3), (2, 3), "e2", {"e1": "known", "e2": "repeated", "e3": "same"}),
        ((1, 2, 3, 4), (3, 2, 4), "e1", {"e1": "known", "e2": "moved", "e3": "same", "e4": "same"}),
        ((1, 2), (2,), None, {"e1": "lost", "e2": "same"}),
        ((1, 2), (9,), "e8", {"e1": "lost", "e2": "lost", "e9": "new"}),
    ],
    ids=["correct", "lost", "pending", "repeated", "moved", "no cursor", "unknown cursor"],
)
def test_each_id_has_a_status(view, first, second, cursor, expected):
    found = view(first, second, cursor)
    assert statuses(found) == expected
    assert (found.cursor, found.cursor_known) == (cursor, cursor in {"e1", "e2"})


def test_event_that_one_connection_sends_twice_is_repeated(view):
    found = view((1, 1), (1, 2, 2), "e1")
    assert [(row.status, row.first and row.first.event, row.second and row.second.event) for row in found.rows] == [
        ("repeated", 1, 1),
        ("repeated", 2, None),
        ("new", None, 2),
        ("repeated", None, 3),
    ]


def test_event_that_comes_later_than_the_others_is_delayed(tape, message):
    first = tape.exchange(chunks=events(message, 1, 2), ending=None)
    tape.after(500)
    second = tape.exchange(chunks=events(message, 1, 2), ending=None)
    for wait, number in ((1, 3), (250, 4), (1, 5)):
        tape.extend(first, events(message, number))
        tape.extend(second, [(wait, message("message.delta")), *events(message, number)])
    with open_recording(tape.close()) as recording:
        found = compare_connections(recording, recording.exchange(first), recording.exchange(second))
    assert [row.status for row in found.rows] == ["same", "same", "same", "delayed", "same"]
    assert 240e6 < found.rows[3].later_ns < 260e6


def test_other_data_under_the_same_id_is_changed(view):
    found = view((1, 2, 3), (2, 3), "e1", e3="not as it was")
    assert statuses(found) == {"e1": "known", "e2": "same", "e3": "changed"}


def test_sequences_on_neither_connection_are_missing(view):
    assert view((1, 2, 7), (10, 11), "e2").missing == ((3, 6), (8, 9))


@pytest.mark.parametrize(
    ("pair", "error"),
    [
        ((2, 1), "Put the earlier connection first: 1:2."),
        ((1, 1), "Put the earlier connection first"),
        ((1, 3), "belong to different sessions (s1 and s2)"),
        ((1, 4), "Exchange 4 is not an event stream"),
    ],
)
def test_only_two_streams_of_one_session_can_be_compared(tape, pair, error):
    tape.exchange()
    tape.exchange()
    tape.exchange("/v1/sessions/s2/events/stream")
    tape.exchange("/x", headers=())
    with open_recording(tape.close()) as recording, pytest.raises(InputError) as raised:
        compare_connections(recording, *map(recording.exchange, pair))
    assert error in str(raised.value)


def test_resume_shows_events_that_were_not_known(run, tape, message):
    tape.exchange(chunks=events(message, 1, 2, 3))
    tape.exchange(chunks=events(message, 3, 6), request_headers=(("Last-Event-ID", "e1"),))
    path = tape.close()
    lines = run("show", path, "--resume", "1:2").output.splitlines()
    assert lines[0] == "#1 then #2  resumed after e1"
    assert [line.split()[0] for line in lines[2:]] == ["lost", "same", "new", "missing", "1"]
    assert lines[2].split() == ["lost", "2", "seq", "2", "run.started", "-", "e2", '{"text":"as', "it", 'was"}']
    assert {line.index("  e") for line in lines[2:5]} == {lines[1].index("  id")}
    assert lines[-2].strip() == "missing  sequence 4 to 5: on neither connection"
    assert lines[-1] == "1 known · 1 same · 1 lost · 1 new"
    rows = [json.loads(line) for line in run("show", path, "--resume", "1:2", "--json").output.splitlines()]
    assert rows[0] == {
        "row": "reconnection",
        "first": 1,
        "second": 2,
        "cursor": "e1",
        "cursor_known": True,
        "missing": [[4, 5]],
    }
    assert [row["status"] for row in rows[1:]] == ["known", "lost", "same", "new"]
    assert run("show", path, "--resume", "1").exit_code == 2
