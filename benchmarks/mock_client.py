"""The client for the comparison with other mock servers.  Prints one JSON line.

asking.py PORT stream METHOD TARGET BODY               events of one whole stream, and the seconds that it took
asking.py PORT after METHOD TARGET BODY CURSOR         events that are sent to a client which had CURSOR last
asking.py PORT json METHOD TARGET BODY CONNECTIONS SECONDS     requests per second
"""

import asyncio
import json
import sys
import time

KEY = "Bearer wt-bench-0123456789"
LAST_CHUNK = b"0\r\n\r\n"
QUIET_S = 1.0


def request(method: str, target: str, body: str, *headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: bench", f"Authorization: {KEY}", *headers]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", body]).encode()


async def ask(port: int, asked: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**18)
    writer.write(asked)
    return reader, writer


async def head(reader: asyncio.StreamReader) -> bytes:
    data = await reader.readuntil(b"\r\n\r\n")
    assert data.startswith(b"HTTP/1.1 200"), data
    return data.lower()


async def stream(port: int, asked: bytes) -> dict[str, float]:
    """Read a stream to its end, or until nothing arrives anymore."""
    began = last = time.perf_counter()
    reader, writer = await ask(port, asked)
    await head(reader)
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(LAST_CHUNK):
        try:
            data = await asyncio.wait_for(reader.read(2**18), QUIET_S)
        except TimeoutError:
            break
        assert data, "cut off"
        last = time.perf_counter()
        parts.append(data if len(data) > len(LAST_CHUNK) or not parts else parts.pop() + data)
    writer.close()
    return {"events": b"".join(parts).count(b"data: "), "seconds": last - began}


async def answers(port: int, asked: bytes, connections: int, seconds: float) -> dict[str, float]:
    until = time.perf_counter() + seconds

    async def repeat() -> int:
        reader, writer = await ask(port, b"")
        done = 0
        while time.perf_counter() < until:
            writer.write(asked)
            length = (await head(reader)).partition(b"content-length:")[2].split(b"\r\n")[0]
            await (reader.readexactly(int(length)) if length else reader.readuntil(b"\r\n" + LAST_CHUNK))
            done += 1
        writer.close()
        return done

    return {"rate": sum(await asyncio.gather(*(repeat() for _ in range(connections)))) / seconds}


def main() -> None:
    port, kind, method, target, body, *rest = sys.argv[1:]
    if kind == "json":
        connections, seconds = rest
        result = asyncio.run(answers(int(port), request(method, target, body), int(connections), float(seconds)))
    else:
        cursor = [f"Last-Event-ID: {rest[0]}"] if kind == "after" else []
        result = asyncio.run(stream(int(port), request(method, target, body, *cursor)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
