"""The size of a recording compared with other formats for the same traffic, and how fast it is read.

python benchmarks/size_benchmark.py [EVENTS]
"""

import gzip
import random
import string
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import zstandard
from mitmproxy.http import Headers
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow
from proxy_targets import BIN, run_measured
from rich.console import Console
from rich.table import Table
from sample_recordings import HEAD, begun, store

from wiretape.observations import BytesArrived, Ending, ExchangeEnded, Side
from wiretape.recording import Writer
from wiretape.recording.compressed_file import compress_recording

STREAMS = 20
SIZE = 300
READS = 3
_START = (
    b'id: evt_%016x\nevent: message.completed\ndata: {"id":"evt_%016x","sequence":%d,"type":"message.completed",'
    b'"workspace_id":"ws_1","session_id":"s%d","run_id":"run_1","created_at":"2026-01-01T00:00:00Z",'
    b'"content":[{"type":"text","text":"'
)
_END = b'"}],"data":{}}\n\n'


def bodies(events: int) -> list[list[bytes]]:
    """Return the events of each stream: 300 bytes each, of random words, which compress worse than sentences."""
    chance = random.Random(1)  # noqa: S311 - not for secrets
    words = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 9))) for _ in range(3000)]
    streams: list[list[bytes]] = [[] for _ in range(STREAMS)]
    for number in range(events):
        id_, stream = chance.getrandbits(64), number % STREAMS
        start = _START % (id_, id_, number // STREAMS + 1, stream)
        text = " ".join(chance.choices(words, k=60)).encode()[: SIZE - len(start) - len(_END)]
        streams[stream].append(start + text + _END)
    return streams


def record(path: Path, streams: list[list[bytes]], *, batch: int) -> None:
    """Record the streams at the same time, with `batch` events of each per commit."""
    writer = Writer.create(path, upstream="http://bench")
    now = writer.began_ns
    clock = iter(range(now + 10, 2**62, 10))
    for number in range(STREAMS):
        writer.feed(begun(number + 1, f"/v1/sessions/s{number}/events/stream?event_deltas=true", HEAD, clock))
    now = next(clock) + 1000
    for at in range(len(streams[0])):
        for number, events in enumerate(streams, 1):
            now += 2_500_000
            chunk = BytesArrived(number, Side.RESPONSE, at * SIZE, events[at], ((at + 1) * SIZE,), (now,))
            writer.feed([chunk])
        if at % batch == batch - 1:
            store(writer)
    writer.feed(ExchangeEnded(number + 1, now + 10 + number, Ending.COMPLETE) for number in range(STREAMS))
    store(writer)
    writer.close(now + 10**9)


def write_flows(path: Path, streams: list[list[bytes]]) -> None:
    """Write what `mitmdump -w` saves: a flow for each exchange, with its body."""
    with path.open("wb") as file:
        writer = FlowWriter(file)
        for events in streams:
            flow = tflow.tflow(resp=True)
            assert flow.response is not None
            flow.response.headers = Headers([(b"content-type", b"text/event-stream")])
            flow.response.content = b"".join(events)
            writer.add(flow)


def read_seconds(path: Path) -> float:
    """Return the CPU seconds of a report."""
    used, _ = run_measured([BIN / "wiretape", "report", path, "--jobs", "1", "--no-config", "--statistics"])
    return used.cpu


def show(console: Console, events: int = 60_000) -> None:
    """Measure and print the result."""
    streams = bodies(events)
    wire = b"".join(b"".join(stream) for stream in streams)
    with tempfile.TemporaryDirectory(prefix="wiretape-bench-") as name:
        folder = Path(name)
        flat, spread, flows, har = (folder / file for file in ("flat.db", "spread.db", "run.flow", "run.har"))
        record(flat, streams, batch=150)
        record(spread, streams, batch=3)
        copy = folder / "compressed.db"
        copy.write_bytes(spread.read_bytes())
        compressed = compress_recording(copy)
        write_flows(flows, streams)
        subprocess.run([BIN / "wiretape", "export", spread, "--format", "har", "--output", har], check=True)
        sizes = {
            "recording, flat out": (flat.stat().st_size, "<= 1.3"),
            "recording, 20 events/s per stream": (spread.stat().st_size, "<= 1.3"),
            "the same with `--compress`": (compressed.stat().st_size, "<= 0.35"),
            "mitmproxy flow file (no times of events)": (flows.stat().st_size, ""),
            "HAR": (har.stat().st_size, ""),
            "the bodies alone, gzip -6": (len(gzip.compress(wire, 6)), ""),
            "the bodies alone, zstd -3": (len(zstandard.compress(wire, 3)), ""),
        }
        seconds = [[read_seconds(path) for path in (spread, compressed)] for _ in range(READS)]
    table = Table(title=f"size for {events:,} events of {SIZE} bytes in {STREAMS} streams")
    for title in ("format", "size / wire", "to reach"):
        table.add_column(title, justify="left" if title == "format" else "right")
    for what, (size, goal) in sizes.items():
        table.add_row(what, f"{size / len(wire):.2f}", goal)
    console.print(table)
    plain, other = (median(column) for column in zip(*seconds, strict=True))
    console.print(f"A compressed recording is reported {plain / other:.2f} x as fast as the same one (>= 0.8).")


if __name__ == "__main__":
    show(Console(width=100), int(sys.argv[1]) if len(sys.argv) > 1 else 60_000)
