"""The read endpoints of the debugger's API, over real sockets."""

import asyncio
import json
import sqlite3
import sys
import threading
from base64 import b64decode
from contextlib import closing

import pytest
from findings import finding
from tables import read_tables

TABLES = read_tables(__file__)

NO_STREAM = "Exchange 1 is not an event stream."


async def test_recording_has_its_exchanges_findings_and_rules(builder, message, open_debugger):
    number = builder.exchange([(5, message("run.started", id="e1", sequence=1))])
    builder.exchange(target="/v1/runs", method="POST", status=409, headers=())
    builder.find(finding(1, exchange=number))
    async with open_debugger(builder.close()) as client:
        _, document = await client.get("/api/recording")
    assert (document["file"], document["upstream"], document["live"], document["replay"]) == (
        "run.db",
        "http://service.test",
        False,
        None,
    )
    assert [(head["exchange"], head["status"], head["stream"]) for head in document["exchanges"]] == [
        (1, 200, True),
        (2, 409, False),
    ]
    assert [(found["code"], found["exchange"], found["event"]) for found in document["findings"]] == [("SEQ001", 1, 1)]
    assert document["rules"]["SEQ001"]["name"] == "sequence-not-increasing"
    keys = {"name", "severity", "side", "clause", "about", "why", "fix", "explain"}
    assert set(document["rules"]["SEQ001"]) == keys


async def test_rows_equal_those_of_show(session, client, run):
    shown = [json.loads(line) for line in run("show", session, "--json").output.splitlines()]
    document = [row for number in range(1, 5) for row in await client.lines(f"/api/rows?exchange={number}")]
    assert document == shown
    assert await client.lines("/api/rows?exchange=1&most=1") == shown[:1]
    assert [row["row"] for row in document].count("deltas") == 1


async def test_events_returns_each_delta_of_a_run(client):
    document = await client.lines("/api/events?exchange=2&first=3&last=5")
    assert [(row["row"], row["event"], row["preview"]) for row in document] == [
        ("event", number, "word ") for number in (3, 4, 5)
    ]
    assert {row["gap_ns"] for row in document} == {10_000_000}
    assert [row["event"] for row in await client.lines("/api/events?exchange=2&first=39&last=999999999999999999")] == [
        39,
        40,
    ]
    assert await client.lines("/api/events?exchange=2&first=5&last=3") == []


async def test_event_equals_show_at(session, client, run):
    _, document = await client.get("/api/event?exchange=2&event=40")
    printed = json.loads(run("show", session, "--at", "2:40", "--json").output)
    assert document.pop("text").encode() == b64decode(printed.pop("base64"))
    assert document == printed
    assert document["state"]["texts"]["text"] == {"text": "word word", "characters": 9, "final": True}


@pytest.mark.parametrize("kind", ["html", "har", "tape", "events", "sse"])
async def test_export_equals_that_of_the_command(session, client, run, kind):
    async with client.session.get(f"/api/export?format={kind}&exchange=2") as response:
        body = await response.read()
        assert response.headers["Content-Disposition"] == "attachment"
    assert body == run("export", session, "--format", kind, "--exchange", "2").stdout_bytes


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        *TABLES["invalid"],
        ("export?format=pdf", 400, "Unknown format 'pdf': expected tape, har"),
        ("export?format=sse&exchange=1", 400, "Exchange 1 is not an event stream"),
        ("rows?exchange=1" + "0" * 30, 400, "expected a whole number of at most 18 digits"),
        ("events?exchange=1&first=1&last=2", 404, NO_STREAM),
        ("overview?exchange=1", 404, NO_STREAM),
        ("event?exchange=1&event=1", 404, NO_STREAM),
        ("cut?exchange=1&start=0&event=1", 404, NO_STREAM),
        ("live?after=" + "9" * 30 + ".0.0", 400, "Invalid position"),
    ],
)
async def test_invalid_request_is_reported_in_one_sentence(client, path, status, message):
    found = await client.error(f"/api/{path}")
    assert found[0] == status
    assert message in found[1]
    assert "\x1b" not in found[1]


_KILLED = """
import os, signal, sys
from wiretape.observations import BytesArrived, RequestStarted, ResponseStarted, Side
from wiretape.recording import Writer

writer = Writer.create(sys.argv[1], upstream="http://service.test")
writer.feed([
    RequestStarted(1, 1, "127.0.0.1", "GET", "http", "service.test", "/v1/sessions/s1/events/stream", "HTTP/1.1", ()),
    ResponseStarted(1, 2, 200, "", "HTTP/1.1", (("content-type", "text/event-stream"),)),
    BytesArrived(1, Side.RESPONSE, 0, b"data: {}\\n\\n", (10,), (3,)),
])
writer.commit()
print("recorded", flush=True)
sys.stdin.read()
"""


async def test_recording_is_live_until_its_recorder_is_killed(tmp_path, open_debugger):
    path = tmp_path / "run.db"
    recorder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _KILLED, str(path)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    await recorder.stdout.readline()
    async with open_debugger(path) as client:
        assert (await client.get("/api/recording"))[1]["live"]
        recorder.kill()
        await recorder.wait()
        assert not (await client.get("/api/recording"))[1]["live"]
        rows = await client.lines("/api/rows?exchange=1")
    assert [row["row"] for row in rows] == ["exchange", "event", "end"]


async def test_damage_in_the_middle_is_reported_in_the_last_line(builder, message, open_debugger):
    builder.exchange([message("message.completed", id=f"e{n}", text="x" * 1000) for n in range(100)])
    path = builder.close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE segment SET chunks = '[1]' WHERE id = (SELECT max(id) FROM segment)")
    async with open_debugger(path) as client:
        rows = await client.lines("/api/rows?exchange=1")
    assert "is damaged" in rows[-1]["error"]["message"]
    assert [row["row"] for row in rows[:3]] == ["exchange", "event", "event"]


async def test_deleted_recording_is_reported_in_one_sentence(builder, open_debugger):
    path = builder.close()
    async with open_debugger(path) as client:
        path.unlink()
        assert await client.error("/api/recording") == (500, f"There is no file {path}.")


async def test_reading_stops_when_the_client_disconnects(builder, message, open_debugger):
    builder.exchange([(0, message("message.completed", id=f"e{n}", text="x" * 1000)) for n in range(10_000)])
    async with open_debugger(builder.close()) as client:
        async with client.session.get("/api/rows?exchange=1") as response:
            await response.content.readline()
            (reader,) = [thread for thread in threading.enumerate() if thread.name == "recording-reader"]
            response.close()
        await asyncio.to_thread(reader.join, 10)
        assert not reader.is_alive()
