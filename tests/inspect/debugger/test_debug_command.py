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
from wiretape_process import WiretapeProcess

from wiretape.recording import open_recording
from wiretape.recording.formats import find_format

_PRINTED = re.compile(r"Debugging .*run\.\w+ on (http://\S+/\?token=\S+)( ; Ctrl-C to stop\.)?\n")


@contextmanager
def debugging(*args, **options):
    """Run the command; yield it and the URL that it prints."""
    with WiretapeProcess("debug", *args, stderr=subprocess.PIPE, text=True, **options) as process:
        try:
            line = process.stderr.readline()
            printed = _PRINTED.fullmatch(line)
            assert printed is not None, line
            yield process, urlsplit(printed[1])
        finally:
            process.kill()


def get(url, path, cookie=""):
    """Return an open connection and its response."""
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=45)
    connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
    return connection, connection.getresponse()


def cookie_of(url):
    connection, response = get(url, f"/?{url.query}")
    with closing(connection):
        response.read()
        assert response.status == 303
        return response.headers["Set-Cookie"].partition(";")[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_debugger_while_a_page_listens(builder, message, number):
    builder.exchange([message("run.started", id="e1")], ending=None)
    builder.save()
    with debugging(builder.path) as (process, url):
        connection, response = get(url, "/api/live?exchange=1", cookie_of(url))
        with closing(connection):
            assert response.readline().startswith(b"id: ")
            process.send_signal(number)
            assert process.wait(20) == 0
            assert process.stderr.read() == ""
    builder.close()


def test_debugger_exits_when_its_standard_input_closes(session):
    with debugging(session, "--with-parent", stdin=subprocess.PIPE) as (process, _):
        process.stdin.close()
        assert process.wait(20) == 0


def test_a_tape_is_read_once_and_served(session):
    other = session.with_suffix(".tape")
    with open_recording(session) as recording:
        other.write_bytes(b"".join(find_format("tape").write(recording, None)))
    with debugging(other) as (process, url):
        other.unlink()
        connection, response = get(url, "/api/rows?exchange=3", cookie_of(url))
        with closing(connection):
            assert b"run.completed" in response.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_open_starts_a_browser(session, tmp_path):
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    os.mkfifo(seen)
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(0o700)
    environment = {"BROWSER": f"{browser} %s", "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    with debugging(session, "--open", env=environment) as (_, url):
        assert seen.read_text() == f"{url.geturl()}\n"


def refused(run, *args, env=None):
    result = run("debug", *args)
    assert result.exit_code == 2, result.output
    return result.stderr.splitlines()[-1]


def test_port_in_use_is_reported_in_one_sentence(run, session):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"127.0.0.1:{taken.getsockname()[1]}"
        assert refused(run, session, "--listen", url) == (
            f"Error: Cannot listen on {url}: the port is in use; choose another with --listen, or 0 for a free one."
        )


def test_recording_is_not_modified(session):
    before = session.read_bytes()
    with debugging(session) as (_, url):
        connection, response = get(url, "/api/recording", cookie_of(url))
        with closing(connection):
            response.read()
    assert session.read_bytes() == before
    assert list(Path(session).parent.iterdir()) == [session]
