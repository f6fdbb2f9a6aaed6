"""`wiretape demo`, end to end: real programs, real sockets."""

import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.observe import BytesArrived, ExchangeEnded, RequestStarted, ResponseStarted, Side
from wiretape.observe import Ending as How
from wiretape.recording import Writer, open_recording
from wiretape_inspect.demo import children, steps
from wiretape_inspect.demo.children import DemoError
from wiretape_inspect.demo.client import KEY, Answer

COMMAND = [sys.executable, "-m", "wiretape", "demo"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One demo, in an empty directory: the finished process and the directory."""
    folder = tmp_path_factory.mktemp("demo")
    return subprocess.run(COMMAND, cwd=folder, capture_output=True, text=True, check=False, timeout=50), folder


def recording(path: Path, *targets: str) -> Path:
    """A closed recording of one exchange for each target."""
    writer = Writer.create(path, upstream="http://service.test")
    for number, target in enumerate(targets, 1):
        head = RequestStarted(number, number * 10, "127.0.0.1", "GET", "http", "s.test", target, "HTTP/1.1", ())
        body = BytesArrived(number, Side.RESPONSE, 0, b"{}", (2,), (number * 10 + 2,))
        answer = ResponseStarted(number, number * 10 + 1, 200, "OK", "HTTP/1.1", ())
        writer.feed([head, answer, body, ExchangeEnded(number, number * 10 + 3, How.COMPLETE)])
    writer.close(1000)
    return path


def test_everything_goes_as_planned(done):
    process, _ = done

    assert (process.returncode, process.stderr) == (0, "")
    assert re.findall(r"^\[(\d)/6\]", process.stdout, re.MULTILINE) == list("123456")
    assert re.findall(r"the same +(\d{3})", process.stdout) == ["202", "200", "409", "200", "400"]
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
        (How.COMPLETE, 202),
        (How.SERVICE_CLOSED, 200),
        (How.COMPLETE, 409),
        (How.CLIENT_CLOSED, 200),
        (How.COMPLETE, 400),
    ]
    assert found == set(steps.PLANTED)


def test_the_key_of_the_client_is_nowhere(done):
    process, folder = done

    assert KEY not in process.stdout
    assert KEY.encode() not in (folder / "wiretape-demo.db").read_bytes()


def test_each_planted_violation_is_explained(done):
    process, _ = done
    explained = process.stdout.partition("What was planted, and found:")[2]

    assert all(f"  {code}  {why}" in explained for code, why in steps.PLANTED.items())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_it_leaves_no_program_behind(tmp_path, number):
    """The proxy is gone and the recording closed when the demo has ended; a later demo may replace it."""
    path = tmp_path / "demo.db"
    with subprocess.Popen([*COMMAND, "--output", path], stdout=subprocess.PIPE, text=True) as process:
        port = next(int(found[1]) for line in process.stdout if (found := re.search(r"Listening on \S+:(\d+)", line)))
        process.send_signal(number)
        process.stdout.read()

        assert process.wait(20) == 128 + number
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0
    with open_recording(path) as left:
        assert left.info.ended_ns is not None


def test_when_nobody_reads_it_any_more_it_ends_quietly_and_leaves_no_program_behind(tmp_path):
    with subprocess.Popen(
        [*COMMAND, "--output", tmp_path / "demo.db"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert next(line for line in process.stdout if "[2/6]" in line)
        process.stdout.close()

        assert process.stderr.read() == ""
        assert process.wait(20) == 141
    with open_recording(tmp_path / "demo.db") as left:
        assert left.info.ended_ns is not None


@pytest.mark.parametrize("content", [b"precious", None])
def test_a_file_that_is_no_demo_is_left_alone(tmp_path, content):
    path = tmp_path / "mine.db"
    if content is None:
        recording(path, "/v1/sessions/wiretape-demo/events/stream", "/v1/sessions/mine/events/stream")
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


async def test_a_program_that_does_not_start_says_why_and_is_gone(tmp_path):
    heard = []
    with pytest.raises(DemoError, match=r"did not start: .*There is no file"):
        async with children.wiretape("replay", str(tmp_path / "none.db"), say=heard.append) as child:
            await child.ready()

    assert len(heard) == 1
    assert child._process.returncode == 2


def test_bytes_that_differ_fail_the_demo(tmp_path):
    """The client's bytes, the recorded ones and the replayed ones must all agree."""
    path = recording(tmp_path / "x.db", "/a")
    good, bad = Answer("GET /a", 200, b"{}"), Answer("GET /a", 200, b"{ }")
    with open_recording(path) as opened:
        steps._compare(opened, [good], [good])
        for first, second in ((good, bad), (bad, bad), (bad, good)):
            with pytest.raises(DemoError, match="differ"):
                steps._compare(opened, [first], [second])
        with pytest.raises(DemoError, match="differ"):
            steps._compare(opened, [good], [])


def test_a_planted_violation_that_is_not_found_fails_the_demo(tmp_path):
    path = recording(tmp_path / "x.db", "/a")
    with open_recording(path) as opened, pytest.raises(DemoError, match="not found: DUR004, ERR004, SEQ001"):
        steps._explain(opened)
