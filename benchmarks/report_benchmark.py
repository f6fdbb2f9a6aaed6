"""`wiretape report` for a long recording, compared with reading the same JSON.

    python benchmarks/report_benchmark.py [EVENTS]

Prints events per second on one core, the peak of resident memory, and the ratio to two plain loops over the same
data: `orjson.loads` alone, and `orjson.loads` with a prebuilt `jsonschema` validator for each event.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import jsonschema
import orjson
import referencing
from proxy_targets import OURS, PROGRAMS, run_measured
from referencing.jsonschema import DRAFT202012
from rich.console import Console
from rich.table import Table
from sample_recordings import record

from wiretape.recording import open_recording
from wiretape_contracts.agent_sessions.schemas import DURABLE_EVENT, MESSAGE_DELTA, SCHEMAS


def plain_loops(path: Path) -> tuple[float, float]:
    """Return the seconds for `orjson.loads` of all data, without and with a jsonschema validator."""
    with open_recording(path) as recording:
        data = [event.data for event in recording.events()]
    begin = time.process_time()
    for text in data:
        orjson.loads(text)
    parsing = time.process_time() - begin
    resources = ((f"{name}.json", DRAFT202012.create_resource(schema.document)) for name, schema in SCHEMAS.items())
    registry = referencing.Registry().with_resources(resources)
    delta, durable = (
        jsonschema.Draft202012Validator(schema.document, registry=registry) for schema in (MESSAGE_DELTA, DURABLE_EVENT)
    )
    sample = data[:: max(1, len(data) // 20_000)]
    begin = time.process_time()
    for text in sample:
        document = orjson.loads(text)
        assert (durable if "sequence" in document else delta).is_valid(document)
    return parsing, (time.process_time() - begin) * len(data) / len(sample)


def run_report(path: Path, program: str = OURS) -> tuple[float, float]:
    """Return CPU seconds and peak resident megabytes of the command."""
    command: list[str | Path] = [PROGRAMS[program], "report", path, "--jobs", "1"]
    used, status = run_measured([*command, "--format", "json", "--output", os.devnull])
    assert status == 0, "the traffic keeps the specification"
    return used.cpu, used.megabytes


def show(events: int, console: Console) -> None:
    """Measure and print the result."""
    with tempfile.TemporaryDirectory(prefix="wiretape-bench-") as folder:
        paths = {each: record(each, "long_streams", Path(folder, "bench.db"), events) for each in PROGRAMS}
        path = paths[OURS]
        cpu, megabytes = run_report(path)
        others = {program: events / run_report(paths[program], program)[0] for program in PROGRAMS if program != OURS}
        parsing, validating = plain_loops(path)
    table = Table(title=f"report over {events:,} events", title_justify="left")
    for title in ("figure", "measured", "to reach"):
        table.add_column(title, justify="left" if title == "figure" else "right")
    table.add_row("events/s on one core", f"{events / cpu:,.0f}", ">= 130,000")
    for program, rate in others.items():
        table.add_row(f"  {program}", f"{rate:,.0f}", "")
    table.add_row("time / orjson.loads alone", f"{cpu / parsing:.1f}", "<= 8")
    table.add_row("time / orjson.loads and jsonschema", f"{cpu / validating:.2f}", "")
    table.add_row("peak resident memory", f"{megabytes:,.0f} MB", "< 300 MB")
    console.print(table)


if __name__ == "__main__":
    show(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, Console(width=100))
