"""Services that misbehave get a verdict in every case, within the timeout."""

import asyncio
import gzip
import json
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hostile_server import HEAD, HostileServer

from wiretape.errors import InputError
from wiretape.listening import stop_listening
from wiretape.rules import Severity
from wiretape_inspect.probe import probe_client
from wiretape_inspect.report import ReportOptions, baseline
from wiretape_inspect.report.case_results import CaseVerdict
from wiretape_inspect.report.ci_formats import gitlab_lines, junit_lines

CASES = ("sessions", "errors/unknown-path", "errors/malformed-json")
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<h1>Hi.</h1>\n"


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
SERVERS = {
    "hang": (b"", b"x", 3600),
    "flood": (STREAM, b"data: {}\n\n" * 10_000),
    "endless head": (HEAD, b"X-More: x\r\n" * 1000),
    "endless continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "slow head": (HEAD, b"x", 0.02),
    "html": (HTML,),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere.test/\r\nContent-Length: 0\r\n\r\n",),
    "not HTTP": (b"220 mail.test ESMTP\r\n",),
}
"""What a server sends first, what it sends again and again, and the pause (s)."""


async def html(reader, writer):
    await reader.read(1000)
    writer.write(HTML)


async def reset(_reader, writer):
    writer.transport.abort()


@asynccontextmanager
async def serving(handle, **options):
    tasks = set()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        try:
            await handle(reader, writer)
            writer.close()
        except (ConnectionError, asyncio.CancelledError):
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, **options)
    try:
        yield server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await stop_listening(server)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


NO_ID = "Expected the id of the session at /id (create-session.id in probe.toml) in the response to POST /v1/sessions, "
NOTHING = (
    "Expected a response to POST /v1/sessions within 1 s, got nothing: if the service needs longer, increase --timeout."
)
NO_RESPONSE = "Expected a new session for POST /v1/sessions, got no response"
EXPECTED = {
    "hang": NOTHING,
    "endless continue": NOTHING,
    "slow head": NOTHING,
    "flood": NO_ID,
    "endless head": f"{NO_RESPONSE} (not HTTP: Receive buffer too long",
    "html": NO_ID,
    "redirect": "Expected a new session for POST /v1/sessions, got 302 to https://elsewhere.test/.",
    "not HTTP": f"{NO_RESPONSE} (not HTTP: ",
}


@pytest.mark.parametrize("name", EXPECTED)
async def test_every_case_has_a_verdict(name, probe, monkeypatch):
    monkeypatch.setattr(probe_client, "MOST_EVENTS", 1000)
    cases = CASES[1:2] if name == "flood" else CASES
    timeout_s = 1 if EXPECTED[name] is NOTHING else 20
    with HostileServer(*SERVERS[name]) as server:
        async with probe(f"http://{server.address}", only=cases, timeout_s=timeout_s, shrink=False) as probed:
            results = probed.cases
            assert results["setup/completed-run"].reason.startswith(EXPECTED[name])
            assert len(results) == (2 if name == "flood" else 5)
            assert all(result.reason or result.findings for result in results.values())
            assert probed.report.cases.fails(Severity.ERROR)


async def test_a_connection_that_is_reset_gets_a_verdict(probe):
    async with serving(reset) as (_, url), probe(url, only=CASES, shrink=False) as probed:
        reason = probed.cases["setup/completed-run"].reason
        assert reason == f"{NO_RESPONSE} (the service reset the connection)."


@pytest.mark.parametrize(
    ("kind", "content"), [("application/json", b"[" * (8 << 20)), ("text/event-stream", b"data:{}\n\n" * 900_000)]
)
def test_a_compressed_response_is_decoded_up_to_the_limits(monkeypatch, kind, content):
    """One read can decode to 8 MiB."""
    log = probe_client.ObservationLog(probe_client.ProbeClock())
    monkeypatch.setattr(probe_client, "MOST_BYTES", 1 << 20)
    exchange = probe_client.HttpExchange(
        log, 1, "GET", "/", status=200, headers=(("Content-Type", kind), ("Content-Encoding", "gzip"))
    )
    exchange.add_body(gzip.compress(content))
    assert exchange.excess
    assert len(exchange.body) <= (1 << 20) + 65536
    assert len(exchange.events) <= 20_000 + 65536


async def test_what_is_in_the_baseline_does_not_fail(probe):
    """Neither findings nor cases that no rule explains."""
    async with serving(html) as (_, url):
        async with probe(url, only=("errors/unknown-path",), shrink=False) as probed:
            report = probed.report
            assert report.fails(ReportOptions())
            known = baseline.build([report], [])
            names = {"setup/completed-run", "errors/unknown-path"}
            assert {entry.code for entry in known} == names | set(report.broken)
            issues = json.loads("\n".join(gitlab_lines([report], ReportOptions())))
            assert names <= {issue["check_name"] for issue in issues}
        async with probe(url, only=("errors/unknown-path",), known=known) as probed:
            assert not probed.report.fails(ReportOptions())
            assert list(probed.report.cases.reproductions) == []
            assert all(problem.endswith(" (in the baseline)") for problem in probed.reasons("broken").values())
            text = "\n".join(junit_lines([probed.report], ReportOptions()))
            assert (text.count("<skipped"), text.count("<failure")) == (2, 0)


async def test_a_service_that_dies_ends_all_cases(probe):
    served = 0

    async def die(reader, writer):
        nonlocal served
        served += 1
        if served > 3:
            server.close()
        await html(reader, writer)

    async with serving(die) as (server, url), probe(url, only=("authentication", "errors"), timeout_s=5) as probed:
        reasons = probed.reasons(CaseVerdict.BROKEN)
        assert "Expected a response, but the service can no longer be reached." in reasons.values()
        assert len(probed.cases) == 1 + 7 + 6


async def test_a_service_that_does_not_listen_cannot_be_probed(probe):
    async with serving(reset) as (server, url):
        server.close()
        with pytest.raises(InputError, match=r"^127\.0\.0\.1:\d+ cannot be reached: "):
            async with probe(url):
                pass


def self_signed():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "service")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = builder.add_extension(address, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    form = serialization.Encoding.PEM
    private = key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private + builder.sign(key, hashes.SHA256()).public_bytes(form)


async def test_a_certificate_has_to_be_trusted(probe, tmp_path):
    path = tmp_path / "self-signed.pem"
    path.write_bytes(self_signed())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    async with serving(html, ssl=context) as (_, origin):
        url = origin.replace("http:", "https:")
        with pytest.raises(InputError, match=r"is not trusted .*: set ca-file in the probe file"):
            async with probe(url):
                pass
        async with probe(url, changes={"ca_file": str(path)}, only=("errors/unknown-path",)) as probed:
            reasons = probed.reasons(CaseVerdict.BROKEN)
            assert reasons["errors/unknown-path"] == "Expected an error for GET /v1/probe-does-not-exist, got 200."
