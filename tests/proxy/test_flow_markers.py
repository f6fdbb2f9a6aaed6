"""Findings as markers and comments on flows in the mitmproxy console and in saved flows."""

import fcntl
import os
import pty
import signal
import socket
import struct
import sys
import termios
import threading
from pathlib import Path

import pytest

from wiretape.observations import Ending
from wiretape.recording import open_recording

SCRIPT = Path(__file__).parents[2] / "proxy" / "wiretape_proxy" / "mitmproxy_script.py"
BIN = Path(sys.executable).parent
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM = "/v1/sessions/s1/events/stream"
EVENT = b"id: e1\nevent: message.delta\ndata: 1\n\n"
LOGGER = """
from mitmproxy import ctx

def log(flow, hook):
    with open("logged.txt", "a") as file:
        file.write(f"{hook}|{flow.request.path}|{flow.marked}|{flow.comment}\\n")

def running():
    host, port = ctx.master.addons.get("proxyserver").listen_addrs()[0][:2] if ctx.options.server else ("", 0)
    with open("port.txt", "w") as file:
        file.write(f"{port}\\n")

def update(flows):
    for flow in flows:
        log(flow, "update")

def requestheaders(flow):
    if HAS_OWN_COMMENT:
        flow.comment, flow.marked = "mine", ":default:"

def request(flow):
    log(flow, "request")

def response(flow):
    log(flow, "response")

def error(flow):
    log(flow, "error")
"""


class Program:
    """One of mitmproxy's programs on a pseudo-terminal."""

    def __init__(self, start_forked, folder, name, *options, has_own_comment=False):
        self.folder = folder
        (folder / "logger.py").write_text(LOGGER.replace("HAS_OWN_COMMENT", str(has_own_comment)))
        main, side = pty.openpty()
        fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        command = ["-s", SCRIPT, "-s", "logger.py", "--set", f"confdir={folder / 'conf'}", *options]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), side)
        self.process = start_forked(name, command, cwd=folder, env={"TERM": "xterm"}, **streams)
        os.close(side)
        self._drain = threading.Thread(target=_drain, args=(main,))
        self._drain.start()

    @property
    def logged(self):
        """Hook, path, marker and comment of flows that the other script logged."""
        path = self.folder / "logged.txt"
        return [line.split("|") for line in path.read_text().splitlines()] if path.exists() else []

    def port(self):
        path = self.folder / "port.txt"
        return int(path.read_text()) if path.exists() and path.read_text().endswith("\n") else None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self):
        status = self.process.wait(20)
        self._drain.join(20)
        return status


def _drain(terminal):
    """Read a terminal, so that its writer never blocks."""
    while True:
        try:
            os.read(terminal, 65536)
        except OSError:  # the other side is closed
            os.close(terminal)
            return


@pytest.fixture
def program(start_forked, tmp_path):
    programs = []

    def start_one(*arguments, **options):
        programs.append(Program(start_forked, tmp_path, *arguments, **options))
        return programs[-1]

    yield start_one
    for one in programs:
        if one.process.poll() is None:
            one.process.kill()
        one.ended()


def proxying(program, url, name, **options):
    here = ("--mode", f"reverse:{url}", "--listen-host", "127.0.0.1", "--listen-port", "0")
    return program(name, *here, "--set", "wiretape_output=run.db", "-w", "flows", **options)


def ask(port):
    """Request the stream and read two events; return the connection."""
    client = socket.create_connection(("127.0.0.1", port), timeout=45)
    client.sendall(f"GET {STREAM} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    data = b""
    while data.count(EVENT) < 2:
        chunk = client.recv(65536)
        assert chunk, f"the proxy closed the connection after {data!r}"
        data += chunk
    return client


@pytest.fixture
def stream(service):
    """Serve a stream that breaks a rule twice and stays open."""
    sent = CHUNKED + b"%x\r\n%s\r\n" % (len(EVENT) * 2, EVENT * 2)
    service.on(STREAM, lambda peer: (peer.send(sent), peer.rest()))
    return service.url


def test_the_console_marks_and_comments_a_flow_and_saves_both(program, stream, eventually, tmp_path):
    console = proxying(program, stream, "mitmproxy")
    with ask(eventually(console.port, "the console to listen")):
        marked = eventually(lambda: [line for line in console.logged if line[3]], "a comment")[0]
        assert marked[:3] == ["update", STREAM, ":red_circle:"]
        assert "EVT001 ×2" in marked[3].split(", ")  # noqa: RUF001
        assert console.stop() == 0
    with open_recording(tmp_path / "run.db") as recording:
        assert [exchange.ending for exchange in recording.exchanges()] == [Ending.PROXY_STOPPED]

    (tmp_path / "logged.txt").unlink()
    again = program("mitmdump", "-n", "-r", "flows", "--set", "wiretape_output=again.db")
    assert again.ended() == 0
    assert {tuple(line[2:]) for line in again.logged} == {(":red_circle:", marked[3])}


def test_markers_and_comments_of_the_user_are_kept(program, stream, eventually):
    console = proxying(program, stream, "mitmproxy", has_own_comment=True)
    with ask(eventually(console.port, "the console to listen")):
        eventually(lambda: [line for line in console.logged if line[0] == "update"], "an update")
        assert console.stop() == 0
    assert {tuple(line[2:]) for line in console.logged} == {(":default:", "mine")}


def test_mitmdump_records_without_changing_flows(program, stream, eventually, tmp_path):
    mitmdump = proxying(program, stream, "mitmdump", has_own_comment=True)
    with ask(eventually(mitmdump.port, "mitmdump to listen")):
        assert mitmdump.stop() == 0
    assert {tuple(line[2:]) for line in mitmdump.logged} == {(":default:", "mine")}
    with open_recording(tmp_path / "run.db") as recording:
        assert [found.code for found in recording.findings()].count("EVT001") == 2
