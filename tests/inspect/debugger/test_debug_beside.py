"""`wiretape proxy --debug` and `wiretape replay --debug` start and stop a debugger."""

import json
import re
import signal
import subprocess
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from threading import Timer
from urllib.parse import urlsplit

import pytest
from wiretape_process import WiretapeProcess

_PRINTED = re.compile(r"Debugging .* on (http://\S+/\?token=\w+)\n")


@contextmanager
def with_debugger(*args):
    """Run a command with `--debug`; yield it, a connection to its debugger, and a function that reads the API."""
    command = [*args, "--listen", "127.0.0.1:0", "--debug"]
    with WiretapeProcess(*command, stderr=subprocess.PIPE, text=True) as process:
        deadline = Timer(30, process.kill)
        deadline.start()
        try:
            lines = []
            while not (printed := _PRINTED.fullmatch(line := process.stderr.readline())):
                lines.append(line)
                assert line, (lines, process.wait(30))
            deadline.cancel()
            url = urlsplit(printed[1])
            with closing(HTTPConnection(url.hostname, url.port, timeout=45)) as connection:

                def get(path, **headers):
                    connection.request("GET", path, headers=headers)
                    response = connection.getresponse()
                    return response.headers, response.read()

                cookie = get(f"/?{url.query}")[0]["Set-Cookie"].partition(";")[0]
                yield process, connection.sock, lambda path: json.loads(get(path, Cookie=cookie)[1])
        finally:
            deadline.cancel()
            process.kill()


def test_proxy_shows_its_recording_until_it_stops(tmp_path):
    to = tmp_path / "run.db"
    with with_debugger("proxy", "http://127.0.0.1:9", "--no-upstream-check", "--no-config", "-o", to) as (
        process,
        connection,
        read,
    ):
        assert (read("/api/recording")["file"], read("/api/recording")["live"]) == ("run.db", True)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert connection.recv(1) == b""


@pytest.mark.parametrize("mode", ["channel", "verbatim"])
def test_replay_is_attached_only_if_it_has_a_playhead(session, mode):
    with with_debugger("replay", session, "--no-config", "--mode", mode) as (process, connection, read):
        assert (read("/api/recording")["replay"] is not None) == (mode == "channel")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert connection.recv(1) == b""


def test_debugger_exits_when_its_command_is_killed(session):
    with with_debugger("replay", session, "--no-config") as (process, connection, _):
        process.kill()
        assert connection.recv(1) == b""
