"""`wiretape debug` as a program."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from wiretape.recording import open_recording
from wiretape.recording.formats import find_format

_SAID = re.compile(r"Debugging .*run\.\w+ on (http://\S+/\?token=\S+)( ; Ctrl-C to stop\.)?\n")


@contextmanager
def debugging(*args, **options):
    """The command, and the address that it says."""
    command = [sys.executable, "-m", "wiretape", "debug", *map(str, args)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options) as process:
        try:
            line = process.stderr.readline()
            said = _SAID.fullmatch(line)
            assert said is not None, line
            yield process, urlsplit(said[1])
        finally:
            process.kill()


def asked(where, path, cookie=""):
    """An open connection, and what it answered."""
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=45)
    connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
    return connection, connection.getresponse()


def cookie_of(where):
    connection, answer = asked(where, f"/?{where.query}")
    with closing(connection):
        answer.read()
        assert answer.status == 303
        return answer.headers["Set-Cookie"].partition(";")[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped_and_ends_though_somebody_listens(tape, message, number):
    tape.exchange(chunks=[(1, message("run.started", id="e1"))], ending=None)
    tape.save()
    with debugging(tape.path) as (process, where):
        connection, answer = asked(where, "/api/live?exchange=1", cookie_of(where))
        with closing(connection):
            assert answer.readline().startswith(b"id: ")
            process.send_signal(number)
            assert process.wait(20) == 0
            assert process.stderr.read() == ""
    tape.close()


def test_it_ends_with_whoever_started_it(session):
    with debugging(session, "--with-parent", stdin=subprocess.PIPE) as (process, _):
        process.stdin.close()
        assert process.wait(20) == 0


def test_a_recording_of_another_form_is_read_once_and_served(session):
    other = session.with_suffix(".jsonl")
    with open_recording(session) as recording:
        other.write_bytes(b"".join(find_format("jsonl").writer().write(recording, None)))
    with debugging(other) as (process, where):
        other.unlink()
        connection, answer = asked(where, "/api/rows?exchange=3", cookie_of(where))
        with closing(connection):
            assert b"run.completed" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_it_opens_a_browser_when_asked_to(session, tmp_path):
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    os.mkfifo(seen)
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(0o700)
    environment = {"BROWSER": f"{browser} %s", "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    with debugging(session, "--open", env=environment) as (_, where):
        assert seen.read_text() == f"{where.geturl()}\n"


def refused(run, *args, env=None):
    result = run("debug", *args)
    assert result.exit_code == 2, result.output
    return result.stderr.splitlines()[-1]


def test_what_cannot_be_done_is_one_sentence(run, session, tmp_path):
    assert refused(run, tmp_path / "none.db") == f"Error: There is no file {tmp_path / 'none.db'}."
    assert "is not a wiretape recording" in refused(run, __file__)
    assert "is no address to listen on" in refused(run, session, "--listen", "nonsense")
    assert "is no loopback address" in refused(run, session, "--listen", "0.0.0.0:0")
    assert "is no URL of a replay" in refused(run, session, "--replay", "ftp://x\x1b[31m")
    assert "put it in $WIRETAPE_TOKEN" in refused(run, session, "--replay", "http://127.0.0.1:1")
    assert "No such option" in refused(run, session, "--opn")


def test_a_port_in_use_is_one_sentence(run, session):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert refused(run, session, "--listen", where) == (
            f"Error: Cannot listen on {where}: the port is in use; choose another with --listen, or 0 for a free one."
        )


def test_the_file_that_is_served_is_only_read(session):
    before = session.read_bytes()
    with debugging(session) as (_, where):
        connection, answer = asked(where, "/api/recording", cookie_of(where))
        with closing(connection):
            answer.read()

    assert session.read_bytes() == before
    assert list(Path(session).parent.iterdir()) == [session]
