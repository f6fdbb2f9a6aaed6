"""A recording that is continued by `--append`, after the proxy was stopped or killed."""

import json
from collections import Counter

from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.json_codec import dump_json
from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape_inspect.timeline_json import recording_document

STREAM = "/v1/sessions/s1/events/stream"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
KEY = "Authorization: Bearer sk-1"


def events(*sequences):
    """Return the chunks of durable events."""
    chunks = b""
    for number in sequences:
        document = {
            "id": f"e{number}",
            "sequence": number,
            "type": "run.started" if number == 1 else "reasoning.message",
            "workspace_id": "w1",
            "session_id": "s1",
            "run_id": "r1",
            "created_at": "2025-01-01T00:00:00Z",
            "content": [],
            "data": {},
        }
        data = f"event: {document['type']}\nid: e{number}\ndata: {json.dumps(document)}\n\n".encode()
        chunks += b"%x\r\n%s\r\n" % (len(data), data)
    return chunks


def run(*arguments):
    """Run a command; return its output."""
    return CliRunner().invoke(wiretape, [*map(str, arguments)], catch_exceptions=False).output


def count(findings):
    return Counter((found["code"], found["exchange"], found["event"], found["message"]) for found in findings)


def test_findings_after_restarts_are_those_of_the_report_in_every_command(start_proxy, service, eventually):
    answers = iter([events(1, 2, 3), events(3, 4) + b"0\r\n\r\n", events(7) + b"0\r\n\r\n"])

    def behave(peer):
        peer.send(CHUNKED + next(answers))
        peer.rest()

    service.on(STREAM, behave)
    first = start_proxy(service.url)
    first.get(STREAM, KEY).until(b"e3")
    eventually(lambda: first.find(STREAM) and first.body(STREAM).count(b"data:") == 3, "the events on disk")
    first.process.kill()
    eventually(lambda: not list(first.file.parent.glob("*-wal")), "the recorder to close the file")

    second = start_proxy(service.url, "--append")
    second.get(STREAM, KEY, "Last-Event-ID: e1").until(b"0\r\n\r\n")
    assert "exchange 2" in second.wait_line("RES002")
    assert second.stop() == 0
    third = start_proxy(service.url, "--append")
    third.get(STREAM, KEY, "Last-Event-ID: e4").until(b"0\r\n\r\n")
    assert third.stop() == 0

    report = json.loads(run("report", first.file, "--format", "json", "--exit-zero", "--no-config"))
    shown = [json.loads(line) for line in run("show", first.file, "--json").splitlines()]
    sessions = json.loads(run("sessions", first.file, "--json"))
    with open_recording(first.file) as recording:
        endings = [exchange.ending for exchange in recording.exchanges()]
        page = json.loads(dump_json(recording_document(recording)))
    assert endings == [Ending.OPEN, Ending.COMPLETE, Ending.COMPLETE]
    reported = count(report["findings"])
    assert [code for code, *_ in reported] == ["RES002"]
    assert count(page["findings"]) == reported
    assert count(found for row in shown for found in row.get("findings", ())) == reported
    assert sessions["findings"] == sessions["sessions"][0]["findings"] == {"error": 1}
