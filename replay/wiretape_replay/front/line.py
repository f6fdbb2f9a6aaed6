"""The line to one client: bytes exactly as given, and every way in which a connection can end."""

import asyncio
import socket
import struct
import sys
from collections.abc import Sequence

from aiohttp import HttpVersion11, web

from wiretape.observations import Ending
from wiretape_replay.front.head import Framing, Head
from wiretape_replay.front.tap import Tap

PIECES_BETWEEN_BREAKS = 32
"""After so many pieces other streams get their turn, however fast this client reads."""
_UNREAD_GRACE_S = 0.1


class Line:
    """Writes the answer to one request: `begin`, any number of `send`, and one of the ends.

    A write waits while the client is slow, and raises ConnectionError once it has left.  What waits here, or
    anywhere else in the task that answers, is cancelled when the client leaves.
    """

    def __init__(self, request: web.BaseRequest, tap: Tap) -> None:
        self.keep_alive = request.keep_alive
        """Whether the client may send another request on this connection; a source can say no."""
        self.head: Head | None = None
        """The head of the answer, once it has begun."""
        self.ending: Ending | None = None
        """How the answer ended, once it has."""
        self._tap = tap
        self._knows_chunks = request.version >= HttpVersion11
        self._over = False
        self._chunked = False
        self._writer = request.writer
        self._transport = request.transport
        self._unbroken = 0

    async def begin(self, head: Head) -> None:
        """Send the head; a client that knows no chunks is sent none.  Raises ConnectionError when it has left."""
        if head.framing is Framing.CHUNKED and not self._knows_chunks:
            head = head.unchunked()
        self.head = head
        self._chunked = head.framing is Framing.CHUNKED
        if not head.keep_alive:
            self.keep_alive = False
        self._tap.began(head)
        await self._write(head.raw)

    async def send(self, data: bytes) -> None:
        """Send a piece of the body; where it is chunked, one chunk.  Raises ConnectionError if the client has left."""
        if not data:
            return  # an HTTP chunk without data would end the body
        self._tap.sent(data)
        await self._write(_chunk(data) if self._chunked else data)

    async def send_all(self, pieces: Sequence[bytes]) -> None:
        """Send pieces that are all due, as `send` does; chunks go out in one write.

        Raises ConnectionError when the client has left.
        """
        if not self._chunked or len(pieces) == 1:
            for data in pieces:
                await self.send(data)
            return
        pieces = [data for data in pieces if data]
        for data in pieces:
            self._tap.sent(data)
        if pieces:
            await self._write(b"".join(map(_chunk, pieces)), len(pieces))

    async def finish(self) -> None:
        """End the answer as its framing asks for.  Raises ConnectionError when the client has left."""
        if self._chunked:
            await self._write(b"0\r\n\r\n")
        elif self.head is None or self.head.framing is Framing.CLOSE:
            self.keep_alive = False
        self.ending = Ending.COMPLETE

    def mark(self, fault: str) -> None:
        """Note that from here on a fault changes the answer, and which."""
        self._tap.injected(fault)

    async def _write(self, data: bytes, pieces: int = 1) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("The client has left")
        self._transport.write(data)
        self._writer.output_size += len(data)  # so that aiohttp knows that the answer has begun
        self._unbroken += pieces
        if self._transport.get_write_buffer_size():
            await self._writer.drain()
        elif self._unbroken >= PIECES_BETWEEN_BREAKS:
            self._unbroken = 0
            await asyncio.sleep(0)

    def close(self) -> None:
        """Let the connection end in an orderly way (FIN) once everything is sent."""
        self.keep_alive = False
        self.ending = Ending.SERVICE_CLOSED

    def leave(self) -> None:
        """Let the connection go: the client has left already, or nobody can understand it."""
        self.keep_alive = False

    async def reset(self) -> None:
        """Reset the connection (RST), after the client's system has received everything sent so far."""
        self.keep_alive = False
        self.ending = Ending.SERVICE_RESET
        self.over()  # to the service; how long the client's system takes is another matter
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        connection: socket.socket = transport.get_extra_info("socket")
        await _received(transport, connection)
        # With a linger time of 0, closing drops the connection instead of ending it.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    def over(self) -> None:
        """The exchange is over, as `ending` says; the client has left where nothing else ended it."""
        if not self._over:
            self._over = True
            self._tap.ended(self.ending or Ending.CLIENT_CLOSED)

    async def hold(self) -> None:
        """Send nothing more, until the client leaves."""
        self.keep_alive = False
        await asyncio.get_running_loop().create_future()

    def abort(self) -> None:
        """End the connection at once; what was not sent yet is not sent."""
        self.ending = self.ending or Ending.PROXY_STOPPED
        if self._transport is not None:
            self._transport.abort()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _received(transport: asyncio.Transport, connection: socket.socket) -> None:
    """Wait until the client's system has acknowledged every byte.

    A reset overtakes what is still on its way: it would be lost.  Linux hands out what came before a reset even
    when the client reads it later; elsewhere the client gets a moment to read it.
    """
    pause = 0.001
    while transport.get_write_buffer_size() or _unacknowledged(connection):
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)
    if sys.platform != "linux":
        await asyncio.sleep(_UNREAD_GRACE_S)


def _unacknowledged(connection: socket.socket) -> int:
    """Bytes that the system has taken but the other side has not acknowledged; 0 where that cannot be known."""
    if sys.platform != "linux":
        return 0
    import fcntl  # noqa: PLC0415 - not on every system
    import termios  # noqa: PLC0415 - not on every system

    (count,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))
    return int(count)
