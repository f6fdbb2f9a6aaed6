"""The compared connections to the service: direct, through stock mitmdump, through wiretape.

$WIRETAPE_BENCH_OLDER is COMMIT:PATH of another `wiretape`, of an older commit, to measure in the same run.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
_COMMIT, _, _PROGRAM = os.environ.get("WIRETAPE_BENCH_OLDER", "").partition(":")
OURS, OLDER = "wiretape", f"wiretape {_COMMIT}"
PROGRAMS = {OURS: BIN / "wiretape"} | ({OLDER: Path(_PROGRAM)} if _PROGRAM else {})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Usage:
    """CPU seconds and peak resident megabytes."""

    cpu: float = 0
    megabytes: float = 0


def usage(process: int, *, with_children: bool = True) -> Usage:
    """Return what a running process has used so far, by default together with its children."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    peak = Path(f"/proc/{process}/status").read_text().partition("VmHWM:")[2].split()[0]
    total = Usage((int(fields[11]) + int(fields[12])) / TICKS, int(peak) / 1024)
    for child in children(process) if with_children else ():
        more = usage(child)
        total = Usage(total.cpu + more.cpu, total.megabytes + more.megabytes)
    return total


def children(process: int) -> list[int]:
    """Return the child processes."""
    return [int(text) for text in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def run_measured(command: Sequence[str | Path]) -> tuple[Usage, int]:
    """Run a program without showing its output; return what it used, and its exit status."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Usage(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024), process.returncode


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
def direct(upstream: int, _: Path) -> Iterator[tuple[int, int]]:
    yield upstream, os.getpid()


@contextmanager
def stock(upstream: int, folder: Path) -> Iterator[tuple[int, int]]:
    port = free_port()
    command = [BIN / "mitmdump", "-q", "-s", HERE / "stream_addon.py", "--set", f"confdir={folder / 'conf'}"]
    command += ["--mode", f"reverse:http://127.0.0.1:{upstream}", "--listen-host", "127.0.0.1"]
    with running([*command, "--listen-port", str(port)], port) as process:
        yield port, process.pid


@contextmanager
def wiretape(program: Path, upstream: int, folder: Path) -> Iterator[tuple[int, int]]:
    port = free_port()
    command = [program, "proxy", f"http://127.0.0.1:{upstream}", "--listen", f"127.0.0.1:{port}"]
    with running([*command, "--output", folder / "bench.db"], port) as process:
        yield port, process.pid


@contextmanager
def running(command: list[object], port: int, cwd: Path | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    log = None if "WIRETAPE_BENCH_LOG" in os.environ else subprocess.DEVNULL
    process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, cwd=cwd)
    try:
        _await_port(port, process)
        yield process
    finally:
        process.terminate()  # programs in the background ignore SIGINT
        try:
            process.wait(60)  # a recorder may have events to store and check
        except subprocess.TimeoutExpired:
            process.kill()
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


WAYS = {"direct": direct, "stock mitmdump": stock}
WAYS |= {name: partial(wiretape, program) for name, program in PROGRAMS.items()}
