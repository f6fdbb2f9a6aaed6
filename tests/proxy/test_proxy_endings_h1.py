"""Endings over HTTP/1.1, on real sockets, and the bytes that arrived before them."""

import contextlib
import socket
import threading
import time

import pytest
from wire_bytes import CHUNKED, OK

from wiretape.observations import Ending, Side

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000\r\n\r\n"
UNFRAMED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
ONE = b"7\r\ndata: 1\r\n"
MEBIBYTE = b"x" * (1 << 20)


def sends(*parts):
    """Return a behavior: send bytes, close ("FIN"), reset ("RST"), or wait until the client has read all ("seen")."""

    def behave(peer):
        for part in parts:
            if part == "FIN":
                peer.close()
            elif part == "RST":
                # A reset overtakes bytes that the other side has not read yet.
                time.sleep(0.05)
                peer.reset()
            else:
                peer.send(part)

    return behave


CUT = {
    "chunked, FIN": (CHUNKED + ONE, "FIN", Ending.SERVICE_CLOSED, b"data: 1"),
    "chunked, RST": (CHUNKED + ONE, "RST", Ending.SERVICE_RESET, b"data: 1"),
    "within a chunk, FIN": (CHUNKED + ONE + b"9\r\ndata", "FIN", Ending.SERVICE_CLOSED, b"data: 1data"),
    "with a length, FIN": (LENGTH + b"data: 1", "FIN", Ending.SERVICE_CLOSED, b"data: 1"),
    "with a length, RST": (LENGTH + b"data: 1", "RST", Ending.SERVICE_RESET, b"data: 1"),
    "until close, FIN": (UNFRAMED + b"data: 1", "FIN", Ending.COMPLETE, b"data: 1"),
    "until close, RST": (UNFRAMED + b"data: 1", "RST", Ending.SERVICE_RESET, b"data: 1"),
    "before the head, FIN": (b"", "FIN", Ending.SERVICE_CLOSED, b""),
    "before the head, RST": (b"", "RST", Ending.SERVICE_RESET, b""),
    "within the head, FIN": (b"HTTP/1.1 200 OK\r\nSet-Cookie: secret=1", "FIN", Ending.SERVICE_CLOSED, b""),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "FIN", Ending.SERVICE_INVALID, b""),
    "no HTTP, cut off": (b"SSH-2.0-OpenSSH_9.2\r\n", "FIN", Ending.SERVICE_INVALID, b""),
    "no chunk": (CHUNKED + ONE + b"secret\r\n", "FIN", Ending.SERVICE_INVALID, b"data: 1"),
    "a head that does not end": (b"HTTP/1.1 200 OK\r\nX: " + MEBIBYTE, b"", Ending.SERVICE_INVALID, b""),
    "a chunk that does not begin": (CHUNKED + ONE + b"7;" + MEBIBYTE, b"", Ending.SERVICE_INVALID, b"data: 1"),
    "no header": (b"HTTP/1.1 200 OK\r\nsecret\r\n\r\n", "FIN", Ending.SERVICE_INVALID, b""),
    "two framings": (CHUNKED[:-2] + b"Content-Length: 7\r\n\r\n" + ONE, "FIN", Ending.SERVICE_INVALID, b""),
}


@pytest.mark.parametrize("how", CUT)
def test_the_way_the_service_ends_a_response_is_classified(proxy, service, how):
    answer, end, ending, body = CUT[how]
    path = service.on(f"/{how.replace(' ', '-')}", sends(answer, end))

    received = proxy.get(path).rest()

    assert not received.endswith(b"0\r\n\r\n"), "the client has to see that it is cut off"
    assert proxy.outcome(path) == (ending, body)
    seen = proxy.ended(path)
    assert "secret" not in seen.detail
    assert (seen.detail == "") == (ending is Ending.COMPLETE)


def test_a_whole_response_is_complete(proxy, service):
    path = service.on("/whole", sends(CHUNKED, ONE, b"0\r\n\r\n"))

    client = proxy.get(path)
    client.until(b"0\r\n\r\n")

    seen = proxy.ended(path)
    assert (seen.ending, seen.detail, proxy.body(path)) == (Ending.COMPLETE, "", b"data: 1")
    assert seen.request_ended_ns < seen.response.time_ns < seen.ended_ns


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
def test_the_service_notices_at_once_that_a_client_closes(proxy, service, how):
    left = []

    def behave(peer):
        peer.send(CHUNKED + ONE)
        left.append(peer.rest())

    path = service.on(f"/client-{how}", behave)
    client = proxy.get(path)
    client.until(b"data: 1")
    getattr(client, how)()

    assert proxy.outcome(path) == (Ending.CLIENT_CLOSED, b"data: 1")
    assert proxy.ended(path).detail == ""  # the ending says it
    assert left == [b""]


def test_the_bytes_of_an_aborted_upload_are_kept(proxy, service, eventually):
    path = service.on("/upload-cut", lambda peer: peer.rest())
    client = proxy.post(path, b"x" * 200_000, sent=b"x" * 80_000)
    eventually(lambda: proxy.find(path) and len(proxy.body(path, Side.REQUEST)) == 80_000, "what was sent")
    client.close()

    seen = proxy.ended(path)
    assert (seen.ending, seen.request_ended_ns) == (Ending.CLIENT_CLOSED, None)
    assert proxy.body(path, Side.REQUEST) == b"x" * 80_000
    assert "received 80000 bytes, expected 200000" in seen.detail


def test_an_invalid_request_ends_as_client_closed(proxy, service):
    """mitmproxy responds in place of the service, which never receives the request."""
    client = proxy.connect()
    client.send(b"POST /both-framings HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert client.rest().startswith(b"HTTP/1.1 400")

    assert proxy.ended("/both-framings").ending is Ending.CLIENT_CLOSED


def test_a_request_head_that_does_not_end_is_refused(proxy):
    """mitmproxy alone keeps all of it in memory."""
    client = proxy.connect()
    client.send(b"GET / HTTP/1.1\r\nX: " + MEBIBYTE)
    assert client.rest().startswith(b"HTTP/1.1 431")


LARGE = 32 << 20
"""More than the buffers of the operating system hold."""


def upload(path, peer):
    """Send the head of a large request, and its body until nothing more is accepted; return how much that is."""
    peer.send(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE}\r\n\r\n".encode())
    sent, patience = 0, peer.sock.gettimeout()
    peer.sock.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while sent < LARGE:
            sent += peer.sock.send(MEBIBYTE[: LARGE - sent])
    peer.sock.settimeout(patience)
    return sent


def count_upload(peer):
    peer.exactly(LARGE)
    peer.send(OK)


def test_a_second_request_waits_until_the_first_one_has_its_response(proxy, service):
    """mitmproxy alone reads all of it, and keeps it in memory."""
    second_sent = threading.Event()
    first = service.on("/first", lambda peer: second_sent.wait(45) and peer.send(OK))
    client = proxy.get(first)
    sent = upload(service.on("/second", count_upload), client)
    assert sent < LARGE

    second_sent.set()
    assert client.until(b"ok")
    client.send(b"x" * (LARGE - sent))
    assert client.until(b"ok")
    assert proxy.ended("/second").ending is Ending.COMPLETE


def test_an_upload_waits_until_the_connection_to_the_service_is_made(start_proxy, shy_service):
    """mitmproxy alone reads all of it, and keeps it in memory."""
    path = shy_service.on("/upload", count_upload)
    proxy = start_proxy(shy_service.url, "--insecure", "--no-upstream-check")
    client = proxy.connect()
    sent = upload(path, client)
    assert sent < LARGE

    shy_service.ready.set()
    client.send(b"x" * (LARGE - sent))
    assert client.until(b"ok")
    assert proxy.ended(path).ending is Ending.COMPLETE


def test_a_connection_that_begins_with_http2_is_closed_without_an_exchange(proxy, service):
    path = service.on("/after", lambda peer: peer.send(OK))
    client = proxy.connect()
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert client.rest() == b""
    client = proxy.connect()
    client.send(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    client.rest()
    proxy.ended(path)

    assert proxy.find("*") is None


def test_an_exchange_with_an_early_response_ends_with_its_request(proxy, service):
    def behave(peer):
        peer.send(OK)
        peer.exactly(6)

    path = service.on("/early", behave)
    client = proxy.post(path, b"abcdef", sent=b"abc")
    client.until(b"ok")
    client.send(b"def")

    seen = proxy.ended(path)
    assert seen.ending is Ending.COMPLETE
    assert seen.response.time_ns < seen.request_ended_ns < seen.ended_ns
    assert proxy.body(path, Side.REQUEST) == b"abcdef"


def test_an_early_response_is_complete_even_if_the_client_closes_within_its_request(proxy, service):
    path = service.on("/early-left", lambda peer: (peer.send(OK), peer.rest()))
    client = proxy.post(path, b"abcdef", sent=b"abc")
    client.until(b"ok")
    client.close()

    seen = proxy.ended(path)
    assert (seen.ending, seen.request_ended_ns) == (Ending.COMPLETE, None)


@pytest.mark.parametrize(
    ("method", "status", "head"),
    [
        ("HEAD", 200, b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"),
        ("GET", 204, b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", 304, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"),
        ("GET", 200, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ],
)
def test_a_response_without_a_body_is_complete(proxy, service, method, status, head):
    path = service.on(f"/empty-{method}-{head.split()[1].decode()}-{len(head)}", sends(head))
    client = proxy.connect()
    client.send(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert client.read_head()

    seen = proxy.ended(path)
    assert (seen.ending, seen.response.status, seen.response_bytes) == (Ending.COMPLETE, status, 0)


def test_response_trailers_are_dropped_without_losing_the_body(proxy, service):
    """Without the patch, mitmproxy raises, and the client waits forever."""
    path = service.on("/trailers", sends(CHUNKED, ONE, b"0\r\nX-Checksum: 1\r\nX-More: 2\r\n\r\n"))

    client = proxy.get(path)

    assert client.until(b"0\r\n\r\n").endswith(b"\r\n\r\n" + ONE + b"0\r\n\r\n")
    assert proxy.outcome(path) == (Ending.COMPLETE, b"data: 1")
    line = proxy.wait_line("trailers")
    assert line.startswith(f"HTTP/1 trailers of exchange {proxy.find(path).number} were dropped")


def test_request_trailers_are_dropped(proxy, service):
    def behave(peer):
        peer.until(b"0\r\n\r\n")
        peer.send(OK)

    path = service.on("/request-trailers", behave)
    client = proxy.connect()
    client.send(f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    client.send(b"3\r\nabc\r\n0\r\nX-Checksum: 1\r\n\r\n")

    assert client.until(b"ok")
    assert (proxy.ended(path).ending, proxy.body(path, Side.REQUEST)) == (Ending.COMPLETE, b"abc")


def test_requests_on_one_connection_are_separate_exchanges(proxy, service):
    paths = [service.on(f"/kept-alive-{number}", sends(OK)) for number in range(3)]
    client = proxy.connect()
    for path in paths:
        client.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        client.until(b"ok")

    numbers = [proxy.ended(path).number for path in paths]
    assert numbers == list(range(numbers[0], numbers[0] + 3))


@pytest.fixture(scope="module")
def closed_port():
    """Reserve a port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("body", [b"", b"abc"])
def test_a_service_that_does_not_listen_is_unreachable(start_proxy, closed_port, body):
    proxy = start_proxy(f"http://127.0.0.1:{closed_port}", "--no-upstream-check")

    assert proxy.post("/nobody", body).rest().startswith(b"HTTP/1.1 502")
    seen = proxy.ended("/nobody")
    assert (seen.ending, seen.response) == (Ending.SERVICE_UNREACHABLE, None)
    assert "Connect call failed" in seen.detail


def test_a_reset_over_tls_differs_from_a_close_and_the_option_ca_adds_an_authority(
    start_module_proxy, tls_service, certificate
):
    proxy = start_module_proxy(tls_service.url, "--ca", str(certificate))
    for end, ending in (("FIN", Ending.SERVICE_CLOSED), ("RST", Ending.SERVICE_RESET)):
        path = tls_service.on(f"/tls-{end}", sends(CHUNKED, ONE, end))
        proxy.get(path).rest()
        assert proxy.outcome(path) == (ending, b"data: 1")


def test_a_service_with_an_untrusted_certificate_is_unreachable(start_module_proxy, tls_service):
    proxy = start_module_proxy(tls_service.url)

    assert proxy.get("/untrusted").rest().startswith(b"HTTP/1.1 502")
    seen = proxy.ended("/untrusted")
    assert seen.ending is Ending.SERVICE_UNREACHABLE
    assert "verify failed" in seen.detail
    proxy.wait_line("trust the service's authority with --ca FILE, or skip verification with --insecure.")


@pytest.fixture
def busy_port():
    """Reserve a port that neither accepts nor refuses connections."""
    with contextlib.ExitStack() as stack:
        busy = stack.enter_context(socket.socket())
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        for _ in range(4):  # fill the accept queue
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(busy.getsockname())
        yield busy.getsockname()[1]


def test_a_client_that_closes_while_the_proxy_connects_ends_as_client_closed(start_proxy, busy_port, eventually):
    """For such requests on one HTTP/2 connection, mitmproxy calls no hook at all."""
    proxy = start_proxy(f"http://127.0.0.1:{busy_port}", "--no-upstream-check")
    plain, many = proxy.get("/waits"), proxy.connect_h2()
    paths = [f"/waits-{number}" for number in range(8)]
    for path in paths:
        many.request(path)
    eventually(lambda: all(proxy.find(path) for path in ["/waits", *paths]), "the requests")

    plain.close()
    many.reset()

    assert {proxy.ended(path).ending for path in ["/waits", *paths]} == {Ending.CLIENT_CLOSED}


def test_an_idle_exchange_times_out_with_the_option(start_proxy, service):
    path = service.on("/idle", lambda peer: (peer.send(CHUNKED + ONE), peer.rest()))
    proxy = start_proxy(service.url, "--idle-timeout", "0.3")

    proxy.get(path).rest()

    assert proxy.outcome(path) == (Ending.TIMED_OUT, b"data: 1")


def test_an_upgrade_passes_with_a_note_that_the_rest_is_not_recorded(proxy, service):
    switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    accept = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    hello = b"\x81\x05hello"
    path = service.on("/websocket", lambda peer: (peer.send(switching + accept + hello), peer.rest()))
    client = proxy.get(
        path,
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    client.until(hello)

    seen = proxy.ended(path)
    detail = "Traffic after the protocol upgrade is not recorded."
    assert (seen.ending, seen.response.status, seen.detail) == (Ending.COMPLETE, 101, detail)
    assert proxy.wait_line(f"GET {path} 101: ").endswith(detail)
    client.close()
