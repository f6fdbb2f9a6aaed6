"""The recording of a service and the recording of its replay differ in times only."""

import gzip
import json
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from wire_bytes import chunk

from wiretape.observations import Ending, Side, header
from wiretape.recording import open_recording

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Trace: a\r\nx-trace: b\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
EVENTS = [
    b'event: run.started\r\nid: e1\r\ndata: {"id":"e1","sequence":1,"type":"run.started"}\r\n\r\n',
    b": ping\n\n",
    b'event: message.delta\ndata: {"type":"message.delta","run_id":"r1","delta":{"text":"caf\xc3',
    b'\xa9"}}\n\n',
    b'event: run.completed\nid: e2\ndata: {"id":"e2","sequence":2,"type":"run.completed"}\n\n',
]
BODY = b"".join(EVENTS)
PACKED = gzip.compress(BODY, mtime=0)
BUSY = json.dumps({"error": {"code": "SESSION_BUSY", "message": "busy", "request_id": "q1"}}).encode()
CANCEL = "/v1/sessions/s1/runs/r1/cancel"
TIMES = {"time", "time_ns", "ended_ns"}


def stream(number: int) -> str:
    return f"/v1/sessions/s{number}/events/stream"


def sized(body: bytes, *lines: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"Content-Length: %d" % len(body), b"", body])


IN_CHUNKS = CHUNKED + b"".join(map(chunk, EVENTS))
STREAMS = {
    1: (IN_CHUNKS + b"0\r\n\r\n", None, Ending.COMPLETE),
    2: (IN_CHUNKS, "close", Ending.SERVICE_CLOSED),
    3: (IN_CHUNKS, "reset", Ending.SERVICE_RESET),
    4: (sized(BODY, HEAD.strip().partition(b"\r\n")[2]), None, Ending.COMPLETE),
    5: (HEAD + b"Connection: close\r\n\r\n" + BODY, "close", Ending.COMPLETE),
    6: (HEAD + b"Content-Length: 9999\r\n\r\n" + BODY, "close", Ending.SERVICE_CLOSED),
    7: (HEAD + b"Content-Length: 9999\r\n\r\n" + BODY, "reset", Ending.SERVICE_RESET),
    8: (HEAD + b"Connection: close\r\n\r\n" + BODY, "reset", Ending.SERVICE_RESET),
    9: (IN_CHUNKS.replace(b"X-Trace", b"Vary"), "hold", Ending.CLIENT_CLOSED),
    10: (
        HEAD + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(PACKED) + b"0\r\n\r\n",
        None,
        Ending.COMPLETE,
    ),
    11: (b"", "close", Ending.SERVICE_CLOSED),
}
"""What the recorded service sends, how it then ends, and the recorded ending."""


class Script:
    """A service, and a client that signals the service once it has read everything."""

    def __init__(self, service) -> None:
        self.seen = threading.Event()
        for number, (data, then, _) in STREAMS.items():
            service.on(stream(number), self._streams(data, then))
        states = iter((b"queued", b"running", b"done"))
        service.on("/v1/runs/r1", lambda peer: peer.send(sized(next(states), b"Content-Type: text/plain")))
        service.on(
            "/v1/none", lambda peer: peer.send(b"HTTP/1.1 204 No Content\r\nSet-Cookie: id=a-secret-cookie\r\n\r\n")
        )
        service.on(CANCEL, self._cancels)

    def _streams(self, data: bytes, then: str | None):
        def behave(peer) -> None:
            peer.send(data)
            if then == "reset":
                self.seen.wait(45)  # a reset overtakes bytes that the proxy has not read yet
            if then in {"close", "reset"}:
                getattr(peer, then)()

        return behave

    @staticmethod
    def _cancels(peer) -> None:
        busy = b"1" in peer.exactly(8)
        json_of = b"Content-Type: application/json"
        peer.send(sized(BUSY, json_of, status=b"409 Conflict") if busy else sized(b'{"ok": true}', json_of))

    def play(self, proxy, key: str) -> None:
        """Send all requests through the proxy."""
        for number, (data, then, _) in STREAMS.items():
            self.seen.clear()
            peer = proxy.get(stream(number), f"Authorization: {key}")
            if then in {"hold", "reset"}:
                peer.until(EVENTS[-1])
                self.seen.set()
            if then == "hold":
                peer.close()
            elif then is None:
                peer.until(data.partition(b"\r\n\r\n")[2])
                peer.close()
            else:
                peer.rest()
            proxy.ended(stream(number))
        lines = (f"Authorization: {key}", "Connection: close")
        for path in ("/v1/runs/r1", "/v1/runs/r1", "/v1/runs/r1", "/v1/none"):
            proxy.get(path, *lines).rest()
        for n in (1, 2):
            peer = proxy.connect()
            head = [f"POST {CANCEL} HTTP/1.1", "Host: replay.test", *lines, "Content-Length: 8", "", f'{{"n": {n}}}']
            peer.send("\r\n".join(head).encode())
            peer.rest()


def exported(start_forked, path: Path) -> list[dict]:
    """Return the output of `wiretape export --format events` without times."""
    process = start_forked("wiretape", ["export", str(path), "--format", "events"], stdout=subprocess.PIPE)
    lines, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    return [{key: value for key, value in json.loads(line).items() if key not in TIMES} for line in lines.splitlines()]


@pytest.fixture
def replay(start_forked):
    """Start `wiretape replay` in verbatim mode at an address."""
    processes = []

    def start_it(path: Path, address: str) -> None:
        command = ["replay", str(path), "--mode", "verbatim", "--speed", "max", "--strict", "--listen", address]
        process = start_forked("wiretape", command, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        line = process.stderr.readline()
        assert line.startswith("Replaying "), line + process.stderr.read()

    yield start_it
    for process in processes:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=45)[1]
        assert process.returncode == 0, said


def test_a_recording_of_the_replay_equals_that_of_the_service_except_for_times(
    service, start_module_proxy, start_forked, replay
):
    """The replay listens at the address of the service, and the client sends the recorded key.

    Each ending, framing and kind of answer comes up once; both recordings are made by the real proxy.
    """
    script = Script(service)
    first = start_module_proxy(service.url)
    script.play(first, "Bearer a-key-of-mine")
    assert first.stop() == 0
    service.close()
    with open_recording(first.file) as recording:
        kept = [(one.request.target, one.ending) for one in recording.exchanges() if one.is_stream or not one.response]
        key = header(recording.exchange(1).request.headers, "authorization")
        chunks = list(recording.body(1, Side.RESPONSE))
    assert kept == [(stream(number), ending) for number, (_, _, ending) in STREAMS.items()]

    replay(first.file, service.authority)
    second = start_module_proxy(service.url)
    script.play(second, key)
    assert second.stop() == 0

    assert exported(start_forked, second.file) == exported(start_forked, first.file)
    with open_recording(second.file) as recording:
        again = list(recording.body(1, Side.RESPONSE))
    assert [data for run in again for _, data in run.chunks()] == [data for run in chunks for _, data in run.chunks()]
