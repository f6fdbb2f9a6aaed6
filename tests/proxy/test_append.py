"""Live findings, also of a recording that is continued by `--append`, are those of the report."""

import json
from collections import Counter

from invoke import succeed
from wire_bytes import CHUNKED, END, STREAM, chunk, durable_event

from wiretape.json_codec import dump_json
from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape_inspect.timeline_json import recording_document

KEY = "Authorization: Bearer sk-1"


def events(*sequences, resync=None):
    """Return the chunks of durable events; the one with the sequence `resync` asks for a reconnect."""
    kinds = {resync: "stream.resync"}
    return b"".join(chunk(durable_event(number, kinds.get(number, ""))) for number in sequences)


def serve(service, *answers):
    """Respond to each request for the stream with the next of these chunks."""
    remaining = iter(answers)

    def behave(peer):
        peer.send(CHUNKED + next(remaining))
        peer.rest()

    service.on(STREAM, behave)


def count(findings):
    return Counter((found["code"], found["exchange"], found["event"], found["message"]) for found in findings)


def test_findings_after_restarts_are_those_of_the_report_in_every_command(start_proxy, service, eventually):
    serve(service, events(1, 2, 3), events(3, 4) + END, events(7) + END)
    first = start_proxy(service.url)
    first.get(STREAM, KEY).until(b"e3")
    eventually(lambda: first.find(STREAM) and first.body(STREAM).count(b"data:") == 3, "the events on disk")
    first.process.kill()
    eventually(lambda: not list(first.file.parent.glob("*-wal")), "the recorder to close the file")

    second = start_proxy(service.url, "--append")
    second.get(STREAM, KEY, "Last-Event-ID: e1").until(END)
    assert "exchange 2" in second.wait_line("RES002")
    assert second.stop() == 0
    third = start_proxy(service.url, "--append")
    third.get(STREAM, KEY, "Last-Event-ID: e4").until(END)
    assert third.stop() == 0

    report = json.loads(succeed("report", first.file, "--format", "json", "--exit-zero", "--no-config").output)
    shown = [json.loads(line) for line in succeed("show", first.file, "--json").output.splitlines()]
    sessions = json.loads(succeed("channels", first.file, "--json").output)
    with open_recording(first.file) as recording:
        endings = [exchange.ending for exchange in recording.exchanges()]
        page = json.loads(dump_json(recording_document(recording)))
    assert endings == [Ending.OPEN, Ending.COMPLETE, Ending.COMPLETE]
    reported = count(report["findings"])
    assert [code for code, *_ in reported] == ["RES002"]
    assert count(page["findings"]) == reported
    assert count(found for row in shown for found in row.get("findings", ())) == reported
    assert sessions["findings"] == sessions["channels"][0]["findings"] == {"error": 1}


def test_a_finding_that_the_continuation_refutes_is_removed(start_proxy, service):
    serve(service, events(1, 2, resync=2) + END, events(3) + END)
    first = start_proxy(service.url)
    first.get(STREAM, KEY).until(END)
    first.ended(STREAM)
    assert first.stop() == 0
    with open_recording(first.file) as recording:
        assert [finding.code for finding in recording.findings()] == ["CLI005"], "it has not reconnected so far"

    second = start_proxy(service.url, "--append")
    second.get(STREAM, KEY, "Last-Event-ID: e2").until(END)
    second.wait_line("The findings that were already in the recording have been corrected.")
    assert second.stop() == 0
    assert not any("CLI005" in line for line in second.lines)
    with open_recording(first.file) as recording:
        assert list(recording.findings()) == []


def test_findings_that_depend_on_an_earlier_file_stay_and_no_others_are_reported(start_proxy, service):
    """The last file of a rotated recording does not show what they follow from."""
    serve(service, events(1, 2, 3) + END, events(3, 4) + END, events(5) + END)
    first = start_proxy(service.url, "--rotate", "500K")
    first.get(STREAM, KEY).until(END)
    body = b"x" * 600_000
    service.on("/large", lambda peer: peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n" + body))
    first.get("/large").until(body)
    first.wait_line("; recording continues in ")
    first.get(STREAM, KEY, "Last-Event-ID: e1").until(END)
    first.wait_line(" RES002 ")
    assert first.stop() == 0
    last = first.file.with_name("run.0002.db")
    with open_recording(last) as recording:
        before = list(recording.findings())
    assert [finding.code for finding in before] == ["CLI002", "RES002"]

    second = start_proxy(service.url, "--append", "--output", str(last))
    second.get(STREAM, KEY, "Last-Event-ID: e4").until(END)
    assert second.stop() == 0
    with open_recording(last) as recording:
        assert list(recording.findings()) == before
    assert [line for line in second.lines if "correct" in line or " REC" in line] == []
