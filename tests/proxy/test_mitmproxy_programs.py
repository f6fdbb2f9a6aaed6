"""The addon in mitmdump and mitmweb, including option errors that mitmproxy itself ignores."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from pathlib import Path

import pytest

from wiretape.observations import Ending, Side
from wiretape.recording import Writer, build_recording, open_recording
from wiretape_proxy.addon_options import OPTIONS, parse_options
from wiretape_proxy.flow_files import READER

# mitmproxy's first import triggers a warning of one of its libraries.
with warnings.catch_warnings(action="ignore"):
    import mitmproxy.io  # noqa: F401

SCRIPT = Path(__file__).parents[2] / "proxy" / "wiretape_proxy" / "mitmproxy_script.py"
BIN = Path(sys.executable).parent
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM = "/v1/sessions/s1/events/stream"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Program:
    """mitmdump or mitmweb with the addon."""

    def __init__(self, start, tmp_path, name, url, *options):
        self.file = tmp_path / "run.db"
        self.port = free_port()
        self.output = tmp_path / "output.txt"
        command = ["-s", SCRIPT, "--mode", f"reverse:{url}", "--listen-host", "127.0.0.1"]
        command += ["--listen-port", str(self.port), "--set", f"confdir={tmp_path / 'conf'}", *options]
        with self.output.open("w") as output:
            # The output must be in the file at once.
            unbuffered = {"PYTHONUNBUFFERED": "1"}
            self.process = start(name, command, cwd=tmp_path, stdout=output, env=unbuffered)

    def connect(self):
        """Connect as soon as it listens."""
        for _ in range(2500):
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except ConnectionRefusedError:
                assert self.process.poll() is None, self.text
                time.sleep(0.02)
        raise TimeoutError(self.text)

    @property
    def text(self):
        return self.output.read_text()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(45)


@pytest.fixture
def program(tmp_path, start, start_forked):
    programs = []

    def start_one(*arguments, imports=False):
        starts = (lambda name, rest, **options: start([BIN / name, *rest], **options)) if imports else start_forked
        programs.append(Program(starts, tmp_path, *arguments))
        return programs[-1]

    yield start_one
    for one in programs:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


def read_until(sock, end):
    data = b""
    while not data.endswith(end):
        data += sock.recv(65536)
    return data


def test_mitmdump_records_and_closes_the_recording_with_a_stream_open(program, service):
    service.on(STREAM, lambda peer: (peer.send(CHUNKED + b"7\r\ndata: 1\r\n"), peer.rest()))
    mitmdump = program("mitmdump", service.url, "--set", "wiretape_output=run.db", imports=True)
    with mitmdump.connect() as client:
        client.sendall(f"GET {STREAM} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        # By default, mitmdump buffers the whole stream.
        read_until(client, b"data: 1\r\n")

        assert mitmdump.stop() == 0

    with open_recording(mitmdump.file) as recording:
        (exchange,) = recording.exchanges()
        assert (exchange.ending, exchange.number) == (Ending.PROXY_STOPPED, 1)
        assert [run.data for run in recording.body(1, Side.RESPONSE)] == [b"data: 1"]
        assert recording.info.upstream == service.url
        assert recording.info.ended_ns is not None
    assert "Traceback" not in mitmdump.text
    assert re.search(r"Recorded 1 exchange, 1 stream, \d events?, \d findings? to run.db", mitmdump.text)


def test_mitmdump_records_responses_of_other_scripts(program, service, tmp_path):
    script = "from mitmproxy import http\ndef request(flow):\n    flow.response = http.Response.make(418, b'tea')\n"
    (tmp_path / "teapot.py").write_text(script)
    options = ["-s", str(tmp_path / "teapot.py"), "--set", "wiretape_output=run.db"]
    mitmdump = program("mitmdump", service.url, *options)
    with mitmdump.connect() as client:
        client.sendall(b"GET /tea HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_until(client, b"tea").startswith(b"HTTP/1.1 418")
    mitmdump.stop()

    with open_recording(mitmdump.file) as recording:
        (exchange,) = recording.exchanges()
        assert (exchange.ending, exchange.response.status) == (Ending.COMPLETE, 418)
        assert [run.data for run in recording.body(1, Side.RESPONSE)] == [b"tea"]


def test_a_flow_file_of_mitmweb_contains_the_streams(program, service, tmp_path):
    """mitmproxy itself keeps nothing of streamed bodies."""
    service.on(STREAM, lambda peer: peer.send(CHUNKED + b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"))
    options = ("--set", "wiretape_output=run.db", "--no-web-open-browser", "--web-port", "0")
    mitmweb = program("mitmweb", service.url, *options, "-w", str(tmp_path / "run.flows"))
    with mitmweb.connect() as client:
        client.sendall(f"GET {STREAM} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        read_until(client, b"0\r\n\r\n")
    mitmweb.stop()

    build_recording(READER.read(tmp_path / "run.flows"), tmp_path / "imported.db")
    with open_recording(mitmweb.file) as recorded, open_recording(tmp_path / "imported.db") as imported:
        before, after = recorded.exchange(1), imported.exchange(1)
        assert (after.request.target, after.ending) == (STREAM, Ending.COMPLETE)
        assert after.response.headers == before.response.headers
        assert [seen.frame.raw for seen in imported.frames(1)] == [b"data: 1\n\n", b"data: 2\n\n"]


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ("wiretape_memory=much", "wiretape_memory: expected a size such as 64M or 1G, got 'much'."),
        ("wiretape_redact_header=a b", "wiretape_redact_header: expected the name of a header such as X-Tenant, "),
        ("wiretape_ouptut=run.db", "Unknown option wiretape_ouptut: choose one of wiretape_output, "),
    ],
)
def test_mitmdump_reports_an_invalid_option_and_exits(program, service, option, part, tmp_path):
    """mitmproxy itself ignores a mistyped option."""
    mitmdump = program("mitmdump", service.url, "--set", option)

    assert mitmdump.process.wait(45) == 1
    assert part in mitmdump.text
    assert "Traceback" not in mitmdump.text
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("append", "maybe", "wiretape_append: expected true or false, got 'maybe'."),
        ("idle_timeout", "soon", "wiretape_idle_timeout: expected a number of seconds, got 'soon'."),
        ("on_overload", "crash", "wiretape_on_overload: expected slow or drop, got 'crash'."),
        ("upstream", "service", "wiretape_upstream: invalid upstream 'service': expected an http or https URL"),
    ],
)
def test_an_invalid_option_is_reported_with_its_name(option, value, message):
    given = {option.name: option.default for option in OPTIONS}
    assert parse_options(given)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        parse_options(given | {option: value})


def test_errors_in_mitmdump_name_its_own_options(program, service, tmp_path):
    Writer.create(tmp_path / "run.db", upstream="http://service.test").close(1)
    mitmdump = program("mitmdump", service.url, "--set", "wiretape_output=run.db")

    assert mitmdump.process.wait(45) == 1
    sentence = "run.db exists: choose another name for wiretape_output, or append to it with wiretape_append."
    assert sentence in mitmdump.text


def test_options_can_be_repeated_without_value_or_in_mitmproxys_configuration(program, service, eventually, tmp_path):
    """mitmproxy itself silently disables the addon."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("wiretape_idle_timeout: 5\nwiretape_identity: true\n")
    options = ["--set", "wiretape_output=none/run.db", "--set", "wiretape_output=run.db", "--set", "wiretape_append"]
    mitmdump = program("mitmdump", service.url, *options)

    eventually(mitmdump.file.exists, "the recording")
    assert mitmdump.stop() == 0


def test_mitmweb_records_and_shows_a_stream_and_its_findings_while_it_is_open(program, service, eventually):
    event = b"id: e1\nevent: message.delta\ndata: 1\n\n"
    sent = CHUNKED + b"%x\r\n%s\r\n" % (len(event) * 2, event * 2)
    service.on(STREAM, lambda peer: (peer.send(sent), peer.rest()))
    web = free_port()
    mitmweb = program(
        "mitmweb",
        service.url,
        *("--set", "wiretape_output=run.db", "--no-web-open-browser"),
        *("--web-port", str(web), "--set", "web_password=open"),
    )

    def get(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}{path}?token=open", timeout=45) as response:
                return response.read()
        except urllib.error.HTTPError as error:  # of a body that does not exist
            error.close()
            return b""

    # An error logged while mitmweb starts ends it, even one caused by a request that is too early.
    eventually(lambda: "Recording to run.db." in mitmweb.text, "the recording to begin")
    with mitmweb.connect() as client:
        client.sendall(f"GET {STREAM} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        read_until(client, event * 2 + b"\r\n")
        (flow,) = json.loads(get("/flows"))
        eventually(lambda: get(f"/flows/{flow['id']}/response/content.data") == event * 2, "the body in mitmweb")

        def comment():
            (flow,) = json.loads(get("/flows"))
            return flow["comment"] and (flow["comment"], flow["marked"])

        assert b"2 events" in get(f"/flows/{flow['id']}/response/content/auto.json")
        text, marker = eventually(comment, "the findings in mitmweb")
        assert "EVT001 ×2" in text.split(", ")  # noqa: RUF001
        assert marker == "🔴"

        assert mitmweb.stop() == 0

    with open_recording(mitmweb.file) as recording:
        assert [exchange.ending for exchange in recording.exchanges()] == [Ending.PROXY_STOPPED]


def test_the_folder_of_the_script_does_not_stay_on_the_search_path():
    """mitmproxy leaves it there, where our modules would shadow others."""
    check = (
        "import sys; from mitmproxy.addons.script import load_script; "
        f"assert load_script({str(SCRIPT)!r}); assert {str(SCRIPT.parent)!r} not in sys.path"
    )
    subprocess.run([sys.executable, "-c", check], check=True, env={"PYTHONPATH": ":".join(sys.path)}, timeout=30)
