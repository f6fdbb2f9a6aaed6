"""Traffic continues if recording fails, and the recording survives if the proxy fails."""

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from wire_bytes import CHUNKED

from wiretape.observations import BytesLost, Ending, Side
from wiretape.recording import open_recording

BLOCK = b"x" * 50_000


def counts(peer):
    """Send numbered events every 5 ms until the connection ends."""
    peer.send(CHUNKED)
    for number in range(100_000):
        peer.send(b"10\r\ndata: %08d\n\n\r\n" % number)
        time.sleep(0.005)


def blocks(count):
    """Return a behavior: send blocks as fast as possible."""

    def behave(peer):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count * len(BLOCK)))
        for _ in range(count):
            peer.send(BLOCK)

    return behave


def test_after_a_kill_of_the_proxy_all_but_the_last_moment_is_recorded(start_proxy, service, eventually):
    """test_soak.py kills its recorder, too."""
    proxy = start_proxy(service.url)
    path = service.on("/kill", counts)
    client = proxy.get(path)
    received = []
    until = time.monotonic() + 0.8
    while time.monotonic() < until:
        client.until(b"data: ")
        received.append((time.monotonic(), client.exactly(8)))
    killed = time.monotonic()
    os.kill(proxy.process.pid, signal.SIGKILL)

    seen = proxy.find(path)
    assert seen is not None  # the recording opens at once
    eventually(lambda: not list(proxy.file.parent.glob("*-wal")), "the recorder to tidy up")
    body = proxy.body(path)
    assert proxy.find(path).ending is Ending.OPEN
    missing = [number for when, number in received if number not in body and when < killed - 0.2]
    assert missing == []
    with closing(sqlite3.connect(proxy.file)) as connection, connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with open_recording(proxy.file) as recording:
        assert recording.info.ended_ns is None


def test_keys_are_not_in_the_recording_its_journal_or_the_log(start_proxy, service, eventually):
    """Keys in headers, in truncated headers and bodies, in invalid HTTP, in a query and in log lines."""
    options = ("--redact-header", "X-Tenant", "--redact-query", "ticket", "--redact-body", "$..pin")
    proxy = start_proxy(service.url, *options)
    key = "sk-" + "q7" * 16
    echo = b"HTTP/1.1 200 OK\r\nSet-Cookie: session=%s\r\nTransfer-Encoding: chunked\r\n\r\n" % key.encode()
    service.on("/held", lambda peer: (peer.send(echo + b"7\r\ndata: 1\r\n"), peer.rest()))
    service.on("/cut", lambda peer: (peer.send(b"HTTP/1.1 200 OK\r\nSet-Cookie: s=" + key.encode()), peer.close()))
    service.on("/odd", lambda peer: (peer.send(b"Bearer %s\r\n\r\n" % key.encode()), peer.close()))
    header = f"Authorization: Bearer {key}"
    proxy.get("/held", header, f"Cookie: session={key}").until(b"data: 1")
    for path in ("/cut", "/odd"):
        proxy.get(path, header).rest()
        proxy.ended(path)
    half = proxy.connect()
    half.send(f"GET /never HTTP/1.1\r\n{header}\r\n".encode())
    half.close()
    added = f"GET /added?ticket=1{key[:20]} HTTP/1.1\r\nHost: service\r\nX-Tenant: 2{key[:20]}\r\n"
    json = f'{{"pin": "3{key[:20]}", "kept": 1}}'
    reply = f"HTTP/1.1 200 OK\r\nContent-Length: {len(json)}\r\n\r\n{json}".encode()
    service.on(f"/added?ticket=1{key[:20]}", lambda peer: (peer.send(reply), peer.rest()))
    client = proxy.connect()
    client.send(f"{added}Content-Length: {len(json)}\r\n\r\n{json}".encode())
    client.until(b'"kept": 1}')
    client.close()
    spaced = proxy.connect()
    spaced.send(f"GET /spaced HTTP/1.1\r\nHost: service\r\nX-Auth-Token : {key}\r\n\r\n".encode())
    spaced.rest()
    proxy.ended("/spaced")
    service.on(
        f"/echo?api%5Fkey={key}", lambda peer: (peer.send(echo + b"40\r\n%b" % key.encode().rjust(64)), peer.rest())
    )
    leaving = proxy.connect()
    leaving.send(
        f"POST /echo?api%5Fkey={key} HTTP/1.1\r\nHost: service\r\nContent-Length: 40\r\n\r\n{key[:-2]}".encode()
    )
    leaving.until(key.encode())
    leaving.close()

    everything = b"".join(path.read_bytes() for path in proxy.file.parent.iterdir())
    assert b"/held" in everything
    assert key[:12].encode() not in everything
    proxy.stop()
    assert key[:12].encode() not in b"".join(path.read_bytes() for path in proxy.file.parent.iterdir())
    assert key[:12] not in "".join(proxy.lines)
    with open_recording(proxy.file) as recording:
        (number,) = [seen.number for seen in recording.exchanges() if seen.request.target.startswith("/added")]
        for side in Side:
            (run,) = recording.body(number, side)
            assert run.data == json.replace(f"3{key[:20]}", "*" * 21).encode()


def test_with_the_option_drop_streams_continue_and_lost_bytes_are_counted(start_proxy, service):
    """The first stream goes on until the recorder, which is stopped, cannot keep up; the second passes after that."""
    overloaded, sent = threading.Event(), []

    def until_overloaded(peer):
        peer.send(CHUNKED)
        while not overloaded.is_set():
            peer.send(b"%x\r\n%b\r\n" % (len(BLOCK), BLOCK))
            sent.append(len(BLOCK))
        peer.send(b"0\r\n\r\n")

    proxy = start_proxy(service.url, "--memory", "1M", "--on-overload", "drop")
    recorder = proxy.recorder
    paths = [service.on("/until-overloaded", until_overloaded), service.on("/after", blocks(20))]
    os.kill(recorder, signal.SIGSTOP)
    first = proxy.get(paths[0])
    while not proxy.has_line("Recording cannot keep up: bytes pass unrecorded until it catches up."):
        first.exactly(len(BLOCK))
    overloaded.set()
    first.until(b"\r\n0\r\n\r\n")
    second = proxy.get(paths[1])
    second.until(b"\r\n\r\n")
    assert second.exactly(20 * len(BLOCK)) == BLOCK * 20
    os.kill(recorder, signal.SIGCONT)

    seen = [proxy.ended(path) for path in paths]
    assert [one.ending for one in seen] == [Ending.COMPLETE] * 2
    assert [one.response_bytes + one.lost_bytes for one in seen] == [sum(sent), 20 * len(BLOCK)]
    assert seen[0].lost_bytes > 0
    with open_recording(proxy.file) as recording:
        parts = [part for one in seen for part in recording.body(one.number, Side.RESPONSE)]
    assert {part.why for part in parts if isinstance(part, BytesLost)} == {"recording could not keep up"}
    lost = sum(one.lost_bytes for one in seen)
    proxy.wait_line(f"Recording has caught up; {lost:,} bytes passed unrecorded.")
    assert proxy.stop() == 2
    assert proxy.lines[-1] == f"{lost:,} bytes passed unrecorded."


@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_a_missing_recording_is_reported(start_proxy, service, what):
    proxy = start_proxy(service.url)
    path = service.on("/gone", blocks(1))
    proxy.file.unlink()
    if what == "replaced":
        proxy.file.write_text("something else")
    proxy.get(path).until(b"x" * 100)

    proxy.wait_line("The recording was deleted, moved or replaced")
    assert proxy.stop() == 2
    assert proxy.lines[-1].startswith(
        f"{proxy.file} was deleted or replaced during the recording: it does not contain 1 exchange, "
    )
    assert what == "deleted" or proxy.file.read_text() == "something else"
