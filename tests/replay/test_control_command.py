"""`wiretape control` with a replay and a real client."""

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable

import httpx
import pytest
from click.testing import CliRunner
from for_each import for_each
from hostile_server import BODY, HEAD, REDIRECT, HostileServer
from wiretape_process import run_wiretape

from wiretape.cli import wiretape
from wiretape_replay import ServeOptions, start_scenario
from wiretape_replay.commands.foreground_server import control_command_line

STREAM = "/v1/sessions/s1/events/stream"
KEY = {"Authorization": "Bearer sk-test"}
CHOSEN = "secret"


def frame(number: int, type_: str, **content: object) -> bytes:
    document = {"id": f"e{number}", "sequence": number, "type": type_, "run_id": "r1", "content": content}
    return f"event: {type_}\nid: e{number}\ndata: {json.dumps(document)}\n\n".encode()


FRAMES = [
    frame(1, "run.started"),
    frame(2, "tool.started", tool_call_id="t1"),
    frame(3, "tool.completed", tool_call_id="t1"),
]


@pytest.fixture
def recording(builder):
    builder.exchange(FRAMES)
    return builder.close()


def run(url: str, *args: str, token: str | None = CHOSEN) -> str:
    """The output of a command that succeeds."""
    done = CliRunner().invoke(wiretape, ["control", url, *args], env={"WIRETAPE_TOKEN": token})
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def refused(*args: str, token: str | None = CHOSEN) -> str:
    """The error message of a command that fails."""
    done = CliRunner().invoke(wiretape, ["control", *args], env={"WIRETAPE_TOKEN": token})
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.fixture
def run_paused(serve, recording) -> Callable[..., str]:
    """Run the command on a replay that is paused: `run_paused("step", "durable")`."""
    replay = serve(recording, mode="channel", paused=True)
    return lambda *args: run(replay.url, *args, token=replay.token)


def test_the_command_that_the_replay_prints_can_be_run_as_it_is(start, recording):
    replay = start(recording, "--paused")
    command = replay.line("Control: ").removeprefix("Control: ").split()
    assert command[:4] == ["wiretape", "control", replay.url, "state"]
    done = run_wiretape(*command[1:])

    assert done.stdout == (
        "s1: paused, at 0 of 4, 0.000 s\n"
        "  next: run.started, sequence 1, id e1, run r1, recorded at 1:1\n"
        "served: 0 streams, 0 other requests\n"
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_client_reads_a_stream_that_is_stepped_through(start, recording):
    """The client runs in a thread."""
    lines: list[str] = []
    replay = start(recording, "--paused", "--control-token", CHOSEN)
    url = replay.url
    assert CHOSEN not in replay.line("Control: ")
    run(url, "break", "--type", "tool.*")
    assert "s1: waiting for its first stream, at 0 of 4" in run(url, "resume")

    def read() -> None:
        with httpx.stream("GET", url + STREAM, headers=KEY, timeout=30) as response:
            lines.extend(line for line in response.iter_lines() if line.startswith("id:"))

    reader = threading.Thread(target=read)
    reader.start()
    stopped = run(url, "wait", "breakpoint")
    assert "s1: stopped at a breakpoint, at 1 of 4" in stopped
    assert "  breakpoint: type tool.*  (here)" in stopped
    assert "  stream: from the beginning, without deltas, at 1" in stopped

    assert "passed: tool.started, sequence 2, id e2, run r1, tool call t1, recorded at 1:2" in run(
        url, "step", "durable"
    )
    run(url, "break", "--clear")
    assert "s1: at the end, at 4 of 4" in run(url, "seek", "--end")
    reader.join(30)

    assert lines == ["id: e1", "id: e2", "id: e3"]


def test_the_token_can_come_from_the_environment(start, recording, monkeypatch):
    monkeypatch.setenv("WIRETAPE_TOKEN", "from-outside")
    replay = start(recording, "--paused")
    assert replay.line("Control: ") == f"Control: wiretape control {replay.url} state\n"
    assert "paused" in run(replay.url, "state", token="from-outside")
    assert "is not the control token of this replay" in refused(replay.url, "state", "--token", "other")


def test_steps_seeks_and_resets(run_paused):
    assert "at 1 of 4" in run_paused("step")
    assert "at 3 of 4" in run_paused("step", "durable", "--count", "2")
    assert "s1: at the end, at 4 of 4" in run_paused("step", "finding")
    assert "at 1 of 4" in run_paused("seek", "--sequence", "1")
    assert "at 2 of 4" in run_paused("seek", "--event", "e2")
    assert "at 0 of 4" in run_paused("seek", "--time", "0")
    assert "at 3 of 4" in run_paused("seek", "--position", "3")
    assert "s1: paused, at 0 of 4" in run_paused("reset")
    assert json.loads(run_paused("speed", "0.5", "--json"))["speed"] == 0.5
    assert "waiting for its first stream" in run_paused("resume")
    assert "paused" in run_paused("pause")
    assert "paused" in run_paused("wait", "stopped")


def test_breakpoints_are_listed_and_removed(run_paused):
    run_paused("break", "--sequence", "2", "--key", "tool_call=t1")
    run_paused("break", "--finding", "")
    assert run_paused("break", "--list").splitlines()[2:4] == [
        "  breakpoint: sequence 2, tool call t1",
        "  breakpoint: finding (any)",
    ]
    assert run_paused("break", "--remove", "--sequence", "2", "--key", "tool_call=t1").count("breakpoint: ") == 1
    assert "breakpoint" not in run_paused("break", "--clear")


def test_json_prints_the_response_of_the_control_api(run_paused):
    state = json.loads(run_paused("step", "--json"))

    assert state["stepped"]["id"] == "e1"
    assert (state["channels"][0]["position"], state["channels"][0]["channel"]) == (1, "s1")


def test_a_wait_that_times_out_exits_with_status_2(serve, recording):
    replay = serve(recording, mode="channel", paused=True)
    done = CliRunner().invoke(
        wiretape,
        ["control", replay.url, "wait", "end", "--timeout", "0.01", "--token", replay.token, "--channel", "s1"],
    )

    assert (done.exit_code, done.stderr) == (2, "Error: Channel s1 was not at the end after 0.01 s.\n")


def test_errors_of_the_replay_are_printed_in_one_sentence(serve, recording):
    replay = serve(recording, mode="channel", paused=True)
    token = ("--token", replay.token)

    assert "Unknown channel s9: use s1." in refused(replay.url, "pause", "--channel", "s9", *token)
    assert "expected exactly one of sequence" in refused(replay.url, "seek", *token)
    assert "no event with the sequence number 9" in refused(replay.url, "seek", "--sequence", "9", *token)
    assert "Specify the conditions of a breakpoint" in refused(replay.url, "break", *token)
    assert "Specify the conditions of a breakpoint" in refused(replay.url, "break", "--list", "--clear", *token)
    assert "Specify the conditions of a breakpoint" in refused(replay.url, "break", "--remove", *token)
    assert "use --token or set WIRETAPE_TOKEN" in refused(replay.url, "state", token=None)
    assert "is not the control token of this replay" in refused(replay.url, "state")
    assert "Invalid speed 'fast': expected max or" in refused(replay.url, "speed", "fast", *token)
    assert "Only virtual time can be advanced" in refused(replay.url, "advance", "1", *token)
    assert "seek: time_s: expected a number of at least 0, got nan" in refused(
        replay.url, "seek", "--time", "nan", *token
    )
    assert "wait: timeout_s: expected a number of at most 600, got inf" in refused(
        replay.url, "wait", "--timeout", "inf", *token
    )
    assert "printable ASCII" in refused(replay.url, "state", "--token", "a\nb")


def test_virtual_time_is_advanced():
    with start_scenario("hello", ServeOptions(clock="virtual")) as service:
        before_ns = service.clock.now_ns()
        assert run(service.url, "advance", "60", token=service.token).startswith("no playhead: no channel yet\n")
        assert service.clock.now_ns() - before_ns == 60_000_000_000


def test_a_missing_argument_is_a_usage_error():
    done = CliRunner().invoke(wiretape, ["control", "http://127.0.0.1:1", "advance"])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "Error: Missing argument 'SECONDS'.")


def test_verbatim_mode_has_a_state_and_no_playhead(serve, recording):
    replay = serve(recording, mode="verbatim")

    assert run(replay.url, "state", token=replay.token).startswith("no playhead: verbatim mode")
    assert "There is no playhead" in refused(replay.url, "pause", "--token", replay.token)


@for_each(
    "url",
    ["127.0.0.1:8090", "https://127.0.0.1:1", "http://", "http://x:y", "http://x/v1", "http://[::1", "nonsense\x1b"],
)
def test_an_invalid_url_is_refused_in_one_sentence(url):
    assert "Invalid replay URL" in refused(url, "state")


def test_an_address_without_a_server_is_refused_in_one_sentence():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]

    message = refused(f"http://127.0.0.1:{port}", "state")
    assert f"Cannot reach the replay at 127.0.0.1:{port}: Connection refused." in message


@for_each(
    ("response", "problem"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "The server at {} is not a wiretape replay."),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "The server at {} is not a wiretape replay."),
        (b"HTTP/1.1 404 No\r\n\r\n<html>", "The server at {} is not a wiretape replay."),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n",
            "The server at {} is not a wiretape replay.",
        ),
        (b"", "Cannot reach the replay at {}: "),
    ],
)
def test_a_server_that_is_not_a_replay_is_reported_in_one_sentence(response, problem):
    """Redirections are not followed: the token must not reach another server."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve_once() -> None:
            connection, _ = server.accept()
            server.close()  # a GET without a response is sent again
            with connection:
                connection.recv(65536)
                connection.sendall(response)

        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        threading.Thread(target=serve_once).start()
        assert problem.format(url.removeprefix("http://")) in refused(url, "state")


@pytest.mark.parametrize(
    ("beginning", "repeated", "pause_s", "problem"),
    [
        (BODY, b"x" * 65536, 0, "is not a wiretape replay"),
        (BODY, b" ", 0.02, "does not respond"),
        (HEAD, b"X-More: x\r\n" * 1000, 0, "is not a wiretape replay"),
        (HEAD, b"x", 0.02, "does not respond"),
        (REDIRECT, b"", 0, "is not a wiretape replay"),
    ],
    ids=["endless body", "slow body", "endless head", "slow head", "redirect"],
)
def test_a_response_that_does_not_end_is_bounded(monkeypatch, beginning, repeated, pause_s, problem):
    if pause_s:  # the others are bounded by their size, however long that takes
        monkeypatch.setattr("wiretape_replay.commands.control._TIMEOUT_S", 0.3)
    with HostileServer(beginning, repeated, pause_s) as server:
        assert f" at {server.address} {problem}" in refused(f"http://{server.address}", "state")
        assert server.sent < 32 << 20
        assert len(server.requests) == 1


def test_a_password_in_an_invalid_url_is_not_printed():
    assert "'http://[redacted]@[::1'" in refused("http://user:secret-1@[::1", "state")


def test_recorded_text_cannot_control_the_terminal(serve, new_builder):
    builder = new_builder("odd.db")
    builder.exchange([frame(1, "tool.started\x1b[2J".replace("\x1b", "\\u001b"), tool_call_id="\x1b[2J")])
    replay = serve(builder.close(), mode="channel", paused=True)

    output = run(replay.url, "step", token=replay.token)
    assert "\x1b" not in output
    assert "\\x1b[2J" in output


@for_each(
    ("url", "line"),
    [
        ("http://127.0.0.1:80", "wiretape control http://127.0.0.1:80 state --token t"),
        ("http://0.0.0.0:81", "wiretape control http://127.0.0.1:81 state --token t"),
        ("http://[::]:82", "wiretape control http://[::1]:82 state --token t"),
        ("http://[::1]:83", "wiretape control http://[::1]:83 state --token t"),
        ("http://127.0.0.2:84", "wiretape control http://127.0.0.2:84 state --token t"),
        ("http://192.0.2.1:85", None),
    ],
)
def test_the_printed_command_uses_a_loopback_address(url, line):
    assert control_command_line(url, "t") == line


def test_help_lists_the_subcommands_in_order_with_whole_sentences():
    listed = CliRunner().invoke(wiretape, ["control", "--help"]).output.partition("Commands:\n")[2].partition("\n\n")[0]

    names = re.findall(r"^  (\w+)", listed, re.MULTILINE)
    steering = ["fault", "release", "send", "cut"]
    assert names == [
        "state",
        "pause",
        "resume",
        "step",
        "seek",
        "break",
        "speed",
        "reset",
        "wait",
        "advance",
        *steering,
    ]
    assert "..." not in listed
