"""The three compared connections to the service: direct, through stock mitmdump, through wiretape."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def service() -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, HERE / "upstream_service.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@contextmanager
def direct(upstream: int, _: Path) -> Iterator[int]:
    yield upstream


@contextmanager
def stock(upstream: int, folder: Path) -> Iterator[int]:
    port = free_port()
    command = [BIN / "mitmdump", "-q", "-s", HERE / "stream_addon.py", "--set", f"confdir={folder / 'conf'}"]
    command += ["--mode", f"reverse:http://127.0.0.1:{upstream}", "--listen-host", "127.0.0.1"]
    with running([*command, "--listen-port", str(port)], port):
        yield port


@contextmanager
def wiretape(upstream: int, folder: Path) -> Iterator[int]:
    port = free_port()
    command = [BIN / "wiretape", "proxy", f"http://127.0.0.1:{upstream}", "--listen", f"127.0.0.1:{port}"]
    with running([*command, "--output", folder / "bench.db"], port):
        yield port


@contextmanager
def running(command: list[object], port: int, cwd: Path | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    log = None if "WIRETAPE_BENCH_LOG" in os.environ else subprocess.DEVNULL
    process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, cwd=cwd)
    try:
        _await_port(port, process)
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(400):
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"{process.args!r} does not listen")


def run_client(port: int, *arguments: object) -> dict[str, float]:
    command = [sys.executable, str(HERE / "proxy_client.py"), str(port), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


WAYS = {"direct": direct, "stock mitmdump": stock, "wiretape": wiretape}
