"""`make bench`: wiretape and its references, side by side in one run.  See README.md."""

import argparse
import platform
import shutil
import sqlite3
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

import capacity_benchmark
import mock_servers
import replay_benchmark
import report_benchmark
import serve_benchmark
import view_benchmark
from proxy_targets import WAYS, run_client, service
from rich.console import Console
from rich.progress import Progress
from rich.table import Table


@dataclass(frozen=True)
class Load:
    """One kind of traffic, and its figures: rates relative to stock, or latencies added to those without a proxy."""

    name: str
    arguments: tuple[object, ...]
    figures: tuple[str, ...]


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
    with service() as upstream, Progress(transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        for turn in range(rounds):
            for load in kinds:
                # Rates are compared with stock only, so one measurement without a proxy is enough.
                ways = [way for way in WAYS if way != "direct" or turn == 0 or "rate" not in load.figures]
                for name in ways if turn % 2 == 0 else reversed(ways):
                    progress.update(task, description=f"{load.name}: {name}")
                    with WAYS[name](upstream, folder) as port:
                        result = run_client(port, *load.arguments)
                    for figure in load.figures:
                        results[load.name, name, figure].append(result[figure])
                    if name == "wiretape":
                        for figure, value in audit(folder / "bench.db", result).items():
                            recorded[load.name, name, figure].append(value)
                    progress.advance(task)
    return results, recorded


def audit(path: Path, result: dict[str, float]) -> dict[str, float]:
    """Return what the recording lacks and its size; delete the file."""
    with sqlite3.connect(path) as connection:
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


def report(results: Results, recorded: Results, console: Console) -> None:
    table = Table(title="medians; every row in one run", title_justify="left")
    for title in ("load", "figure", *WAYS, "wiretape / stock", "to reach"):
        table.add_column(title, justify="left" if title in {"load", "figure"} else "right")
    for load, figure in dict.fromkeys((load, figure) for load, _, figure in results):
        direct, stock, ours = (median(results[load, name, figure]) for name in WAYS)
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
        values = recorded[load, "wiretape", figure]
        console.print(f"  {load}: {figure} {max(values):,.2f} (largest of {len(values)})")


def proxy(console: Console, rounds: int, quick: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="wiretape-bench-"))
    try:
        results, recorded = measure(rounds, quick, folder)
    finally:
        shutil.rmtree(folder)
    report(results, recorded, console)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of measurements (default 5; at most 3 of the proxy)"
    )
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument(
        "--only", choices=("proxy", "capacity", "report", "replay", "serve", "look"), help="run one benchmark only"
    )
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    console = Console(width=120)
    console.print(f"Python {platform.python_version()}, mitmproxy {version('mitmproxy')}, {platform.machine()}")
    if options.only in {None, "proxy"}:
        proxy(console, min(rounds, 3), options.quick)
    if options.only in {None, "capacity"}:
        capacity_benchmark.show(console, seconds=3 if options.quick else 10)
        capacity_benchmark.show(console, seconds=3 if options.quick else 10, rotate="1s")
    if options.only in {None, "report"}:
        report_benchmark.show(100_000 if options.quick else 1_000_000, console)
    if options.only in {None, "replay"}:
        replay_benchmark.show(console, rounds=rounds, quick=options.quick)
        mock_servers.show(console, rounds=rounds, quick=options.quick)
    if options.only in {None, "serve"}:
        serve_benchmark.show(console, quick=options.quick)
    if options.only in {None, "look"}:
        view_benchmark.show(console, 100_000 if options.quick else 1_000_000)


if __name__ == "__main__":
    main()
