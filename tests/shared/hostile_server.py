"""A server whose responses do not end: it sends the same bytes again and again, at once or slowly.

It stops after 64 MiB, so that a client without limits fails a test and not the machine.
"""

from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread

MOST = 64 << 20
BODY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n"
REDIRECT = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/traces\r\nContent-Length: 0\r\n\r\n"
ENDLESS = {
    "endless body": (BODY, b"x" * 65536, 0),
    "slow body": (BODY, b"x", 0.02),
    "endless head": (HEAD, b"X-More: x\r\n" * 1000, 0),
    "slow head": (HEAD, b"x", 0.02),
    "endless continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
    "endless redirects": (REDIRECT, b"", 0),
    "silence": (b"", b"x", 60),
}
"""What is sent first, what is repeated, and the pause in seconds."""


class HostileServer(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, beginning: bytes, repeated: bytes = b"", pause_s: float = 0) -> None:
        """It sends `beginning`, and then `repeated` for ever, with a pause each time."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.beginning, self.repeated, self.pause_s = beginning, repeated, pause_s
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.requests: list[bytes] = []
        self.sent = 0
        self.stopped = Event()
        Thread(target=self.serve_forever, args=[0.01], daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseRequestHandler):
    server: HostileServer

    def handle(self) -> None:
        with suppress(OSError):
            self.server.requests.append(self.request.recv(65536))
            self.request.sendall(self.server.beginning)
            server, data = self.server, self.server.repeated
            while data and server.sent < MOST and not server.stopped.wait(server.pause_s):
                self.request.sendall(data)
                server.sent += len(data)
