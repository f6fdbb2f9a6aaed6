"""The addon under mitmproxy's own programs, which fail silently where they can."""

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
from wiretape_proxy.flows import READER
from wiretape_proxy.settings import OPTIONS, read

# It makes its filters when it is first imported, in a way of which a library that it uses warns.
with warnings.catch_warnings(action="ignore"):
    import mitmproxy.io  # noqa: F401

SCRIPT = Path(__file__).parents[2] / "proxy" / "wiretape_proxy" / "script.py"
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
        command = [BIN / name, "-s", SCRIPT, "--mode", f"reverse:{url}", "--listen-host", "127.0.0.1"]
        command += ["--listen-port", str(self.port), "--set", f"confdir={tmp_path / 'conf'}", *options]
        with self.output.open("w") as output:
            # What it says is to be in the file at once, not when a buffer is full.
            unbuffered = {"PYTHONUNBUFFERED": "1"}
            self.process = start([str(part) for part in command], cwd=tmp_path, stdout=output, env=unbuffered)

    def connect(self):
        """A connection, as soon as there can be one."""
        for _ in range(2500):
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except ConnectionRefusedError:
                assert self.process.poll() is None, self.said
                time.sleep(0.02)
        raise TimeoutError(self.said)

    @property
    def said(self):
        return self.output.read_text()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(45)


@pytest.fixture
def program(tmp_path, start):
    programs = []

    def start_one(*arguments):
        programs.append(Program(start, tmp_path, *arguments))
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
    mitmdump = program("mitmdump", service.url, "--set", "wiretape_output=run.db")
    with mitmdump.connect() as client:
        client.sendall(f"GET {STREAM} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        # Stock mitmdump would keep all of it to itself until the end of the stream.
        read_until(client, b"data: 1\r\n")

        assert mitmdump.stop() == 0

    with open_recording(mitmdump.file) as recording:
        (exchange,) = recording.exchanges()
        assert (exchange.ending, exchange.number) == (Ending.PROXY_STOPPED, 1)
        assert [run.data for run in recording.body(1, Side.RESPONSE)] == [b"data: 1"]
        assert recording.info.upstream == service.url
        assert recording.info.ended_ns is not None
    assert "Traceback" not in mitmdump.said
    assert re.search(r"Recorded 1 exchange, 1 stream, \d events?, \d findings? to run.db", mitmdump.said)


def test_mitmdump_keeps_what_other_scripts_answer(program, service, tmp_path):
    answer = "from mitmproxy import http\ndef request(flow):\n    flow.response = http.Response.make(418, b'tea')\n"
    (tmp_path / "answer.py").write_text(answer)
    options = ["-s", str(tmp_path / "answer.py"), "--set", "wiretape_output=run.db"]
    mitmdump = program("mitmdump", service.url, *options)
    with mitmdump.connect() as client:
        client.sendall(b"GET /tea HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_until(client, b"tea").startswith(b"HTTP/1.1 418")
    mitmdump.stop()

    with open_recording(mitmdump.file) as recording:
        (exchange,) = recording.exchanges()
        assert (exchange.ending, exchange.response.status) == (Ending.COMPLETE, 418)
        assert [run.data for run in recording.body(1, Side.RESPONSE)] == [b"tea"]


def test_a_flow_file_of_mitmweb_holds_the_streams_that_it_shows(program, service, tmp_path):
    """Streams pass, so that mitmproxy keeps nothing of them by itself."""
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
        ("wiretape_memory=much", "wiretape_memory: 'much' is no size such as 64M or 1G."),
        ("wiretape_ouptut=run.db", "There is no option wiretape_ouptut; those of wiretape are wiretape_output, "),
        ("wiretape_config=none.toml", "There is no file none.toml."),
        ("wiretape_output=none/run.db", "none/run.db cannot be written: there is no folder none."),
    ],
)
def test_mitmdump_says_in_one_sentence_which_option_makes_no_sense_and_ends(program, service, option, part, tmp_path):
    """Of a mistyped option, mitmproxy itself says nothing."""
    mitmdump = program("mitmdump", service.url, "--set", option)

    assert mitmdump.process.wait(45) == 1
    assert part in mitmdump.said
    assert "Traceback" not in mitmdump.said
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("append", "maybe", "wiretape_append: 'maybe' is neither true nor false."),
        ("idle_timeout", "soon", "wiretape_idle_timeout: 'soon' is no number of seconds."),
        ("on_overload", "crash", "wiretape_on_overload: 'crash' is neither slow nor drop."),
        ("upstream", "service", "wiretape_upstream: 'service' names no service"),
    ],
)
def test_each_option_says_in_one_sentence_what_makes_no_sense(option, value, said):
    given = {option.name: option.default for option in OPTIONS}
    assert read(given)
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        read(given | {option: value})


def test_mitmdump_speaks_of_its_own_options(program, service, tmp_path):
    Writer.create(tmp_path / "run.db", upstream="http://service.test").close(1)
    mitmdump = program("mitmdump", service.url, "--set", "wiretape_output=run.db")

    assert mitmdump.process.wait(45) == 1
    sentence = "run.db exists: give wiretape_output another name, or append to it with wiretape_append."
    assert sentence in mitmdump.said


def test_options_may_be_given_twice_alone_or_in_mitmproxys_own_file(program, service, eventually, tmp_path):
    """mitmproxy would drop the addon, and say nothing."""
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

    def ask(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}{path}?token=open", timeout=45) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:  # what mitmweb says of a body that is not there
            error.close()
            return b""

    # An error that is logged while mitmweb starts ends it, be it only that a page was asked for too early.
    eventually(lambda: "Recording to run.db." in mitmweb.said, "the recording to begin")
    with mitmweb.connect() as client:
        client.sendall(f"GET {STREAM} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        read_until(client, event * 2 + b"\r\n")
        (flow,) = json.loads(ask("/flows"))
        eventually(lambda: ask(f"/flows/{flow['id']}/response/content.data") == event * 2, "the body in mitmweb")

        def comment():
            (flow,) = json.loads(ask("/flows"))
            return flow["comment"] and (flow["comment"], flow["marked"])

        said, marker = eventually(comment, "the findings in mitmweb")
        assert "EVT001 ×2" in said.split(", ")  # noqa: RUF001
        assert marker == "🔴"

        assert mitmweb.stop() == 0

    with open_recording(mitmweb.file) as recording:
        assert [exchange.ending for exchange in recording.exchanges()] == [Ending.PROXY_STOPPED]


def test_the_folder_of_the_script_does_not_stay_on_the_search_path():
    """mitmproxy leaves it there, in front, where our `wire` or `cli` would hide those of others."""
    check = (
        "import sys; from mitmproxy.addons.script import load_script; "
        f"assert load_script({str(SCRIPT)!r}); assert {str(SCRIPT.parent)!r} not in sys.path"
    )
    subprocess.run([sys.executable, "-c", check], check=True, env={"PYTHONPATH": ":".join(sys.path)}, timeout=30)
