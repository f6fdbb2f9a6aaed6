"""`--mode regular`: clients use the proxy for every host, and only the service is recorded."""

import socket
import ssl
import subprocess
import threading

import pytest
from programs import find_program
from wire_bytes import OK

from wiretape.observations import Ending
from wiretape.recording import open_recording


@pytest.fixture(scope="module")
def regular(start_module_proxy, tls_service, tmp_path_factory):
    """Start a forward proxy that records the TLS service."""
    folder = tmp_path_factory.mktemp("keys")
    proxy = start_module_proxy(tls_service.url, "--mode", "regular", "--confdir", str(folder), "--insecure")
    proxy.keys = folder
    return proxy


def curl(proxy, *arguments):
    done = subprocess.run(
        [find_program("curl"), "-sS", "--proxy", f"http://{proxy.address}", *arguments],
        capture_output=True,
        timeout=45,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_certificate_that_clients_must_trust_is_printed(regular, tls_service):
    assert regular.wait_line(f"as a proxy for {tls_service.url}, recording to ")
    assert regular.wait_line(f"must trust {regular.keys}/mitmproxy-ca-cert.pem")


def test_tls_to_the_service_is_intercepted_and_recorded(regular, tls_service):
    path = tls_service.on("/inside", lambda peer: peer.send(OK))

    body = curl(regular, "--cacert", regular.keys / "mitmproxy-ca-cert.pem", tls_service.url + path)

    assert body == b"ok"
    seen = regular.ended(path)
    assert (seen.ending, regular.body(path)) == (Ending.COMPLETE, b"ok")
    assert (seen.request.scheme, seen.request.authority) == ("https", tls_service.authority)


@pytest.fixture
def other(certificate):
    """Run another TLS service with its own certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(listener):
        sock, _ = listener.accept()
        with sock, context.wrap_socket(sock, server_side=True) as wrapped:
            wrapped.recv(65536)
            wrapped.sendall(OK)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(45)


def test_tls_to_other_hosts_passes_through_untouched(regular, other, certificate):
    body = curl(regular, "--cacert", certificate, f"{other}/elsewhere")

    assert body == b"ok"
    assert regular.find("/elsewhere") is None


def test_plain_requests_to_other_hosts_pass_unrecorded_and_unbuffered(regular, service, tls_service):
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ndata: 1\r\n"
    service.on("/plain", lambda peer: (peer.send(chunked), peer.rest()))
    client = regular.connect()
    client.send(f"GET {service.url}/plain HTTP/1.1\r\nHost: {service.authority}\r\n\r\n".encode())
    client.until(b"data: 1\r\n")
    client.close()

    path = tls_service.on("/after", lambda peer: peer.send(OK))
    curl(regular, "--insecure", tls_service.url + path)
    regular.ended(path)
    assert regular.find("/plain") is None


def test_without_an_upstream_every_host_is_recorded(start_proxy, service, tls_service, tmp_path):
    proxy = start_proxy("--mode", "regular", "--confdir", str(tmp_path / "keys"), "--insecure")
    paths = [one.on("/any", lambda peer: peer.send(OK)) for one in (service, tls_service)]

    assert proxy.wait_line("as a proxy for every host, recording to ")
    for one, path in zip((service, tls_service), paths, strict=True):
        assert curl(proxy, "--insecure", one.url + path) == b"ok"
    assert proxy.stop() == 0
    with open_recording(proxy.file) as recording:
        seen = [exchange.request.authority for exchange in recording.exchanges()]
    assert seen == [service.authority, tls_service.authority]


def test_with_a_base_path_only_requests_below_it_are_recorded(start_proxy, service, tmp_path):
    proxy = start_proxy(f"{service.url}/base", "--mode", "regular", "--confdir", str(tmp_path / "keys"))
    paths = [service.on(path, lambda peer: peer.send(OK)) for path in ("/based", "/base/1", "/base?x")]

    for path in paths:
        assert curl(proxy, service.url + path) == b"ok"
    assert proxy.stop() == 0
    with open_recording(proxy.file) as recording:
        assert [exchange.request.target for exchange in recording.exchanges()] == paths[1:]
