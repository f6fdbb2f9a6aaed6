"""A service that sends events and small JSON as fast as plain asyncio allows.

GET  /v1/sessions/ID/events/stream?event_deltas=true&n=EVENTS[&hz=RATE]    without hz: flat out
POST /v1/sessions
"""

import asyncio
import random
import sys
import time

from sample_events import event

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
BODY = b'{"id":"sess_1","object":"session","status":"idle","workspace_id":"ws_1"}'
JSON = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
BATCH = 100


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            if length:
                await reader.readexactly(length)
            target = head.split(b" ", 2)[1]
            if b"/events/stream" in target:
                await stream(target, writer)
            else:
                writer.write(JSON)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def stream(target: bytes, writer: asyncio.StreamWriter) -> None:
    path, _, query = target.partition(b"?")
    session = path.split(b"/")[3]
    options = dict(pair.split(b"=") for pair in query.split(b"&"))
    writer.write(HEAD)
    send = spread if b"hz" in options else flat_out
    await send(session, int(options[b"n"]), float(options.get(b"hz", 0)), writer)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def flat_out(session: bytes, n: int, _: float, writer: asyncio.StreamWriter) -> None:
    now = time.monotonic_ns()
    for begin in range(0, n, BATCH):
        chunks = (event(session, number, now) for number in range(begin, min(begin + BATCH, n)))
        writer.write(b"".join(b"%x\r\n%s\r\n" % (len(data), data) for data in chunks))
        await writer.drain()


async def spread(session: bytes, n: int, hz: float, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time() + random.random() / hz  # noqa: S311 - chance, not secrecy
    for number in range(n):
        await asyncio.sleep(begin + number / hz - loop.time())
        data = event(session, number, time.monotonic_ns())
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await writer.drain()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=500)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
