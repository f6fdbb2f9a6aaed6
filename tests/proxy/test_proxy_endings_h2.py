"""Endings over HTTP/2: a stream ends alone or with its connection, and both sides can reset it."""

import threading

import h2.errors
import h2.events
import pytest
from wire_bytes import CHUNKED

from wiretape.observations import Ending, Side

ONE = b"data: 1"
MANY = 12


def holds(peer):
    """Send one event over HTTP/1.1, then wait for the other side to close."""
    peer.send(CHUNKED + b"7\r\n" + ONE + b"\r\n")
    peer.rest()
    peer.close()


@pytest.fixture(scope="module")
def h2_proxy(start_module_proxy, h2_service):
    """Start a proxy for the HTTP/2 service."""
    return start_module_proxy(h2_service.url, "--insecure")


# An HTTP/2 client, an HTTP/1.1 service


def test_twelve_streams_of_one_client_run_at_the_same_time(proxy, service):
    """By default, mitmproxy opens five connections; the other streams wait forever."""
    client = proxy.connect_h2()
    paths = [service.on(f"/many-{number}", holds) for number in range(MANY)]
    streams = [client.request(path) for path in paths]

    for stream in streams:
        client.wait_body(stream, ONE)
    client.close()

    for path in paths:
        assert proxy.outcome(path) == (Ending.CLIENT_CLOSED, ONE)
        assert proxy.ended(path).request.http_version == "HTTP/2.0"


def test_a_stream_reset_by_the_client_ends_alone(proxy, service):
    client = proxy.connect_h2()
    for path in ("/h2-reset", "/h2-kept"):
        service.on(path, holds)
    gone, kept = client.request("/h2-reset"), client.request("/h2-kept")
    client.wait_body(gone, ONE)
    client.wait_body(kept, ONE)
    client.h2.reset_stream(gone, h2.errors.ErrorCodes.CANCEL)
    client.flush()

    seen = proxy.ended("/h2-reset")
    assert (seen.ending, seen.detail) == (Ending.CLIENT_CLOSED, "The client reset the HTTP/2 stream (CANCEL).")
    assert proxy.body("/h2-reset") == ONE
    assert proxy.find("/h2-kept").ending is Ending.OPEN


@pytest.mark.parametrize(("end", "ending"), [("close", Ending.SERVICE_CLOSED), ("reset", Ending.SERVICE_RESET)])
def test_a_connection_closed_by_the_service_ends_its_stream_only(proxy, service, end, ending):
    now = threading.Event()

    def behave(peer):
        peer.send(CHUNKED + b"7\r\n" + ONE + b"\r\n")
        now.wait(45)
        getattr(peer, end)()

    path = service.on(f"/h2-to-h1-{end}", behave)
    client = proxy.connect_h2()
    stream = client.request(path)
    client.wait_body(stream, ONE)
    now.set()
    client.wait(h2.events.StreamReset, stream)

    assert proxy.outcome(path) == (ending, ONE)


def test_a_request_with_a_body_passes_from_http2_to_http1(proxy, service):
    def behave(peer):
        assert peer.exactly(6) == b"abcdef"
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    path = service.on("/h2-upload", behave)
    client = proxy.connect_h2()
    stream = client.request(path, body=b"abcdef")
    client.wait(h2.events.StreamEnded, stream)

    assert proxy.ended(path).ending is Ending.COMPLETE
    assert (proxy.body(path, Side.REQUEST), proxy.body(path)) == (b"abcdef", b"ok")


# HTTP/2 on both sides


@pytest.mark.parametrize("code", [h2.errors.ErrorCodes.CANCEL, h2.errors.ErrorCodes.INTERNAL_ERROR])
@pytest.mark.parametrize("who", ["client", "service"])
def test_a_stream_reset_by_one_side_reaches_the_other_and_is_attributed_to_it(h2_proxy, h2_service, who, code):
    """mitmproxy reports "stream reset by client" in both cases."""

    def behave(peer, stream):
        peer.respond(stream, ONE)
        if who == "service":
            peer.h2.reset_stream(stream, code)
            peer.flush()

    path = h2_service.on(f"/{who}-resets-{code.name}", behave)
    client = h2_proxy.connect_h2()
    stream = client.request(path)
    if who == "service":
        client.wait(h2.events.StreamReset, stream)
    else:
        client.wait_body(stream, ONE)
        client.h2.reset_stream(stream, code)
        client.flush()

    assert h2_proxy.outcome(path) == ({"client": Ending.CLIENT_CLOSED, "service": Ending.SERVICE_RESET}[who], ONE)
    assert h2_proxy.ended(path).detail == f"The {who} reset the HTTP/2 stream ({code.name})."


def test_a_lost_client_connection_ends_all_its_streams(h2_proxy, h2_service):
    paths = [h2_service.on(f"/lost-{number}", lambda peer, stream: peer.respond(stream, ONE)) for number in range(MANY)]
    client = h2_proxy.connect_h2()
    streams = [client.request(path) for path in paths]
    for stream in streams:
        client.wait_body(stream, ONE)
    client.reset()

    assert {h2_proxy.ended(path).ending for path in paths} == {Ending.CLIENT_CLOSED}


GONE = {
    "close": (Ending.SERVICE_CLOSED, "The service closed the connection."),
    "reset": (Ending.SERVICE_RESET, "The service reset the connection."),
    "goaway": (Ending.SERVICE_CLOSED, "The service ended the HTTP/2 connection (NO_ERROR)."),
}


@pytest.mark.parametrize("how", GONE)
def test_a_lost_service_connection_ends_all_its_streams(h2_proxy, h2_service, how):
    def behave(peer, stream):
        peer.respond(stream, ONE)
        if stream == 3:  # the second request of the connection
            if how == "goaway":
                peer.h2.close_connection()
                peer.flush()
            else:
                getattr(peer, how)()

    paths = [h2_service.on(f"/gone-{how}-{number}", behave) for number in range(2)]
    client = h2_proxy.connect_h2()
    first = client.request(paths[0])
    client.wait_body(first, ONE)
    client.request(paths[1])

    for path in paths:
        seen = h2_proxy.ended(path)
        assert (seen.ending, seen.detail) == GONE[how]
    assert h2_proxy.body(paths[0]) == ONE


def test_an_empty_data_frame_does_not_end_the_body(h2_proxy, h2_service):
    """mitmproxy passes it to the tap like the end of the body."""

    def behave(peer, stream):
        peer.respond(stream, b"", ONE, b"", b"", b"data: 2")
        peer.h2.send_data(stream, b"", end_stream=True)
        peer.flush()

    path = h2_service.on("/empty-frames", behave)
    client = h2_proxy.connect_h2()
    stream = client.request(path)
    client.wait(h2.events.StreamEnded, stream)

    assert client.bodies[stream] == b"data: 1data: 2"
    assert h2_proxy.outcome(path) == (Ending.COMPLETE, b"data: 1data: 2")


def test_trailers_pass_over_http2(h2_proxy, h2_service):
    def behave(peer, stream):
        peer.respond(stream, ONE)
        peer.h2.send_headers(stream, [("x-checksum", "1")], end_stream=True)
        peer.flush()

    path = h2_service.on("/h2-trailers", behave)
    client = h2_proxy.connect_h2()
    stream = client.request(path)
    trailers = client.wait(h2.events.TrailersReceived, stream)

    assert dict(trailers.headers) == {"x-checksum": "1"}
    assert h2_proxy.outcome(path) == (Ending.COMPLETE, ONE)


# Clients and services that do not open their flow-control window

LARGE = 16 << 20
"""More than the buffers of the operating system hold."""
DEFAULT_WINDOW = 65_535


def test_a_client_without_window_stops_the_service_but_no_other_stream(proxy, service):
    """mitmproxy alone reads all that the service sends, and keeps it in memory."""
    sent, piece, path = [0], b"x" * (1 << 16), "/h2-other"

    def behave(peer):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE)
        while sent[0] < LARGE:
            peer.send(piece)
            sent[0] += len(piece)

    service.on(path, lambda peer: peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    client = proxy.connect_h2()
    client.h2.increment_flow_control_window(1 << 30)
    stream = client.request(service.on("/h2-full", behave))
    client.unread.add(stream)
    client.wait_body(stream, piece[:DEFAULT_WINDOW])
    before = [-1]
    while len(set(before[-5:])) != 1 or len(before) < 5:
        before.append(sent[0])
        client.wait(h2.events.StreamEnded, client.request(path))
    assert sent[0] < LARGE

    client.unread.clear()
    client.h2.acknowledge_received_data(DEFAULT_WINDOW, stream)
    client.flush()
    client.wait(h2.events.StreamEnded, stream)
    assert len(client.bodies[stream]) == LARGE
    assert proxy.ended("/h2-full").ending is Ending.COMPLETE


def test_a_client_without_window_stops_one_stream_of_an_http2_service(h2_proxy, h2_service):
    windows, streams = [], []

    def fill(peer, stream):
        """Send as much as the window allows."""
        windows.append(peer.upload(stream, 8 << 20))

    def begin(peer, stream):
        peer.respond(stream)
        streams.append(stream)
        fill(peer, stream)

    def finish(peer, stream):
        peer.respond(stream, ONE, end=True)
        fill(peer, streams[0])
        peer.h2.end_stream(streams[0])
        peer.flush()

    h2_service.on("/end-other", lambda peer, stream: peer.respond(stream, ONE, end=True))
    client = h2_proxy.connect_h2()
    client.h2.increment_flow_control_window(1 << 30)
    stream = client.request(h2_service.on("/h2-full", begin))
    client.unread.add(stream)
    client.wait_body(stream, b"x" * DEFAULT_WINDOW)
    client.wait(h2.events.StreamEnded, client.request("/end-other"))
    assert windows[0] <= 4 << 20

    client.unread.clear()
    client.h2.acknowledge_received_data(DEFAULT_WINDOW, stream)
    client.flush()
    client.wait_body(stream, b"x" * windows[0])
    client.request(h2_service.on("/h2-finish", finish))
    client.wait(h2.events.StreamEnded, stream)
    assert windows[1] > 0
    assert len(client.bodies[stream]) == sum(windows)


@pytest.fixture
def stalled(h2_service):
    """The paths of an upload whose window stays closed, of a request that opens it, and of another one."""
    uploads = []

    def stall(peer, stream):
        peer.unread.add(stream)
        uploads.append(stream)

    def finish(peer, stream):
        peer.respond(stream, end=True)
        peer.unread.clear()
        peer.h2.acknowledge_received_data(len(peer.bodies[uploads[0]]), uploads[0])
        peer.flush()
        peer.wait(h2.events.StreamEnded, uploads[0])
        peer.respond(uploads[0], b"%d" % len(peer.bodies[uploads[0]]), end=True)

    respond = lambda peer, stream: peer.respond(stream, ONE, end=True)  # noqa: E731
    behaviours = {"/h2-upload": stall, "/h2-open": finish, "/h2-other": respond}
    return [h2_service.on(path, behave) for path, behave in behaviours.items()]


def test_a_service_without_window_stops_one_upload_over_http2(h2_proxy, stalled):
    """mitmproxy alone gives each client a window of 2 GiB."""
    upload, finish, other = stalled
    client = h2_proxy.connect_h2()
    stream = client.begin_upload(upload, LARGE)
    sent, before = 0, [-1]
    while len(set(before[-5:])) != 1 or len(before) < 5:
        before.append(sent)
        sent += client.upload(stream, LARGE - sent)
        client.wait(h2.events.StreamEnded, client.request(other))
    assert sent < LARGE

    client.request(finish)
    client.upload_rest(stream, LARGE - sent)
    client.wait_body(stream, b"%d" % LARGE)


def test_an_upload_over_http2_waits_until_the_connection_to_the_service_is_made(start_proxy, shy_service):
    """mitmproxy alone reads all of it, and keeps it in memory."""
    path, size = "/h2-waits", 8 << 20
    shy_service.on(path, lambda peer: peer.exactly(size) and peer.send(b"HTTP/1.1 204 No Content\r\n\r\n"))
    client = start_proxy(shy_service.url, "--insecure", "--no-upstream-check").connect_h2()
    client.wait(h2.events.SettingsAcknowledged)
    stream = client.begin_upload(path, size)
    sent = client.upload(stream, size)
    client.h2.ping(b"received")
    client.flush()
    client.wait(h2.events.PingAckReceived)
    assert not client.h2.local_flow_control_window(stream)
    assert sent <= 4 << 20

    shy_service.ready.set()
    client.upload_rest(stream, size - sent)
    client.wait(h2.events.StreamEnded, stream)
