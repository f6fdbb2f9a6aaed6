"""`wiretape replay` beside a bare aiohttp handler that writes the same bytes, and peers where they are installed.

python benchmarks/replaying.py [--rounds N] [--quick]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from events import event
from rich.console import Console
from rich.table import Table
from ways import BIN, HERE, free_port, running

from wiretape.observe import BytesArrived, Ending, ExchangeEnded, RequestEnded, RequestStarted, ResponseStarted, Side
from wiretape.recording import Writer, open_recording

HEAD = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
SECOND = 10**9


def record(path: Path, streams: int, events: int, gap_ns: int, ending: Ending) -> Path:
    """A recording of `streams` sessions with one stream each, all at the same time: `events` events `gap_ns` apart.

    Each event carries its recorded time as `t`.
    """
    writer = Writer.create(path, upstream="http://bench")
    clock = iter(range(writer.began_ns + 10, 2**62, 10))
    for number in range(streams):
        target = f"/v1/sessions/s{number}/events/stream?event_deltas=true"
        key = (("Authorization", "Bearer wt-bench-0123456789"),)
        head = RequestStarted(number + 1, next(clock), "127.0.0.1", "GET", "http", "bench", target, "HTTP/1.1", key)
        whole = RequestEnded(number + 1, next(clock))
        answer = ResponseStarted(number + 1, next(clock), 200, "OK", "HTTP/1.1", HEAD)
        writer.feed([head, whole, answer])
    base = next(clock) + 1000
    sizes = [0] * streams
    for at in range(events):
        for number in range(streams):
            now = base + at * gap_ns + number * 10
            data = event(b"s%d" % number, at, now)
            begin, sizes[number] = sizes[number], sizes[number] + len(data)
            writer.feed([BytesArrived(number + 1, Side.RESPONSE, begin, data, (sizes[number],), (now,))])
        if at * streams % 5000 < streams:
            store(writer)
    end = base + events * gap_ns
    writer.feed(ExchangeEnded(number + 1, end + 10 * number, ending) for number in range(streams))
    store(writer)
    writer.close(end + SECOND)
    return path


def store(writer: Writer) -> None:
    writer.commit()
    while writer.behind:
        writer.derive()


@contextmanager
def replay(path: Path, mode: str, speed: str) -> Iterator[tuple[int, int]]:
    """Port and process id."""
    port = free_port()
    command = [BIN / "wiretape", "replay", path, "--mode", mode, "--speed", speed, "--listen", f"127.0.0.1:{port}"]
    with running(command, port) as process:
        yield port, process.pid


@contextmanager
def bare(path: Path, _: str, __: str) -> Iterator[tuple[int, int]]:
    """A bare aiohttp handler with the frames of stream s0."""
    frames = path.with_suffix(".sse")
    if not frames.exists():
        with open_recording(path) as recording:
            frames.write_bytes(b"".join(run.data for run in recording.body(1, Side.RESPONSE)))
    process = subprocess.Popen(
        [sys.executable, HERE / "bare.py", frames], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.wait()


def read(port: int, *arguments: object) -> dict[str, float]:
    command = [sys.executable, HERE / "reading.py", str(port), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def resident(process: int) -> int:
    """Kilobytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def flat_out(folder: Path, rounds: int, events: int) -> dict[str, float]:
    """Events per second, by who sends them."""
    path = record(folder / "flat.db", 1, events, 1000, Ending.COMPLETE)
    rates: defaultdict[str, list[float]] = defaultdict(list)
    ways = [("bare handler", bare, ""), ("session mode", replay, "session"), ("tape mode", replay, "tape")]
    for turn in range(rounds):
        for name, way, mode in ways if turn % 2 == 0 else reversed(ways):
            with way(path, mode, "max") as (port, _):
                rates[name].append(events / read(port, "flat", 1)["seconds"])
    return {name: median(values) for name, values in rates.items()}


def on_time(folder: Path, streams: int, seconds: int) -> dict[str, float]:
    path = record(folder / "paced.db", streams, 10 * seconds, SECOND // 10, Ending.CLIENT_CLOSED)
    with replay(path, "session", "1") as (port, _):
        return read(port, "paced", streams, seconds)


def idle(folder: Path, streams: int) -> float:
    """Megabytes that open streams cost."""
    path = record(folder / "idle.db", 10, 1, SECOND, Ending.CLIENT_CLOSED)
    with replay(path, "session", "max") as (port, process):
        read(port, "paced", 10, 1)
        before = resident(process)
        command = [sys.executable, HERE / "reading.py", str(port), "idle", str(streams)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clients:
            assert clients.stdout.readline() == "open\n"
            cost = resident(process) - before
            clients.communicate("\n")
    return cost / 1024


def show(console: Console, *, rounds: int = 5, quick: bool = False) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="wiretape-bench-") as name:
        folder = Path(name)
        rates = flat_out(folder, 1 if quick else rounds, 20_000 if quick else 100_000)
        late = on_time(folder, 100 if quick else 500, 3 if quick else 10)
        cost = idle(folder, 200 if quick else 2000)
    table = Table(title="replay; medians, in one run", title_justify="left")
    for title in ("figure", "measured", "to reach"):
        table.add_column(title, justify="left" if title == "figure" else "right")
    floor = rates.pop("bare handler")
    table.add_row("bare aiohttp handler, flat out", f"{floor:,.0f}/s", "")
    for way, rate in rates.items():
        table.add_row(f"{way}, flat out", f"{rate:,.0f}/s = {rate / floor:.2f} of it", ">= 0.85")
    table.add_row(f"{late['events']:,} events at 10/s a stream: late, p50", f"{late['p50'] / 1000:.2f} ms", "")
    table.add_row("the same, p99", f"{late['p99'] / 1000:.2f} ms", "<= 5 ms")
    table.add_row(f"{200 if quick else 2000} open idle streams", f"{cost:.0f} MB", "<= 100 MB for 2,000")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is measured (default 5)")
    parser.add_argument("--quick", action="store_true", help="one short round")
    options = parser.parse_args()
    show(Console(width=100), rounds=options.rounds, quick=options.quick)


if __name__ == "__main__":
    main()
