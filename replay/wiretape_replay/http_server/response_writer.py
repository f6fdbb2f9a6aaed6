"""Writer of one response: sends exactly the given bytes, ends the connection in every possible way, reports both."""

import asyncio
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohttp import HttpVersion11, web

from wiretape.observations import Ending
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import (
    BodyFraming,
    HttpRequest,
    HttpResponse,
    ResponseHead,
)
from wiretape_replay.http_server.request_redaction import request_label

CHUNKS_PER_TURN = 32
"""After this many chunks other streams get a turn, however fast this client reads."""
_UNREAD_GRACE_S = 0.1
_LONGEST_LINE = 400


OWN_RESPONSE = "a response that wiretape made"
"""The fault of a response that comes from neither a recording nor a fault script."""


@dataclass(frozen=True, slots=True)
class RequestBodyPart:
    """A chunk of the request body."""

    data: bytes

    def __len__(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class RequestComplete:
    """The request has arrived completely."""


@dataclass(frozen=True, slots=True)
class FaultInjected:
    """A fault changes the response from here on."""

    fault: str
    """The name of the fault, or OWN_RESPONSE."""


ExchangePart = bytes | RequestBodyPart | RequestComplete | ResponseHead | FaultInjected | Ending
"""What happens in an exchange after the head of its request; bytes are a chunk of the response body, unframed."""
ExchangeListener = Callable[[ExchangePart], None]
"""Called for everything that happens in one exchange, so it must not block or raise."""
TrafficListener = Callable[[HttpRequest], ExchangeListener]
"""Called for the head of every request, with an empty body; returns the listener of its exchange."""


class ResponseWriter:
    """Sends the response to one request: `start`, any number of `write`, then one of the endings.

    Writing waits while the client is slow, and raises ConnectionError after the client has disconnected.
    The task that responds is cancelled when the client disconnects.
    """

    def __init__(
        self, request: web.BaseRequest, listener: ExchangeListener, log: Callable[[str], None] | None = None
    ) -> None:
        self.keep_alive = request.keep_alive
        """Whether the connection may be reused for another request."""
        self.head: ResponseHead | None = None
        """The head of the response, after it started."""
        self.ending: Ending | None = None
        """How the response ended, after it ended."""
        self._listener = listener
        self._log = log
        self._is_head_request = request.method == "HEAD"
        self._supports_chunks = request.version >= HttpVersion11
        self._is_reported = False
        self._is_chunked = False
        self._writer = request.writer
        self._transport = request.transport
        self._chunks_in_turn = 0

    async def respond(self, response: HttpResponse) -> None:
        """Send a whole response, without its body to a HEAD request.  Raises ConnectionError."""
        head = response.head(BodyFraming.EMPTY if self._is_head_request else BodyFraming.LENGTH)
        body = b"" if self._is_head_request else response.body
        await self.send_whole(head, [body] if body else [], head.raw + body)

    async def send_whole(self, head: ResponseHead, chunks: Sequence[bytes], raw: bytes) -> None:
        """Send a complete response in one write; `raw` is its head and its body.  Raises ConnectionError."""
        self.head = head
        if not head.keep_alive:
            self.keep_alive = False
        self._listener(head)
        for data in chunks:
            self._listener(data)
        await self._send(raw)
        self.ending = Ending.COMPLETE

    async def start(self, head: ResponseHead) -> None:
        """Send the head, without chunked framing to an HTTP/1.0 client.  Raises ConnectionError."""
        if head.framing is BodyFraming.CHUNKED and not self._supports_chunks:
            head = head.without_chunks()
        self.head = head
        self._is_chunked = head.framing is BodyFraming.CHUNKED
        if not head.keep_alive:
            self.keep_alive = False
        self._listener(head)
        await self._send(head.raw)

    async def write(self, data: bytes) -> None:
        """Send a part of the body, as one chunk if the response is chunked.  Raises ConnectionError."""
        if not data:
            return  # an empty HTTP chunk would end the body
        self._listener(data)
        await self._send(_chunk(data) if self._is_chunked else data)

    async def write_all(self, parts: Sequence[bytes]) -> None:
        """Send several parts of the body that are due; HTTP chunks go out in one write.  Raises ConnectionError."""
        if not self._is_chunked or len(parts) == 1:
            for data in parts:
                await self.write(data)
            return
        parts = [data for data in parts if data]
        for data in parts:
            self._listener(data)
        if parts:
            await self._send(b"".join(map(_chunk, parts)), len(parts))

    async def finish(self) -> None:
        """End the response as its framing requires.  Raises ConnectionError."""
        if self._is_chunked:
            await self._send(b"0\r\n\r\n")
        elif self.head is None or self.head.framing is BodyFraming.CLOSE:
            self.keep_alive = False
        self.ending = Ending.COMPLETE

    async def end(self, ending: Ending) -> None:
        """End the response as the service did; if the client ended it, wait for the client.  Raises ConnectionError."""
        if ending is Ending.COMPLETE:
            await self.finish()
        elif ending is Ending.SERVICE_RESET:
            await self.reset()
        elif ending is Ending.CLIENT_CLOSED:
            await self.hold_open()
        else:
            self.close()

    def log(self, line: str) -> None:
        """Log a line, if requests are logged."""
        if self._log is not None:
            self._log(line)

    def log_outcome(self, request: HttpRequest, outcome: str) -> None:
        """Log a line about a request and its outcome, if requests are logged."""
        if self._log is not None:
            self._log(shorten(f"{request_label(request)} → {outcome}", _LONGEST_LINE))

    def mark_fault(self, fault: str) -> None:
        """Report that the named fault changes the response from here on."""
        self._listener(FaultInjected(fault))

    def close(self) -> None:
        """Close the connection (FIN) after everything is sent."""
        self.keep_alive = False
        self.ending = Ending.SERVICE_CLOSED

    async def reset(self) -> None:
        """Reset the connection (RST) after the client's system has received everything sent so far."""
        self.keep_alive = False
        self.ending = Ending.SERVICE_RESET
        self.report_ending()  # for the service it has ended; the client's system may take longer
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        connection: socket.socket = transport.get_extra_info("socket")
        await _wait_until_received(transport, connection)
        # With a linger time of 0, closing resets the connection.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    async def hold_open(self) -> None:
        """Send nothing more until the client disconnects."""
        self.keep_alive = False
        await asyncio.get_running_loop().create_future()

    def abort(self) -> None:
        """Close the connection at once and drop what is still in the send buffer."""
        self.ending = self.ending or Ending.PROXY_STOPPED
        if self._transport is not None:
            self._transport.abort()

    def report_ending(self) -> None:
        """Report how the exchange ended; if nothing else ended it, the client disconnected."""
        if not self._is_reported:
            self._is_reported = True
            self._listener(self.ending or Ending.CLIENT_CLOSED)

    async def _send(self, data: bytes, chunks: int = 1) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("The client has disconnected")
        self._transport.write(data)
        self._writer.output_size += len(data)  # tells aiohttp that the response has started
        self._chunks_in_turn += chunks
        if self._transport.get_write_buffer_size():
            await self._writer.drain()
        elif self._chunks_in_turn >= CHUNKS_PER_TURN:
            self._chunks_in_turn = 0
            await asyncio.sleep(0)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _wait_until_received(transport: asyncio.Transport, connection: socket.socket) -> None:
    """Wait until the client's system has acknowledged every byte.

    A reset overtakes data in transit, which would be lost.  Linux delivers data that arrived before a reset even if
    the client reads it later; on other systems the client gets a moment to read it.
    """
    pause = 0.001
    while transport.get_write_buffer_size() or _unacknowledged_bytes(connection):
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)
    if sys.platform != "linux":
        await asyncio.sleep(_UNREAD_GRACE_S)


def _unacknowledged_bytes(connection: socket.socket) -> int:
    """Bytes sent but not acknowledged; 0 on systems that do not report it."""
    if sys.platform != "linux":
        return 0
    import fcntl  # noqa: PLC0415 - not on every system
    import termios  # noqa: PLC0415 - not on every system

    (count,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))
    return int(count)
