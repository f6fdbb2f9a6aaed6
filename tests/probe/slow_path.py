"""A TCP proxy that delays every byte in both directions."""

import asyncio
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from wiretape.listening import stop_listening


async def _pass_on(source, target, delay_s):
    """Copy bytes, each `delay_s` after it arrived, and then the end."""
    loop = asyncio.get_running_loop()
    queue = asyncio.Queue()

    async def deliver():
        while True:
            at, data = await queue.get()
            await asyncio.sleep(at - loop.time())
            if not data:
                break
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()

    delivery = asyncio.ensure_future(deliver())
    try:
        data = b"x"
        while data:
            data = await source.read(65536)
            queue.put_nowait((loop.time() + delay_s, data))
        await delivery
    finally:
        delivery.cancel()


@asynccontextmanager
async def slow_path(url, delay_s):
    """Yield an address that leads to `url`, with a delay each way."""
    there = urlsplit(url)
    connections = set()

    async def serve(reader, writer):
        connections.add(asyncio.current_task())
        back, forth = await asyncio.open_connection(there.hostname, there.port)
        directions = [
            asyncio.ensure_future(_pass_on(reader, forth, delay_s)),
            asyncio.ensure_future(_pass_on(back, writer, delay_s)),
        ]
        try:
            # A client that has gone does not read the response; a service that has ended it sends no more.
            with suppress(asyncio.CancelledError):
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in directions:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            forth.transport.abort()
            writer.transport.abort()
            connections.discard(asyncio.current_task())

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await stop_listening(server)
        for each in list(connections):
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
