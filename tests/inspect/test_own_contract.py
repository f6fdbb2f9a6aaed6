"""Every command shows the traffic of an API with the names that its contract gives to channels and entities."""

import json
import re
import sqlite3
from contextlib import closing

from wiretape.recording import open_recording
from wiretape_inspect.timeline_json import recording_document


def test_filters_and_rows_have_the_names_of_the_contract(run, forum):
    lines = run("show", forum, "thread:t7 part:i1/0", "--json").stdout.splitlines()
    head, *rows = map(json.loads, lines)
    assert (head["contract"], head["operation"], head["thread_id"], head["cursor"]) == ("forum", "read", "t7", None)
    assert [(row["row"], row["item_id"], row["part_id"]) for row in rows] == [
        ("event", "i1", "i1/0"),
        ("deltas", "i1", "i1/0"),
        ("event", "i1", "i1/0"),
    ]
    assert rows[1]["preview"] == "Hello there"
    assert "item.refused" in run("show", forum, "item:i2").stdout
    assert run("show", forum, "thread:t8").output == "contract forum\n"
    unknown = run("show", forum, "session:t7").output
    assert "unknown field `session`; expected one of type, kind, id, rule, method, item, part, thread," in unknown


def test_entities_and_the_state_of_the_client_are_those_of_the_contract(run, forum):
    rows = [json.loads(line) for line in run("show", forum, "--entities", "--json").stdout.splitlines()]
    found = [(row["row"], row["thread_id"], row[row["row"]]["id"], row[row["row"]]["outcome"]) for row in rows]
    assert found == [
        ("item", "t7", "i1", ""),
        ("item", "t7", "i2", "item.refused"),
        ("part", "t7", "i1/0", "part.closed"),
        ("part", "t7", "i1/1", ""),
    ]
    state = json.loads(run("show", forum, "--at", "1:7", "--json").stdout)["state"]
    assert state["texts"]["post"]["text"] == "Hello there"
    shown = run("show", forum, "--at", "1:7").stdout
    assert "after: 2, after sequence 2" in shown
    assert re.search(r"cursor +2 after this event", shown)
    resumed = json.loads(run("show", forum, "--at", "2:1", "--json").stdout)["state"]
    assert (resumed["cursor"], resumed["connections"]) == ("2", [1, 2])
    assert "2 same" in run("show", forum, "--resume", "1:2").stdout
    assert [span["id"] for span in state["entities"]["item"]] == ["i1", "i2"]
    assert [(span["id"], span["within"]) for span in state["entities"]["part"]] == [("i1/1", "i1")]


def test_views_have_the_names_of_the_contract(forum):
    with closing(sqlite3.connect(forum)) as connection:
        connection.row_factory = sqlite3.Row
        items, parts, threads, resumes = (
            [dict(row) for row in connection.execute(f"SELECT * FROM {name}")]  # noqa: S608 - constants
            for name in ("items", "parts", "threads", "resumes")
        )
        keys = connection.execute("SELECT thread_id, item_id, part_id FROM events WHERE event = 2").fetchone()
    assert tuple(keys) == ("t7", "i1", "i1/0")
    assert [(row["thread_id"], row["item_id"], row["outcome"], row["parts"]) for row in items] == [
        ("t7", "i1", None, 2),
        ("t7", "i2", "item.refused", 0),
    ]
    assert [(row["item_id"], row["part_id"], row["name"], row["outcome"]) for row in parts] == [
        ("i1", "i1/0", "Greeting", "part.closed"),
        ("i1", "i1/1", "Rest", None),
    ]
    assert [(row["thread_id"], row["exchanges"], row["streams"]) for row in threads] == [("t7", 2, 2)]
    assert [(row["last_event_id"], row["repeated_events"], row["lost_events"]) for row in resumes] == [("1", 0, 0)]


def test_the_page_gets_the_names_of_the_contract(forum):
    with open_recording(forum) as opened:
        document = recording_document(opened)
    (vocabulary,) = document["vocabularies"].values()
    assert vocabulary["channel"] == "thread"
    assert [(each["name"], each["within"]) for each in vocabulary["entities"]] == [("item", None), ("part", "item")]
    assert vocabulary["failures"] == ["item.refused"]
    assert [each["thread_id"] for each in document["exchanges"]] == ["t7", "t7"]
