"""Writer of one response: sends exactly the given bytes, ends the connection in every possible way, and reports both.

Listeners are called for every chunk, so they must not block or raise.
"""

import asyncio
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Protocol

from aiohttp import HttpVersion11, web

from wiretape.observations import Ending
from wiretape_replay.http_server.http_messages import Framing, HttpRequest, Response, ResponseHead

CHUNKS_PER_TURN = 32
"""After this many chunks other streams get a turn, however fast this client reads."""
_UNREAD_GRACE_S = 0.1


OWN_RESPONSE = "a response that wiretape made"
"""Passed to `fault_injected` for a response that comes from neither a recording nor a fault script."""


class ExchangeListener(Protocol):
    """Listens to one exchange."""

    def request_body(self, data: bytes) -> None:
        """A chunk of the request body arrived."""

    def request_ended(self) -> None:
        """The request arrived completely."""

    def response_started(self, head: ResponseHead) -> None:
        """The head of the response was sent."""

    def response_body(self, data: bytes) -> None:
        """A chunk of the response body was sent, given without HTTP framing."""

    def fault_injected(self, fault: str) -> None:
        """The named fault changes the response from here on."""

    def exchange_ended(self, ending: Ending) -> None:
        """The exchange ended."""


class TrafficListener(Protocol):
    """Listens to all exchanges."""

    def request_started(self, request: HttpRequest) -> ExchangeListener:
        """The head of a request arrived; `request.body` is still empty."""
        ...


class NullListener:
    """Ignores all traffic."""

    def request_started(self, request: HttpRequest) -> "NullListener":  # noqa: ARG002 - a TrafficListener
        """See TrafficListener."""
        return self

    def request_body(self, data: bytes) -> None:
        """See ExchangeListener."""

    def request_ended(self) -> None:
        """See ExchangeListener."""

    def response_started(self, head: ResponseHead) -> None:
        """See ExchangeListener."""

    def response_body(self, data: bytes) -> None:
        """See ExchangeListener."""

    def fault_injected(self, fault: str) -> None:
        """See ExchangeListener."""

    def exchange_ended(self, ending: Ending) -> None:
        """See ExchangeListener."""


class ResponseWriter:
    """Sends the response to one request: `start`, any number of `write`, then one of the endings.

    Writing waits while the client is slow, and raises ConnectionError after the client has disconnected.
    The task that responds is cancelled when the client disconnects.
    """

    def __init__(self, request: web.BaseRequest, listener: ExchangeListener) -> None:
        self.keep_alive = request.keep_alive
        """Whether the connection may be reused for another request."""
        self.head: ResponseHead | None = None
        """The head of the response, after it started."""
        self.ending: Ending | None = None
        """How the response ended, after it ended."""
        self._listener = listener
        self._is_head_request = request.method == "HEAD"
        self._supports_chunks = request.version >= HttpVersion11
        self._is_reported = False
        self._is_chunked = False
        self._writer = request.writer
        self._transport = request.transport
        self._chunks_in_turn = 0

    async def respond(self, response: Response) -> None:
        """Send a whole response, without its body to a HEAD request.  Raises ConnectionError."""
        await self.start(response.head(Framing.EMPTY if self._is_head_request else Framing.LENGTH))
        if not self._is_head_request:
            await self.write(response.body)
        await self.finish()

    async def start(self, head: ResponseHead) -> None:
        """Send the head, without chunked framing to an HTTP/1.0 client.  Raises ConnectionError."""
        if head.framing is Framing.CHUNKED and not self._supports_chunks:
            head = head.without_chunks()
        self.head = head
        self._is_chunked = head.framing is Framing.CHUNKED
        if not head.keep_alive:
            self.keep_alive = False
        self._listener.response_started(head)
        await self._send(head.raw)

    async def write(self, data: bytes) -> None:
        """Send a part of the body, as one chunk if the response is chunked.  Raises ConnectionError."""
        if not data:
            return  # an empty HTTP chunk would end the body
        self._listener.response_body(data)
        await self._send(_chunk(data) if self._is_chunked else data)

    async def write_all(self, parts: Sequence[bytes]) -> None:
        """Send several parts of the body that are due; HTTP chunks go out in one write.  Raises ConnectionError."""
        if not self._is_chunked or len(parts) == 1:
            for data in parts:
                await self.write(data)
            return
        parts = [data for data in parts if data]
        for data in parts:
            self._listener.response_body(data)
        if parts:
            await self._send(b"".join(map(_chunk, parts)), len(parts))

    async def finish(self) -> None:
        """End the response as its framing requires.  Raises ConnectionError."""
        if self._is_chunked:
            await self._send(b"0\r\n\r\n")
        elif self.head is None or self.head.framing is Framing.CLOSE:
            self.keep_alive = False
        self.ending = Ending.COMPLETE

    def mark_fault(self, fault: str) -> None:
        """Report that the named fault changes the response from here on."""
        self._listener.fault_injected(fault)

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
            self._listener.exchange_ended(self.ending or Ending.CLIENT_CLOSED)

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
