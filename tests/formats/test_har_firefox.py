"""HAR files as Firefox writes them.  They are written by hand, after the source of Firefox."""

import json
from pathlib import Path

from wiretape.observations import Ending, Side

HAR = json.loads(Path(__file__).with_name("written").joinpath("firefox.har").read_text("utf-8"))
COMPLETE, POST, SOCKET = HAR["log"]["entries"]
TEXT = COMPLETE["response"]["content"]["text"]


def stream(**content):
    """Return the entry of a stream that a page read."""
    return COMPLETE | {"response": COMPLETE["response"] | {"content": {"mimeType": "text/event-stream", **content}}}


def har(*entries):
    """Return a HAR document with these entries."""
    return {"log": HAR["log"] | {"entries": entries}}


def body(recording, number=1, side=Side.RESPONSE):
    return b"".join(part.data for part in recording.body(number, side))


def test_a_complete_stream_is_imported_with_its_bytes_but_without_times(imported):
    notes, recording = imported(har(COMPLETE))

    exchange = recording.exchange(1)
    assert body(recording) == TEXT.encode()
    assert (exchange.operation, exchange.channel, exchange.ending) == ("stream", "ses_1", Ending.OPEN)
    assert (exchange.request.http_version, exchange.response.time_ns) == ("HTTP/2.0", 263_000_000)
    assert {(seen.time_ns - exchange.response.time_ns) // 1000 for seen in recording.frames(1)} == {0}
    assert recording.info.started.isoformat() == "2026-11-21T12:00:00.250000+00:00"
    assert "The events of exchange 1 have no times in the file" in notes
    assert "shorter" not in notes
    assert "AUTH" not in notes


def test_a_truncated_body_is_reported(imported):
    notes, recording = imported(har(stream(size=5_000_000, text=TEXT[:50])))

    assert body(recording) == TEXT[:50].encode()
    assert "The body of exchange 1 is shorter than its declared size" in notes


def test_an_open_stream_is_imported_without_a_body(imported):
    notes, recording = imported(har(stream(size=-1)))

    assert (recording.exchange(1).is_stream, body(recording)) == (True, b"")
    assert "The body of exchange 1 is not in the file" in notes


def test_other_requests_are_imported_and_websockets_are_skipped(imported):
    notes, recording = imported(har(POST, SOCKET, stream(size=3, text="x\n\n")))

    assert body(recording, 1, Side.REQUEST) == POST["request"]["postData"]["text"].encode()
    assert [exchange.response is None for exchange in recording.exchanges()] == [True, False]
    assert "Skipped 1 entry that is not an HTTP request." in notes
