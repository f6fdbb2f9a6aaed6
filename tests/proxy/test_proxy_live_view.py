"""The live view on a terminal: open streams, findings above them, and a clean screen at the end."""

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import termios
import time

import pytest
from wire_bytes import CHUNKED, chunk

from wiretape_proxy import stderr_writer
from wiretape_proxy.cli import supports_live_view

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PATIENCE_S = 45


def event(number: int) -> bytes:
    return chunk(
        b'id: e%d\nevent: run.started\ndata: {"id":"e%d","sequence":%d,"type":"run.started"}\n\n' % ((number,) * 3)
    )


class Terminal:
    """`wiretape proxy` on a pseudo-terminal."""

    def __init__(self, start_forked, folder, url, *arguments, columns=100, env=None):
        self.master, slave = pty.openpty()
        self.columns(columns)
        self.file = folder / "run.db"
        command = ["proxy", url, "--listen", "127.0.0.1:0", "--output", "run.db"]
        plain = {"TERM": "xterm", "NO_COLOR": "", "COLUMNS": "", "LINES": ""}
        streams = {"stdout": slave, "stderr": slave}
        self.process = start_forked("wiretape", [*command, *arguments], cwd=folder, env=plain | (env or {}), **streams)
        os.close(slave)
        self.raw = ""
        self.until("Ctrl-C to stop.")
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", self.raw)[1])

    def columns(self, count):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, count, 0, 0))

    @property
    def text(self):
        """All output without escape sequences."""
        return CONTROL.sub("", self.raw)

    def until(self, part, since=0):
        """Read until the output matches a pattern."""
        end = time.monotonic() + PATIENCE_S
        while not (found := re.search(part, CONTROL.sub("", self.raw[since:]))):
            assert time.monotonic() < end, self.raw
            self._read(end)
        return found

    def _read(self, end):
        if select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                self.raw += os.read(self.master, 65536).decode()
            except OSError:  # the other side is closed
                return False
        return True

    def get(self, path):
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n\r\n" % path.encode())
        return sock

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        end = time.monotonic() + PATIENCE_S
        while self._read(end) and time.monotonic() < end:
            pass
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def terminal(start_forked, tmp_path):
    terminals = []

    def start_one(*arguments, **keywords):
        terminals.append(Terminal(start_forked, tmp_path, *arguments, **keywords))
        return terminals[-1]

    yield start_one
    for one in terminals:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        os.close(one.master)


def streams(service, session, count=2):
    """Serve a stream that sends events and stays open."""
    path = f"/v1/sessions/{session}/events/stream"

    def behave(peer):
        peer.send(CHUNKED + b"".join(event(number) for number in range(1, count + 1)))
        peer.rest()

    return service.on(path, behave)


def screen(raw):
    """Return the lines that a terminal shows after these bytes, in a minimal emulation."""
    lines, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", raw):
        if token == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif token == "\r":
            column = 0
        elif token.startswith("\x1b"):
            if token.endswith("A"):
                row -= int(token[2:-1] or 1)
                assert row >= 0, "the cursor left the screen"
            elif token == "\x1b[2K":
                lines[row] = ""
        else:
            lines[row] = lines[row][:column].ljust(column) + token + lines[row][column + len(token) :]
            column += len(token)
    return [line for line in lines if line]


def test_open_streams_are_shown_findings_scroll_above_and_the_screen_is_clean_at_the_end(terminal, service):
    shown = terminal(service.url, columns=200)
    paths = [streams(service, f"ses_{number}", count=number) for number in (1, 2)]
    socks = [shown.get(path) for path in paths]

    shown.until(r"2 open streams, 2 requests, 3 events, \d+ findings")
    shown.until(r"exchange +idle +sequence  events  events/s  channel")
    shown.until(r" [\d.]+ s +2 +2 +[\d.]+  ses_2")
    assert shown.stop() == 0

    for sock in socks:
        sock.close()
    assert "\x1b[?25l" in shown.raw  # the cursor was hidden, and is shown again
    assert shown.raw.rindex("\x1b[?25h") > shown.raw.rindex("\x1b[?25l")
    left = screen(shown.raw)
    assert not [line for line in left if "open stream" in line or line.startswith("exchange  ")]
    assert [line for line in left if line.startswith("error EVT004 (exchange ")]
    assert "\x1b[1;31merror\x1b[0m EVT004" in shown.raw
    assert re.match(r"exchange \d: GET /v1/sessions/ses_\d/events/stream 200: ", left[-3])
    assert left[-2].startswith("Recorded 2 exchanges, 2 streams, 3 events, ")
    assert left[-1] == "Next: wiretape report run.db"


def test_control_characters_of_recorded_text_do_not_reach_the_terminal(terminal, service):
    path = streams(service, "a\x1b]0;owned\x07\x1b[2J\u202eb")
    shown = terminal(service.url)
    with shown.get(path):
        shown.until(r"1 open stream(?s:.)*owned")
    shown.stop()

    assert not [part for part in ("\x1b]0;", "\x07", "\x1b[2J", "\u202e") if part in shown.raw]


def test_lines_fit_a_narrow_and_a_resized_terminal(terminal, service):
    shown = terminal(service.url, columns=100)
    path = streams(service, "s" * 150)
    with shown.get(path):
        shown.until(r"events/s")
        shown.columns(40)
        since = len(shown.raw)
        row = shown.until(r"exchange +idle +sequence  channel\s+(\S[^\r\n]*sss)\s*1 open stream", since)[1]
    assert len(row) == 40 - len("       ")
    shown.stop()


def test_requests_are_dim_and_errors_among_them_stand_out(terminal, service):
    shown = terminal(service.url)
    service.on("/refused", lambda peer: peer.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"))
    with shown.get("/refused"):
        shown.until(r"exchange 1: GET /refused 401: 0 bytes in \d+ ms, complete")
    shown.stop()

    assert "\x1b[2mexchange 1: GET /refused \x1b[0m\x1b[31m401:\x1b[0m\x1b[2m 0 bytes in " in shown.raw


def test_long_lines_wrap_between_words_and_paths_stay_whole(terminal, service):
    path = service.on(f"/v1/sessions/{'s' * 60}/events/stream", lambda peer: (peer.send(CHUNKED), peer.close()))
    shown = terminal(service.url, columns=50)
    with shown.get(path) as sock:
        while sock.recv(65536):
            pass
    shown.stop()

    lines = screen(shown.raw)
    at = lines.index("exchange 1: GET")
    assert lines[at + 1] == f"  {path}"
    assert lines[at + 2].startswith("  200: 0 bytes in ")
    assert max(map(len, [*lines[:at], *lines[at + 2 :]])) <= 50


@pytest.mark.parametrize(
    ("environment", "shown"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({}, False)],
)
def test_the_live_view_needs_a_terminal_that_supports_it(monkeypatch, environment, shown):
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    master, slave = pty.openpty()
    reader, writer = os.pipe()
    try:
        assert supports_live_view(slave) is shown
        assert not supports_live_view(writer)
    finally:
        for descriptor in (master, slave, reader, writer):
            os.close(descriptor)


def test_the_option_plain_prints_lines_on_a_terminal(terminal, service):
    shown = terminal(service.url, "--plain")
    with shown.get(streams(service, "plain")):
        shown.until(r"error EVT004 \(exchange 1, event 1\)")
    shown.stop()

    assert "\x1b" not in shown.raw
    assert "open stream" not in shown.raw


def test_a_stopped_terminal_does_not_stop_the_traffic(terminal, service):
    """Nothing reads the terminal, and more is written than its buffer holds."""
    shown = terminal(service.url)
    path = service.on("/v1/sessions/n/events/stream", lambda peer: (peer.send(CHUNKED), peer.close()))
    for _ in range(200):
        with shown.get(path) as sock:
            while sock.recv(65536):
                pass
    assert shown.stop() == 0


def test_if_the_live_view_fails_the_lines_are_still_written(monkeypatch, capfd):
    class BrokenView(stderr_writer.UnbufferedStderr):
        def draw(self, _lines, _status):
            raise ZeroDivisionError

    monkeypatch.setattr(stderr_writer, "_create_view", lambda _file: BrokenView())
    writer = stderr_writer.StderrWriter(live=True)
    writer.write_line("first")
    writer.close()
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("The live view failed (ZeroDivisionError in ")
    assert lines[1] == "first"
