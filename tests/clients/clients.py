"""Other people's clients read a stream that breaks; this module records the events that they receive."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiretape.observations import Ending
from wiretape.traffic_builder import TrafficBuilder
from wiretape_contracts.agent_sessions import EVENT_TYPES
from wiretape_replay import Replay, ReplayOptions, serve_replay
from wiretape_replay.access.access_settings import AccessPolicy
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.faults.fault_script import FaultScript
from wiretape_replay.server_options import fault_script

HERE = Path(__file__).parent
DRIVERS = HERE / "drivers"
KEY = "sk_test_clients"
SESSION = "ses_1"
PATIENCE_S = 45
SILENCE = "nothing more for too long"
HEAD = (("Cache-Control", "no-store"), ("Access-Control-Allow-Origin", "*"), ("Transfer-Encoding", "chunked"))

Heard = list[dict[str, Any]]
"""The events that a client received, and why it gave up if it did."""
CHROMIUM_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@dataclass(frozen=True)
class Told:
    """Instructions for a client."""

    url: str
    last: str
    """The id of the last event to read."""
    types: Sequence[str] = tuple(EVENT_TYPES)

    def json(self) -> str:
        return json.dumps({"url": self.url, "key": KEY, "types": list(self.types), "last": self.last})


@dataclass(frozen=True)
class Outcome:
    """How a client handled a stream."""

    lost: int
    """Durable events that it never received."""
    repeated: int
    """Durable events that it received again."""
    empty: int
    """Events without data that it dispatched, although the stream has none."""
    gave_up: str | None
    """Why it stopped before the end, if it did."""

    @classmethod
    def of(cls, heard: Heard, ids: Sequence[str]) -> "Outcome":
        durable = Counter(line["id"] for line in heard if line.get("data") and _is_durable(line))
        gave_up = next((line["gave_up"] for line in heard if "gave_up" in line), None)
        return cls(
            lost=sum(1 for identity in ids if identity not in durable),
            repeated=sum(count - 1 for count in durable.values()),
            empty=sum(1 for line in heard if line.get("data") == ""),
            gave_up=gave_up,
        )


def _is_durable(line: dict[str, Any]) -> bool:
    """Whether the event had an id of its own: clients show the previous id for events without one."""
    return "id" in json.loads(line["data"])


@dataclass(frozen=True)
class Client:
    """A client and how to start it."""

    name: str
    command: tuple[str, ...]
    missing: Callable[[], str | None]
    """Why it is not available here, or None."""

    def follow(self, told: Told, patience_s: float = PATIENCE_S) -> Heard:
        """Let it follow a stream to its end; what it was handed.  A client that never ends has given up."""
        with subprocess.Popen(
            [*self.command, told.json()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=HERE, text=True
        ) as process:
            try:
                said, trouble = process.communicate(timeout=patience_s)
            except subprocess.TimeoutExpired:
                process.kill()
                said, trouble = process.communicate()
                return [*_lines(said), {"gave_up": SILENCE}]
        if process.returncode:
            return [*_lines(said), {"gave_up": trouble.strip().splitlines()[-1] if trouble.strip() else "it crashed"}]
        return _lines(said)


def _lines(said: str) -> Heard:
    return [json.loads(line) for line in said.splitlines()]


def _no_program(*names: str) -> Callable[[], str | None]:
    return lambda: next((f"{name} is not installed" for name in names if shutil.which(name) is None), None)


def _no_package(name: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        if (why := _no_program("node")()) is not None:
            return why
        return None if (HERE / "node_modules" / name).is_dir() else f"npm package {name} is not installed: make clients"

    return missing


CLIENTS = (
    Client("curl", (sys.executable, str(DRIVERS / "loop_curl.py")), _no_program("curl")),
    Client("httpx with httpx-sse", (sys.executable, str(DRIVERS / "loop_httpx_sse.py")), lambda: None),
    Client("npm eventsource", ("node", str(DRIVERS / "eventsource.mjs")), _no_package("eventsource")),
    Client(
        "@microsoft/fetch-event-source",
        ("node", str(DRIVERS / "fetch-event-source.mjs")),
        _no_package("@microsoft/fetch-event-source"),
    ),
)


def no_chromium() -> str | None:
    """Why Chromium is not available here, or None."""
    return None if shutil.which("chromium") else "chromium is not installed"


Follow = Callable[..., Awaitable[Heard]]


@asynccontextmanager
async def chromium() -> AsyncIterator[Follow]:
    """Chromium's own EventSource: call with what it is told, as often as wanted.

    With `at`, it stands on a page of that site, from which it may read what lets no other site read it.
    """
    from playwright.async_api import TimeoutError as PatienceError  # noqa: PLC0415 - loads much
    from playwright.async_api import async_playwright  # noqa: PLC0415

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM_FLAGS))

        async def follow(told: Told, at: str | None = None, patience_s: float = PATIENCE_S) -> Heard:
            page = await browser.new_page()
            if at is not None:
                await page.goto(at)
            await page.set_content((DRIVERS / "chromium.html").read_text("utf-8"))
            await page.evaluate("told => listen(told)", json.loads(told.json()))
            try:
                done = "last => heard.some(line => line.id === last || line.gave_up)"
                await page.wait_for_function(done, arg=told.last, timeout=patience_s * 1000)
            except PatienceError:
                await page.evaluate("why => heard.push({ gave_up: why })", SILENCE)
            heard: Heard = await page.evaluate("heard")
            await page.close()
            return heard

        yield follow
        await browser.close()


# The stream that all of them follow.


def stream(events: int) -> tuple[list[bytes], list[str]]:
    """Chunks of a stream with a short retry time, deltas, pings and events; and the ids of its durable events."""
    chunks = [b"retry: 20\n\n"]
    ids = []
    for number in range(1, events + 1):
        identity = f"evt_{number}"
        ids.append(identity)
        delta = b'{"type":"message.delta","run_id":"run_1","delta":{"text":"word "}}'
        chunks += [b"event: message.delta\ndata: %s\n\n" % delta] * 2
        document = {
            "id": identity,
            "sequence": number,
            "type": "message.completed",
            "workspace_id": "ws_1",
            "session_id": SESSION,
            "run_id": "run_1",
            "created_at": "2026-01-01T00:00:00Z",
            "content": [{"type": "text", "text": "word word"}],
            "data": {},
        }
        chunks.append(f"event: message.completed\nid: {identity}\ndata: {json.dumps(document)}\n\n".encode())
        chunks.append(b": ping\n\n")
    return chunks, ids


def record(path: Path, connections: Sequence[tuple[Sequence[bytes], Ending]]) -> Path:
    """A recording of one session's stream over several connections."""
    traffic = TrafficBuilder(key=KEY)
    for chunks, ending in connections:
        stream = traffic.request("GET", f"/v1/sessions/{SESSION}/events/stream?event_deltas=true")
        stream.respond_stream(headers=HEAD)
        for chunk in chunks:
            stream.send(chunk)
        stream.end(ending)
    return traffic.write(path)


def broken(folder: Path, how: str, after: int, events: int) -> tuple[Path, FaultScript, list[str]]:
    """A recording, a fault script that breaks the first connection after event `after`, and the ids."""
    chunks, ids = stream(events)
    if how == "end":
        cut = 1 + after * 4
        connections = [(chunks[:cut], Ending.COMPLETE), (chunks[cut:], Ending.CLIENT_CLOSED)]
        return record(folder / f"{how}-{after}.db", connections), FaultScript(), ids
    where = f"after = {{ sequence = {after} }}"
    if how == "cut-id":
        cut = len(f"event: message.completed\nid: evt_{after + 1}\n")
        where = f"at = {{ sequence = {after + 1} }}\noffset = {cut}"
    script = f'[[fault]]\ndo = "{"drop" if how == "cut-id" else how}"\n{where}\ntimes = 1\n'
    written = folder / f"{how}-{after}.toml"
    written.write_text(script, "utf-8")
    return record(folder / f"{how}-{after}.db", [(chunks, Ending.CLIENT_CLOSED)]), fault_script(written), ids


def served(
    path: Path, script: FaultScript, checker: ClientChecker | None = None
) -> AbstractAsyncContextManager[Replay]:
    """Replay it without authentication: a browser's EventSource cannot send a key."""
    options = ReplayOptions(faults=script, service=AccessPolicy(authentication=False))
    return serve_replay(path, options, checker=checker)


def told(playing: Replay, ids: Sequence[str]) -> Told:
    """Instructions for a client of `playing`."""
    return Told(f"{playing.url}/v1/sessions/{SESSION}/events/stream?event_deltas=true", ids[-1])
