"""`wiretape demo`, end to end: real programs, real sockets."""

import asyncio
import os
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
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.errors import InputError
from wiretape.observations import BytesArrived, ExchangeEnded, RequestStarted, ResponseStarted, Side
from wiretape.observations import Ending as How
from wiretape.recording import Writer, open_recording
from wiretape_inspect.demo import children, planted, steps
from wiretape_inspect.demo.children import DemoError
from wiretape_inspect.demo.client import AGENT, KEY, Answer, Client

COMMAND = [sys.executable, "-m", "wiretape", "demo"]
MARK = "WIRETAPE_DEMO_TEST"
"""Set in the environment of a demo, and so of all that it starts."""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One demo, in an empty directory: the finished process and the directory."""
    folder = tmp_path_factory.mktemp("demo")
    return subprocess.run(COMMAND, cwd=folder, capture_output=True, text=True, check=False, timeout=50), folder


def recording(path: Path, *agents: str) -> Path:
    """A closed recording of one exchange for each client, which its User-Agent tells."""
    writer = Writer.create(path, upstream="http://service.test")
    for number, agent in enumerate(agents, 1):
        sent = (("user-agent", agent),)
        head = RequestStarted(number, number * 10, "127.0.0.1", "GET", "http", "s.test", "/a", "HTTP/1.1", sent)
        body = BytesArrived(number, Side.RESPONSE, 0, b"{}", (2,), (number * 10 + 2,))
        answer = ResponseStarted(number, number * 10 + 1, 200, "OK", "HTTP/1.1", ())
        writer.feed([head, answer, body, ExchangeEnded(number, number * 10 + 3, How.COMPLETE)])
    writer.close(1000)
    return path


def test_an_output_that_cannot_be_is_said_before_anything_is_started(tmp_path):
    told = CliRunner().invoke(wiretape, ["demo", "--output", str(tmp_path / "none" / "run.db")])
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr == f"Error: {tmp_path}/none/run.db cannot be written: there is no folder {tmp_path}/none.\n"


def demonstrated(folder: Path) -> subprocess.Popen[str]:
    """A demo that has begun; its recording is demo.db in the folder, which is its mark, too."""
    return subprocess.Popen(
        [*COMMAND, "--output", folder / "demo.db"],
        env={**os.environ, MARK: str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started_by(mark: Path) -> list[str]:
    """The processes that a demo with this mark has left behind."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().decode())
    return found


def timeless(body: bytes) -> bytes:
    """The body without the times of day in it."""
    return re.sub(rb"\d{4}-\d\d-\d\dT[\d:.]+Z", b"TIME", body)


def test_it_ends_with_what_the_readme_shows(done):
    process, _ = done
    readme = Path(__file__, "../../../README.md").resolve().read_text("utf-8")
    (sum_up,) = re.findall(r"^```text\n(What you saw:\n.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert sum_up in process.stdout


def test_everything_goes_as_planned(done):
    process, _ = done

    assert (process.returncode, process.stderr) == (0, "")
    assert re.findall(r"^\[(\d)/6\]", process.stdout, re.MULTILINE) == list("123456")
    assert re.findall(r"the same +(\d{3})", process.stdout) == ["201", "200", "201", "409", "200", "404"]
    assert "DIFFERENT" not in process.stdout
    assert "\x1b" not in process.stdout
    assert re.search(r"Done in \d+\.\d s", process.stdout)


def test_the_recording_is_left_and_holds_what_was_shown(done):
    _, folder = done
    path = folder / "wiretape-demo.db"
    with open_recording(path) as left:
        endings = [(exchange.ending, exchange.response.status) for exchange in left.exchanges()]
        found = {finding["code"] for finding in left.findings()}

    assert [file.name for file in folder.iterdir()] == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert endings == [
        (How.COMPLETE, 201),
        (How.SERVICE_CLOSED, 200),
        (How.COMPLETE, 201),
        (How.COMPLETE, 409),
        (How.CLIENT_CLOSED, 200),
        (How.COMPLETE, 404),
    ]
    assert found == planted.CODES


def test_the_key_of_the_client_is_not_in_the_recording(done):
    _, folder = done

    assert KEY.encode() not in (folder / "wiretape-demo.db").read_bytes()


def test_each_fault_is_told_by_the_service_and_explained(done):
    process, _ = done
    explained = process.stdout.partition("What was planted, and the rules that found it:")[2]
    script = tomllib.loads(planted.FAULTS.read_text("utf-8"))

    assert [one.fault for one in planted.PLANTED] == [fault["name"] for fault in script["fault"]]
    for one in planted.PLANTED:
        assert f"service  Fault {one.fault}: " in process.stdout
        assert re.search(rf"{one.fault} +{' and '.join(one.codes)}\n +{re.escape(one.what)}", explained)


async def test_another_demo_asks_and_gets_the_same(done):
    """All that differs between two visits is when: the ids are those of the recording of another demo."""
    _, folder = done
    async with children.wiretape(
        "serve", str(planted.SCENARIO), "--faults", str(planted.FAULTS), *steps._LOOPBACK, say=lambda _: None
    ) as service:
        client = Client(await service.ready())
        await client.visit()
        await service.stop()
    with open_recording(folder / "wiretape-demo.db") as left:
        recorded = [b"".join(part.data for part in left.body(one.number, Side.RESPONSE)) for one in left.exchanges()]

    # Exchanges are numbered as they were asked for, and so are answers.
    assert [timeless(answer.body) for answer in client.answers] == [timeless(body) for body in recorded]


@pytest.mark.parametrize(
    ("at", "number"),
    [
        ("[1/6]", signal.SIGHUP),
        ("[2/6]", signal.SIGTERM),
        ("Fault cut-off", signal.SIGINT),
    ],
)
def test_interrupting_it_leaves_no_program_behind(tmp_path, at, number):
    """Everything is gone when the demo has ended, and the recording closed: a later demo may replace it."""
    with demonstrated(tmp_path) as process:
        assert next(line for line in process.stdout if at in line)
        process.send_signal(number)

        assert process.communicate(timeout=45)[1] == ""
        assert process.returncode == 128 + number
    assert started_by(tmp_path) == []
    if at.startswith("Fault"):
        with open_recording(tmp_path / "demo.db") as left:
            assert left.info.ended_ns is not None


async def test_a_second_interruption_kills_what_does_not_end(done):
    """A replay that has been stopped does not hear that it should end."""
    _, folder = done
    replaying = asyncio.Event()
    programs = []

    async def replay() -> None:
        async with children.wiretape("replay", str(folder / "wiretape-demo.db"), *steps._LOOPBACK, say=str) as child:
            await child.ready()
            programs.append(child._process)
            child._process.send_signal(signal.SIGSTOP)
            replaying.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(replay())
    await replaying.wait()
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)  # until it waits for the program to end
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [await program.wait() for program in programs] == [-signal.SIGKILL]


def test_when_nobody_reads_it_any_more_it_ends_quietly_and_leaves_no_program_behind(tmp_path):
    with demonstrated(tmp_path) as process:
        assert next(line for line in process.stdout if "Listening on" in line)
        process.stdout.close()

        assert process.stderr.read() == ""
        assert process.wait(20) == 141
    assert started_by(tmp_path) == []
    with open_recording(tmp_path / "demo.db") as left:
        assert left.info.ended_ns is not None


@pytest.mark.parametrize("content", [b"precious", None])
def test_a_file_that_is_no_demo_is_left_alone(tmp_path, content):
    path = tmp_path / "mine.db"
    if content is None:
        recording(path, AGENT, "curl/8.14")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    result = CliRunner().invoke(wiretape, ["demo", "--output", str(path)])

    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert path.read_bytes() == before


def test_without_mitmproxy_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("wiretape_inspect.demo.find_spec", lambda _: None)
    result = CliRunner().invoke(wiretape, ["demo", "--output", str(tmp_path / "x.db")])

    assert result.exit_code == 2
    assert "pip install 'wiretape[proxy]'" in result.stderr


async def test_a_program_that_cannot_have_its_port_says_so_in_one_sentence_and_is_gone():
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError) as raised:
            async with children.wiretape("serve", "--listen", address, say=heard.append) as child:
                await child.ready()

    assert raised.value.message.startswith(f"wiretape serve did not start: Cannot listen on {address}: ")
    assert len(heard) == 1
    assert child._process.returncode == 2


def test_bytes_that_differ_fail_the_demo(tmp_path):
    """The client's bytes, the recorded ones and the replayed ones must all agree."""
    path = recording(tmp_path / "x.db", AGENT)
    good, bad = Answer("GET /a", 200, b"{}"), Answer("GET /a", 200, b"{ }")
    with open_recording(path) as opened:
        steps._compare(opened, [good], [good])
        for first, second in ((good, bad), (bad, bad), (bad, good)):
            with pytest.raises(DemoError, match="differ"):
                steps._compare(opened, [first], [second])
        with pytest.raises(DemoError, match="differ"):
            steps._compare(opened, [good], [])


def test_a_planted_violation_that_is_not_found_fails_the_demo(tmp_path):
    path = recording(tmp_path / "x.db", AGENT)
    with open_recording(path) as opened, pytest.raises(DemoError, match="not found: DUR004, SEQ001, SEQ003, SSE002"):
        steps._explain(opened)
