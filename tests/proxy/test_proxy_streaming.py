"""Bytes are forwarded unchanged and at once, and the recording contains the same bytes."""

import asyncio
import gzip
import hashlib
import subprocess
import threading
import time
import zlib

import brotli
import httpx
import pytest
import zstandard
from programs import find_program
from running import serve_in_thread
from sse_starlette.sse import EventSourceResponse
from wire_bytes import CHUNKED, EVENT_STREAM, STREAM

from wiretape.observations import Ending, Side
from wiretape.recording import open_recording

EVENTS = 30


async def service_app(scope, receive, send):
    """A service whose framing another library writes: events and pings end in CRLF."""
    if scope["type"] != "http":
        return

    async def events():
        for number in range(EVENTS):
            yield {"id": f"e{number}", "event": "run.started", "data": f'{{"sequence":{number},"text":"ü\\u2028"}}'}
            await asyncio.sleep(0.02)

    # About one ping per event; by default they are 15 s apart.
    await EventSourceResponse(events(), ping=0.05)(scope, receive, send)


@pytest.fixture(scope="module")
def uvicorn_url():
    with serve_in_thread(service_app) as url:
        yield url


@pytest.fixture(scope="module")
def before_uvicorn(start_module_proxy, uvicorn_url):
    return start_module_proxy(uvicorn_url)


def with_curl(url, *arguments):
    return subprocess.run(
        [find_program("curl"), "-sN", *arguments, url], capture_output=True, check=True, timeout=30
    ).stdout


def with_httpx(url):
    with httpx.stream("GET", url, timeout=30) as response:
        return b"".join(response.iter_raw())


def normal(body):
    """Replace the timestamps in pings, which differ between runs."""
    return [line for line in body.split(b"\r\n\r\n") if not line.startswith(b": ping")]


@pytest.mark.parametrize("get", [with_curl, with_httpx])
def test_a_stream_of_sse_starlette_is_the_same_with_and_without_the_proxy(before_uvicorn, uvicorn_url, get):
    path = f"{STREAM}?client={get.__name__}"
    direct = get(uvicorn_url + path)

    through = get(f"http://{before_uvicorn.address}{path}")

    assert before_uvicorn.ended(path).ending is Ending.COMPLETE
    recorded = before_uvicorn.body(path)
    assert hashlib.sha256(recorded).digest() == hashlib.sha256(through).digest()
    assert b": ping" in through
    assert normal(through) == normal(direct)
    assert len(normal(through)) == EVENTS + 1


def test_curl_gets_the_same_over_http2(before_uvicorn, uvicorn_url):
    path = f"{STREAM}?client=h2"

    through = with_curl(f"https://{before_uvicorn.address}{path}", "--insecure", "--http2")

    assert before_uvicorn.ended(path).request.http_version == "HTTP/2.0"
    assert before_uvicorn.body(path) == through
    assert len(normal(through)) == EVENTS + 1


def test_an_event_of_an_endless_stream_is_forwarded_at_once(proxy, service):
    """Measured from the service's send to the client's receive; the fastest of several, as the machine may be busy."""
    sent = []

    def behave(peer):
        peer.send(CHUNKED)
        while True:
            peer.exactly(1)  # the client requests the next event
            sent.append(time.monotonic())
            peer.send(b"7\r\ndata: 1\r\n")

    path = service.on("/endless", behave)
    client = proxy.post(path, b"x" * 1000, sent=b"")
    assert client.until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK"), "response headers do not wait for the body"
    took = []
    for _ in range(5):
        client.send(b"x")
        client.until(b"data: 1\r\n")
        took.append(time.monotonic() - sent[-1])

    assert min(took) < 0.05
    assert proxy.find(path) is None or proxy.find(path).ending is Ending.OPEN


def test_the_time_of_a_chunk_is_that_of_its_arrival(proxy, service):
    """It lies between sending and receiving, each on the wall clock, however busy the machine is."""
    sent, received, has_arrived = [], [], threading.Semaphore(0)

    def behave(peer):
        peer.send(CHUNKED)
        for _ in range(10):
            sent.append(time.time_ns())
            peer.send(b"7\r\ndata: 1\r\n")
            assert has_arrived.acquire(timeout=30)
        peer.send(b"0\r\n\r\n")

    path = service.on("/timed", behave)
    client = proxy.get(path)
    for _ in range(10):
        client.until(b"data: 1")
        received.append(time.time_ns())
        has_arrived.release()
    client.until(b"0\r\n\r\n")

    with open_recording(proxy.file) as recording:
        number = proxy.ended(path).number
        began = recording.info.started_unix_ns
        times = [began + time_ns for run in recording.body(number, Side.RESPONSE) for time_ns, _ in run.chunks()]
    slack = 5_000_000  # the wall clock can be adjusted meanwhile
    bounds = zip(sent, times, received, strict=True)
    assert all(before - slack <= arrival <= after + slack for before, arrival, after in bounds)


CODERS = {
    "gzip": (gzip.compress, gzip.decompress),
    "deflate": (zlib.compress, zlib.decompress),
    "br": (brotli.compress, brotli.decompress),
    "zstd": (zstandard.compress, zstandard.decompress),
}


@pytest.mark.parametrize("coding", CODERS)
def test_an_encoded_body_is_forwarded_and_stored_unchanged(proxy, service, coding):
    encode, _decode = CODERS[coding]
    data = b'id: e1\r\ndata: {"sequence": 1}\r\n\r\n'
    body = encode(data)
    head = EVENT_STREAM + f"Content-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    path = service.on(f"/coded-{coding}", lambda peer: peer.send(head + body))

    client = proxy.get(path, "Accept-Encoding: gzip, br, zstd")

    client.until(b"\r\n\r\n")
    assert client.exactly(len(body)) == body
    seen = proxy.ended(path)
    assert proxy.body(path) == body
    assert ("Accept-Encoding", "gzip, br, zstd") in seen.request.headers
    with open_recording(proxy.file) as recording:
        assert [frame.frame.data for frame in recording.frames(seen.number)] == [b'{"sequence": 1}']


def test_the_option_identity_requests_no_encoding_and_records_the_clients_header(start_proxy, service):
    heads = []
    path = service.on("/identity", lambda peer: (heads.append(peer.head), peer.send(CHUNKED + b"0\r\n\r\n")))
    proxy = start_proxy(service.url, "--identity")

    proxy.get(path, "Accept-Encoding: gzip").until(b"0\r\n\r\n")

    assert b"accept-encoding: identity\r\n" in heads[0].lower()
    assert ("Accept-Encoding", "gzip") in proxy.ended(path).request.headers


def test_only_the_host_of_a_request_is_changed(proxy, service):
    heads = []
    path = service.on("/a%2Fb;c?q=%20x", lambda peer: (heads.append(peer.head), peer.send(CHUNKED + b"0\r\n\r\n")))
    headers = ["X-Odd:  two  spaces", "x-CASE: 1", "X-Twice: a", "X-Twice: b", "X-Byte: \xff"]
    client = proxy.connect()
    head = "\r\n".join([f"GET {path} HTTP/1.1", "Host: service.test", *headers, "", ""])
    client.send(head.encode("latin-1"))
    client.until(b"0\r\n\r\n")

    expected = head.replace("service.test", service.authority).replace(":  two", ": two")
    assert heads[0].decode("latin-1") == expected
    request = proxy.ended(path).request
    assert (request.target, request.authority) == (path, service.authority)
    assert [f"{name}: {value}" for name, value in request.headers] == expected.split("\r\n")[1:-2]


SIZE = 8_000_000


def test_large_bodies_in_both_directions_are_recorded_completely(proxy, service):
    upload, download = bytes(range(256)) * (SIZE // 256), b"".join(b"%08d" % i for i in range(SIZE // 8))
    received = []

    def behave(peer):
        received.append(hashlib.sha256(peer.exactly(len(upload))).hexdigest())
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(download))
        peer.send(download)

    path = service.on("/large", behave)
    client = proxy.post(path, upload)
    client.until(b"\r\n\r\n")
    assert client.exactly(len(download)) == download

    assert received == [hashlib.sha256(upload).hexdigest()]
    seen = proxy.ended(path)
    assert (seen.ending, seen.request_bytes, seen.response_bytes) == (Ending.COMPLETE, len(upload), len(download))
    assert proxy.body(path) == download
    assert proxy.body(path, Side.REQUEST) == upload


def test_a_chunked_upload_keeps_its_chunks(proxy, service):
    def behave(peer):
        assert peer.until(b"0\r\n\r\n") == b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        peer.send(CHUNKED + b"0\r\n\r\n")

    path = service.on("/chunked-upload", behave)
    client = proxy.connect()
    client.send(f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    client.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    client.until(b"0\r\n\r\n")

    with open_recording(proxy.file) as recording:
        runs = recording.body(proxy.ended(path).number, Side.REQUEST)
        assert [data for run in runs for _, data in run.chunks()] == [b"abc", b"de"]
