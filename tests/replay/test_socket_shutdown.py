"""The last response of a connection reaches the client, even if the client is still sending."""

import asyncio
import contextlib
import socket
import struct

import pytest
from aiohttp import web
from service_contracts import SERVICE

from wiretape_replay.access.contract_errors import count_request_ids, malformed_request_handler
from wiretape_replay.http_server import aiohttp_server
from wiretape_replay.http_server.aiohttp_server import HttpServer
from wiretape_replay.http_server.http_messages import HttpResponse

_PATIENCE_S = 45
_MORE = bytes(16 * 1024 * 1024)

_LAST = b"GET /last HTTP/1.1\r\nHost: x\r\n\r\n"
_CLOSE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
_EXPECT = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: magic\r\nContent-Length: 90000000\r\n\r\n"

SENT = {
    "a line that is too long": (400, b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\n\r\n" + _MORE),
    "a header that is too long": (400, b"GET / HTTP/1.1\r\nA: " + b"a" * 300_000 + b"\r\n\r\n" + _MORE),
    "no HTTP": (400, b"hello\r\n\r\n" + _MORE),
    "no HTTP, over and over": (400, b"hello\r\n\r\n" * 100_000),
    "an expectation": (400, _EXPECT + _MORE),
    # aiohttp stops reading while so many requests wait, and the system cannot buffer the rest.
    "requests, of which the first is the last": (404, _LAST * 100 + bytes(48 * 1024 * 1024)),
}


async def respond_briefly(request, writer):
    """Send the same response to every request, and end the connection if the request says so."""
    await writer.respond(HttpResponse(404, b"{}"))
    if request.target == "/last":
        writer.close()


@pytest.fixture(autouse=True)
def _no_end_in_sight(monkeypatch):
    """Anything that does not end by itself takes an hour."""
    for module, name in ((aiohttp_server, "LINGER_S"), (aiohttp_server, "_SHUTDOWN_S")):
        monkeypatch.setattr(module, name, 3600.0)


@contextlib.asynccontextmanager
async def serving(respond=respond_briefly):
    """A server; yields its port."""
    malformed = malformed_request_handler(SERVICE.main.errors, count_request_ids("req"), lambda _: ())
    server = HttpServer(respond, lambda _: None, malformed=malformed)
    url = await server.start("127.0.0.1", 0)
    try:
        yield int(url.rpartition(":")[2])
    finally:
        await server.stop()


def read_late(port, data):
    """Send everything, and then read.  Raises ConnectionError if the connection is reset."""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(data)
        response = b""
        while piece := client.recv(65_536):
            response += piece
    return response


@pytest.mark.parametrize(("status", "data"), SENT.values(), ids=SENT)
async def test_a_client_that_sends_much_before_it_reads_gets_its_response_and_a_fin(status, data):
    async with serving() as port:
        response = await asyncio.to_thread(read_late, port, data)

    head, _, body = response.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert f"content-length: {len(body)}".encode() in head.lower()


async def test_a_client_that_resets_its_connection_after_its_response_causes_no_error():
    """The system knows of it before the event loop; the fixture of all tests here checks the log."""
    responded = asyncio.Event()

    async def respond(_, writer):
        await writer.respond(HttpResponse(200, b"{}"))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        writer.close()
        responded.set()

    async with serving(respond) as port:
        client = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
        client.sendall(_LAST)
        await asyncio.wait_for(responded.wait(), _PATIENCE_S)


async def test_waiting_for_a_client_to_disconnect_is_bounded(monkeypatch):
    monkeypatch.setattr(aiohttp_server, "LINGER_S", 0.0)
    monkeypatch.setattr(aiohttp_server, "_LINGER_BYTES", 2**62)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\r\n\r\n")
        await reader.read(-1)
        with pytest.raises(ConnectionError):  # in the end, nobody takes what it sends
            await asyncio.wait_for(_send(writer), _PATIENCE_S)


async def test_the_bytes_that_a_client_sends_after_its_response_are_bounded(monkeypatch):
    monkeypatch.setattr(aiohttp_server, "_LINGER_BYTES", 2**20)
    async with serving() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\r\n\r\n")
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(_send(writer), _PATIENCE_S)


@pytest.mark.parametrize("data", [b"hello\r\n\r\n", _EXPECT, _CLOSE, _CLOSE + _MORE])
async def test_stopping_does_not_wait_for_clients_that_have_their_response(data):
    async with asyncio.timeout(_PATIENCE_S):
        async with serving() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            await reader.readuntil(b"\r\n\r\n")
        writer.close()


async def test_stopping_does_not_wait_for_an_unread_request_body():
    """The control API does not read the body of a request that it refuses by its head."""
    async with asyncio.timeout(_PATIENCE_S):
        server = HttpServer(respond_briefly, lambda _: None, control=_refuse)
        url = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"POST /_wiretape/known HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await server.stop()
        writer.close()


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_accepted_while_the_server_stops_is_closed(turns):
    """If asyncio accepts it in the last turns of the event loop, nobody closes it (a warning, which is an error)."""
    async with serving() as port:
        client = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
        client.sendall(_LAST)
        for _ in range(turns):
            await asyncio.sleep(0)
    with client, contextlib.suppress(ConnectionError):
        while client.recv(65_536):
            pass


async def _refuse(request):
    return web.Response(status=403)


async def _send(writer):
    while True:
        writer.write(bytes(65_536))
        await writer.drain()
        await asyncio.sleep(0)
