"""OpenTelemetry spans: `wiretape export --format otlp` and `wiretape proxy --otlp`, to a receiver that decodes OTLP."""

import gzip
import socket
import sqlite3
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hostile_server import ENDLESS, HEAD, REDIRECT, HostileServer
from invoke import invoke, refusal, succeed
from late_import import LateModule

from wiretape.errors import InputError
from wiretape.recording import open_recording
from wiretape.traffic_builder import TrafficBuilder

otlp = LateModule("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
STREAM = "/v1/sessions/ses_1/events/stream"
TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_700_000_000 * 10**9
PARENT = "b7ad6b7169203331"
BODY = (
    b'event: run.started\nid: e2\ndata: {"id":"e2","sequence":2,"type":"run.started","run_id":"r1"}\n\n'
    b'event: message.delta\ndata: {"type":"message.delta","delta":{"text":"Hi"}}\n\n'
    b'event: run.completed\nid: e1\ndata: {"id":"e1","sequence":1,"type":"run.completed","run_id":"r1"}\n\n'
)


class Receiver(ThreadingHTTPServer):
    """An OTLP/HTTP receiver."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.spans = []
        self.authorization = None
        Thread(target=self.serve_forever, args=[0.01], daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
        assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
        self.server.spans += spans_in(body)
        self.server.authorization = self.headers["Authorization"]
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(otlp.ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *_):
        pass


def spans_in(body: bytes) -> list:
    request = otlp.ExportTraceServiceRequest.FromString(body)
    return [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]


def values(attributes) -> dict[str, str | int]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver
        receiver.shutdown()


@pytest.fixture
def recording(tmp_path):
    """A stream, and a request that failed; its client sent a trace context.  There are no findings yet."""
    path = tmp_path / "run.db"
    succeed("import", Path(__file__).with_name("data") / "spans.tape", "--output", path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM finding")
    return path


def test_exchanges_are_spans_with_http_and_genai_attributes(recording, tmp_path):
    succeed("export", recording, "--format", "otlp", "--output", tmp_path / "spans.otlp")
    stream, failed = spans_in((tmp_path / "spans.otlp").read_bytes())

    assert (stream.name, stream.parent_span_id) == ("GET /v1/sessions/{session_id}/events/stream", b"")
    assert (stream.start_time_unix_nano, stream.end_time_unix_nano) == (START + 10**9, START + 10**9 + 4 * 10**6)
    assert values(stream.attributes) == {
        "http.request.method": "GET",
        "http.request.body.size": 0,
        "http.response.status_code": 200,
        "http.response.body.size": len(BODY),
        "url.full": f"http://service.test:80{STREAM}",
        "url.scheme": "http",
        "url.path": STREAM,
        "url.template": "/v1/sessions/{session_id}/events/stream",
        "server.address": "service.test",
        "network.protocol.version": "1.1",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": "ses_1",
        "wiretape.exchange": 1,
        "wiretape.ending": "service-closed",
        "wiretape.events": 3,
        "wiretape.deltas": 1,
    }
    events = {event.name: values(event.attributes) for event in stream.events}
    assert events["run.started"] == {
        "wiretape.event": 1,
        "wiretape.event.id": "e2",
        "wiretape.sequence": 2,
        "wiretape.run_id": "r1",
    }
    assert list(events) == ["run.started", "run.completed"]

    assert (failed.trace_id.hex(), failed.parent_span_id.hex()) == (TRACE, PARENT)
    assert (failed.status.code, failed.status.message) == (2, "503")
    assert values(failed.attributes)["error.type"] == "503"
    assert values(failed.attributes)["user_agent.original"] == "test \\x1b[2J"


def test_an_authority_that_is_not_valid_has_no_address(tmp_path):
    traffic = TrafficBuilder(authority="[bad")
    traffic.request("GET", "/v1/sessions").respond(200)
    (span,) = spans_in(succeed("export", traffic.write(tmp_path / "run.db"), "--format", "otlp").stdout_bytes)
    assert "server.address" not in values(span.attributes)
    assert values(span.attributes)["url.full"] == "http://[bad/v1/sessions"


def test_the_spans_of_a_file_arrive_at_an_endpoint_whose_password_is_sent_but_not_printed(recording, receiver):
    address = receiver.url.removeprefix("http://")
    done = succeed("export", recording, "--format", "otlp", "--endpoint", f"http://user:secret-1@{address}")
    assert done.stderr == f"Sent 2 spans to http://[redacted]@{address}.\n"
    assert receiver.authorization == "Basic dXNlcjpzZWNyZXQtMQ=="
    assert receiver.spans == spans_in(succeed("export", recording, "--format", "otlp").stdout_bytes)


LATE = "its response takes longer than "


PROBLEMS = {
    "endless body": "its response is larger than 64 KiB",
    "endless head": "check that it is running",
    **dict.fromkeys(("slow body", "slow head", "endless continue", "silence"), LATE),
}


@pytest.mark.parametrize("response", PROBLEMS)
def test_a_response_that_does_not_end_is_bounded(recording, monkeypatch, response):
    monkeypatch.setattr("wiretape_inspect.otlp_export._TIMEOUT_S", 0.3)
    with HostileServer(*ENDLESS[response]) as server:
        error = refusal("export", recording, "--format", "otlp", "--endpoint", f"http://{server.address}")
        assert f"does not accept spans: {PROBLEMS[response]}" in error
        assert server.sent < 32 << 20


@pytest.mark.parametrize(
    ("response", "status", "line"),
    [
        (REDIRECT, 2, "does not accept spans: it responds with status 307."),
        (REDIRECT.replace(b"307", b"200"), 0, "Sent 2 spans to "),
    ],
    ids=["307", "200"],
)
def test_a_redirection_is_an_error_and_is_not_followed(recording, response, status, line):
    with HostileServer(response) as server:
        done = invoke("export", recording, "--format", "otlp", "--endpoint", f"http://{server.address}")
        assert (done.exit_code, line in done.stderr) == (status, True), done.output
        assert len(server.requests) == 1


def test_responses_that_never_end_do_not_accumulate(recording, monkeypatch):
    """While the proxy records, the endpoint gets requests again and again."""
    monkeypatch.setattr("wiretape_inspect.otlp_export._TIMEOUT_S", 0.1)
    with HostileServer(HEAD, b"x", 0.02) as server, open_recording(recording) as opened:
        exporter = LateModule("wiretape_inspect.otlp_export").Exporter(f"http://{server.address}")
        for _ in range(6):
            with pytest.raises(InputError, match=LATE):
                exporter.send(opened, opened.exchanges())
        assert len(server.requests) == 3


def test_without_opentelemetry_the_message_names_what_to_install(recording, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    monkeypatch.delitem(sys.modules, "wiretape_inspect.otlp_export", raising=False)
    monkeypatch.delattr("wiretape_inspect.otlp_export", raising=False)
    for name in [name for name in sys.modules if name.startswith("opentelemetry.exporter.")]:
        monkeypatch.delitem(sys.modules, name)
    assert refusal("export", recording, "--format", "otlp") == (
        "Error: Exporting OTLP needs opentelemetry, which is not installed: "
        "run pip install 'opentelemetry-exporter-otlp-proto-http>=1.40'"
    )


def respond(peer):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    peer.send(head + BODY)


@pytest.mark.timeout(300)
def test_the_proxy_exports_spans_with_findings_while_it_records(start_proxy, service, receiver, eventually):
    path = service.on(STREAM, respond)
    proxy = start_proxy(service.url, "--otlp", receiver.url)
    assert proxy.get(path, "Authorization: Bearer k", "Connection: close").rest().endswith(BODY)
    eventually(lambda: receiver.spans, "a span before the proxy is stopped")

    assert proxy.stop() == 0
    (span,) = receiver.spans
    findings = [values(event.attributes) for event in span.events if event.name == "wiretape.finding"]
    assert ("SEQ001", 3) in {(finding["wiretape.rule.code"], finding.get("wiretape.event")) for finding in findings}
    assert span.status.code == 2


def test_recording_never_waits_for_an_endpoint_that_hangs(start_proxy, service, tmp_path):
    path = service.on(STREAM, respond)
    (tmp_path / "fault").touch()
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        options = {"name": "breakable_proxy", "env": {"FAULT": str(tmp_path / "fault"), "PATIENCE": "1"}}
        proxy = start_proxy(service.url, "--otlp", f"http://127.0.0.1:{hanging.getsockname()[1]}", **options)
        for _ in range(3):
            assert proxy.get(path, "Authorization: Bearer k", "Connection: close").rest().endswith(BODY)
        # The exporter has connected, and waits for a response.
        hanging.settimeout(100)
        with hanging.accept()[0]:
            assert proxy.get(path, "Authorization: Bearer k", "Connection: close").rest().endswith(BODY)
            proxy.ended(path)
            assert proxy.stop() == 0

    assert proxy.has_line("`wiretape export` was killed, because it did not exit within 1 s.")
    assert proxy.has_line("Recorded 4 exchanges")
