"""HAR files as Firefox writes them.  They are written by hand, after the source of Firefox."""

import json

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.observations import Ending, Side
from wiretape.recording import open_recording

STREAM = 'event: run.started\nid: evt_1\ndata: {"text": "\u00e9\u2026"}\n\n: keep-alive\n\ndata: 2\n\n'
TIMINGS = {"blocked": 12, "dns": 0, "ssl": 0, "connect": 1, "send": 0, "wait": 250, "receive": 4000}


def entry(**content):
    """Return the entry of a stream that a page read."""
    return {
        "startedDateTime": "2026-11-21T14:00:00.250+02:00",
        "request": {
            "method": "GET",
            "url": "https://service.test/v1/sessions/ses_1/events/stream?event_deltas=true",
            "httpVersion": "HTTP/2",
            "headers": [{"name": "Authorization", "value": "Bearer abcdefghijkl"}, {"name": "Host", "value": "a"}],
            "headersSize": 380,
        },
        "response": {
            "status": 200,
            "statusText": "OK",
            "httpVersion": "HTTP/2",
            "headers": [{"name": "content-type", "value": "text/event-stream"}],
            "content": {"mimeType": "text/event-stream", **content},
            "bodySize": 290,
        },
        "timings": TIMINGS,
    }


POST = {
    "method": "POST",
    "url": "https://service.test/v1/runs",
    "httpVersion": "HTTP/2",
    "bodySize": 11,
    "postData": {"mimeType": "application/json", "params": [], "text": '{"a": "\u00e9"}'},
}
REFUSED = {"status": 0, "statusText": "", "httpVersion": "", "headers": [], "cookies": [], "content": {"size": -1}}


def har(*entries):
    who = {"name": "Firefox", "version": "140.0"}
    pages = [{"id": "page_1", "pageTimings": {"onContentLoad": -1, "onLoad": -1}, "title": "https://app.test/"}]
    return {"log": {"version": "1.2", "creator": who, "browser": who, "pages": pages, "entries": list(entries)}}


@pytest.fixture
def imported(tmp_path):
    """Return a function that imports a HAR file, and returns the notes and the recording."""

    def import_(*entries):
        path = tmp_path / "firefox.har"
        path.write_text(json.dumps(har(*entries), indent=2), "utf-8")
        result = CliRunner().invoke(wiretape, ["import", str(path), "-o", str(tmp_path / "out.db")])
        assert result.exit_code == 0, result.output
        return result.stderr, open_recording(tmp_path / "out.db")

    return import_


def body(recording, number=1, side=Side.RESPONSE):
    return b"".join(part.data for part in recording.body(number, side))


def test_a_complete_stream_is_imported_with_its_bytes_but_without_times(imported):
    notes, recording = imported(entry(size=len(STREAM.encode()), text=STREAM))

    exchange = recording.exchange(1)
    assert body(recording) == STREAM.encode()
    assert (exchange.operation, exchange.session_id, exchange.ending) == ("stream", "ses_1", Ending.OPEN)
    assert (exchange.request.http_version, exchange.response.time_ns) == ("HTTP/2.0", 263_000_000)
    assert {(seen.time_ns - exchange.response.time_ns) // 1000 for seen in recording.frames(1)} == {0}
    assert recording.info.started.isoformat() == "2026-11-21T12:00:00.250000+00:00"
    assert "The events of exchange 1 have no times in the file" in notes
    assert "shorter" not in notes
    assert "AUTH" not in notes


def test_a_truncated_body_is_reported(imported):
    notes, recording = imported(entry(size=5_000_000, text=STREAM[:50]))

    assert body(recording) == STREAM[:50].encode()
    assert "The body of exchange 1 is shorter than its declared size" in notes


def test_an_open_stream_is_imported_without_a_body(imported):
    notes, recording = imported(entry(size=-1))

    assert (recording.exchange(1).is_stream, body(recording)) == (True, b"")
    assert "The body of exchange 1 is not in the file" in notes


def test_other_requests_are_imported_and_websockets_are_skipped(imported):
    post = entry() | {"request": POST, "response": REFUSED, "timings": {}}
    socket = entry() | {"_webSocketMessages": [{"type": "send", "time": 1, "opcode": 1, "data": "x"}]}
    notes, recording = imported(post, socket, entry(size=3, text="x\n\n"))

    assert body(recording, 1, Side.REQUEST) == POST["postData"]["text"].encode()
    assert [exchange.response is None for exchange in recording.exchanges()] == [True, False]
    assert "Skipped 1 entry that is not an HTTP request." in notes
