"""The addon in mitmdump, mitmweb and the console, including option errors that mitmproxy itself ignores."""

import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from for_each import for_each
from tables import read_tables
from wire_bytes import CHUNKED, END, STREAM, chunk

from wiretape.observations import Ending, Side
from wiretape.recording import Writer, build_recording, open_recording
from wiretape_proxy.flow_files import READER
from wiretape_proxy.proxy_options import OPTIONS, parse_options

TABLES = read_tables(__file__)

SCRIPT = Path(__file__).parents[2] / "proxy" / "wiretape_proxy" / "mitmproxy_script.py"
EVENT = b"id: e1\nevent: message.delta\ndata: 1\n\n"
"""It breaks EVT001."""
OUTPUT = ("--set", "wiretape_output=run.db")
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

def response(flow):
    log(flow, "response")

def error(flow):
    log(flow, "error")
"""


class Program:
    """One of mitmproxy's programs with the addon, on a pseudo-terminal, and another script that notes what it sees."""

    def __init__(self, start, folder, name, *options, has_own_comment=False):
        self.folder = folder
        self.text = ""
        """Its output."""
        (folder / "logger.py").write_text(LOGGER.replace("HAS_OWN_COMMENT", str(has_own_comment)))
        main, side = pty.openpty()
        fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        command = ["-s", SCRIPT, "-s", "logger.py", "--set", f"confdir={folder / 'conf'}", *options]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), side)
        self.process = start(name, command, cwd=folder, env={"TERM": "xterm"}, **streams)
        os.close(side)
        self._reading = threading.Thread(target=self._read, args=(main,))
        self._reading.start()

    def _read(self, terminal):
        while True:
            try:
                self.text += os.read(terminal, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
            except OSError:  # the other side is closed
                os.close(terminal)
                return

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
        status = self.process.wait(45)
        self._reading.join(45)
        return status


@pytest.fixture
def program(tmp_path, start, start_forked):
    programs = []

    def start_one(*arguments, imports=False, **options):
        starts = start_forked
        if imports:
            starts = lambda name, rest, **more: start([Path(sys.executable).parent / name, *rest], **more)  # noqa: E731
        programs.append(Program(starts, tmp_path, *arguments, **options))
        return programs[-1]

    yield start_one
    for one in programs:
        if one.process.poll() is None:
            one.process.kill()
        one.ended()


@pytest.fixture
def proxying(program, eventually):
    """Start a program in front of a service, and wait until it records."""

    def start_one(name, url, *options, **keywords):
        here = ("--mode", f"reverse:{url}", "--listen-host", "127.0.0.1", "--listen-port", "0")
        one = program(name, *here, *OUTPUT, *options, **keywords)
        # An error logged while mitmweb starts ends it, even one caused by a request that is too early.
        eventually(lambda: one.port() and (one.folder / "run.db").exists(), "the program to record")
        return one

    return start_one


def ask(program, path=STREAM, end=EVENT * 2 + b"\r\n"):
    """Send a request and read up to `end`; return the connection, and what was read."""
    client = socket.create_connection(("127.0.0.1", program.port()), timeout=45)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    data = b""
    while not data.endswith(end):
        part = client.recv(65536)
        assert part, f"the proxy closed the connection after {data!r}"
        data += part
    return client, data


@pytest.fixture
def stream(service):
    """Serve a stream that breaks a rule twice and stays open."""
    service.on(STREAM, lambda peer: (peer.send(CHUNKED + chunk(EVENT * 2)), peer.rest()))
    return service.url


def test_mitmdump_records_a_stream_that_is_open_when_it_ends_without_changing_flows(proxying, stream, tmp_path):
    mitmdump = proxying("mitmdump", stream, has_own_comment=True, imports=True)
    # By default, mitmdump buffers the whole stream.
    with ask(mitmdump)[0]:
        assert mitmdump.stop() == 0

    with open_recording(tmp_path / "run.db") as recording:
        (exchange,) = recording.exchanges()
        assert (exchange.ending, exchange.number) == (Ending.PROXY_STOPPED, 1)
        assert [run.data for run in recording.body(1, Side.RESPONSE)] == [EVENT * 2]
        assert (recording.info.upstream, recording.info.ended_ns is not None) == (stream, True)
        assert [found.code for found in recording.findings()].count("EVT001") == 2
    assert "Traceback" not in mitmdump.text
    assert re.search(r"Recorded 1 exchange, 1 stream, \d events?, \d findings? to run.db", mitmdump.text)
    assert {tuple(line[2:]) for line in mitmdump.logged} == {(":default:", "mine")}


def test_mitmdump_records_responses_of_other_scripts(proxying, service, tmp_path):
    script = "from mitmproxy import http\ndef request(flow):\n    flow.response = http.Response.make(418, b'tea')\n"
    (tmp_path / "teapot.py").write_text(script)
    mitmdump = proxying("mitmdump", service.url, "-s", str(tmp_path / "teapot.py"))
    client, data = ask(mitmdump, "/tea", b"tea")
    client.close()
    assert data.startswith(b"HTTP/1.1 418")
    mitmdump.stop()

    with open_recording(tmp_path / "run.db") as recording:
        (exchange,) = recording.exchanges()
        assert (exchange.ending, exchange.response.status) == (Ending.COMPLETE, 418)
        assert [run.data for run in recording.body(1, Side.RESPONSE)] == [b"tea"]


def test_a_flow_file_of_mitmweb_contains_the_streams(proxying, service, tmp_path):
    """mitmproxy itself keeps nothing of streamed bodies."""
    service.on(STREAM, lambda peer: peer.send(CHUNKED + chunk(b"data: 1\n\n") + chunk(b"data: 2\n\n") + END))
    flows = tmp_path / "run.flows"
    mitmweb = proxying("mitmweb", service.url, "--no-web-open-browser", "--web-port", "0", "-w", str(flows))
    ask(mitmweb, end=END)[0].close()
    mitmweb.stop()

    build_recording(READER.read(flows), tmp_path / "imported.db")
    with open_recording(tmp_path / "run.db") as recorded, open_recording(tmp_path / "imported.db") as imported:
        before, after = recorded.exchange(1), imported.exchange(1)
        assert (after.request.target, after.ending) == (STREAM, Ending.COMPLETE)
        assert after.response.headers == before.response.headers
        assert [seen.frame.raw for seen in imported.frames(1)] == [b"data: 1\n\n", b"data: 2\n\n"]


@pytest.mark.parametrize(("option", "part"), TABLES["invalid-in-mitmdump"])
def test_mitmdump_reports_an_invalid_option_and_exits(program, service, option, part, tmp_path):
    """mitmproxy itself ignores a mistyped option."""
    Writer.create(tmp_path / "old", upstream="http://service.test").close(1)
    mitmdump = program("mitmdump", "--mode", f"reverse:{service.url}", "--listen-port", "0", "--set", option)

    assert mitmdump.ended() == 1
    assert part in mitmdump.text
    assert "Traceback" not in mitmdump.text
    assert not list(tmp_path.glob("*.db"))


@for_each(("option", "value", "message"), TABLES["invalid"])
def test_an_invalid_option_is_reported_with_its_name(option, value, message):
    given = {option.name: option.default for option in OPTIONS}
    assert parse_options(given)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        parse_options(given | {option: value})


def test_options_can_be_repeated_without_value_or_in_mitmproxys_configuration(proxying, service, tmp_path):
    """mitmproxy itself silently disables the addon."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("wiretape_idle_timeout: 5\nwiretape_identity: true\n")
    options = ["--set", "wiretape_output=none/run.db", *OUTPUT, "--set", "wiretape_append"]
    assert proxying("mitmdump", service.url, *options).stop() == 0


def test_mitmweb_records_and_shows_a_stream_and_its_findings_while_it_is_open(proxying, stream, eventually, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        web = probe.getsockname()[1]
    options = ("--no-web-open-browser", "--web-port", str(web), "--set", "web_password=open")
    mitmweb = proxying("mitmweb", stream, *options)

    def get(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}{path}?token=open", timeout=45) as response:
                return response.read()
        except urllib.error.HTTPError as error:  # of a body that does not exist
            error.close()
            return b""

    with ask(mitmweb)[0]:
        (flow,) = json.loads(get("/flows"))
        eventually(lambda: get(f"/flows/{flow['id']}/response/content.data") == EVENT * 2, "the body in mitmweb")

        def comment():
            (flow,) = json.loads(get("/flows"))
            return flow["comment"] and (flow["comment"], flow["marked"])

        assert b"2 events" in get(f"/flows/{flow['id']}/response/content/auto.json")
        text, marker = eventually(comment, "the findings in mitmweb")
        assert "EVT001 ×2" in text.split(", ")  # noqa: RUF001
        assert marker == "🔴"
        assert mitmweb.stop() == 0

    with open_recording(tmp_path / "run.db") as recording:
        assert [exchange.ending for exchange in recording.exchanges()] == [Ending.PROXY_STOPPED]


def test_the_console_marks_and_comments_a_flow_and_saves_both(program, proxying, stream, eventually, tmp_path):
    console = proxying("mitmproxy", stream, "-w", "flows")
    with ask(console)[0]:
        marked = eventually(lambda: [line for line in console.logged if line[3]], "a comment")[0]
        assert marked[:3] == ["update", STREAM, ":red_circle:"]
        assert "EVT001 ×2" in marked[3].split(", ")  # noqa: RUF001
        assert console.stop() == 0

    (tmp_path / "logged.txt").unlink()
    again = program("mitmdump", "-n", "-r", "flows", "--set", "wiretape_output=again.db")
    assert again.ended() == 0
    assert {tuple(line[2:]) for line in again.logged} == {(":red_circle:", marked[3])}


def test_markers_and_comments_of_the_user_are_kept(proxying, stream, eventually):
    console = proxying("mitmproxy", stream, has_own_comment=True)
    with ask(console)[0]:
        eventually(lambda: [line for line in console.logged if line[0] == "update"], "an update")
        assert console.stop() == 0
    assert {tuple(line[2:]) for line in console.logged} == {(":default:", "mine")}


def test_the_folder_of_the_script_does_not_stay_on_the_search_path():
    """mitmproxy leaves it there, where our modules would shadow others."""
    check = (
        "import sys; from mitmproxy.addons.script import load_script; "
        f"assert load_script({str(SCRIPT)!r}); assert {str(SCRIPT.parent)!r} not in sys.path"
    )
    subprocess.run([sys.executable, "-c", check], check=True, env={"PYTHONPATH": ":".join(sys.path)}, timeout=30)
