"""`make bench`: wiretape and its references, side by side in one run.  See README.md."""

import argparse
import os
import platform
import shutil
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import capacity_benchmark
import mock_servers
import replay_benchmark
import report_benchmark
import serve_benchmark
import size_benchmark
import view_benchmark
from markdown_page import MarkdownPage
from proxy_targets import PROGRAMS, WAYS, run_client, service, usage
from rich.console import Console
from rich.progress import Progress
from rich.table import Table


@dataclass(frozen=True)
class Load:
    """One kind of traffic, and its figures: rates relative to stock, or latencies added to those without a proxy."""

    name: str
    arguments: tuple[object, ...]
    figures: tuple[str, ...]


SECTIONS = ("proxy", "size", "mocks", "replay", "report", "capacity", "rotation", "serve", "look")
CPU, MEMORY = "CPU us an event", "peak MB"
MOST_SECONDS = 200
"""After this time, no further round of the proxy is started ..."""
MOST_SECONDS_IN_ALL = 780 * len(PROGRAMS)
"""... and after this, no further section."""
INTRODUCTION = """# Benchmarks

`make bench` measures all of this in one run and writes this page; what each figure means is in
[benchmarks/README.md](../benchmarks/README.md).
All programs share the cores of one machine, so only ratios within one run say something: compare the columns of a
table, not the tables of two runs. A row that misses its goal stays on the page."""


def loads(quick: bool) -> list[Load]:
    scale = 1 if quick else 2
    return [
        Load("flat out, 1 stream", ("flat", 1, 100_000 * scale), ("rate",)),
        Load("flat out, 10 streams", ("flat", 10, 10_000 * scale), ("rate",)),
        Load("50 streams x 20/s", ("spread", 50, 20, 4 * scale), ("p50", "p99")),
        Load("small JSON, 16 connections", ("json", 16, 1.5 * scale), ("rate",)),
    ]


Results = dict[tuple[str, str, str], list[float]]


def measure(rounds: int, quick: bool, folder: Path) -> tuple[Results, Results]:
    """Measure every load over every connection in turn; return the results, and figures of the recordings."""
    results: Results = defaultdict(list)
    recorded: Results = defaultdict(list)
    kinds = loads(quick)
    until = time.monotonic() + MOST_SECONDS
    with service() as upstream, Progress(transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        for turn in range(rounds):
            if turn and time.monotonic() > until:
                break
            for load in kinds:
                # Rates are compared with stock only, so one measurement without a proxy is enough.
                ways = [way for way in WAYS if way != "direct" or turn == 0 or "rate" not in load.figures]
                for name in ways if turn % 2 == 0 else reversed(ways):
                    progress.update(task, description=f"{load.name}: {name}")
                    with WAYS[name](upstream, folder) as (port, process):
                        before = usage(process)
                        result = run_client(port, *load.arguments)
                        after = usage(process)
                    if name != "direct":
                        count = result.get("requests", result.get("events", 1))
                        results[load.name, name, CPU].append((after.cpu - before.cpu) / count * 1e6)
                        results[load.name, name, MEMORY].append(after.megabytes)
                    for figure in load.figures:
                        results[load.name, name, figure].append(result[figure])
                    if name in PROGRAMS:
                        for figure, value in audit(folder / "bench.db", result).items():
                            recorded[load.name, name, figure].append(value)
                    progress.advance(task)
    return results, recorded


def audit(path: Path, result: dict[str, float]) -> dict[str, float]:
    """Return what the recording lacks and its size; delete the file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        (events,) = connection.execute("SELECT count(*) FROM frame WHERE event IS NOT NULL").fetchone()
        (exchanges,) = connection.execute("SELECT count(*) FROM exchange WHERE ending = 'complete'").fetchone()
        (findings,) = connection.execute("SELECT count(*) FROM finding").fetchone()
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    assert journal == "delete", "not closed cleanly"
    size = path.stat().st_size
    path.unlink()
    if "requests" in result:
        return {"lost": max(0, result["requests"] - exchanges), "bytes a request": size / result["requests"]}
    return {"lost": result["events"] - events, "file / wire": size / result["wire"], "findings": findings}


def report(results: Results, recorded: Results, console: Console, program: str) -> None:
    table = Table(title="medians; every row in one run", title_justify="left")
    shown = ("direct", "stock mitmdump", program)
    for title in ("load", "figure", *shown, "wiretape / stock", "to reach"):
        table.add_column(title, justify="left" if title in {"load", "figure"} else "right")
    for load, figure in dict.fromkeys((load, figure) for load, _, figure in results):
        direct, stock, ours = (median(results.get((load, name, figure), [0])) for name in shown)
        if figure in {CPU, MEMORY}:
            table.add_row(load, figure, "", f"{stock:,.0f}", f"{ours:,.0f}", f"{ours / stock:.2f}", "")
            continue
        if figure == "rate":
            floor = 0.9 if "JSON" in load else 0.95
            ratio, goal, good = ours / stock, f">= {floor}", ours / stock >= floor
            cells = [f"{value:,.0f}/s" for value in (direct, stock, ours)]
        else:
            ceiling = 1.1 if figure == "p50" else 1.3
            ratio = (ours - direct) / (stock - direct)
            goal, good = f"<= {ceiling} (added)", ratio <= ceiling
            cells = [f"{value:,.0f} us" for value in (direct, stock, ours)]
        table.add_row(load, figure, *cells, f"[{'green' if good else 'red'}]{ratio:.2f}[/]", goal)
    console.print(table)
    for load, figure in dict.fromkeys((load, figure) for load, _, figure in recorded):
        values = recorded[load, program, figure]
        console.print(f"  {load}: {figure} {max(values):,.2f} (largest of {len(values)})")


def proxy(console: Console, rounds: int, quick: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="wiretape-bench-"))
    try:
        results, recorded = measure(rounds, quick, folder)
    finally:
        shutil.rmtree(folder)
    for program in PROGRAMS:
        report(results, recorded, console, program)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="number of measurements, if time allows (default 3)")
    parser.add_argument("--output", type=Path, help="page to write, if nothing is left out")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument(
        "--only",
        choices=SECTIONS,
        help="run one benchmark only",
    )
    options = parser.parse_args()
    rounds, quick = 1 if options.quick else options.rounds, options.quick
    page, until = MarkdownPage(INTRODUCTION), time.monotonic() + MOST_SECONDS_IN_ALL
    cores = len(os.sched_getaffinity(0))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    page.print(
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, mitmproxy {version('mitmproxy')}, "
        f"{platform.machine()}, {cores} cores; load of the machine before the run: {load}."
    )
    events = 100_000 if quick else 300_000
    sections: dict[str, tuple[str, Callable[[], None]]] = {
        "proxy": ("Recorder and stock mitmdump", lambda: proxy(page, rounds, quick)),
        "size": ("Size of recordings", lambda: size_benchmark.show(page, events // 10)),
        "mocks": ("Replay and other mock servers", lambda: mock_servers.show(page, rounds=min(rounds, 2), quick=quick)),
        "replay": ("Replay", lambda: replay_benchmark.show(page, rounds=min(rounds, 2), quick=quick)),
        "report": ("Report", lambda: report_benchmark.show(events, page)),
        "capacity": ("Capacity of one proxy", lambda: capacity_benchmark.show(page, seconds=3 if quick else 10)),
        "rotation": ("Rotation", lambda: capacity_benchmark.show(page, seconds=3 if quick else 10, rotate="1s")),
        "serve": ("Stand-in", lambda: serve_benchmark.show(page, quick=quick)),
        "look": ("Views", lambda: view_benchmark.show(page, events)),
    }
    for name, (title, measure_) in sections.items():
        if options.only is None and time.monotonic() > until:
            page.print(f"{title} is left out: the run took too long.")
        elif options.only in {None, name}:
            page.section(title, measure_)
    if options.output is not None and options.only is None and not quick:
        page.save(options.output)


if __name__ == "__main__":
    main()
