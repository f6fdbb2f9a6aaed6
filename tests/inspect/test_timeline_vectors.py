"""Streams as data, and the rows that `wiretape show` makes of them."""

import json

import pytest
from event_tables import event_chunk
from findings import finding
from tables import read_tables

from wiretape.observations import Ending

VECTORS = read_tables(__file__)["vector"]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_stream_is_shown_with_these_rows(run, builder, vector):
    ending = Ending(vector.get("ending", "complete"))
    encoding = [("content-encoding", vector["encoding"])] if "encoding" in vector else []
    builder.exchange(
        map(event_chunk, vector["events"]),
        headers=(("content-type", "text/event-stream"), *encoding),
        ending=None if ending is Ending.OPEN else ending,
    )
    builder.find(*(finding(**each) for each in vector.get("findings", ())))
    output = run("show", builder.close(killed=ending is Ending.OPEN), "--json").output
    _, *rows = [json.loads(line) for line in output.splitlines()]
    for row in rows:
        row["codes"] = sorted(each["code"] for each in row.get("findings", ()))
        row["undecodable"] = bool(row.get("undecodable"))
    assert [row["row"] for row in rows] == [row["row"] for row in vector["rows"]]
    assert [
        {name: row[name] for name in expected} for row, expected in zip(rows, vector["rows"], strict=True)
    ] == vector["rows"]


def test_oversized_events_in_several_pieces_are_one_row_each(run, builder):
    """Also if only a keep-alive is between them."""
    large = [b"data: " + b"x" * (size * 1024 * 1024) + b"\n\n" for size in (40, 17)]
    builder.exchange([large[0], b": ping\n", large[1], b"data: 1\n\n"])
    rows = [json.loads(line) for line in run("show", builder.close(), "--json").output.splitlines()][1:]
    assert [row["row"] for row in rows] == ["oversized", "pause", "oversized", "event", "end"]
    assert [(rows[at]["start"], rows[at]["end"]) for at in (0, 2)] == [
        (0, len(large[0])),
        (len(large[0]) + 7, len(large[0]) + 7 + len(large[1])),
    ]
    assert rows[0]["preview"].startswith("data: xxx")


@pytest.mark.parametrize(
    ("fields", "preview"),
    [
        ({"content": [{"text": "y" * 5_000_000}]}, '"' + "y" * 398 + "…"),
        ({"a": json.loads("[" * 300 + "]" * 300)}, "(deeply nested)"),
    ],
    ids=["long", "deep"],
)
def test_large_events_have_a_short_preview(run, builder, message, fields, preview):
    builder.exchange([message("message.completed", id="e1", sequence=1, **fields)])
    assert json.loads(run("show", builder.close(), "--json").output.splitlines()[1])["preview"] == preview
