"""Recordings at URLs: servers that do not end their responses, limits, and credentials in the URLs."""

import gzip
import socket
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from for_each import for_each
from hostile_server import ENDLESS, HostileServer
from invoke import invoke, refusal

from wiretape.recording import Writer, redact_urls
from wiretape.rules.vectors import vectors
from wiretape_inspect.report import remote_files

SECRETS = ("secret-1", "secret-2", "secret-3", "secret-4")
FORMATS = ("text", "concise", "json", "ndjson", "junit", "github", "gitlab", "sarif", "markdown", "html")


@pytest.fixture
def server(tmp_path):
    """A server of the files in a folder that also remembers the requests."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=tmp_path)

        def log_message(self, *_):
            requests.append((self.path, self.headers["Authorization"]))

    requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests = requests
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def recording(tmp_path, together):
    path = tmp_path / "run.db"
    writer = Writer.create(path, upstream="http://service.test")
    writer.feed(together([vector for vector in vectors() if vector.code == "SEQ001"]))
    writer.close(2**61)
    return path


def report(*arguments):
    return invoke("report", *arguments, "--no-config")


def url_of(server, name):
    query = "token=secret-2&X-Amz-Signature=secret-3&part=1"
    return f"http://user:secret-1@127.0.0.1:{server.server_port}/{name}?{query}#key=secret-4"


def test_a_report_of_a_url_contains_none_of_its_credentials(server, recording, tmp_path):
    url = url_of(server, "run.db")
    outputs = [tmp_path / f"report.{name}" for name in FORMATS]
    options = [
        each for name, output in zip(FORMATS, outputs, strict=True) for each in ("--format", name, "--output", output)
    ]
    done = report(url, *options, "--select", "SEQ")
    assert done.exit_code == 1, done.output
    assert server.requests[0][0] == "/run.db?token=secret-2&X-Amz-Signature=secret-3&part=1"
    assert server.requests[0][1].startswith("Basic ")
    written = {output.name: output.read_text() for output in outputs} | {"output": done.output}
    written["summary"] = report(url, "--summary", "--jobs", "1").output
    for name, text in written.items():
        assert [secret for secret in SECRETS if secret in text] == [], name
    assert f"http://[redacted]@127.0.0.1:{server.server_port}/run.db?token=[redacted]" in written["report.text"]


@pytest.mark.parametrize("arguments", [(), ("--summary", "--jobs", "1")])
def test_an_error_about_a_url_contains_none_of_its_credentials(server, arguments):
    done = report(url_of(server, "none.db"), *arguments)
    assert done.exit_code == 2
    assert "none.db?token=[redacted]&X-Amz-Signature=[redacted]&part=1" in done.output
    assert [secret for secret in SECRETS if secret in done.output] == []


SLOW = "cannot be read: this takes longer than 300 ms."
PROBLEMS = {
    "endless body": "is larger than 1.0 MB: set WIRETAPE_URL_LIMIT to a larger size, for example 20G.",
    **dict.fromkeys(("slow body", "slow head", "endless continue"), SLOW),
    **dict.fromkeys(("endless head", "endless redirects"), "cannot be read: "),
}


@pytest.mark.parametrize("response", PROBLEMS)
def test_a_response_that_does_not_end_is_bounded(monkeypatch, response):
    monkeypatch.setattr(remote_files, "_SECONDS", 0.3)
    monkeypatch.setenv("WIRETAPE_URL_LIMIT", "1M")
    with HostileServer(*ENDLESS[response]) as server:
        url = f"http://{server.address}/run.db"
        assert f"Error: {url} {PROBLEMS[response]}" in refusal("report", url, "--no-config")
        assert server.sent < 16 << 20
        assert len(server.requests) < 20


def test_an_address_without_a_server_is_reported_in_the_words_of_the_operating_system():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/run.db"
    assert refusal("report", url) == f"Error: {url} cannot be read: Connection refused."


def test_a_compressed_response_counts_with_its_decompressed_size(monkeypatch):
    monkeypatch.setenv("WIRETAPE_URL_LIMIT", "1M")
    bomb = gzip.compress(bytes(32 << 20))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    with HostileServer(head + bomb) as server:
        assert "is larger than 1.0 MB" in refusal("report", f"http://{server.address}/run.db")


def test_a_larger_limit_also_gives_more_time(monkeypatch, server, recording):
    waited = []
    monkeypatch.setattr(remote_files, "call_within", lambda seconds, function: (waited.append(seconds), function())[1])
    url = f"http://127.0.0.1:{server.server_port}/run.db"
    assert report(url).exit_code == 1
    monkeypatch.setenv("WIRETAPE_URL_LIMIT", "20G")
    assert report(url).exit_code == 1
    assert waited == [300, 3000]
    monkeypatch.setenv("WIRETAPE_URL_LIMIT", "much")
    error = "Error: Invalid WIRETAPE_URL_LIMIT: expected a size such as 64M or 1G, got 'much'."
    assert refusal("report", url) == error


def test_a_file_system_without_its_server_is_one_sentence(monkeypatch):
    """That of GitHub uses the network when it is created."""

    def fail(*_, **__):
        raise OSError("no network for https://u:secret-1@host.test/?token=secret-2")

    monkeypatch.setattr("requests.get", fail)
    error = refusal("report", "github://a:b@/x")
    assert "no network for https://[redacted]@host.test/?token=[redacted]" in error
    assert "bug" not in error


@for_each("password", ["pa/ss", "a?b", "a#b", "12a/b@c", "/"])
def test_a_password_with_characters_that_must_be_encoded_is_redacted(password):
    """Which end the authority of a URL."""
    assert redact_urls(f"'http://user:{password}@host:80/a@b'") == "'http://[redacted]@b'"
    assert redact_urls(f"http://user:{password}@host/v1") == "http://[redacted]@host/v1"
    assert redact_urls("http://host:80/a@b http://[::1]:80/a@b") == "http://host:80/a@b http://[::1]:80/a@b"


def test_only_credentials_are_redacted_in_a_text():
    assert redact_urls("a 'http://h/p?x=1&sig=abc' b s3://id:key@bucket/run.db?version=2") == (
        "a 'http://h/p?x=1&sig=[redacted]' b s3://[redacted]@bucket/run.db?version=2"
    )
