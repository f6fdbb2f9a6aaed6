"""Builders of recordings, a server that replays them, and a client that sees every byte on the wire."""

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from observation_builder import STREAM, RecordingBuilder
from server_log import nothing_logged  # noqa: F401 - a fixture of all tests here
from wiretape_process import WiretapeProcess

from wiretape_replay import Replay, ReplayOptions, serve_replay

_PATIENCE_S = 45
_SILENCE_S = 0.3


@dataclass(frozen=True)
class Received:
    """What a client received until the connection ended, or until its timeout."""

    data: bytes
    how: str
    """`closed` (FIN), `reset` (RST), or `open`."""

    @property
    def head(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]


class RawClient:
    """A client on a raw socket."""

    def __init__(self, url: str, *, receive_buffer: int | None = None) -> None:
        where = urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(_PATIENCE_S)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((where.hostname, where.port))

    def ask(self, target: str = STREAM, *, method: str = "GET", extra: str = "", version: str = "HTTP/1.1") -> None:
        self.socket.sendall(f"{method} {target} {version}\r\nHost: replay.test\r\n{extra}\r\n".encode("latin-1"))

    def post(self, target: str, body: bytes, extra: str = "") -> None:
        self.ask(target, method="POST", extra=f"Content-Length: {len(body)}\r\n{extra}")
        if body:  # after the head alone the answer may be there already, and be a reset
            self.socket.sendall(body)

    def read(self, staying: bytes | tuple[bytes, ...] | None = None) -> Received:
        """Everything until the connection ends, or until a pause after data that ends with `staying`."""
        data = bytearray()
        try:
            while True:
                stays = staying is not None and data.endswith(staying)
                self.socket.settimeout(_SILENCE_S if stays else _PATIENCE_S)
                if not (piece := self.socket.recv(65536)):
                    break
                data += piece
        except ConnectionResetError:
            return Received(bytes(data), "reset")
        except TimeoutError:
            return Received(bytes(data), "open")
        return Received(bytes(data), "closed")

    def read_to(self, mark: bytes, size: int = 65536) -> bytes:
        """Everything up to data that ends with `mark`, which nothing follows."""
        data = bytearray()
        while not data.endswith(mark):
            piece = self.socket.recv(size)
            assert piece, f"the connection ended after {bytes(data)!r}"
            data += piece
        return bytes(data)

    def read_past(self, mark: bytes) -> bytes:
        """Everything up to and including `mark`, read byte by byte."""
        return self.read_to(mark, 1)

    def close(self) -> None:
        self.socket.close()


class RunningReplay:
    """`wiretape replay` while it serves, on any free port unless an address is given."""

    def __init__(self, *args: object, env: dict[str, str] | None = None) -> None:
        command = ["replay", *(() if "--listen" in args else ("--listen", "127.0.0.1:0")), *args]
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        self.process = WiretapeProcess(*command, **pipes, text=True, env=env)
        self.first = self.line("Replaying ")
        """The line that names the recording and the URL."""
        self.url = re.search(r" on (http://\S+) ", self.first)[1]
        self.out = self.err = ""

    def line(self, beginning: str) -> str:
        """The next line on standard error with this beginning."""
        return next(line for line in self.process.stderr if line.startswith(beginning))

    def stop(self, number: int = signal.SIGINT) -> int:
        """Stop it by a signal, read the rest of its output, and return the exit status."""
        self.process.send_signal(number)
        self.out, self.err = self.process.communicate(timeout=45)
        return self.process.returncode


@pytest.fixture
def start() -> Iterator[Callable[..., RunningReplay]]:
    """Start the command: `start(recording, "--paused")`.  It is killed when the test ends."""
    started = []

    def _start(*args: object, **options: dict[str, str]) -> RunningReplay:
        started.append(RunningReplay(*args, **options))
        return started[-1]

    yield _start
    for running in started:
        running.process.kill()
        running.process.communicate()


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[RecordingBuilder]:
    """A recording; closed after the test if the test leaves it open."""
    builder = RecordingBuilder(tmp_path / "run.db")
    yield builder
    builder.close(killed=True)


@pytest.fixture
def new_builder(tmp_path: Path) -> Callable[[str], RecordingBuilder]:
    return lambda name, **options: RecordingBuilder(tmp_path / name, **options)


@pytest.fixture
def serve() -> Iterator[Callable[..., Replay]]:
    """Replay a recording in its own thread until the test ends: `serve(path, speed=..., mode=...)`."""
    with contextlib.ExitStack() as stack:
        yield lambda path, **options: stack.enter_context(_served(path, **options))


@pytest.fixture
def call(serve) -> Iterator[Callable[..., RawClient]]:
    """Open a connection: `call(url)`.  Closed when the test ends, before the server stops."""
    with contextlib.ExitStack() as stack:

        def _call(url: str, **options: int) -> RawClient:
            return stack.enter_context(contextlib.closing(RawClient(url, **options)))

        yield _call


@contextlib.contextmanager
def _served(
    path: Path, speed: str | float = "max", mode: str = "verbatim", log=lambda _: None, **options: object
) -> Iterator[Replay]:
    ready: Future[tuple[Replay, Callable[[], None]]] = Future()

    async def run() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        async with serve_replay(path, ReplayOptions(mode=mode, speed=speed, **options), log=log) as replay:
            ready.set_result((replay, lambda: loop.call_soon_threadsafe(stop.set)))
            await stop.wait()

    def thread() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    worker = threading.Thread(target=thread)
    worker.start()
    try:
        replay, stop = ready.result(10)
        yield replay
        stop()
    finally:
        worker.join(10)
        assert not worker.is_alive(), "the server did not stop"
