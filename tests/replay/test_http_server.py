"""The HTTP front with sources of its own: what a source can rely on."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from wiretape_replay.generated_ids import RequestIds
from wiretape_replay.http_server.http_messages import Framing, HttpRequest, ResponseHead
from wiretape_replay.http_server.response_writer import ResponseWriter, TrafficListener
from wiretape_replay.http_server.server import HttpServer
from wiretape_replay.responses.error_envelope import malformed_request_handler

HEAD = ResponseHead(200, "OK", (), Framing.CLOSE, keep_alive=False)


class Endless:
    """Writes until nobody takes it any more."""

    def __init__(self) -> None:
        self.sent = 0

    async def respond(self, asked: HttpRequest, line: ResponseWriter) -> None:
        while True:
            await line.write(bytes(65_536))
            self.sent += 65_536


class Silent:
    """Answers with a head and holds the line."""

    def __init__(self) -> None:
        self.asked: list[HttpRequest] = []
        self.left = asyncio.Event()

    async def respond(self, asked: HttpRequest, line: ResponseWriter) -> None:
        self.asked.append(asked)
        await line.start(HEAD)
        try:
            await line.hold_open()
        finally:
            self.left.set()


class Talkative:
    """Writes very many small pieces."""

    async def respond(self, asked: HttpRequest, line: ResponseWriter) -> None:
        await line.start(HEAD)
        for _ in range(10_000):
            await line.write(b"data: 1\n\n")
        line.close()


class Burst:
    """Writes pieces that are all due."""

    def __init__(self, head: ResponseHead) -> None:
        self.head = head

    async def respond(self, asked: HttpRequest, line: ResponseWriter) -> None:
        await line.start(self.head)
        await line.write_all([b"data: 1\n\n", b"", b"data: 10\n\n"])
        await line.finish()
        line.close()


@contextlib.asynccontextmanager
async def fronting(
    source, *, with_route: bool = False, listener: TrafficListener | None = None
) -> AsyncIterator[tuple[str, int]]:
    front = HttpServer(source.respond, print, listener)
    if with_route:
        front.app.router.add_get("/_wiretape/state", _state)
    url = await front.start("127.0.0.1", 0)
    try:
        yield "127.0.0.1", int(url.rpartition(":")[2])
    finally:
        await front.stop()


async def _state(request: web.Request) -> web.Response:
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


async def test_a_source_waits_for_a_client_that_does_not_read(connect):
    source = Endless()
    async with fronting(source) as where:
        await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        quiet = 0
        while quiet < 200:
            before = source.sent
            await asyncio.sleep(0)
            quiet = quiet + 1 if source.sent == before and before else 0

            assert source.sent < 2**26


async def test_a_source_that_writes_much_lets_others_have_their_turn(connect):
    """Counted in turns of the event loop, of which there is one after every few writes."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with fronting(Talkative()) as where:
        counter = asyncio.ensure_future(count())
        reader, _ = await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert len(await reader.read(-1)) == len(HEAD.raw) + 90_000
        counter.cancel()

    assert turns > 250


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (Framing.CHUNKED, b"9\r\ndata: 1\n\n\r\na\r\ndata: 10\n\n\r\n0\r\n\r\n"),
        (Framing.CLOSE, b"data: 1\n\ndata: 10\n\n"),
    ],
)
async def test_pieces_that_are_sent_together_stay_pieces(connect, framing, body):
    head, parts = ResponseHead(200, "OK", (), framing, keep_alive=False), []
    async with fronting(Burst(head), listener=lambda _: parts.append) as where:
        reader, _ = await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

        assert await reader.read(-1) == head.raw + body

    assert [part for part in parts if isinstance(part, bytes)] == [b"data: 1\n\n", b"data: 10\n\n"]


async def test_a_source_is_cancelled_when_its_client_leaves(connect):
    source = Silent()
    async with fronting(source) as where:
        reader, writer = await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(HEAD.raw)
        writer.close()

        await asyncio.wait_for(source.left.wait(), 10)


async def test_a_source_is_told_the_request_as_it_crossed_the_wire(connect):
    source = Silent()
    async with fronting(source) as where:
        request = b"POST /a%2fb?x=%20&y HTTP/1.0\r\nX-One: 1\r\nx-one: \xe9\r\nContent-Length: 2\r\n\r\nhi"
        reader, _ = await connect(where, request)
        await reader.readuntil(HEAD.raw)

    (asked,) = source.asked
    assert (asked.method, asked.target, asked.http_version) == ("POST", "/a%2fb?x=%20&y", "HTTP/1.0")
    assert asked.headers == (("X-One", "1"), ("x-one", "\xe9"), ("Content-Length", "2"))
    assert asked.body.text == b"hi"


async def test_routes_of_the_front_come_before_the_source(connect):
    """Room for the control interface."""
    source = Silent()
    async with fronting(source, with_route=True) as where:
        reader, _ = await connect(where, b"GET /_wiretape/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

        assert (await reader.read(-1)).endswith(b"\r\n\r\nstanding")
    assert source.asked == []


class Broken:
    """Has a fault, but for one path."""

    async def respond(self, asked: HttpRequest, line: ResponseWriter) -> None:
        if asked.target != "/well":
            raise RuntimeError("nobody\nexpected it")
        await line.start(HEAD)
        line.close()


@pytest.mark.parametrize("with_foreign", [True, False])
async def test_a_fault_of_a_source_ends_one_connection_and_is_one_line(connect, caplog, with_foreign):
    front = HttpServer(
        Broken().respond, print, malformed=malformed_request_handler(RequestIds("req")) if with_foreign else None
    )
    url = await front.start("127.0.0.1", 0)
    where = "127.0.0.1", int(url.rpartition(":")[2])
    reader, _ = await connect(where, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await reader.read(-1)
    reader, _ = await connect(where, b"GET /well HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await reader.read(-1) == HEAD.raw
    await front.stop()

    assert answer.startswith(b"HTTP/1.1 500") is not with_foreign, "no error of the service says it"
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG] == [
        "Internal error while handling a request: RuntimeError: nobody expected it"
    ]
    assert not any(record.exc_info for record in caplog.records if record.levelno > logging.DEBUG)
    caplog.clear()
