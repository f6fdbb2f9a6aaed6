"""The clients of the replay's benchmark.  Prints one JSON line.

reading.py PORT flat STREAMS              seconds until STREAMS clients have their whole stream, and its bytes
reading.py PORT paced STREAMS SECONDS     how late each event came, in us, against the first one of its stream
reading.py PORT idle STREAMS              waits for a line on standard input with STREAMS streams open
"""

import asyncio
import json
import re
import sys
import time

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
    """Events carry their recorded time as `t`, in ns."""
    late: list[int] = []

    async def follow(number: int) -> None:
        reader, writer = await connect(port, f"s{number}")
        base = None
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            line = await reader.readline()
            found = MOMENT.search(line)
            if found is None:
                continue
            behind = time.monotonic_ns() - int(found[1])
            base = behind if base is None else base
            late.append(behind - base)
        writer.close()

    async def start(number: int) -> None:
        await asyncio.sleep(number * 0.004)
        await follow(number)

    await asyncio.gather(*(start(number) for number in range(streams)))
    off = sorted(abs(value) for value in late)
    return {"events": len(off), "p50": off[len(off) // 2] / 1e3, "p99": off[int(len(off) * 0.99)] / 1e3}


async def idle(port: int, streams: int) -> dict[str, float]:
    lines = [await connect(port, f"s{number % 10}") for number in range(streams)]
    print("open", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    for _, writer in lines:
        writer.close()
    return {"streams": streams}


def main() -> None:
    port, kind, *numbers = sys.argv[1:]
    result = asyncio.run({"flat": flat, "paced": paced, "idle": idle}[kind](int(port), *map(int, numbers)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
