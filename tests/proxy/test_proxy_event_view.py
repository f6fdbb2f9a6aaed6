"""What mitmweb shows of event streams, over its own HTTP interface, while they are open and afterwards."""

import asyncio
import json
import re
import signal
import socket
import sys
import threading
import urllib.request
import zlib
from pathlib import Path

import aiohttp
import brotli
import pytest

SCRIPT = Path(__file__).parents[2] / "proxy" / "wiretape_proxy" / "script.py"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
PATIENCE_S = 45
ESCAPE = chr(0x1B)
TURN = chr(0x202E)


def event(number, text="word"):
    said = {"type": "message.delta", "sequence": number, "content": {"text": text}}
    return f"id: e{number}\nevent: message.delta\ndata: {json.dumps(said, ensure_ascii=False)}\n\n".encode()


def chunked(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def gzipped(*parts):
    packer = zlib.compressobj(wbits=31)
    return [packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in parts]


def brotlied(*parts):
    packer = brotli.Compressor()
    return [packer.process(part) + packer.flush() for part in parts]


def rest(peer):
    peer.rest()


def reset(peer):
    peer.reset()


HOSTILE = f"<script>{ESCAPE}[31m{TURN}"
ODD = [
    f"id: {HOSTILE}\nevent: {HOSTILE}\ndata: {HOSTILE}\n\n".encode(),
    b"data: \xff\xfe\n\n",
    b"data: " + b"x" * 60_000 + b"\n\n",
    b'id: 4\ndata: {"type": "a\\nb", "sequence": ' + b"9" * 4000 + b"}\n\n",
    b"event: dataless\n\n",
    f": {HOSTILE}\n\n".encode(),
]
LONG = b"".join(event(number, "x" * 4000) for number in range(1, 601))
STREAMS = {
    "/long": ("", [LONG[at : at + 60_000] for at in range(0, len(LONG), 60_000)], rest),
    "/gzip": ("gzip", gzipped(event(1), event(2), b"data: cut"), rest),
    "/br": ("br", brotlied(event(1), event(2), b"data: cut"), rest),
    "/bomb": ("gzip", gzipped(b"data: " + b"x" * 5 * 10**6 + b"\n\n"), rest),
    "/no-gzip": ("gzip", [b"no gzip"], rest),
    "/unknown": ("morse", [b"... --- ..."], rest),
    "/reset": ("", [event(1)], reset),
    "/hostile": ("", ODD, rest),
}


class Mitmweb:
    """mitmweb with the addon, and one who looks."""

    def __init__(self, start, folder, service):
        self.service = service
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            self.port, self.web = one.getsockname()[1], other.getsockname()[1]
        self._output = folder / "output.txt"
        command = [Path(sys.executable).parent / "mitmweb", "-s", SCRIPT, "--mode", f"reverse:{service.url}"]
        command += ["--listen-host", "127.0.0.1", "--listen-port", str(self.port), "--web-port", str(self.web)]
        command += ["--no-web-open-browser", "--set", "web_password=open", "--set", f"confdir={folder / 'conf'}"]
        command += ["--set", "wiretape_output=run.db"]
        with self._output.open("w") as output:
            env = {"PYTHONUNBUFFERED": "1"}
            self.process = start([str(part) for part in command], cwd=folder, stdout=output, env=env)

    @property
    def said(self):
        return self._output.read_text()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()

    def open(self, path):
        """Ask for a stream, read on in the background whatever comes; returns the connection."""
        client = socket.create_connection(("127.0.0.1", self.port))
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        threading.Thread(target=_read_on, args=(client.dup(),), daemon=True).start()
        return client

    def ask(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web}{path}?token=open", timeout=PATIENCE_S) as answer:
            return answer.read()

    def flow(self, path):
        """The flow of a request, once its response has a body."""
        flows = [flow for flow in json.loads(self.ask("/flows")) if flow["request"]["path"] == path]
        return next((flow for flow in flows if flow.get("response", {}).get("contentLength")), None)

    def view(self, path, view="auto"):
        """What stands in the view of a response, a line each."""
        flow = self.flow(path)
        return _lines(self.ask(f"/flows/{flow['id']}/response/content/{view}.json")) if flow else []

    async def watch(self, path, steps):
        """Look as its page does, at once and whenever the body is another one; for each part seen do its step."""
        seen, lines, steps = None, [], dict(steps)
        page = f"http://127.0.0.1:{self.web}/updates?token=open"
        async with aiohttp.ClientSession() as session, session.ws_connect(page) as updates:
            with self.open(path):
                while steps:
                    body = await _next_body(updates, path)
                    if body in {seen, None}:
                        continue
                    seen, lines = body, await asyncio.to_thread(self.view, path)
                    part, step = next(iter(steps.items()))
                    if any(part in line for line in lines):
                        del steps[part]
                        step()
        return lines


async def _next_body(updates, path):
    """The hash of a response's body, the next time that the page is told of its flow."""
    while True:
        told = json.loads(await updates.receive_str(timeout=PATIENCE_S))
        flow = told.get("payload", told.get("data"))
        flow = flow.get("flow", flow) if isinstance(flow, dict) else {}
        if flow.get("request", {}).get("path") == path and flow.get("response"):
            return flow["response"]["contentHash"]


def _lines(answer):
    """mitmproxy 11 gives lines of styled pieces, 12 the text."""
    said = json.loads(answer)
    if "text" in said:
        return said["text"].split("\n")
    return ["".join(text for _, text in line) for line in said["lines"]]


def _read_on(client):
    with client:
        try:
            while client.recv(65536):
                pass
        except OSError:
            return


@pytest.fixture(scope="module")
def mitmweb(start, service, eventually, tmp_path_factory):
    web = Mitmweb(start, tmp_path_factory.mktemp("mitmweb"), service)
    try:
        eventually(lambda: "Recording to run.db." in web.said, "the recording to begin")
        yield web
        assert "Traceback" not in web.said
    finally:
        web.stop()


@pytest.fixture(scope="module")
def streams(mitmweb, service):
    """All streams that stay as they are once they have brought their chunks, opened at once."""
    clients = []
    for path, (encoding, chunks, then) in STREAMS.items():
        headers = f"Content-Encoding: {encoding}\r\n".encode() if encoding else b""
        sent = HEAD + headers + b"\r\n" + b"".join(map(chunked, chunks))
        service.on(path, lambda peer, sent=sent, then=then: (peer.send(sent), then(peer)))
        clients.append(mitmweb.open(path))
    yield mitmweb
    for client in clients:
        client.close()


@pytest.fixture
def shown(streams, eventually):
    """The view of one of the streams, once there is this in it."""

    def look(path, part):
        def lines():
            found = streams.view(path)
            return found if any(part in line for line in found) else None

        return eventually(lines, f"{part!r} in the view of {path}")

    return look


def test_a_page_that_looks_when_the_body_changes_sees_events_findings_and_ends_of_open_streams(streams, service):
    """Also what changes no byte of the body: an end, and what is found then."""
    more, end = threading.Event(), threading.Event()

    def behave(peer):
        peer.send(HEAD + b"\r\n" + chunked(event(1) + event(2)))
        more.wait(PATIENCE_S)
        peer.send(chunked(b": keep-alive\n\n: keep-alive\n\n" + event(3) + b"data: cut") + b"0\r\n\r\n")

    def end_well(peer):
        peer.send(HEAD + b"\r\n" + chunked(event(1)))
        end.wait(PATIENCE_S)
        peer.send(b"0\r\n\r\n")

    async def watch():
        one = streams.watch(service.on("/v1/sessions/one/events/stream", behave), steps)
        return await asyncio.gather(
            one, streams.watch(service.on("/v1/sessions/other/events/stream", end_well), other_steps)
        )

    steps = {"  e2  ": more.set, "SSE002": lambda: None}
    other_steps = {"DUR004": end.set, "service closed": lambda: None}
    lines, _ = asyncio.run(watch())

    number = re.search(r"exchange (\d+): service closed in mid-event, 3 events, \d+ bytes", lines[0])[1]
    assert int(number) > 0
    rows = [line for line in lines if re.match(" +([0-9]+|cut|╌)", line)]
    assert [re.sub(r"\+\d+\.\d{3}s", "+", row).split("{")[0].split() for row in rows] == [
        ["1", "1", "+", "message.delta", "e1"],
        ["2", "2", "+", "message.delta", "e2"],
        ["╌╌", "2", "comments", "╌╌", ":", "keep-alive"],
        ["3", "3", "+", "message.delta", "e3"],
        ["cut", "9", "bytes", "of", "an", "unfinished", "event"],
    ]
    third = lines.index(rows[3])
    assert '"content": {"text": "word"}' in lines[third]
    assert lines[third + 1].split()[:3] == ["└", "DUR004", "error"]


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_an_encoded_stream_is_read_while_it_is_open(shown, encoding):
    """mitmproxy itself decodes a body whole or not at all."""
    lines = shown(f"/{encoding}", "9 bytes")

    assert re.fullmatch(r"exchange \d+: still open, 2 events, \d+ bytes", lines[0])
    assert any(line.startswith("      1       1 ") for line in lines)
    assert "      …  9 bytes of an unfinished event" in lines


@pytest.mark.parametrize("path", ["/bomb", "/no-gzip", "/unknown"])
def test_what_decodes_to_too_much_or_to_nothing_is_said_and_not_read(shown, path):
    assert shown(path, "Not read on: ")[-1].startswith("Not read on: ")


def test_a_stream_that_the_service_resets_is_shown_with_its_end(shown):
    assert re.match(r"exchange \d+: service reset, 1 event,", shown("/reset", "service reset")[0])


def test_what_could_harm_who_looks_is_escaped_and_cut(shown):
    lines = shown("/hostile", "╌╌")

    safe = r"<script>\x1b[31m\u202e"
    assert any(line.count(safe) == 3 for line in lines)
    assert any(line.endswith("╌╌ 1 comment ╌╌  : " + safe) for line in lines)
    assert any("no client is handed it" in line for line in lines)
    assert not set("".join(lines)) & {ESCAPE, TURN, "\r", "\t"}
    assert max(map(len, lines)) < 500
    assert len([line for line in lines if re.match(" +[0-9]+ ", line)]) == 5


def test_of_a_long_stream_the_last_events_are_shown_with_their_numbers(shown, streams):
    lines = shown("/long", "  600     600 ")

    assert f"still open, 600 events, {len(LONG):,} bytes" in lines[0]
    assert any(re.search(r"last events .* wiretape show run\.db --exchange \d+", line) for line in lines)
    rows = [line.split() for line in lines if re.match(" +[0-9?]+ ", line)]
    assert 20 < len(rows) <= 200
    assert [row[0] for row in rows] == [row[1] for row in rows] == [str(601 - i) for i in range(len(rows), 0, -1)]
    assert streams.flow("/long")["response"]["contentLength"] == 1 << 20
