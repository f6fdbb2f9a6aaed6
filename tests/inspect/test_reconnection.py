"""Two connections of a session side by side."""

import json
import re

import pytest
from tables import read_tables

from wiretape.recording import open_recording
from wiretape_inspect.diff.reconnection import compare_connections

CASES = read_tables(__file__)["case"]


def events(message, *numbers, **changed):
    return [
        (1, message("run.started", id=f"e{number}", sequence=number, text=changed.get(f"e{number}", "as it was")))
        for number in numbers
    ]


def number_of(event):
    return event["event"] if event else "-"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_each_id_has_a_status(run, builder, message, case):
    cursor, changed = case.get("cursor"), {f"e{case.get('changed')}": "not as it was"}
    cut = f"event: run.started\nid: e{case.get('cut')}\ndata: {{".encode()
    last = (1, cut if "cut" in case else message("message.delta", id="d1"))
    builder.exchange([*events(message, *case["first"]), last])
    builder.exchange(
        events(message, *case["second"], **changed), request_headers=(("Last-Event-ID", cursor),) if cursor else ()
    )
    output = run("show", builder.close(), "--resume", "1:2", "--json").output
    head, *rows = [json.loads(line) for line in output.splitlines()]
    found = [f"{row['status']} {row['cursor']} {number_of(row['first'])} {number_of(row['second'])}" for row in rows]
    assert found == case["rows"]
    known = cursor in {"e1", "e2"}
    assert (head["cursor"], head["cursor_known"], head["missing"]) == (cursor, known, case.get("missing", []))


def test_event_that_comes_later_than_the_others_is_delayed(builder, message):
    first = builder.exchange(events(message, 1, 2), ending=None)
    builder.after(500)
    second = builder.exchange(events(message, 1, 2), ending=None)
    for wait, number in ((1, 3), (250, 4), (1, 5)):
        builder.extend(first, events(message, number))
        builder.extend(second, [(wait, message("message.delta")), *events(message, number)])
    with open_recording(builder.close()) as recording:
        found = compare_connections(recording, recording.exchange(first), recording.exchange(second))
    assert [row.status for row in found.rows] == ["same", "same", "same", "delayed", "same"]
    assert 240e6 < found.rows[3].later_ns < 260e6


def test_resume_shows_events_that_were_not_known(run, builder, message):
    builder.exchange(events(message, 1, 2, 3))
    builder.exchange(events(message, 3, 6), request_headers=(("Last-Event-ID", "e1"),))
    lines = run("show", builder.close(), "--resume", "1:2").output.splitlines()
    assert lines[0] == "#1 then #2  resumed after e1"
    assert [line.split()[0] for line in lines[2:]] == ["known", "lost", "same", "╌╌", "new", "missing", "1"]
    assert lines[3].split() == ["lost", "2", "seq", "2", "run.started", "e2", '{"text":"as', "it", 'was"}']
    assert {line.index("  e") for line in lines[2:5]} == {lines[1].index("  cursor")}
    assert re.fullmatch(r" {10}╌╌ #1: service closed at \d\.\d+s ╌╌", lines[5])
    assert lines[-2].strip() == "missing  sequence 4 to 5: on neither connection"
    assert lines[-1] == "1 known · 1 same · 1 lost · 1 new"
