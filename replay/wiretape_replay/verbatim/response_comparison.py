"""Compare a response on the wire with the recorded one, byte by byte.

What is expected is derived from the recording here, separately from `response_plan`, which decides what the replay
sends: each finds the mistakes of the other.
"""

import asyncio
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from wiretape.observations import BytesArrived, BytesLost, Ending, ResponseStarted
from wiretape.recording import Exchange
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import single_line

LAST_CHUNK = b"0\r\n\r\n"
_READ_BYTES = 256 * 1024
_TURNS = 20
"""After this many turns of the event loop, a server in the same loop has done what it was about to do."""
_MOST_SHOWN = 40
"""Bytes of a difference that are shown."""


class ConnectionState(StrEnum):
    """The state of a connection, as far as the client knows."""

    OPEN = "open"
    CLOSED = "closed"
    RESET = "reset"
    SILENT = "silent"
    """Open, but nothing arrived before the timeout."""


_ENDS = {
    ConnectionState.CLOSED: "the connection was closed",
    ConnectionState.RESET: "the connection was reset",
    ConnectionState.SILENT: "nothing more arrived",
}


class RawConnection:
    """The client's side of a connection, on which every byte and the end are seen."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self.state = ConnectionState.OPEN
        self.buffer = bytearray()
        """Bytes that arrived and were not expected yet."""
        self._socket = connection
        self._timeout_s = timeout_s

    @classmethod
    async def connect(cls, host: str, port: int, *, timeout_s: float) -> Self:
        """Open a connection; it is silent if nothing arrives for `timeout_s`.  Raises OSError."""
        connection = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, (host, port))
        except BaseException:
            connection.close()
            raise
        return cls(connection, timeout_s)

    async def send(self, data: bytes) -> None:
        """Send bytes.  If the connection has ended, that shows when it is read."""
        with suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def receive_expected(self, expected: bytes) -> int:
        """Receive bytes as long as they are those expected; return how many were."""
        count = 0
        while count < len(expected):
            if not self.buffer and not await self._receive():
                return count
            arrived = self.buffer[: len(expected) - count]
            part = expected[count : count + len(arrived)]
            is_same = arrived == part
            same = len(part) if is_same else next(at for at in range(len(part)) if arrived[at] != part[at])
            del self.buffer[:same]
            count += same
            if not is_same:
                return count
        return count

    async def receive_end(self) -> ConnectionState:
        """Receive until the connection ends; unexpected bytes are in `buffer`."""
        while await self._receive():
            pass
        return self.state

    async def is_quiet(self, turns: int) -> bool:
        """Whether the server leaves the connection open and sends nothing for some turns of the event loop."""
        return not await self._poll(turns) and not self.buffer

    def abort(self) -> None:
        """Reset the connection."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    async def _receive(self) -> bool:
        """Wait for more bytes; return False if there are none."""
        if self.state is ConnectionState.OPEN and not await self._poll(0 if await self._readable() else _TURNS):
            self.state = ConnectionState.SILENT
        return self.state is ConnectionState.OPEN

    async def _readable(self) -> bool:
        """Wait until bytes or the end arrive; return False if the time has passed.

        Nothing is read here: on a busy machine both can happen in one turn of the event loop, and a cancelled
        `sock_recv` would lose the bytes.
        """
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._socket, arrived.set)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await arrived.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._socket)

    async def _poll(self, turns: int) -> bool:
        """Whether bytes or the end arrive within some turns of the event loop."""
        for _ in range(turns):
            await asyncio.sleep(0)
        try:
            self._add(self._socket.recv(_READ_BYTES))
        except BlockingIOError:
            return False
        except ConnectionError:
            self.state = ConnectionState.RESET
        return True

    def _add(self, data: bytes) -> None:
        self.buffer += data
        if not data:
            self.state = ConnectionState.CLOSED


class After(StrEnum):
    """What happens to the connection after the last byte of a response."""

    USABLE = "left open for the next request"
    CLOSED = "closed"
    RESET = "reset"
    HELD = "left open without the end of the response"


@dataclass(frozen=True, slots=True)
class ExpectedResponse:
    """The bytes on the wire of one response, except its body."""

    head: bytes | None
    """Status line, headers and blank line; None if there was no response."""
    has_body: bool
    chunked: bool
    """Whether the body consists of HTTP chunks, one for each recorded chunk."""
    length: int | None
    """The length that the head announces."""
    ending: Ending
    keeps: bool
    """Whether the connection can be used again after a complete response."""

    def body(self, runs: Iterable[BytesArrived | BytesLost]) -> Iterator[list[bytes]]:
        """The recorded chunks, grouped as they are read, without empty chunks and lost bytes."""
        for run in runs if self.has_body else ():
            if isinstance(run, BytesArrived):
                yield [data for _, data in run.chunks() if data]

    def framed(self, chunk: bytes) -> bytes:
        """The bytes of a chunk on the wire."""
        return b"%x\r\n%b\r\n" % (len(chunk), chunk) if self.chunked else chunk

    def after(self, sent: int) -> After:
        """What happens after `sent` bytes of body."""
        whole = not self.has_body or sent == self.length
        if self.ending is Ending.SERVICE_RESET:
            return After.RESET
        if self.ending in {Ending.CLIENT_CLOSED, Ending.TIMED_OUT} and not (whole and self.head):
            return After.HELD
        if self.ending in {Ending.COMPLETE, Ending.CLIENT_CLOSED, Ending.TIMED_OUT}:
            return After.USABLE if self.keeps and (whole or self.chunked) else After.CLOSED
        return After.CLOSED

    @property
    def ends_with_last_chunk(self) -> bool:
        """Whether the last chunk is sent, which marks the response as complete."""
        return self.chunked and self.ending is Ending.COMPLETE


def expected_response(exchange: Exchange) -> ExpectedResponse:
    """What an HTTP/1.1 client must receive for an exchange."""
    response = exchange.response
    if response is None:
        return ExpectedResponse(None, False, False, None, exchange.ending, False)
    named = {name.lower(): value.lower().strip() for name, value in reversed(response.headers)}
    bodiless = exchange.request.method == "HEAD" or response.status in {204, 304} or response.status < 200
    version2 = response.http_version.startswith("HTTP/2")
    codings = [value.lower().strip() for name, value in response.headers if name.lower() == "transfer-encoding"]
    coding, announced = codings[-1] if codings else None, named.get("content-length", "")
    length = int(announced) if coding is None and announced.isdecimal() and announced.isascii() else None
    added = version2 and coding is None and length is None and not bodiless
    chunked = not bodiless and (added or (coding or "").endswith("chunked"))
    old = response.http_version == "HTTP/1.0"
    stays = "keep-alive" in named.get("connection", "") if old else "close" not in named.get("connection", "")
    framed = bodiless or chunked or length is not None
    return ExpectedResponse(
        head=_head(response, chunk_it=added),
        has_body=not bodiless,
        chunked=chunked,
        length=None if bodiless else length,
        ending=exchange.ending,
        keeps=stays and framed and response.status >= 200,
    )


def _head(response: ResponseStarted, *, chunk_it: bool) -> bytes:
    version = "HTTP/1.0" if response.http_version == "HTTP/1.0" else "HTTP/1.1"
    lines = [f"{version} {response.status} {single_line(response.reason)}"]
    lines += [f"{single_line(name)}: {single_line(value)}" for name, value in response.headers if name[:1] != ":"]
    lines += ["Transfer-Encoding: chunked"] if chunk_it else []
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1", "replace")


class Difference(Exception):  # noqa: N818 - the result of a comparison, not an error of the program
    """A difference between a response and the recorded one; the message is a clause."""


class Comparison:
    """Compares one response on the wire.  `sent` and `chunks` count the bytes and chunks that are as recorded."""

    def __init__(self, connection: RawConnection, expected: ExpectedResponse) -> None:
        self.sent = 0
        self.chunks = 0
        self._connection = connection
        self._expected = expected

    async def compare(self, runs: Iterable[BytesArrived | BytesLost]) -> bool:
        """Compare a response, whose recorded body is `runs`; return whether the connection can be used again.

        Raises Difference, and RecordingError.
        """
        expected = self._expected
        if expected.head is not None:
            await self._compare_head(expected.head)
            for run in expected.body(runs):
                await self._compare_chunks(run)
            if expected.ends_with_last_chunk:
                await self._compare_last_chunk()
        return await self._compare_end(expected.after(self.sent))

    async def _compare_head(self, head: bytes) -> None:
        count = await self._connection.receive_expected(head)
        if count == len(head):
            return
        if not self._connection.buffer:
            raise Difference(f"{self._end()} after {count} of the {len(head)} bytes of the head")
        start = head.rfind(b"\n", 0, count) + 1
        line = head[start:].partition(b"\r\n")[0]
        other = (head[start:count] + bytes(self._connection.buffer)).partition(b"\r\n")[0]
        raise Difference(f"the head has {_quoted(other)} where {_quoted(line)} was recorded")

    async def _compare_chunks(self, chunks: list[bytes]) -> None:
        framed = [self._expected.framed(chunk) for chunk in chunks]
        count = await self._connection.receive_expected(b"".join(framed))
        for chunk, wire in zip(chunks, framed, strict=True):
            if count < len(wire):
                self._raise_chunk_difference(chunk, wire, count)
            count -= len(wire)
            self.sent += len(chunk)
            self.chunks += 1

    def _raise_chunk_difference(self, chunk: bytes, wire: bytes, count: int) -> None:
        """Raise the difference in a chunk of which the first `count` bytes on the wire are as recorded."""
        buffer = self._connection.buffer
        start = len(wire) - len(chunk) - 2 if self._expected.chunked else 0
        place = f"byte {self.sent + max(0, count - start)} of the body"
        if not buffer:
            raise Difference(f"{self._end()} before {place}")
        if count < start:
            line = (wire[:count] + bytes(buffer)).partition(b"\r\n")[0]
            raise Difference(f"chunk {self.chunks + 1} has {_size(line)} where {len(chunk)} bytes were recorded")
        rest = wire[count:-2] if self._expected.chunked else wire[count:]
        raise Difference(f"{place} begins {_quoted(buffer)} where {_quoted(rest[:_MOST_SHOWN])} was recorded")

    async def _compare_last_chunk(self) -> None:
        buffer = self._connection.buffer
        if await self._connection.receive_expected(LAST_CHUNK) == len(LAST_CHUNK):
            return
        if buffer:
            raise Difference(f"more data follows the {self.chunks} recorded chunks: {_quoted(buffer)}")
        raise Difference(f"{self._end()} instead of the chunk that ends the body")

    async def _compare_end(self, after: After) -> bool:
        connection = self._connection
        if after is After.USABLE:
            same = await connection.is_quiet(0)  # anything later is found before the next response
        elif after is After.HELD:
            same = await connection.is_quiet(_TURNS)
        else:
            same = await connection.receive_end() == ConnectionState(after.value) and not connection.buffer
        if same:
            return after is After.USABLE
        if connection.buffer:
            raise Difference(f"more data follows the recorded {self.sent} bytes of body: {_quoted(connection.buffer)}")
        raise Difference(f"{self._end()} after the last byte; in the recording, it was {after}")

    def _end(self) -> str:
        return _ENDS[self._connection.state]


def _size(line: bytes) -> str:
    """The size of an HTTP chunk, from the line before it."""
    try:
        return f"{int(line, 16)} bytes"
    except ValueError:
        return _quoted(line)


def _quoted(data: bytes | bytearray) -> str:
    return f"'{shorten(bytes(data[: _MOST_SHOWN + 1]).decode('latin-1'), _MOST_SHOWN)}'"
