"""Capacity of one proxy: streams, events, bytes, CPU and memory at 1 x, 10 x and 100 x load, and what it costs.

    python benchmarks/capacity_benchmark.py [--seconds N] [--rotate DURATION]

With `--rotate`, every client verifies every byte of its streams, the joined recording is compared with them, and its
report with that of a second proxy, which records the same traffic between the first and the service into one file.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from proxy_client import open_stream
from proxy_targets import BIN, Usage, children, free_port, running, service, usage
from report_benchmark import run_report
from rich.console import Console
from rich.table import Table

from wiretape.observations import BytesArrived, Side
from wiretape.recording import open_recording
from wiretape.recording.rotated_parts import open_joined

STREAMS, HZ = 2, 20
PROXIES, HOURS = 1000, 24
TIME = re.compile(rb'"t":\d+')


@dataclass
class Result:
    """What one load cost."""

    streams: int
    events: int
    wire: int
    seconds: float
    proxy: Usage
    recorder: Usage
    file: int
    files: int
    report_cpu: float


async def read_streams(port: int, streams: int, seconds: int) -> dict[str, bytes]:
    """Read streams that begin one after the other; return the body of each session."""

    async def follow(number: int) -> tuple[str, bytes]:
        await asyncio.sleep(number * 0.005)
        reader, writer = await open_stream(port, f"s{number}", f"n={HZ * seconds}&hz={HZ}")
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        writer.close()
        return f"s{number}", body

    return dict(await asyncio.gather(*map(follow, range(streams))))


def proxy_command(upstream: int, port: int, output: Path, *options: str) -> list[object]:
    """Return the command of a proxy for the service at a port of this machine."""
    command: list[object] = [BIN / "wiretape", "proxy", f"http://127.0.0.1:{upstream}", "--listen", f"127.0.0.1:{port}"]
    return [*command, "--output", output, *options]


def outcome(*files: Path) -> tuple[list[object], list[object]]:
    """Return the rules of a report with their verdicts and counts, and its findings without their times."""
    command = [sys.executable, "-m", "wiretape", "report", *map(str, files), "--no-config", "--format", "json"]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)
    found = [(each["code"], each["exchange"], each["event"], each["message"]) for each in report["findings"]]
    return report["rules"], sorted(found, key=str)


def measure(streams: int, seconds: int, rotate: str | None) -> Result:
    """Run one load through a proxy, and compare its recording with what the clients received."""
    with tempfile.TemporaryDirectory(prefix="wiretape-bench-") as name, service() as upstream:
        folder, port, whole = Path(name), free_port(), Path(name, "unrotated", "run.db")
        options = ["--rotate", rotate] if rotate else []
        with ExitStack() as proxies:
            target = upstream
            if rotate:
                whole.parent.mkdir()
                target = free_port()
                proxies.enter_context(running(proxy_command(upstream, target, whole), target))
            command = proxy_command(target, port, folder / "run.db", *options)
            process = proxies.enter_context(running(command, port))
            bodies: dict[str, bytes] = {}
            thread = threading.Thread(target=lambda: bodies.update(asyncio.run(read_streams(port, streams, seconds))))
            (recorder,) = children(process.pid)
            before, began = (usage(process.pid, with_children=False), usage(recorder)), time.monotonic()
            thread.start()
            thread.join()
            spent = time.monotonic() - began
            after = usage(process.pid, with_children=False), usage(recorder)
        proxy, recorder_use = (Usage(new.cpu - old.cpu, new.megabytes) for old, new in zip(before, after, strict=True))
        files = sorted(folder.glob("*.db"))
        with ExitStack() as opened:
            parts = [opened.enter_context(open_recording(file)) for file in files]
            parts.sort(key=lambda part: part.info.part)
            recording = opened.enter_context(open_joined(parts))
            recorded = {
                exchange.channel: b"".join(
                    run.data for run in recording.body(exchange.number, Side.RESPONSE) if isinstance(run, BytesArrived)
                )
                for exchange in recording.exchanges()
            }
        assert len(bodies) == streams
        assert recorded == bodies, "the recording differs from what the clients received"
        events = sum(len(TIME.findall(body)) for body in bodies.values())
        assert events == streams * seconds * HZ, "events were lost or duplicated"
        wire = sum(map(len, bodies.values()))
        size = sum(file.stat().st_size for file in files)
        if rotate:
            assert outcome(*files) == outcome(whole), "the reports differ"
        report_cpu = sum(run_report(file)[0] for file in files) if not rotate else 0.0
        return Result(streams, events, wire, spent, proxy, recorder_use, size, len(files), report_cpu)


def show(console: Console, *, seconds: int = 10, rotate: str | None = None) -> None:
    """Measure and print the tables as Markdown."""
    loads = (100,) if rotate else (1, 10, 100)
    results = [measure(STREAMS * load, seconds, rotate) for load in loads]
    table = Table(title=f"one proxy, streams of {HZ} events/s, {seconds} s each")
    for title in ("streams", "events/s", "MB/s", "proxy CPU", "recorder CPU", "memory", "files", "file / wire"):
        table.add_column(title, justify="right")
    for each in results:
        table.add_row(
            f"{each.streams}",
            f"{each.events / each.seconds:,.0f}",
            f"{each.wire / each.seconds / 1e6:.3f}",
            f"{each.proxy.cpu / each.seconds:.1%}",
            f"{each.recorder.cpu / each.seconds:.1%}",
            f"{each.proxy.megabytes + each.recorder.megabytes:,.0f} MB",
            f"{each.files}",
            f"{each.file / each.wire:.2f}",
        )
    console.print(table)
    if rotate:
        console.print(f"  rotated every {rotate}: every byte verified, nothing lost or duplicated, and the same report")
        return
    low, high = results[0], results[-1]
    rates = [each.events / each.seconds for each in (low, high)]
    cores = [(each.proxy.cpu + each.recorder.cpu) / each.seconds for each in (low, high)]
    slope = (cores[1] - cores[0]) / (rates[1] - rates[0])
    per_stream = (high.proxy.megabytes + high.recorder.megabytes - low.proxy.megabytes - low.recorder.megabytes) / (
        high.streams - low.streams
    )
    console.print(f"  CPU: {slope * 1e6:,.0f} us an event; memory: {per_stream:.2f} MB a stream")
    console.print(f"  one core of the proxy is full at about {high.events / high.proxy.cpu:,.0f} events/s")
    daily = PROXIES * HOURS * 3600 * low.streams * HZ * 10
    terabytes = daily * high.file / high.events / 1e12
    core_hours = daily * high.report_cpu / high.events / 3600
    console.print(
        f"  a day of {PROXIES:,} proxies with {low.streams * 10} streams each: {daily / 1e9:,.1f} billion events,"
    )
    console.print(f"  {terabytes:,.2f} TB to store, {core_hours:,.0f} core hours to check")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="how long each stream lasts (default 10)")
    parser.add_argument("--rotate", help="rotate the recording, for example every 1s")
    options = parser.parse_args()
    show(Console(width=120), seconds=options.seconds, rotate=options.rotate)


if __name__ == "__main__":
    main()
