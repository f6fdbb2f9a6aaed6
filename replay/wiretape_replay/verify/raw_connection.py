"""A connection to the replay on which each byte, and the end, is seen as it comes."""

import asyncio
import socket
import struct
from enum import StrEnum
from typing import Self

_READ = 256 * 1024
_TURNS = 20
"""Of the event loop, after which a server in the same loop has done what it was about to do."""


class State(StrEnum):
    """How a connection stands, as far as the client has seen."""

    OPEN = "open"
    CLOSED = "closed"
    RESET = "reset"
    SILENT = "silent"
    """Open, and nothing came for longer than the client waits."""


class RawConnection:
    """A client's end of a connection."""

    def __init__(self, connection: socket.socket, patience_s: float) -> None:
        self.state = State.OPEN
        self.buffer = bytearray()
        """What came and was not expected yet."""
        self._socket = connection
        self._patience_s = patience_s

    @classmethod
    async def connect(cls, host: str, port: int, *, patience_s: float = 10) -> Self:
        """Open a connection.  Raises OSError."""
        connection = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, (host, port))
        except BaseException:
            connection.close()
            raise
        return cls(connection, patience_s)

    async def send(self, data: bytes) -> None:
        """Send all of it; a connection that has ended takes it and says so when it is read."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)
        except ConnectionError:
            return

    async def follow(self, expected: bytes) -> int:
        """Take what comes next as long as it is what is expected; returns how many bytes of it came."""
        at = 0
        while at < len(expected):
            if not self.buffer and not await self._receive():
                return at
            size = min(len(self.buffer), len(expected) - at)
            same = size if self.buffer[:size] == expected[at : at + size] else _common(self.buffer, expected[at:])
            del self.buffer[:same]
            at += same
            if same < size:
                return at
        return at

    async def end(self) -> State:
        """How the connection ends when nothing more is to come; what comes all the same is in `buffer`."""
        while await self._receive():
            pass
        return self.state

    async def quiet(self, turns: int = _TURNS) -> bool:
        """Whether a server in the same event loop leaves the connection open, and has nothing more to say."""
        for _ in range(turns):
            await asyncio.sleep(0)
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return not self.buffer
        except ConnectionError:
            self.state = State.RESET
            return False
        self.buffer += data
        self.state = self.state if data else State.CLOSED
        return False

    def leave(self) -> None:
        """Drop the connection at once, leaving nothing behind for the system to wait for."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    async def _receive(self) -> bool:
        """Wait for more bytes; False when there are no more."""
        if self.state is not State.OPEN:
            return False
        try:
            async with asyncio.timeout(self._patience_s):
                data = await asyncio.get_running_loop().sock_recv(self._socket, _READ)
        except TimeoutError:
            self.state = State.SILENT
            return False
        except ConnectionError:
            self.state = State.RESET
            return False
        self.buffer += data
        self.state = self.state if data else State.CLOSED
        return bool(data)


def _common(one: bytearray, other: bytes) -> int:
    """The length of the beginning that both share."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
