"""The clients of the proxy benchmark: they read only what a figure needs.  Prints one JSON line.

client.py PORT flat STREAMS EVENTS
client.py PORT spread STREAMS HZ SECONDS
client.py PORT json CONNECTIONS SECONDS
"""

import asyncio
import json
import re
import sys
import time

KEY = "Bearer wt-bench-0123456789"
SENT = re.compile(rb'"t":(\d+)\}')
SETTLE_S = 1.0


async def open_stream(port: int, session: str, query: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    target = f"/v1/sessions/{session}/events/stream?event_deltas=true&{query}"
    writer.write(f"GET {target} HTTP/1.1\r\nHost: bench\r\nAuthorization: {KEY}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return reader, writer


async def flat(port: int, streams: int, events: int) -> dict[str, float]:
    async def follow(number: int) -> tuple[int, int]:
        reader, writer = await open_stream(port, f"s{number}", f"n={events}")
        seen = wire = 0
        tail = b""
        while tail != b"\r\n0\r\n\r\n":
            data = await reader.read(262_144)
            assert data, "cut off"
            seen += data.count(b'"t":')
            wire += len(data)
            tail = (tail + data)[-7:]
        writer.close()
        return seen, wire

    begin = time.perf_counter()
    counts = await asyncio.gather(*(follow(number) for number in range(streams)))
    spent = time.perf_counter() - begin
    total = sum(seen for seen, _ in counts)
    # A marker split between two reads is missed: at most one per read, and no event is lost.
    assert total >= streams * events * 0.99, total
    return {"rate": streams * events / spent, "events": streams * events, "wire": sum(wire for _, wire in counts)}


async def spread(port: int, streams: int, hz: float, seconds: float) -> dict[str, object]:
    late: list[int] = []
    wire = 0
    counted_from = time.monotonic_ns() + int((SETTLE_S + streams * 0.01) * 1e9)

    async def follow(number: int) -> None:
        nonlocal wire
        reader, writer = await open_stream(port, f"s{number}", f"n={int(hz * seconds)}&hz={hz}")
        rest = b""
        while not rest.endswith(b"0\r\n\r\n"):
            data = await reader.read(65_536)
            now = time.monotonic_ns()
            assert data, "cut off"
            wire += len(data)
            rest += data
            at = 0
            for found in SENT.finditer(rest):
                at = found.end()
                sent = int(found[1])
                if sent > counted_from:
                    late.append(now - sent)
            rest = rest[at:]
        writer.close()

    async def start(number: int) -> None:
        await asyncio.sleep(number * 0.01)
        await follow(number)

    await asyncio.gather(*(start(number) for number in range(streams)))
    late.sort()
    pick = {name: late[int(len(late) * share)] / 1000 for name, share in (("p50", 0.5), ("p99", 0.99))}
    return {**pick, "events": streams * int(hz * seconds), "wire": wire}


async def small_json(port: int, connections: int, seconds: float) -> dict[str, float]:
    body = b'{"title":"bench"}'
    request = (
        f"POST /v1/sessions HTTP/1.1\r\nHost: bench\r\nAuthorization: {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    until = time.perf_counter() + seconds

    async def ask() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        done = 0
        while time.perf_counter() < until:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            done += 1
        writer.close()
        return done

    counts = await asyncio.gather(*(ask() for _ in range(connections)))
    return {"rate": sum(counts) / seconds, "requests": sum(counts)}


def main() -> None:
    port, kind, *numbers = sys.argv[1:]
    first, *rest = map(float, numbers)
    if kind == "flat":
        result: object = asyncio.run(flat(int(port), int(first), int(rest[0])))
    elif kind == "spread":
        result = asyncio.run(spread(int(port), int(first), rest[0], rest[1]))
    else:
        result = asyncio.run(small_json(int(port), int(first), rest[0]))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
