"""`wiretape demo`, end to end: real processes, real sockets."""

import asyncio
import fcntl
import os
import pickle
import re
import signal
import socket
import stat
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from invoke import refusal

from wiretape.errors import InputError
from wiretape.observations import Ending as How
from wiretape.observations import Side
from wiretape.recording import open_recording
from wiretape.traffic_builder import TrafficBuilder
from wiretape_contracts.agent_sessions.demo import demo_command
from wiretape_contracts.agent_sessions.demo.demo_command import KEY, USER_AGENT, DemoClient, ReceivedResponse
from wiretape_inspect import child_process
from wiretape_inspect.child_process import DemoError

COMMAND = [sys.executable, "-m", "wiretape", "demo"]
MARK = "WIRETAPE_DEMO_TEST"
"""An environment variable of a demo and of all its child processes."""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished demo in an empty directory: the process and the directory.  The workers of xdist share it."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder, result = shared / "demo", shared / "demo.pickle"
    with (shared / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            folder.mkdir()
            process = subprocess.run(COMMAND, cwd=folder, capture_output=True, text=True, check=False, timeout=50)
            result.write_bytes(pickle.dumps(process))
    return pickle.loads(result.read_bytes()), folder  # noqa: S301 - written above


def recording(path: Path, *agents: str) -> Path:
    """A closed recording with one exchange for each User-Agent."""
    traffic = TrafficBuilder()
    for agent in agents:
        traffic.request("GET", "/a", headers={"user-agent": agent}).respond(200, body=b"{}")
    return traffic.write(path)


def test_an_unwritable_output_is_refused_before_anything_starts(tmp_path):
    error = f"Error: {tmp_path}/none/run.db cannot be written: there is no folder {tmp_path}/none."
    assert refusal("demo", "--output", tmp_path / "none" / "run.db") == error


def start_demo(folder: Path) -> subprocess.Popen[str]:
    """A running demo; its recording is demo.db in the folder, which is also its mark."""
    return subprocess.Popen(
        [*COMMAND, "--output", folder / "demo.db"],
        env={**os.environ, MARK: str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_with(mark: Path) -> list[str]:
    """The processes of the demo with this mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().decode())
    return found


def without_times(body: bytes) -> bytes:
    """The body with its timestamps replaced."""
    return re.sub(rb"\d{4}-\d\d-\d\dT[\d:.]+Z", b"TIME", body)


def test_all_steps_succeed(done):
    process, _ = done

    assert (process.returncode, process.stderr) == (0, "")
    assert re.findall(r"^\[(\d)/6\]", process.stdout, re.MULTILINE) == list("123456")
    assert re.findall(r"the same +(\d{3})", process.stdout) == ["201", "200", "201", "409", "200", "404"]
    assert "DIFFERENT" not in process.stdout
    assert "\x1b" not in process.stdout
    assert re.search(r"Done in \d+\.\d s", process.stdout)
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    (summary,) = re.findall(r"^```text\n(What you saw:\n.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert summary in process.stdout


def test_the_recording_is_kept_and_holds_what_was_shown(done):
    _, folder = done
    path = folder / "wiretape-demo.db"
    with open_recording(path) as left:
        endings = [(exchange.ending, exchange.response.status) for exchange in left.exchanges()]
        found = {finding.code for finding in left.findings()}

    assert [file.name for file in folder.iterdir()] == [path.name]
    assert KEY.encode() not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert endings == [
        (How.COMPLETE, 201),
        (How.SERVICE_CLOSED, 200),
        (How.COMPLETE, 201),
        (How.COMPLETE, 409),
        (How.CLIENT_CLOSED, 200),
        (How.COMPLETE, 404),
    ]
    assert found == demo_command.PLANTED_CODES


def test_each_fault_is_logged_by_the_service_and_explained(done):
    process, _ = done
    explained = process.stdout.partition("The planted faults, and the rules that found them:")[2]
    script = tomllib.loads(demo_command.FAULT_SCRIPT.read_text("utf-8"))

    assert list(demo_command.PLANTED) == [fault["name"] for fault in script["fault"]]
    for name, codes in demo_command.PLANTED.items():
        assert f"service  Fault {name}: " in process.stdout
        assert re.search(rf"{name} +{' and '.join(codes)}\n +[A-Z].*\.\n", explained)


async def test_two_demos_send_and_receive_the_same(done):
    """Only timestamps differ: even the ids are those of the other demo's recording."""
    _, folder = done
    async with child_process.run_wiretape(
        "serve",
        str(demo_command.SCENARIO),
        "--faults",
        str(demo_command.FAULT_SCRIPT),
        "--seed",
        "0",
        *demo_command._LOOPBACK,
        on_line=lambda _: None,
    ) as service:
        client = DemoClient(await service.address())
        await client.run()
        await service.stop()
    with open_recording(folder / "wiretape-demo.db") as left:
        recorded = [b"".join(part.data for part in left.body(one.number, Side.RESPONSE)) for one in left.exchanges()]

    # Exchanges and responses are both in the order of the requests.
    assert [without_times(answer.body) for answer in client.responses] == [without_times(body) for body in recorded]


@pytest.mark.parametrize(("at", "number"), [("[1/6]", signal.SIGHUP), ("Fault cut-off", signal.SIGINT)])
def test_interrupting_it_leaves_no_process_behind(tmp_path, at, number):
    """The recording is closed as well, so that a later demo may replace it."""
    with start_demo(tmp_path) as process:
        assert next(line for line in process.stdout if at in line)
        process.send_signal(number)

        assert process.communicate(timeout=45)[1] == ""
        assert process.returncode == 128 + number
    assert processes_with(tmp_path) == []
    if at.startswith("Fault"):
        with open_recording(tmp_path / "demo.db") as left:
            assert left.info.ended_ns is not None


async def test_a_second_interruption_kills_a_process_that_does_not_end(done):
    """A replay that is suspended by SIGSTOP does not react to SIGTERM."""
    _, folder = done
    replaying = asyncio.Event()
    processes = []

    async def replay() -> None:
        async with child_process.run_wiretape(
            "replay", str(folder / "wiretape-demo.db"), *demo_command._LOOPBACK, on_line=str
        ) as child:
            await child.address()
            processes.append(child._process)
            child._process.send_signal(signal.SIGSTOP)
            replaying.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(replay())
    await replaying.wait()
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)  # until it waits for the process to end
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [await process.wait() for process in processes] == [-signal.SIGKILL]


def test_a_closed_output_ends_it_quietly_without_a_process_left_behind(tmp_path):
    with start_demo(tmp_path) as process:
        assert next(line for line in process.stdout if "Listening on" in line)
        process.stdout.close()

        assert process.stderr.read() == ""
        assert process.wait(20) == 141
    assert processes_with(tmp_path) == []
    with open_recording(tmp_path / "demo.db") as left:
        assert left.info.ended_ns is not None


@pytest.mark.parametrize("content", [b"precious", None])
def test_a_file_of_another_origin_is_not_replaced(tmp_path, content):
    path = tmp_path / "mine.db"
    if content is None:
        recording(path, USER_AGENT, "curl/8.14")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    refusal("demo", "--output", path)
    assert path.read_bytes() == before


def test_without_mitmproxy_it_explains_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("wiretape_contracts.agent_sessions.demo.demo_command.find_spec", lambda _: None)
    assert "pip install 'mitmproxy>=" in refusal("demo", "--output", tmp_path / "x.db")


async def test_a_port_in_use_is_reported_in_one_sentence():
    lines = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError) as raised:
            async with child_process.run_wiretape("serve", "--listen", address, on_line=lines.append) as child:
                await child.address()

    assert raised.value.message.startswith(f"wiretape serve did not start: Cannot listen on {address}: ")
    assert len(lines) == 1
    assert child._process.returncode == 2


def test_different_bytes_fail_the_demo(tmp_path):
    """The client's bytes, the recorded ones and the replayed ones must all agree."""
    path = recording(tmp_path / "x.db", USER_AGENT)
    good, bad = ReceivedResponse("GET /a", 200, b"{}"), ReceivedResponse("GET /a", 200, b"{ }")
    with open_recording(path) as opened:
        demo_command._compare_responses(opened, [good], [good])
        for first, second in ((good, bad), (bad, bad), (bad, good)):
            with pytest.raises(DemoError, match="differ"):
                demo_command._compare_responses(opened, [first], [second])
        with pytest.raises(DemoError, match="differ"):
            demo_command._compare_responses(opened, [good], [])


def test_a_planted_fault_without_a_finding_fails_the_demo(tmp_path):
    path = recording(tmp_path / "x.db", USER_AGENT)
    with open_recording(path) as opened, pytest.raises(DemoError, match=r"not found: .'DUR004', 'SEQ001', 'SEQ003', "):
        demo_command._explain_findings(opened)
