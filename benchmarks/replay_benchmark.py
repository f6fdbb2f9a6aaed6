"""`wiretape replay` compared with a bare aiohttp handler that writes the same bytes.

python benchmarks/replay_benchmark.py [--rounds N] [--quick]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bare_handler import DOCUMENT
from proxy_targets import HERE, OLDER, OURS, PROGRAMS, free_port, running, usage
from rich.console import Console
from rich.table import Table
from sample_recordings import SECOND, record

from wiretape.observations import BytesArrived, Ending, Side
from wiretape.recording import open_recording

BARE = "bare aiohttp handler"


@contextmanager
def replay(path: Path, mode: str, speed: str, *options: str, program: str = OURS) -> Iterator[tuple[int, int]]:
    """Start a replay; yield its port and process id."""
    port = free_port()
    if program == OLDER and mode == "channel":
        mode = "session"
    command = [PROGRAMS[program], "replay", path, "--mode", mode, "--speed", speed, "--listen", f"127.0.0.1:{port}"]
    with running([*command, *options], port) as process:
        yield port, process.pid


@contextmanager
def bare(path: Path, *hz: object) -> Iterator[tuple[int, int]]:
    """Start a bare aiohttp handler with the frames of stream s0; yield its port and process id."""
    frames = path.with_suffix(".sse")
    if not frames.exists():
        with open_recording(path) as recording:
            frames.write_bytes(
                b"".join(run.data for run in recording.body(1, Side.RESPONSE) if isinstance(run, BytesArrived))
            )
    command = [sys.executable, str(HERE / "bare_handler.py"), str(frames), *map(str, hz)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.wait()


def read(port: int, *arguments: object) -> dict[str, float]:
    command = [sys.executable, str(HERE / "replay_client.py"), str(port), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def resident(process: int) -> int:
    """Return resident memory in kilobytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def flat_out(folder: Path, rounds: int, events: int) -> dict[str, float]:
    """Return events per second by server."""
    path = record(OURS, "sessions", folder / "flat.db", 1, events, 1000, Ending.COMPLETE)
    rates: defaultdict[str, list[float]] = defaultdict(list)
    ways = {
        BARE: lambda: bare(path),
        "channel mode": lambda: replay(path, "channel", "max"),
        "verbatim mode": lambda: replay(path, "verbatim", "max"),
    }
    for turn in range(rounds):
        for name in ways if turn % 2 == 0 else reversed(ways):
            with ways[name]() as (port, _):
                rates[name].append(events / read(port, "flat", 1)["seconds"])
    return {name: median(values) for name, values in rates.items()}


def on_time(folder: Path, streams: int, seconds: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the lateness of events by server."""
    path = record(OURS, "sessions", folder / "paced.db", streams, 10 * seconds, SECOND // 10, Ending.CLIENT_CLOSED)
    late: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    ways = {BARE: lambda: bare(path, 10), "channel mode": lambda: replay(path, "channel", "1")}
    if OLDER in PROGRAMS:
        older = record(OLDER, "sessions", path, streams, 10 * seconds, SECOND // 10, Ending.CLIENT_CLOSED)
        ways[OLDER] = lambda: replay(older, "channel", "1", program=OLDER)
    for turn in range(rounds):
        for name in ways if turn % 2 == 0 else reversed(ways):
            with ways[name]() as (port, process):
                before = usage(process).cpu
                result = read(port, "paced", streams, seconds)
                late[name].append({**result, "server cpu": usage(process).cpu - before})
    return {name: {key: median(one[key] for one in all_of) for key in all_of[0]} for name, all_of in late.items()}


def answers(folder: Path, seconds: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return rates of small JSON answers, and CPU microseconds for each, by server.

    In the first two seconds the client checks wait; `all` includes the work for all of them, to the end.
    """
    path = record(OURS, "sessions", folder / "answers.db", 2, 1000, 1000, Ending.COMPLETE, DOCUMENT.decode())
    found: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    ways = {
        BARE: lambda: bare(path),
        "channel mode": lambda: replay(path, "channel", "max", "--repeat", "last"),
        "verbatim mode": lambda: replay(path, "verbatim", "max", "--repeat", "last"),
    }
    for turn in range(rounds):
        for name in ways if turn % 2 == 0 else reversed(ways):
            with ways[name]() as (port, process):
                read(port, "json", 16, 1)
                wait_until_idle(process)
                before = usage(process).cpu
                first = read(port, "json", 16, 2)
                first_cpu = usage(process).cpu - before
                wait_until_idle(process)
                before = usage(process).cpu
                whole = read(port, "json", 16, seconds)
                wait_until_idle(process)
                whole_cpu = usage(process).cpu - before
            found[name].append(
                {
                    "first": first["rate"],
                    "first cpu": first_cpu / first["answers"] * 1e6,
                    "all": whole["rate"],
                    "all cpu": whole_cpu / whole["answers"] * 1e6,
                    "client cpu": whole["cpu"] / whole["answers"] * 1e6,
                }
            )
    return {name: {key: median(one[key] for one in found[name]) for key in found[name][0]} for name in ways}


def wait_until_idle(process: int) -> None:
    """Wait until a process takes no CPU time any more."""
    spent = -1.0
    while spent != (spent := usage(process).cpu):
        time.sleep(0.5)


def pauses(folder: Path, streams: int, seconds: int) -> dict[str, list[int]]:
    """Return the CPU microseconds of each turn of the client checks on the event loop, and of each collection."""
    path = record(OURS, "sessions", folder / "judged.db", streams, 10 * seconds, SECOND // 10, Ending.CLIENT_CLOSED)
    port, target = free_port(), folder / "slices.json"
    command = [sys.executable, HERE / "timed_replay.py", target, "replay", path, "--listen", f"127.0.0.1:{port}"]
    with running([*command, "--mode", "channel", "--speed", "1"], port):
        read(port, "paced", streams, seconds)
    return {name: sorted(values) for name, values in json.loads(target.read_text()).items()}


def histogram(slices: list[int]) -> str:
    """Return how many slices took how long."""
    bounds = (250, 500, 1000, 2000, 5000, 10**9)
    counts = [bisect_right(slices, bound) for bound in bounds]
    parts = [
        f"<= {bound / 1000:g} ms: {after - before:,}"
        for bound, before, after in zip(bounds, [0, *counts], counts, strict=False)
    ]
    return ", ".join(parts).replace("<= 1e+06 ms", "longer")


def idle(folder: Path, streams: int) -> float:
    """Return the megabytes that open streams cost."""
    path = record(OURS, "sessions", folder / "idle.db", 10, 1, SECOND, Ending.CLIENT_CLOSED)
    with replay(path, "channel", "max") as (port, process):
        read(port, "paced", 10, 1)
        before = resident(process)
        command = [sys.executable, str(HERE / "replay_client.py"), str(port), "idle", str(streams)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clients:
            assert clients.stdout
            assert clients.stdout.readline() == "open\n"
            cost = resident(process) - before
            clients.communicate("\n")
    return cost / 1024


def show(console: Console, *, rounds: int = 5, quick: bool = False) -> None:
    """Measure and print the result."""
    streams = 100 if quick else 500
    with tempfile.TemporaryDirectory(prefix="wiretape-bench-") as name:
        folder = Path(name)
        rates = flat_out(folder, 1 if quick else rounds, 20_000 if quick else 100_000)
        late = on_time(folder, streams, 3 if quick else 10, 1 if quick else min(rounds, 3))
        held_up = pauses(folder, streams, 3 if quick else 10)
        small = answers(folder, 3 if quick else 10, 1 if quick else min(rounds, 3))
        cost = idle(folder, 200 if quick else 2000)
    table = Table(title="replay; medians, in one run", title_justify="left")
    for title in ("figure", BARE, "channel mode", "verbatim mode", "to reach"):
        table.add_column(title, justify="left" if title == "figure" else "right")
    floor = rates[BARE]
    ratios = [_judged(f"{rate:,.0f}/s = {rate / floor:.2f}", rate / floor >= 0.85) for rate in rates.values()]
    table.add_row("flat out, one stream", f"{floor:,.0f}/s", *ratios[1:], ">= 0.85")
    title = f"{streams} streams x 10/s: events late by"
    for figure, goal in (("p50", ""), ("p99", "<= 3 ms and <= 1.5")):
        noise, ours = (late[name][figure] / 1000 for name in (BARE, "channel mode"))
        cell = _judged(f"{ours:.2f} ms = {ours / noise:.2f}", not goal or (ours <= 3 and ours / noise <= 1.5))
        table.add_row(f"{title}, {figure}", f"{noise:.2f} ms", cell, "", goal)
    if OLDER in late:
        both = ", ".join(f"{figure} {late[OLDER][figure] / 1000:.2f} ms" for figure in ("p50", "p99"))
        table.add_row(f"  {OLDER}", "", both, "", "")
    for side, key in (("server", "server cpu"), ("clients", "cpu")):
        table.add_row(f"  CPU of the {side}", *(f"{late[name][key]:.1f} s" for name in (BARE, "channel mode")))
    for label, key in (("first 2 s", "first"), ("all checks included", "all")):
        floor, *others = (result[key] for result in small.values())
        ratios = [_judged(f"{rate:,.0f}/s = {rate / floor:.2f}", rate / floor >= 0.6) for rate in others]
        table.add_row(f"JSON answers, {label}", f"{floor:,.0f}/s", *ratios, ">= 0.6")
        cpu = [result[f"{key} cpu"] for result in small.values()]
        ratios = [f"{each:.0f} us = {cpu[0] / each:.2f}" for each in cpu[1:]]
        table.add_row("  CPU of the server for each", f"{cpu[0]:.0f} us", *ratios)
    cpu = [result["client cpu"] for result in small.values()]
    table.add_row("  CPU of the clients for each", *(f"{each:.0f} us" for each in cpu))
    cell = _judged(f"{cost:.0f} MB", cost <= 100)
    table.add_row(f"{200 if quick else 2000} open idle streams", "", cell, "", "<= 100 MB for 2,000")
    console.print(table)
    for name, spent in held_up.items():
        longest = f"; at most {spent[-1] / 1000:.2f} ms" if spent else ""
        console.print(f"  {name}, CPU of each turn: {histogram(spent)}{longest}")


def _judged(text: str, good: bool) -> str:
    return f"[{'green' if good else 'red'}]{text}[/]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="number of measurements (default 5)")
    parser.add_argument("--quick", action="store_true", help="one short round")
    options = parser.parse_args()
    show(Console(width=120), rounds=options.rounds, quick=options.quick)


if __name__ == "__main__":
    main()
