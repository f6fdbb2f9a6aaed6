"""The HTTP server with handlers of the test: what a handler can rely on."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from wiretape_replay.http_server.aiohttp_server import HttpServer
from wiretape_replay.http_server.http_messages import BodyFraming, HttpRequest, ResponseHead
from wiretape_replay.http_server.response_writer import ResponseWriter, TrafficListener

HEAD = ResponseHead(200, "OK", (), BodyFraming.CLOSE, keep_alive=False)


class Endless:
    """Writes until the client disconnects."""

    def __init__(self) -> None:
        self.sent = 0

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        while True:
            await writer.write(bytes(65_536))
            self.sent += 65_536


class Silent:
    """Sends a head and keeps the connection open."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.left = asyncio.Event()

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        self.requests.append(request)
        await writer.start(HEAD)
        try:
            await writer.hold_open()
        finally:
            self.left.set()


class Talkative:
    """Writes very many small chunks."""

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        await writer.start(HEAD)
        for _ in range(10_000):
            await writer.write(b"data: 1\n\n")
        writer.close()


class Burst:
    """Writes several chunks together."""

    def __init__(self, head: ResponseHead) -> None:
        self.head = head

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        await writer.start(self.head)
        await writer.write_all([b"data: 1\n\n", b"", b"data: 10\n\n"])
        await writer.finish()
        writer.close()


@contextlib.asynccontextmanager
async def serving(
    handler, *, with_route: bool = False, listener: TrafficListener | None = None
) -> AsyncIterator[tuple[str, int]]:
    server = HttpServer(handler.respond, print, listener, control=_state if with_route else None)
    url = await server.start("127.0.0.1", 0)
    try:
        yield "127.0.0.1", int(url.rpartition(":")[2])
    finally:
        await server.stop()


async def _state(request: web.BaseRequest) -> web.Response:
    return web.Response(text="standing")


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., object]]:
    async with contextlib.AsyncExitStack() as stack:

        async def _connect(where, request):
            reader, writer = await asyncio.open_connection(*where, limit=2**16)
            stack.callback(writer.close)
            writer.write(request)
            return reader, writer

        yield _connect


async def test_a_handler_waits_for_a_client_that_does_not_read(connect):
    handler = Endless()
    async with serving(handler) as where:
        await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        quiet = 0
        while quiet < 200:
            before = handler.sent
            await asyncio.sleep(0)
            quiet = quiet + 1 if handler.sent == before and before else 0

            assert handler.sent < 2**26


async def test_a_handler_that_writes_much_lets_other_tasks_run(connect):
    """Counts turns of the event loop: there is one after every few writes."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with serving(Talkative()) as where:
        counter = asyncio.ensure_future(count())
        reader, _ = await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert len(await reader.read(-1)) == len(HEAD.raw) + 90_000
        counter.cancel()

    assert turns > 250


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (BodyFraming.CHUNKED, b"9\r\ndata: 1\n\n\r\na\r\ndata: 10\n\n\r\n0\r\n\r\n"),
        (BodyFraming.CLOSE, b"data: 1\n\ndata: 10\n\n"),
    ],
)
async def test_chunks_written_together_are_reported_one_by_one(connect, framing, body):
    head, parts = ResponseHead(200, "OK", (), framing, keep_alive=False), []
    async with serving(Burst(head), listener=lambda _: parts.append) as where:
        reader, _ = await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

        assert await reader.read(-1) == head.raw + body

    assert [part for part in parts if isinstance(part, bytes)] == [b"data: 1\n\n", b"data: 10\n\n"]


async def test_a_handler_is_cancelled_when_its_client_disconnects(connect):
    handler = Silent()
    async with serving(handler) as where:
        reader, writer = await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(HEAD.raw)
        writer.close()

        await asyncio.wait_for(handler.left.wait(), 10)


async def test_a_handler_gets_the_request_as_it_was_sent(connect):
    handler = Silent()
    async with serving(handler) as where:
        request = b"POST /a%2fb?x=%20&y HTTP/1.0\r\nX-One: 1\r\nx-one: \xe9\r\nContent-Length: 2\r\n\r\nhi"
        reader, _ = await connect(where, request)
        await reader.readuntil(HEAD.raw)

    (request,) = handler.requests
    assert (request.method, request.target, request.http_version) == ("POST", "/a%2fb?x=%20&y", "HTTP/1.0")
    assert request.headers == (("X-One", "1"), ("x-one", "\xe9"), ("Content-Length", "2"))
    assert request.body.text == b"hi"


async def test_added_routes_come_before_the_handler(connect):
    """Routes as the control API adds them."""
    handler = Silent()
    async with serving(handler, with_route=True) as where:
        reader, _ = await connect(where, b"GET /_wiretape/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

        assert (await reader.read(-1)).endswith(b"\r\n\r\nstanding")
    assert handler.requests == []


class Broken:
    """Raises an error, except for one path."""

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        if request.target != "/well":
            raise RuntimeError("nobody\nexpected it")
        await writer.start(HEAD)
        writer.close()


async def test_an_error_in_a_handler_ends_one_connection_and_logs_one_line(connect, caplog):
    server = HttpServer(Broken().respond, print)
    url = await server.start("127.0.0.1", 0)
    where = "127.0.0.1", int(url.rpartition(":")[2])
    reader, _ = await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    response = await reader.read(-1)
    reader, _ = await connect(where, b"GET /well HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await reader.read(-1) == HEAD.raw
    await server.stop()

    assert response == b"", "no error code of the service fits"
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG] == [
        "Internal error while handling a request: RuntimeError: nobody expected it"
    ]
    assert not any(record.exc_info for record in caplog.records if record.levelno > logging.DEBUG)
    caplog.clear()
