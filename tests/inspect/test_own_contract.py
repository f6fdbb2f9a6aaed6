"""Every command shows the traffic of an API with the names that its contract gives to channels and entities."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wiretape.recording import open_recording
from wiretape_inspect.timeline_json import recording_document

CONTRACT = Path(__file__).with_name("data") / "own_contract.toml"
EVENTS = [
    {"type": "item.opened", "n": 1, "item": "i1"},
    {"type": "part.opened", "item": "i1", "part": 0, "title": "Greeting"},
    {"type": "text.delta", "item": "i1", "part": 0, "text": "Hello "},
    {"type": "text.delta", "item": "i1", "part": 0, "text": "there"},
    {"type": "part.closed", "item": "i1", "part": 0},
    {"type": "part.opened", "item": "i1", "part": 1, "title": "Rest"},
    {"type": "item.opened", "n": 2, "item": "i2"},
    {"type": "item.refused", "n": 3, "item": "i2"},
]


@pytest.fixture
def recording(run, tmp_path) -> Path:
    """An imported stream of the thread t7, and one that resumes it."""
    har = {"log": {"version": "1.2", "creator": {"name": "test", "version": "1"}, "entries": []}}
    for second, (query, events) in enumerate([("", EVENTS), ("?after=1", EVENTS[6:])]):
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        har["log"]["entries"].append(
            {
                "startedDateTime": f"2026-01-01T00:00:0{second}Z",
                "time": 10,
                "request": {
                    "method": "GET",
                    "url": f"http://forum.test/threads/t7/events{query}",
                    "httpVersion": "HTTP/1.1",
                    "headers": [],
                },
                "response": {
                    "status": 200,
                    "statusText": "OK",
                    "httpVersion": "HTTP/1.1",
                    "headers": [{"name": "Content-Type", "value": "text/event-stream"}],
                    "content": {"size": len(text), "mimeType": "text/event-stream", "text": text},
                },
                "timings": {"send": 1, "wait": 1, "receive": 8},
            }
        )
    source, path = tmp_path / "forum.har", tmp_path / "run.db"
    source.write_text(json.dumps(har), "utf-8")
    result = run("import", source, "--output", path, "--contract", CONTRACT)
    assert result.exit_code == 0, result.output
    return path


def test_filters_and_rows_have_the_names_of_the_contract(run, recording):
    lines = run("show", recording, "thread:t7 part:i1/0", "--json").stdout.splitlines()
    head, *rows = map(json.loads, lines)
    assert (head["contract"], head["operation"], head["thread_id"], head["cursor"]) == ("forum", "read", "t7", None)
    assert [(row["row"], row["item_id"], row["part_id"]) for row in rows] == [
        ("event", "i1", "i1/0"),
        ("deltas", "i1", "i1/0"),
        ("event", "i1", "i1/0"),
    ]
    assert rows[1]["preview"] == "Hello there"
    assert "item.refused" in run("show", recording, "item:i2").stdout
    assert run("show", recording, "thread:t8").output == "contract forum\n"
    unknown = run("show", recording, "session:t7").output
    assert "unknown field `session`; expected one of type, kind, id, rule, item, part, thread," in unknown


def test_entities_and_the_state_of_the_client_are_those_of_the_contract(run, recording):
    rows = [json.loads(line) for line in run("show", recording, "--entities", "--json").stdout.splitlines()]
    found = [(row["row"], row["thread_id"], row[row["row"]]["id"], row[row["row"]]["outcome"]) for row in rows]
    assert found == [
        ("item", "t7", "i1", ""),
        ("item", "t7", "i2", "item.refused"),
        ("part", "t7", "i1/0", "part.closed"),
        ("part", "t7", "i1/1", ""),
    ]
    state = json.loads(run("show", recording, "--at", "1:7", "--json").stdout)["state"]
    assert state["texts"]["post"]["text"] == "Hello there"
    shown = run("show", recording, "--at", "1:7").stdout
    assert "after: 2, after sequence 2" in shown
    assert re.search(r"cursor +2 after this event", shown)
    resumed = json.loads(run("show", recording, "--at", "2:1", "--json").stdout)["state"]
    assert (resumed["cursor"], resumed["connections"]) == ("2", [1, 2])
    assert [span["id"] for span in state["entities"]["item"]] == ["i1", "i2"]
    assert [(span["id"], span["within"]) for span in state["entities"]["part"]] == [("i1/1", "i1")]


def test_views_have_the_names_of_the_contract(recording):
    with closing(sqlite3.connect(recording)) as connection:
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


def test_the_page_gets_the_names_of_the_contract(recording):
    with open_recording(recording) as opened:
        document = recording_document(opened)
    (vocabulary,) = document["vocabularies"].values()
    assert vocabulary["channel"] == "thread"
    assert [(each["name"], each["within"]) for each in vocabulary["entities"]] == [("item", None), ("part", "item")]
    assert vocabulary["failures"] == ["item.refused"]
    assert [each["thread_id"] for each in document["exchanges"]] == ["t7", "t7"]
