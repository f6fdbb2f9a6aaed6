"""The clients of the replay benchmark.  Prints one JSON line.

replay_client.py PORT flat STREAMS           seconds until STREAMS clients have their whole stream, and its bytes
replay_client.py PORT paced STREAMS SECONDS  how late each event came, in us, against the most punctual of its stream
replay_client.py PORT idle STREAMS           waits for a line on standard input with STREAMS streams open
replay_client.py PORT json CLIENTS SECONDS   how many JSON answers come, one after the other on each connection
"""

import asyncio
import gc
import json
import re
import selectors
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress

KEY = "Bearer wt-bench-0123456789"
MOMENT = re.compile(rb'"t":(\d+)')


async def connect(port: int, session: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**18)
    target = f"/v1/sessions/{session}/events/stream?event_deltas=true"
    writer.write(f"GET {target} HTTP/1.1\r\nHost: bench\r\nAuthorization: {KEY}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return reader, writer


async def flat(port: int, streams: int) -> dict[str, float]:
    async def follow(number: int) -> int:
        reader, writer = await connect(port, f"s{number}")
        size, tail = 0, b""
        while tail != b"\r\n0\r\n\r\n":
            data = await reader.read(2**18)
            assert data, "cut off"
            size += len(data)
            tail = (tail + data)[-7:]
        writer.close()
        return size

    began = time.perf_counter()
    sizes = await asyncio.gather(*(follow(number) for number in range(streams)))
    return {"seconds": time.perf_counter() - began, "wire": sum(sizes)}


async def paced(port: int, streams: int, seconds: float) -> dict[str, float]:
    """Measure lateness; events contain their recorded time as `t`, in ns."""
    late: list[int] = []

    async def follow(number: int) -> None:
        reader, writer = await connect(port, f"s{number}")
        behind: list[int] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while line := await reader.readline():
                    if found := MOMENT.search(line):
                        behind.append(time.monotonic_ns() - int(found[1]))
        writer.close()
        late.extend(value - min(behind) for value in behind)

    async def start(number: int) -> None:
        await asyncio.sleep(number * 0.004)
        await follow(number)

    gc.disable()  # pauses of the client do not count
    await asyncio.gather(*(start(number) for number in range(streams)))
    off = sorted(late)
    p50, p99 = off[len(off) // 2] / 1e3, off[int(len(off) * 0.99)] / 1e3
    return {"events": len(off), "p50": p50, "p99": p99, "cpu": time.process_time()}


async def idle(port: int, streams: int) -> dict[str, float]:
    lines = [await connect(port, f"s{number % 10}") for number in range(streams)]
    print("open", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    for _, writer in lines:
        writer.close()
    return {"streams": streams}


async def answers(port: int, clients: int, seconds: float) -> dict[str, float]:
    """Count small answers, with so little work that the server is the limit."""
    request = f"GET /v1/sessions/s0 HTTP/1.1\r\nHost: bench\r\nAuthorization: {KEY}\r\n\r\n".encode()
    selector = selectors.DefaultSelector()
    missing: dict[socket.socket, int] = {}
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    size = len(head) + int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    writer.close()
    for _ in range(clients):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request)
        missing[connection] = size
        selector.register(connection, selectors.EVENT_READ, connection)
    done, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        for key, _ in selector.select(1):
            connection = key.data
            missing[connection] -= len(connection.recv(2**16))
            if not missing[connection]:
                done += 1
                missing[connection] = size
                connection.sendall(request)
    spent = time.perf_counter() - began
    for connection in missing:
        connection.close()
    return {"answers": done, "rate": done / spent, "cpu": time.process_time()}


def main() -> None:
    port, kind, *numbers = sys.argv[1:]
    kinds: dict[str, Callable[..., Coroutine[None, None, dict[str, float]]]] = {
        "flat": flat,
        "paced": paced,
        "idle": idle,
        "json": answers,
    }
    result = asyncio.run(kinds[kind](int(port), *map(int, numbers)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
