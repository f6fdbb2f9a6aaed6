"""`wiretape serve` with many sessions streaming at once.

python benchmarks/serve_benchmark.py [--quick]
"""

import argparse
import asyncio
import gc
import json
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import aiohttp
from proxy_targets import PROGRAMS, free_port, running, usage
from replay_benchmark import resident
from rich.console import Console
from rich.table import Table

SCENARIO = """
title = "Tool calls, two events a second"
pace = 0.5

[[run]]
steps = [{{ repeat = {seconds}, steps = [{{ tool = "count" }}] }}]
"""
SERVICE = """
limits = false

[[keys]]
key = "bench-key"
tenant = "bench"
"""
HEADERS = {"Authorization": "Bearer bench-key"}
CREATED = re.compile(rb'"created_at":"([^"]+)"')
AT_ONCE = 16
"""Sessions that start at the same time."""


async def stream(port: int, sessions: int) -> dict[str, float]:
    """Every client creates a session, opens its stream, creates a run, and reads to the run's end.

    Rate and lateness are those of the time in which all of them stream.
    """
    arrived: list[tuple[float, float]] = []
    turns = asyncio.Semaphore(AT_ONCE)
    begun: list[float] = []
    ended: list[float] = []

    async def follow(http: aiohttp.ClientSession) -> None:
        async with turns:
            async with http.post("/v1/sessions", json={}) as response:
                path = f"/v1/sessions/{(await response.json())['id']}"
            stream = await http.get(f"{path}/events/stream?event_deltas=true")
            async with http.post(f"{path}/runs", json={}) as response:
                assert response.status == 201, await response.text()
        begun.append(time.time())
        async for line in stream.content:
            if found := CREATED.search(line):
                now = time.time()
                arrived.append((now, now - datetime.fromisoformat(found[1].decode()).timestamp()))
            if b'"session.status_idle"' in line:
                break
        ended.append(time.time())
        stream.close()

    timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
    gc.disable()  # pauses of the client do not count
    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession(url, headers=HEADERS, timeout=timeout, connector=connector) as http:
        await asyncio.gather(*(follow(http) for _ in range(sessions)))
    first, last = max(begun), min(ended)
    off = sorted(late for moment, late in arrived if first <= moment <= last)
    assert off, "there was no time in which all of them streamed"
    return {
        "events": len(arrived),
        "rate": len(off) / (last - first),
        "p50": off[len(off) // 2] * 1e3,
        "p99": off[int(len(off) * 0.99)] * 1e3,
        "client cpu": time.process_time(),
    }


def measure(program: Path, folder: Path, sessions: int, seconds: int) -> dict[str, float]:
    """Return events/s, lateness (ms) and memory of the sessions and their streams (MB)."""
    (folder / "bench.toml").write_text(SCENARIO.format(seconds=seconds), "utf-8")
    (folder / "service.toml").write_text(SERVICE, "utf-8")
    port = free_port()
    command: list[object] = [program, "serve", folder / "bench.toml", "--service", folder / "service.toml"]
    command += ["--no-config", "--listen", f"127.0.0.1:{port}"]
    with running(command, port) as process:
        before, began_cpu = resident(process.pid), usage(process.pid).cpu
        client = [sys.executable, __file__, "--client", str(port), str(sessions)]
        done = subprocess.run(client, check=True, stdout=subprocess.PIPE, text=True)
        cost = (resident(process.pid) - before) / 1024
        server_cpu = usage(process.pid).cpu - began_cpu
    result: dict[str, float] = json.loads(done.stdout)
    expected = sessions * (2 * seconds + 3)
    assert result["events"] == expected, f"{result['events']} of {expected} events came"
    return {**result, "cost": cost, "server cpu": server_cpu}


def show(console: Console, *, quick: bool = False) -> None:
    """Measure and print the result."""
    sessions, seconds = (200, 5) if quick else (1000, 20)
    table = Table(title=f"serve; {sessions:,} sessions x 2/s", title_justify="left")
    for title in ("", "events", "events/s", "late, p50", "late, p99", "service CPU", "clients CPU", "memory"):
        table.add_column(title, justify="right")
    for program, path in PROGRAMS.items():
        with tempfile.TemporaryDirectory(prefix="wiretape-bench-") as folder:
            result = measure(path, Path(folder), sessions, seconds)
        late = (f"{result[name]:.1f} ms" for name in ("p50", "p99"))
        cpu = (f"{result[name]:.1f} s" for name in ("server cpu", "client cpu"))
        counts = (f"{result[name]:,.0f}" for name in ("events", "rate"))
        table.add_row(program, *counts, *late, *cpu, f"{result['cost']:.0f} MB")
    console.print(table)
    console.print("  to reach: p99 <= 20 ms, if the CPU time shows that both sides have a core of their own")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sessions for a shorter time")
    parser.add_argument("--client", nargs=2, type=int, metavar=("PORT", "SESSIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client is not None:
        print(json.dumps(asyncio.run(stream(*options.client))))
    else:
        show(Console(width=120), quick=options.quick)


if __name__ == "__main__":
    main()
