"""`wiretape replay` compared with other mock servers, each with the closest equivalent work.  See README.md.

python benchmarks/mock_servers.py [--rounds N] [--quick]
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median

from bare_handler import DOCUMENT
from proxy_targets import HERE, OURS, PROGRAMS, free_port, running, usage
from replay_benchmark import bare, replay
from rich.console import Console
from rich.table import Table
from sample_events import event
from sample_recordings import SECOND, record

from wiretape.observations import Ending

PEERS = HERE / "peers"
INSTALL = "npm install --prefix benchmarks/peers --no-package-lock"
STREAM, OTHER_STREAM, JSON = "/v1/sessions/s0/events/stream", "/v1/sessions/s1/events/stream", "/v1/sessions/s0"
CURSOR = "evt_24"
"""The fifth durable event."""
Asked = tuple[str, str, str]
"""Method, target, body."""


@dataclass(frozen=True)
class Server:
    """A server, and the requests for it."""

    name: str
    start: Callable[[Path, int], AbstractContextManager[tuple[int, int]]]
    """Starts it with a folder and the number of events; yields the port and the process id."""
    stream: Asked = ("GET", f"{STREAM}?event_deltas=true", "")
    warm_up: Asked = ("GET", f"{STREAM}?event_deltas=true", "")
    json: Asked = ("GET", JSON, "")
    missing: Callable[[], str | None] = lambda: None
    """Why it cannot be started, or None."""


@cache
def recording(program: str, folder: Path, events: int) -> Path:
    return record(program, "sessions", folder / "mocks.db", 2, events, 1000, Ending.COMPLETE, DOCUMENT.decode())


@contextmanager
def _bare(folder: Path, events: int) -> Iterator[tuple[int, int]]:
    with bare(recording(OURS, folder, events)) as started:
        yield started


@contextmanager
def _wiretape(program: str, folder: Path, events: int) -> Iterator[tuple[int, int]]:
    with replay(recording(program, folder, events), "channel", "max", "--repeat", "last", program=program) as started:
        yield started


@contextmanager
def _mockserver(folder: Path, events: int) -> Iterator[tuple[int, int]]:
    sent = [_parsed(event(b"s0", number, number * SECOND)) for number in range(events)]
    answer = {"headers": {"Content-Type": ["application/json"]}, "body": DOCUMENT.decode()}
    expectations = [
        {"httpRequest": {"path": STREAM}, "httpSseResponse": {"statusCode": 200, "events": sent}},
        {"httpRequest": {"path": JSON}, "httpResponse": {"statusCode": 200, **answer}},
    ]
    port, path = free_port(), folder / "mockserver.json"
    path.write_text(json.dumps(expectations))
    (jar,) = (PEERS / "node_modules/mockserver-node").glob("mockserver-netty-*.jar")
    with running(["java", "-jar", jar, "run", "-p", port, "-l", "OFF", f"--init={path}"], port, path.parent) as process:
        yield port, process.pid


@contextmanager
def _aimock(folder: Path, events: int) -> Iterator[tuple[int, int]]:
    data = [json.loads(_parsed(event(b"s0", number, number * SECOND))["data"]) for number in range(events)]
    sent = [{"type": "CUSTOM", "name": value["type"], "value": value, "timestamp": 0} for value in data]
    chat, path, port = folder / "aimock-chat.json", folder / "aimock.json", free_port()
    chat.write_text(json.dumps({"fixtures": [{"match": {"userMessage": "go"}, "response": {"content": "words"}}]}))
    agui = {"fixtures": [{"match": {"message": "go"}, "events": sent}]}
    path.write_text(json.dumps({"agui": agui, "llm": {"fixtures": str(chat)}}))
    program = PEERS / "node_modules/@copilotkit/aimock/dist/aimock-cli.js"
    with running(["node", program, "-c", path, "-p", port], port) as process:
        yield port, process.pid


@contextmanager
def _wiremock(folder: Path, events: int) -> Iterator[tuple[int, int]]:
    files = folder / "wiremock"
    (files / "__files").mkdir(parents=True, exist_ok=True)
    (files / "mappings").mkdir(exist_ok=True)
    (files / "__files/stream.sse").write_bytes(b"".join(event(b"s0", each, each * SECOND) for each in range(events)))
    for target, answer, kind in (
        (STREAM, {"bodyFileName": "stream.sse"}, "text/event-stream"),
        (JSON, {"body": DOCUMENT.decode()}, "application/json"),
    ):
        mapping = {
            "request": {"method": "GET", "urlPath": target},
            "response": {"status": 200, "headers": {"Content-Type": kind}, **answer},
        }
        (files / f"mappings/{kind.partition('/')[2]}.json").write_text(json.dumps(mapping))
    port = free_port()
    (jar,) = (PEERS / "node_modules/wiremock/build").glob("wiremock-standalone-*.jar")
    command = ["java", "-jar", jar, "--port", port, "--bind-address", "127.0.0.1", "--root-dir", files]
    with running([*command, "--no-request-journal", "--disable-banner"], port) as process:
        yield port, process.pid


def _parsed(frame: bytes) -> dict[str, str]:
    """Return the fields of a frame."""
    return dict(line.split(": ", 1) for line in frame.decode().splitlines() if line)


def _missing(package: str, program: str, version: str) -> str | None:
    if shutil.which(program) is None:
        return f"it needs {program} ({version})"
    return None if (PEERS / "node_modules" / package).is_dir() else f"it comes with {INSTALL}"


GO = json.dumps({"model": "any", "messages": [{"role": "user", "content": "go"}]})
AGUI: Asked = ("POST", "/agui", GO)
SERVERS = (
    Server("bare aiohttp handler", _bare),
    *(
        Server(f"{each} replay", partial(_wiretape, each), warm_up=("GET", f"{OTHER_STREAM}?event_deltas=true", ""))
        for each in PROGRAMS
    ),
    Server("MockServer 8", _mockserver, missing=lambda: _missing("mockserver-node", "java", "17 or later")),
    Server("WireMock 3", _wiremock, missing=lambda: _missing("wiremock", "java", "17 or later")),
    Server(
        "aimock",
        _aimock,
        stream=AGUI,
        warm_up=AGUI,
        json=("POST", "/v1/chat/completions", GO),
        missing=lambda: _missing("@copilotkit/aimock", "node", "20.15 or later"),
    ),
)


def ask(port: int, kind: str, asked: Asked, *numbers: object) -> dict[str, float]:
    command = [sys.executable, str(HERE / "mock_client.py"), str(port), kind, *asked, *map(str, numbers)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(server: Server, folder: Path, events: int, seconds: float) -> dict[str, float]:
    with server.start(folder, events) as (port, process):
        for _ in range(3):  # a Java program warms up
            ask(port, "stream", server.warm_up)
        given = ask(port, "stream", server.stream)
        # The client does not see a marker that the framing of the chunks divides.
        assert events * 0.999 <= given["events"] <= events, (server.name, given)
        ask(port, "json", server.json, 16, seconds)
        answers = ask(port, "json", server.json, 16, seconds)
        again = ask(port, "after", server.stream, CURSOR)
        used = usage(process)
    return {
        "cpu": used.cpu,
        "megabytes": used.megabytes,
        "stream": events / given["seconds"],
        "json": answers["rate"],
        "after": again["events"],
    }


KEYS = ("stream", "json", "after", "cpu", "megabytes")


def show(console: Console, *, rounds: int = 5, quick: bool = False) -> None:
    """Measure and print the result."""
    events = 20_000
    missing = {server.name: server.missing() for server in SERVERS}
    there = [server for server in SERVERS if missing[server.name] is None]
    figures: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="wiretape-bench-") as name:
        for turn in range(1 if quick else rounds):
            for server in there if turn % 2 == 0 else reversed(there):
                try:
                    figures[server.name].append(measure(server, Path(name), events, 0.5 if quick else 2))
                except Exception as error:  # noqa: BLE001 - one that fails must not cost the figures of the others
                    missing[server.name] = f"{type(error).__name__}: {error}"[:200]
    there = [server for server in there if figures.get(server.name)]
    table = Table(title=f"mock servers; medians, in one run; a stream of {events:,} events", title_justify="left")
    for title in ("server", "events", "JSON answers", "CPU", "peak memory", f"sent after Last-Event-ID: {CURSOR}"):
        table.add_column(title, justify="left" if title == "server" else "right")
    for server in there:
        medians = {key: median(one[key] for one in figures[server.name]) for key in KEYS}
        floor = {key: median(one[key] for one in figures[SERVERS[0].name]) for key in KEYS}
        rates = (f"{medians[key]:,.0f}/s = {medians[key] / floor[key]:.2f}" for key in ("stream", "json"))
        after = medians["after"]
        what = "everything again" if after >= events * 0.999 else f"{after:,.0f} events"
        table.add_row(server.name, *rates, f"{medians['cpu']:,.1f} s", f"{medians['megabytes']:,.0f} MB", what)
    console.print(table)
    console.print(f"  after {CURSOR} there are {events // 5 - 5:,} events with an id; deltas have none")
    for name, why in missing.items():
        if why is not None:
            console.print(f"  {name} is missing: {why}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="number of measurements per server (default 5)")
    parser.add_argument("--quick", action="store_true", help="one short round")
    options = parser.parse_args()
    show(Console(width=100), rounds=options.rounds, quick=options.quick)


if __name__ == "__main__":
    main()
