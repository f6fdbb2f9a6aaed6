"""Soak test: seeded failures under load, again and again, while clients note what they receive.

`make test` tries each scenario once; `make soak` repeats them for WIRETAPE_SOAK_SECONDS with WIRETAPE_SOAK_SEED, with
more streams, and prints a table.
"""

import asyncio
import contextlib
import functools
import inspect
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import h2.events
import pytest

from wiretape.observations import BytesLost, Ending, Side
from wiretape.recording import open_recording

SECONDS = float(os.environ.get("WIRETAPE_SOAK_SECONDS", "0"))
SEED = int(os.environ.get("WIRETAPE_SOAK_SEED", "1"))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
DATA_LOSS_S = 0.2 if not SECONDS else 0.7
"""How old an event can be that a kill loses; the second is for machines that are several times overcommitted."""
BLOCK = b"x" * 50_000


@dataclass
class Stage:
    """What scenarios use."""

    start_proxy: Callable[..., object]
    service: object
    h2_service: object
    eventually: Callable[..., object]
    folder: Path
    chance: random.Random
    count: int
    """A number for paths, which no other scenario has."""
    proxies: list = field(default_factory=list)

    def start(self, *arguments: str, **keywords):
        self.proxies.append(self.start_proxy(*arguments, **keywords))
        return self.proxies[-1]

    def clean_up(self) -> None:
        """Kill the proxies of a scenario, and delete their recordings."""
        for proxy in self.proxies:
            proxy.kill()
            shutil.rmtree(proxy.file.parent)
        self.proxies.clear()

    def streams(self) -> int:
        """How many streams: few in `make test`, 200 to 2,000 in `make soak`."""
        return self.chance.choice((200, 500, 1000, 2000)) if SECONDS else 24

    def path(self, behaviour: Callable[..., object]) -> str:
        self.count += 1
        return self.service.on(f"/soak-{self.count}", behaviour)


def bodies_of(proxy) -> dict[str, bytes]:
    """The recorded response bodies, by path."""
    with open_recording(proxy.file) as recording:
        return {
            each.request.target: b"".join(
                part.data for part in recording.body(each.number, Side.RESPONSE) if not isinstance(part, BytesLost)
            )
            for each in recording.exchanges()
        }


@contextlib.asynccontextmanager
async def event_service(send: Callable[[asyncio.StreamWriter, str], object]):
    """An asyncio service that can have thousands of streams: `send` gets each writer and the path."""

    responding: set[asyncio.Task[None]] = set()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        responding.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            async with closed_at_end(writer):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(HEAD)
                await send(writer, head.split(b" ", 2)[1].decode())
                await writer.drain()

    server = await asyncio.start_server(respond, "127.0.0.1", 0, backlog=4096, limit=1 << 20)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        # A connection that its task left open is reported in a later test, when it is collected.
        await asyncio.wait_for(asyncio.gather(*responding), 60)


@contextlib.asynccontextmanager
async def closed_at_end(writer: asyncio.StreamWriter):
    """Close the connection and wait until it is closed."""
    try:
        yield
    finally:
        writer.close()
        await writer.wait_closed()


async def read_stream(port: int, path: str, note: Callable[[str, bytes], None], connecting: asyncio.Semaphore) -> bytes:
    """Read a stream to its end, whatever that is; note each part as it arrives."""
    body = b""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        async with contextlib.AsyncExitStack() as at_end:
            # The system queues a hundred connections that the proxy has not accepted yet.
            async with connecting:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await at_end.enter_async_context(closed_at_end(writer))
                writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                await reader.readuntil(b"\r\n\r\n")
            while part := await reader.read(65536):
                body += part
                note(path, part)
    return body


def event(path: str, number: int) -> bytes:
    return f"id: {number}\ndata: {path} {number}\n\n".encode()


async def kill(stage: Stage) -> None:
    """A kill under load loses no event that a client received more than a moment before."""
    count, running = stage.streams() // 4, True
    received: dict[str, list[tuple[float, int]]] = {f"/{number}": [] for number in range(count)}

    async def send(writer: asyncio.StreamWriter, path: str) -> None:
        number = 0
        while running:
            number += 1
            writer.write(event(path, number))
            await asyncio.sleep(0.02)

    first = {path: asyncio.Event() for path in received}
    connecting = asyncio.Semaphore(50)

    def note(path: str, part: bytes) -> None:
        first[path].set()
        before = received[path][-1][1] if received[path] else 0
        received[path].append((time.monotonic(), before + len(part)))

    async with event_service(send) as url:
        proxy = await asyncio.to_thread(stage.start, url)
        recorder = proxy.recorder
        reading = [asyncio.create_task(read_stream(proxy.port, path, note, connecting)) for path in received]
        async with asyncio.timeout(300):
            await asyncio.gather(*(begun.wait() for begun in first.values()))
        await asyncio.sleep(stage.chance.uniform(0.4, 1 + min(SECONDS, 3)))
        killed = time.monotonic()
        os.kill(proxy.process.pid, signal.SIGKILL)
        os.kill(recorder, signal.SIGKILL)
        running = False
        await asyncio.gather(*reading)
    bodies = bodies_of(proxy)
    for path, noted in received.items():
        old = max((size for when, size in noted if when < killed - DATA_LOSS_S), default=0)
        assert len(bodies.get(path, b"")) >= old, f"{path} has {len(bodies.get(path, b''))} of {old} bytes"
    with closing(sqlite3.connect(proxy.file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def many_streams(stage: Stage, events: int = 10) -> None:
    """Thousands of streams are sent, passed on and recorded identically."""
    sent: dict[str, bytes] = {}
    connecting = asyncio.Semaphore(50)

    async def send(writer: asyncio.StreamWriter, path: str) -> None:
        sent[path] = b""
        for number in range(events):
            sent[path] += event(path, number)
            writer.write(event(path, number))
            await asyncio.sleep(0)

    async with event_service(send) as url:
        proxy = await asyncio.to_thread(stage.start, url)
        paths = [f"/{number}" for number in range(stage.streams())]
        async with asyncio.timeout(300):
            reading = (read_stream(proxy.port, path, lambda *_: None, connecting) for path in paths)
            found = await asyncio.gather(*reading)
    assert dict(zip(paths, found, strict=True)) == sent
    assert await asyncio.to_thread(proxy.stop) == 0
    assert bodies_of(proxy) == sent


def blocks(peer, count: int) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count * len(BLOCK)))
    for _ in range(count):
        peer.send(BLOCK)


def full_disk(stage: Stage) -> None:
    """On a full disk, traffic continues, one line says so, and lost and stored bytes are all of them."""
    count = stage.chance.randint(60, 100)
    limit = stage.chance.randrange(2_000_000, 3_000_000)
    proxy = stage.start(stage.service.url, file_limit=limit)
    path = stage.path(lambda peer: blocks(peer, count))
    client = proxy.get(path)
    client.until(b"\r\n\r\n")
    assert client.exactly(count * len(BLOCK)) == BLOCK * count
    proxy.wait_line("The recording cannot be written (")
    assert proxy.stop() == 2
    (line,) = [line for line in proxy.lines if "cannot be written" in line]
    assert line.endswith("traffic continues unrecorded.")
    with open_recording(proxy.file) as recording:
        exchange = recording.exchange(1)
        assert recording.info.ended_ns is not None
    assert proxy.lines[-1] == f"{exchange.lost_bytes:,} bytes passed unrecorded."
    assert exchange.lost_bytes > 0
    assert exchange.response_bytes + exchange.lost_bytes == count * len(BLOCK)
    assert sum(map(len, bodies_of(proxy).values())) == exchange.response_bytes


def slow_disk(stage: Stage) -> None:
    """If the recorder stands still at times, streams slow down, with a line, and nothing is lost."""
    count = stage.chance.randint(1000, 2000)
    proxy = stage.start(stage.service.url, "--memory", "1M")
    recorder = proxy.recorder
    path = stage.path(lambda peer: blocks(peer, count))
    os.kill(recorder, signal.SIGSTOP)
    client = proxy.get(path)
    client.until(b"\r\n\r\n")
    proxy.wait_line("Recording cannot keep up: streams are slowed down until it catches up.")
    patience = client.sock.gettimeout()
    client.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        client.rest()
    client.sock.settimeout(patience)
    assert len(client.buffer) < count * len(BLOCK) * 3 // 4
    for _ in range(3):
        os.kill(recorder, signal.SIGCONT)
        time.sleep(stage.chance.uniform(0.05, 0.15))
        os.kill(recorder, signal.SIGSTOP)
        time.sleep(stage.chance.uniform(0.05, 0.15 + min(SECONDS, 1)))
    os.kill(recorder, signal.SIGCONT)
    assert client.exactly(count * len(BLOCK)) == BLOCK * count
    seen = proxy.ended(path)
    assert (seen.ending, seen.response_bytes, seen.lost_bytes) == (Ending.COMPLETE, count * len(BLOCK), 0)
    proxy.wait_line("Recording has caught up.")


def locked(stage: Stage) -> None:
    """If another program locks the recording for a while, nothing is lost."""
    proxy = stage.start(stage.service.url)
    path = stage.path(lambda peer: blocks(peer, 20))
    with closing(sqlite3.connect(proxy.file, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        client = proxy.get(path)
        client.until(b"\r\n\r\n")
        assert client.exactly(20 * len(BLOCK)) == BLOCK * 20
        time.sleep(stage.chance.uniform(0.1, 0.3 + min(SECONDS, 10)))
        other.execute("ROLLBACK")
    seen = proxy.ended(path)
    assert (seen.response_bytes, seen.lost_bytes) == (20 * len(BLOCK), 0)


def read_only(stage: Stage) -> None:
    """Where nothing can be written, the proxy refuses to start, in one line."""
    with pytest.raises(AssertionError) as caught:
        stage.start(stage.service.url, "--output", "/proc/run.db")
    assert "cannot be written" in str(caught.value)


def breakable(stage: Stage, fault: str, *arguments: str):
    """Start a proxy, and set its fault."""
    stage.count += 1
    name = stage.folder / f"fault-{stage.count}"
    name.write_text("")
    env = {"FAULT": str(name), "PATIENCE": "2" if not SECONDS else "10"}
    proxy = stage.start(*(arguments or (stage.service.url,)), name="breakable_proxy", env=env)
    name.write_text(fault)
    return proxy, name


class Load:
    """Clients that send requests without a pause, and what they received."""

    def __init__(self, stage: Stage) -> None:
        self.chance = random.Random(stage.count)
        self.received: dict[str, int] = {}
        self.incomplete: list[str] = []
        self._sent: dict[str, bytes] = {}
        self._running = True
        self._clients = 50 if SECONDS else 6

    async def send(self, writer: asyncio.StreamWriter, path: str) -> None:
        """Answer a request, as the service."""
        self._sent[path] = b"".join(event(path[:20], number) for number in range(self.chance.randint(1, 400)))
        writer.write(self._sent[path])

    async def get(self, port: int, path: str) -> None:
        """Send a request, and note how the response compares with what the service sent."""
        body = await read_stream(port, path, lambda *_: None, asyncio.Semaphore())
        self.received[path] = len(body)
        if not body or body != self._sent.get(path):
            self.incomplete.append(path[:40])

    async def run(self, port: int, scenario: Callable[[], object]) -> None:
        """Send requests until the scenario has ended."""

        async def client(name: int) -> None:
            number = 0
            while self._running:
                number += 1
                await self.get(port, f"/{name}/{number}")

        clients = [asyncio.create_task(client(name)) for name in range(self._clients)]
        try:
            await scenario()
        finally:
            self._running = False
            async with asyncio.timeout(60):
                await asyncio.gather(*clients)


ATTACKS = ("/a" + ";token=abcdefgh" * 40_000, "/" + '"' * 550_000)
"""Targets that redaction, or JSON, makes longer than 1 MiB."""


async def long_targets(stage: Stage) -> None:
    """Requests with targets that grow while they are recorded do no harm, even with little memory and under load."""
    load = Load(stage)
    async with event_service(load.send) as url:
        proxy = await asyncio.to_thread(stage.start, url, "--memory", "8M")

        async def attack() -> None:
            for number in range(20 if SECONDS else 2):
                await load.get(proxy.port, f"{stage.chance.choice(ATTACKS)}{number}")

        await load.run(proxy.port, attack)
    assert not load.incomplete
    assert await asyncio.to_thread(proxy.stop) == 0, proxy.lines
    with open_recording(proxy.file) as recording:
        seen = list(recording.exchanges())
    assert len(seen) == len(load.received)
    assert sum(each.response_bytes for each in seen) == sum(load.received.values())
    assert max(map(len, proxy.lines)) < 20_000


RECORDER_FAULTS = {"kill": signal.SIGKILL, "crash": signal.SIGSEGV, "stop": signal.SIGSTOP}
PROBLEMS = {
    "kill": "The recorder process died: ",
    "crash": "The recorder process died: ",
    "stop": "The recorder process has not responded for ",
}
DAMAGED_PIPES = {
    "batches": "The recorder process failed (",
    "messages": "The recorder process sent an invalid message (",
    "endless": "The recorder process sent an invalid message (ValueError in recorder_messages.py:",
}
"""What the log says about bytes that are missing in a pipe."""


async def failing_recorder(stage: Stage, fault: str = "") -> None:
    """If the recorder fails, traffic continues, one sentence says so at once, and each byte is stored or lost."""
    fault = fault or stage.chance.choice((*RECORDER_FAULTS, *DAMAGED_PIPES))
    load = Load(stage)
    async with event_service(load.send) as url:
        proxy, name = await asyncio.to_thread(breakable, stage, "", url, "--memory", "8M")

        async def fail() -> None:
            await asyncio.sleep(stage.chance.uniform(0.1, 0.4 + min(SECONDS, 3)))
            if fault in RECORDER_FAULTS:
                os.kill(proxy.recorder, RECORDER_FAULTS[fault])
            else:
                name.write_text(fault)
            began = time.monotonic()
            await asyncio.to_thread(proxy.wait_line, "recorder process")
            assert time.monotonic() < began + 1 + DATA_LOSS_S, f"{fault}: {proxy.lines}"
            await asyncio.to_thread(proxy.wait_line, "traffic continues unrecorded.")
            before = len(load.received)
            await asyncio.to_thread(stage.eventually, lambda: len(load.received) > before, "traffic to continue")
            await asyncio.sleep(stage.chance.uniform(0.2, 0.3 + min(SECONDS, 3)))

        await load.run(proxy.port, fail)
    assert not load.incomplete, fault
    assert proxy.has_line((PROBLEMS | DAMAGED_PIPES)[fault]), f"{fault}: {proxy.lines}"
    assert sum(line.endswith("traffic continues unrecorded.") for line in proxy.lines) == 1, f"{fault}: {proxy.lines}"
    status = await asyncio.to_thread(proxy.stop)
    assert status == 2, f"{fault}: {proxy.lines}"
    count, what = proxy.lines[-1].split(" ", 1)
    assert what == "bytes passed unrecorded.", f"{fault}: {proxy.lines[-9:]}"
    lost = int(count.replace(",", ""))
    with open_recording(proxy.file) as recording:
        seen = list(recording.exchanges())
        findings = {finding.code for finding in recording.findings()}
        times = [each.time_ns for each in recording.observations()]
        assert recording.info.ended_ns is not None
    assert times == sorted(set(times))
    assert len(seen) == len(load.received), fault
    assert {each.ending for each in seen} == {Ending.COMPLETE}, fault
    assert sum(each.lost_bytes for each in seen) == lost, fault
    assert sum(each.response_bytes for each in seen) + lost == sum(load.received.values()), fault
    assert "REC001" in findings, fault


def clock_jumps(stage: Stage) -> None:
    """Whatever the wall clock does, times in the recording increase, and the bytes are those that were sent."""
    proxy, name = breakable(stage, "clock")
    path = stage.path(lambda peer: blocks(peer, 5))
    client = proxy.get(path)
    client.until(b"\r\n\r\n")
    assert client.exactly(5 * len(BLOCK)) == BLOCK * 5
    seen = proxy.ended(path)
    name.write_text("")
    assert (seen.response_bytes, seen.lost_bytes) == (5 * len(BLOCK), 0)
    with open_recording(proxy.file) as recording:
        times = [each.time_ns for each in recording.observations()]
    assert times == sorted(set(times))
    assert times[-1] < 600 * 10**9


FAULTS = (
    "client_connected",
    "server_connected",
    "client_disconnected",
    "request_started",
    "request",
    "response_started",
    "response",
    "classify",
)


def broken_hooks(stage: Stage) -> None:
    """A mistake in any hook is reported, and traffic continues, also of later requests."""
    proxy, name = breakable(stage, "")
    for fault in FAULTS:
        name.write_text(fault)
        over = threading.Event()
        path = stage.path(lambda peer, over=over: (peer.send(HEAD + b"data: 1\n\n"), over.wait(60), peer.close()))
        client = proxy.get(path)
        client.until(b"data: 1\n\n")  # it is not held up until the end
        over.set()
        client.rest()
        client.close()
        proxy.wait_line(f"injected into {fault}")
    name.write_text("")
    path = stage.path(lambda peer: blocks(peer, 1))
    client = proxy.get(path)
    client.until(b"\r\n\r\n")
    assert client.exactly(len(BLOCK)) == BLOCK
    assert proxy.ended(path).response_bytes == len(BLOCK)
    proxy.stop()
    with open_recording(proxy.file) as recording:
        list(recording.observations())


def stalled_http1(stage: Stage) -> None:
    """A client that does not read a flood, and a service that says nothing, do not hold up others."""
    proxy = stage.start(stage.service.url)
    over = threading.Event()
    flood = stage.path(lambda peer: blocks(peer, 400))
    silent = stage.path(lambda peer: (peer.send(HEAD), over.wait(60), peer.close()))
    stalled = [proxy.get(flood), proxy.get(silent)]
    check_others(stage, proxy)
    over.set()
    for peer in stalled:
        peer.reset()
    assert proxy.ended(flood).ending is Ending.CLIENT_CLOSED


def check_others(stage: Stage, proxy) -> None:
    path = stage.path(lambda peer: (blocks(peer, 3), peer.rest()))
    client = proxy.get(path)
    client.until(b"\r\n\r\n")
    assert client.exactly(3 * len(BLOCK)) == BLOCK * 3
    assert proxy.ended(path).response_bytes == 3 * len(BLOCK)


def stalled_http2(stage: Stage) -> None:
    """The same with HTTP/2: one stream without flow control window, one that is silent."""
    proxy = stage.start(stage.h2_service.url, "--insecure")
    flood, silent, other = (f"/{name}-{stage.count}" for name in ("flood", "silent", "other"))
    stage.count += 1
    stage.h2_service.on(flood, lambda peer, stream: peer.respond(stream, b"x" * 16_000, b"y" * 16_000, b"z" * 16_000))
    stage.h2_service.on(silent, lambda peer, stream: peer.respond(stream))
    stage.h2_service.on(other, lambda peer, stream: peer.respond(stream, b"data: 1\n\n", end=True))
    stalled = proxy.connect_h2()
    stalled.request(flood)
    stalled.request(silent)  # it reads neither
    client = proxy.connect_h2()
    stream = client.request(other)
    client.wait_body(stream, b"data: 1\n\n")
    client.wait(h2.events.StreamEnded, stream)
    assert proxy.ended(other).response_bytes == 9


SCENARIOS = (
    kill,
    many_streams,
    full_disk,
    slow_disk,
    locked,
    read_only,
    clock_jumps,
    broken_hooks,
    stalled_http1,
    stalled_http2,
    long_targets,
    failing_recorder,
)
QUICK = {each.__name__: each for each in SCENARIOS if each not in {locked, failing_recorder}} | {
    f"failing_recorder: {fault}": functools.partial(failing_recorder, fault=fault)
    for fault in (*RECORDER_FAULTS, *DAMAGED_PIPES)
}
"""Those that `make test` tries; test_recording_follower.py has a test like the other one."""


@pytest.fixture(scope="module")
def stage(start_module_proxy, service, h2_service, eventually, tmp_path_factory) -> Stage:
    folder = tmp_path_factory.mktemp("soak")
    return Stage(start_module_proxy, service, h2_service, eventually, folder, random.Random(SEED), 0)


async def run_scenario(scenario, stage: Stage) -> None:
    try:
        if inspect.iscoroutinefunction(scenario):
            await scenario(stage)
        else:
            await asyncio.to_thread(scenario, stage)
    finally:
        await asyncio.to_thread(stage.clean_up)


@pytest.mark.timeout(SECONDS + 900)
@pytest.mark.parametrize("scenario", ["soak"] if SECONDS else QUICK)
async def test_traffic_and_recording_survive(scenario, stage):
    if scenario in QUICK:
        await run_scenario(QUICK[scenario], stage)
        return
    attempts, failures = Counter(), Counter()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        chosen = stage.chance.choice(SCENARIOS)
        attempts[chosen] += 1
        try:
            await run_scenario(chosen, stage)
        except (AssertionError, OSError) as error:
            failures[chosen] += 1
            print(f"\n{chosen.__name__} {stage.count}: {error!r}", flush=True)  # noqa: T201
    rows = [f"| {each.__doc__} | {attempts[each]} | {failures[each]} |" for each in SCENARIOS]
    head = (f"\nseed {SEED}, {SECONDS:.0f} s", "| Scenario | Attempts | Failures |", "|---|---|---|")
    print(*head, *rows, sep="\n")  # noqa: T201 - it is what make soak is for
    assert not failures
