"""Two viewers of one session, and a client that resumes after an incomplete event: the same findings live and later."""

import itertools
import json
import threading

from wiretape import check

STREAM = "/v1/sessions/s1/events/stream"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
KEYS = ["Authorization: Bearer sk-1", "Authorization: Bearer sk-2"]


def event(number, kind, run):
    document = {
        "id": f"e{number}",
        "sequence": number,
        "type": kind,
        "workspace_id": "w1",
        "session_id": "s1",
        "run_id": run,
        "created_at": "2025-01-01T00:00:00Z",
        "content": {},
        "data": {},
    }
    return f"event: {kind}\nid: e{number}\ndata: {json.dumps(document)}\n\n".encode()


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_a_second_viewer_does_not_hide_what_the_first_stream_proves(start_proxy, service):
    start, second, idle = (
        event(1, "run.started", "r1"),
        event(2, "run.started", "r2"),
        event(3, "sandbox.recreated", ""),
    )
    cut = idle[: idle.index(b"data:")]
    has_seen = threading.Event()
    numbers = itertools.count()

    def behave(peer):
        match next(numbers):
            case 0:
                peer.send(CHUNKED + chunk(start))
                has_seen.wait(30)
                peer.send(chunk(second + cut))
                peer.close()
            case 1:
                peer.send(CHUNKED + chunk(start + second))
                peer.rest()
            case _:
                peer.send(CHUNKED + b"0\r\n\r\n")

    service.on(STREAM, behave)
    proxy = start_proxy(service.url)
    first = proxy.get(STREAM, KEYS[0])
    first.until(b"e1")
    viewer = proxy.get(STREAM, KEYS[1])
    viewer.until(b"r2")
    has_seen.set()
    first.until(b"id: e3")
    first.rest()
    assert "exchange 1, event 2" in proxy.wait_line("RUN001")
    proxy.get(STREAM, KEYS[0], "Last-Event-ID: e3").until(b"0\r\n\r\n")
    assert "never received completely" in proxy.wait_line("CLI002")
    viewer.close()
    proxy.stop()
    live = [line for line in proxy.lines if "RUN001" in line or "CLI002" in line]
    found = [finding for finding in check(proxy.file).findings if finding.code in {"RUN001", "CLI002"}]
    assert [(finding.code, finding.exchange) for finding in found] == [("RUN001", 1), ("CLI002", 3)]
    assert len(live) == len(found)
    assert all(any(finding.message in line for line in live) for finding in found)
