"""Start `wiretape proxy` as a command, scripted services, and clients that see each byte."""

import contextlib
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import h2.config
import h2.connection
import h2.events
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from wiretape_process import ForkedProgram

from wiretape.observations import Ending, Side
from wiretape.recording import Exchange, open_recording

ROOTS = [str(Path(__file__).parents[2] / root) for root in ("core", "contracts", "proxy", "replay", "inspect")]
_STARTED: list[subprocess.Popen] = []
PATIENCE_S = 45
_T = TypeVar("_T")
_P = TypeVar("_P", bound="Peer")


def _eventually(look: Callable[[], _T], what: str = "it") -> _T:
    """Poll until `look` returns a true value; return it."""
    until = time.monotonic() + PATIENCE_S
    while not (seen := look()):
        assert time.monotonic() < until, f"waited too long for {what}"
        time.sleep(0.01)
    return seen


class Peer:
    """One end of a blocking connection with a timeout."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE_S)
        self.sock = sock
        self.buffer = bytearray()
        self.head = b""

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def until(self, end: bytes) -> bytes:
        """Read up to and including `end`."""
        while end not in self.buffer:
            assert self._read(), f"the connection ended before {end!r}, after {self.buffer!r}"
        return self._take(self.buffer.index(end) + len(end))

    def exactly(self, count: int) -> bytes:
        """Read exactly `count` bytes."""
        while len(self.buffer) < count:
            assert self._read(), f"the connection ended after {len(self.buffer)} of {count} bytes"
        return self._take(count)

    def rest(self) -> bytes:
        """Read until the other side closes or resets."""
        with contextlib.suppress(ConnectionResetError):
            while self._read():
                pass
        return self._take(len(self.buffer))

    def _read(self) -> bool:
        data = self.sock.recv(65536)
        self.buffer += data
        return bool(data)

    def _take(self, count: int) -> bytes:
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def read_head(self) -> str:
        """Read the head of a request; return its target."""
        self.head = self.until(b"\r\n\r\n")
        return self.head.split(b" ", 2)[1].decode()

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close with a FIN, without a TLS alert."""
        plain = self._plain()
        with contextlib.suppress(OSError):
            plain.shutdown(socket.SHUT_WR)
        plain.close()

    def reset(self) -> None:
        """Close with a RST."""
        plain = self._plain()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        plain.close()

    def _plain(self) -> socket.socket:
        return socket.socket(fileno=self.sock.detach()) if isinstance(self.sock, ssl.SSLSocket) else self.sock


class H2Peer(Peer):
    """One end of an HTTP/2 connection."""

    def __init__(self, sock: socket.socket, *, client: bool) -> None:
        super().__init__(sock)
        config = h2.config.H2Configuration(client_side=client, header_encoding="utf-8", validate_inbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.events: list[h2.events.Event] = []
        self.bodies: dict[int, bytearray] = {}
        self.unread: set[int] = set()
        """Streams whose flow-control window stays closed."""
        self.flush()

    def flush(self) -> None:
        self.send(self.h2.data_to_send())

    def pump(self) -> bool:
        """Process the next received data; return False at the end of the connection."""
        data = self.sock.recv(65536)
        if not data:
            return False
        for event in self.h2.receive_data(data):
            self.events.append(event)
            if isinstance(event, h2.events.DataReceived):
                self.bodies.setdefault(event.stream_id, bytearray()).extend(event.data)
                if event.stream_id in self.unread:
                    continue
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return True

    def wait(self, kind: type[h2.events.Event], stream: int | None = None) -> h2.events.Event:
        """Wait for the first event of this kind (on this stream)."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and stream in {None, getattr(event, "stream_id", None)}:
                    return event
            assert self.pump(), f"the connection ended before {kind.__name__}"

    def wait_body(self, stream: int, data: bytes) -> None:
        """Wait until the body begins with `data`."""
        while not self.bodies.get(stream, b"").startswith(data):
            assert self.pump(), f"the connection ended after {self.bodies}"

    def request(self, path: str, *, authority: str = "127.0.0.1", body: bytes | None = None) -> int:
        """Send a request; return its stream."""
        stream = self.h2.get_next_available_stream_id()
        method = "GET" if body is None else "POST"
        head = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)]
        head += [] if body is None else [("content-length", str(len(body)))]
        self.h2.send_headers(stream, head, end_stream=body is None)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=True)
        self.flush()
        return stream

    def begin_upload(self, path: str, size: int) -> int:
        """Send the headers of a request with a body; return its stream."""
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", "POST"), (":scheme", "https"), (":authority", "x"), (":path", path)]
        self.h2.send_headers(stream, [*head, ("content-length", str(size))])
        self.flush()
        return stream

    def upload(self, stream: int, size: int) -> int:
        """Send as much of a body as the window allows, at most `size` bytes; return how much that was."""
        sent = 0
        while sent < size and (window := self.h2.local_flow_control_window(stream)):
            count = min(1 << 14, window, size - sent)
            self.h2.send_data(stream, b"x" * count)
            self.flush()
            sent += count
        return sent

    def upload_rest(self, stream: int, size: int) -> None:
        """Send the last `size` bytes of a body as the window opens, and end the stream."""
        while size := size - self.upload(stream, size):
            assert self.pump()
        self.h2.end_stream(stream)
        self.flush()

    def respond(self, stream: int, *chunks: bytes, end: bool = False) -> None:
        """Send response headers and these frames."""
        self.h2.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])
        for chunk in chunks:
            self.h2.send_data(stream, chunk)
        if end:
            self.h2.end_stream(stream)
        self.flush()


class Service:
    """An HTTP/1.1 service with a scripted behavior for each path."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self._behaviours: dict[str, Callable[..., object]] = {}
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port: int = self._listener.getsockname()[1]
        self.authority = f"127.0.0.1:{self.port}"
        self.url = f"{'https' if context else 'http'}://{self.authority}"
        threading.Thread(target=self._accept, daemon=True).start()

    def on(self, path: str, behaviour: Callable[..., object]) -> str:
        """Set the behavior for a path.  For HTTP/2, it also receives the stream."""
        self._behaviours[path] = behaviour
        return path

    def close(self) -> None:
        # close() alone does not end accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, AssertionError), sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._context.wrap_socket(sock, server_side=True) if self._context else sock as wrapped:
                self.converse(wrapped)

    def converse(self, sock: socket.socket) -> None:
        """Handle requests until the connection ends."""
        peer = Peer(sock)
        while peer.sock.fileno() >= 0:
            self._behaviours[peer.read_head()](peer)


class H2Service(Service):
    """A scripted HTTP/2 service over TLS."""

    def converse(self, sock: socket.socket) -> None:
        peer = H2Peer(sock, client=False)
        seen = 0
        while peer.pump():
            for event in peer.events[seen:]:
                seen += 1
                if isinstance(event, h2.events.RequestReceived):
                    self._behaviours[dict(event.headers)[":path"]](peer, event.stream_id)
            if peer.sock.fileno() < 0:
                return


class Proxy:
    """A running `wiretape proxy`."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        env: dict[str, str] | None = None,
        file_limit: int | None = None,
        name: str = "wiretape",
    ) -> None:
        self.file = folder / "run.db"
        self.lines: list[str] = []
        self.address = ""
        self._peers: list[Peer] = []
        command = ["proxy", "--listen", "127.0.0.1:0", "--output", str(self.file), *arguments]
        options = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        if file_limit is None:
            self.process = _start_forked(name, command, env=env or {}, **options)
        else:
            limited = ["sh", "-c", f'ulimit -f {file_limit // 512}; exec "$@"', "sh", sys.executable, "-m", "wiretape"]
            self.process = _start([*limited, *command], **options)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        try:
            self.wait_line("Listening on ")
        except BaseException:
            self.kill()
            raise
        self.address = self.lines[0].split("http://", 1)[1].split(",", 1)[0]
        self.port = int(self.address.rsplit(":", 1)[1])

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    @property
    def recorder(self) -> int:
        """The process id of the recorder, which is the only process that the proxy started."""
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        (child,) = task.read_text().split()
        return int(child)

    def has_line(self, part: str) -> bool:
        """Whether a line on standard error so far contains `part`."""
        return any(part in line for line in self.lines)

    def wait_line(self, part: str) -> str:
        """Wait for a line on standard error that contains `part`."""

        def look() -> str | None:
            if self.process.poll() is not None:
                self._reading.join(PATIENCE_S)  # it may have ended before its last line was read
                assert self.has_line(part), self.lines
            return next((line for line in self.lines if part in line), None)

        return _eventually(look, f"{part!r} among {self.lines}")

    def connect(self) -> Peer:
        """Connect to the proxy without TLS."""
        return self._met(Peer(socket.create_connection(("127.0.0.1", self.port))))

    def _met(self, peer: _P) -> _P:
        self._peers.append(peer)
        return peer

    def get(self, path: str, *headers: str) -> Peer:
        """Connect and send a request."""
        peer = self.connect()
        head = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *headers]
        peer.send("\r\n".join([*head, "", ""]).encode())
        return peer

    def post(self, path: str, body: bytes, *headers: str, sent: bytes | None = None) -> Peer:
        """Connect and send a request with a body, of which `sent` is sent now: all of it by default."""
        peer = self.connect()
        head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers, "", ""]
        peer.send("\r\n".join(head).encode() + (body if sent is None else sent))
        return peer

    def connect_h2(self) -> H2Peer:
        """Connect to the proxy with HTTP/2."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        sock = context.wrap_socket(socket.create_connection(("127.0.0.1", self.port)), server_hostname="127.0.0.1")
        return self._met(H2Peer(sock, client=True))

    def find(self, path: str) -> Exchange | None:
        """Return the recorded exchange of a path, if it is on disk."""
        with open_recording(self.file) as recording:
            return next((seen for seen in recording.exchanges() if seen.request.target == path), None)

    def ended(self, path: str) -> Exchange:
        """Wait until the exchange of a path has ended; return it."""

        def look() -> Exchange | None:
            seen = self.find(path)
            return seen if seen is not None and seen.ending is not Ending.OPEN else None

        return _eventually(look, f"the end of {path}")

    def body(self, path: str, side: Side = Side.RESPONSE) -> bytes:
        """Return the recorded bytes of a body."""
        exchange = self.find(path)
        assert exchange is not None
        with open_recording(self.file) as recording:
            return b"".join(run.data for run in recording.body(exchange.number, side))

    def outcome(self, path: str) -> tuple[Ending, bytes]:
        """Wait until the exchange of a path has ended; return how, and the recorded bytes of its response."""
        return self.ended(path).ending, self.body(path)

    def stop(self, number: int = signal.SIGINT) -> int:
        """Send a signal and wait; return the exit status."""
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        self._reading.join(PATIENCE_S)
        return status

    def kill(self) -> None:
        """Kill the proxy."""
        for peer in self._peers:
            peer.sock.close()
        _end(self.process)
        self._reading.join(PATIENCE_S)
        self.process.stderr.close()


def _start(command: Sequence[str], *, env: Mapping[str, str] = MappingProxyType({}), **options) -> subprocess.Popen:
    """Start a program that can import wiretape."""
    path = os.pathsep.join([*ROOTS, os.environ.get("PYTHONPATH", "")])
    options = {"stdin": subprocess.DEVNULL, **options}
    _STARTED.append(subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path} | env, **options))
    return _STARTED[-1]


def _start_forked(
    name: str, arguments: Sequence[object], *, env: Mapping[str, str] = MappingProxyType({}), **options
) -> subprocess.Popen:
    """Start `wiretape` or one of mitmproxy's programs, without importing it again."""
    options = {"stdin": subprocess.DEVNULL, **options}
    _STARTED.append(ForkedProgram(name, *arguments, env=os.environ | env, **options))
    return _STARTED[-1]


def _end(process: subprocess.Popen) -> None:
    """Kill a program and its children: a recorder stopped by a test would wait forever."""
    if process.poll() is None:
        children: list[str] = []
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """Kill all programs that the tests of a module started, even if a fixture failed."""
    yield
    while _STARTED:
        _end(_STARTED.pop())


@pytest.fixture(scope="session")
def eventually() -> Callable[..., object]:
    """Poll until `look` returns a true value; return it."""
    return _eventually


@pytest.fixture(scope="session")
def start() -> Callable[..., subprocess.Popen]:
    """Start a program that can import wiretape."""
    return _start


@pytest.fixture(scope="session")
def start_forked() -> Callable[..., subprocess.Popen]:
    """Start `wiretape` or one of mitmproxy's programs, without importing it again."""
    return _start_forked


@pytest.fixture(scope="session")
def certificate(tmp_path_factory) -> Path:
    """Create a key and a self-signed certificate for 127.0.0.1 in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    public = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path_factory.mktemp("tls") / "service.pem"
    path.write_bytes(private + public)
    return path


def _context(certificate: Path, *protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(list(protocols))
    return context


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """An HTTP/1.1 service."""
    service = Service()
    yield service
    service.close()


@pytest.fixture(scope="module")
def tls_service(certificate) -> Iterator[Service]:
    """An HTTP/1.1 service over TLS."""
    service = Service(_context(certificate, "http/1.1"))
    yield service
    service.close()


@pytest.fixture
def shy_service(tls_service, monkeypatch) -> Service:
    """The same, with handshakes that wait until `ready` is set."""
    tls_service.ready = threading.Event()
    serve = tls_service._serve
    monkeypatch.setattr(tls_service, "_serve", lambda sock: tls_service.ready.wait(PATIENCE_S) and serve(sock))
    return tls_service


@pytest.fixture(scope="module")
def h2_service(certificate) -> Iterator[H2Service]:
    """An HTTP/2 service."""
    service = H2Service(_context(certificate, "h2"))
    yield service
    service.close()


@pytest.fixture
def start_proxy(tmp_path) -> Iterator[Callable[..., Proxy]]:
    """Starts proxies for one test."""
    proxies: list[Proxy] = []

    def start_one(*arguments: str, **keywords) -> Proxy:
        proxies.append(Proxy(tmp_path, *arguments, **keywords))
        return proxies[-1]

    yield start_one
    for proxy in proxies:
        proxy.kill()


@pytest.fixture(scope="module")
def start_module_proxy(tmp_path_factory) -> Iterator[Callable[..., Proxy]]:
    """Starts proxies that serve all tests of a module."""
    proxies: list[Proxy] = []

    def start_one(*arguments: str, **keywords) -> Proxy:
        proxies.append(Proxy(tmp_path_factory.mktemp("proxy"), *arguments, **keywords))
        return proxies[-1]

    yield start_one
    for proxy in proxies:
        proxy.kill()


@pytest.fixture(scope="module")
def proxy(start_module_proxy, service) -> Proxy:
    """A proxy before the HTTP/1.1 service."""
    return start_module_proxy(service.url)
