"""The debugger beside `wiretape proxy` and `wiretape replay`: it comes and goes with them."""

import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

_SAID = re.compile(r"Debugging .* on (http://\S+/\?token=\w+)\n")


@contextmanager
def beside(*args):
    """A command with `--debug`, and a connection that the debugger let in."""
    command = [sys.executable, "-m", "wiretape", *map(str, args), "--listen", "127.0.0.1:0", "--debug"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = next(filter(None, map(_SAID.fullmatch, process.stderr)))
            where = urlsplit(said[1])
            with socket.create_connection((where.hostname, where.port), timeout=45) as connection:
                cookie = re.search(r"Set-Cookie: ([^;]+)", get(connection, f"/?{where.query}"))[1]
                yield process, connection, lambda path: body(get(connection, path, cookie))
        finally:
            process.kill()


def body(answer):
    return json.loads(answer.partition("\r\n\r\n")[2])


def get(connection, path, cookie=""):
    """Head and body of an answer that says how long it is."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
    received = b""
    while b"\r\n\r\n" not in received:
        received += some(connection)
    length = re.search(rb"Content-Length: (\d+)", received)
    until = received.index(b"\r\n\r\n") + 4 + int(length[1])
    while len(received) < until:
        received += some(connection)
    return received.decode()


def some(connection):
    data = connection.recv(65536)
    assert data, "it ended"
    return data


def test_a_proxy_shows_what_it_records(tmp_path):
    to = tmp_path / "run.db"
    with beside("proxy", "http://127.0.0.1:9", "--no-upstream-check", "--no-config", "-o", to) as (process, gone, told):
        assert (told("/api/recording")["file"], told("/api/recording")["live"]) == ("run.db", True)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert gone.recv(1) == b""


@pytest.mark.parametrize("mode", ["session", "tape"])
def test_a_replay_is_driven_where_it_has_a_playhead(session, mode):
    with beside("replay", session, "--no-config", "--mode", mode) as (process, gone, told):
        assert (told("/api/recording")["replay"] is not None) == (mode == "session")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert gone.recv(1) == b""


def test_it_goes_when_the_other_is_killed(session):
    with beside("replay", session, "--no-config") as (process, gone, _):
        process.kill()
        assert gone.recv(1) == b""
