"""Replay a recording against itself (`replay --verify`): send every recorded request, and compare every byte."""

import asyncio
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from urllib.parse import urlsplit

from wiretape.labels import count_of
from wiretape.observations import BytesArrived, Ending, Headers, Side, header
from wiretape.recording import Exchange, Recording, open_recording
from wiretape.safe_text import shorten
from wiretape_replay.http_server.aiohttp_server import HttpServer
from wiretape_replay.http_server.http_messages import HttpRequest, ResponseHead, single_line
from wiretape_replay.http_server.response_writer import ExchangeListener, ExchangePart, RequestComplete
from wiretape_replay.verbatim.request_matching import Matching, Order
from wiretape_replay.verbatim.verbatim_player import VerbatimPlayer, plan_response

_Part = RequestComplete | ResponseHead | bytes | Ending
"""What is awaited: the end of the request; and the head, a chunk, or the end of the response."""
_READ_BYTES = 256 * 1024
_TURNS = 20
"""After this many turns of the event loop, the server has done what it was about to do."""
_MOST_SHOWN = 40
"""Bytes of a difference that are shown."""
_ENDINGS = {
    Ending.COMPLETE: "complete",
    Ending.SERVICE_CLOSED: "closed",
    Ending.SERVICE_RESET: "reset",
    Ending.CLIENT_CLOSED: "left open without the end of the response",
}
_ENDED = {
    Ending.COMPLETE: "the response ended",
    Ending.SERVICE_CLOSED: "the connection was closed",
    Ending.SERVICE_RESET: "the connection was reset",
    Ending.CLIENT_CLOSED: "nothing more arrived",
}


@dataclass(slots=True)
class VerifyResult:
    """The result of a verification."""

    exchanges: int = 0
    size: int = 0
    """Bytes of response bodies that are as recorded."""
    chunks: int = 0
    different: int = 0
    """Exchanges whose response is not as recorded."""
    first: str | None = None
    """The first difference, one sentence."""
    http2: int = 0
    """Exchanges recorded over HTTP/2, whose responses were compared in their form of HTTP/1.1."""
    gaps: int = 0
    """Bytes of requests and responses that were not recorded, and so were left out."""

    @property
    def same(self) -> bool:
        """Whether every response is as recorded."""
        return self.different == 0

    @property
    def lines(self) -> list[str]:
        """The lines to print."""
        exchanges = count_of(self.exchanges, "exchange")
        if self.first is None:
            came = f"{count_of(self.size, 'byte')} of body in {count_of(self.chunks, 'chunk')}"
            lines = [f"{exchanges} came back as recorded: {came}, with their heads and endings."]
        else:
            lines = [f"{self.different} of {exchanges} came back differently. The first is {self.first}"]
        if self.http2:
            lines.append(
                f"Recorded over HTTP/2, served and compared over HTTP/1.1: {count_of(self.http2, 'exchange')}."
            )
        if self.gaps:
            lines.append(f"Not recorded, and therefore left out: {count_of(self.gaps, 'byte')}.")
        return lines


async def verify(recording_path: Path | str, *, timeout_s: float = 10) -> VerifyResult:
    """Serve a recording in verbatim mode, request every exchange in recorded order, and compare all bytes.

    Holds no more than a part of one body in memory.  A response may pause for `timeout_s`.
    Raises RecordingError for a file that cannot be replayed.
    """
    with open_recording(recording_path) as recording:
        player = VerbatimPlayer(recording, math.inf, matching=Matching(order=Order.STRICT))
        verifier = _Verifier(recording, player, timeout_s)
        server = HttpServer(player.respond, listener=verifier.listen)
        try:
            return await verifier.run(await server.start("127.0.0.1", 0))
        finally:
            await server.stop()


class _Difference(Exception):  # noqa: N818 - the result of a comparison, not an error of the program
    """A difference between a response and the recorded one; the message is a clause."""


class _Verifier:
    """Sends the requests, and compares what the server reports to have sent, part by part."""

    def __init__(self, recording: Recording, player: VerbatimPlayer, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._recording = recording
        self._player = player
        self._parts = asyncio.Queue[ExchangePart]()
        self._result = VerifyResult()

    def listen(self, _: HttpRequest) -> ExchangeListener:
        """See TrafficListener."""
        return self._parts.put_nowait

    async def run(self, url: str) -> VerifyResult:
        """Send all requests to the server at a URL."""
        address = urlsplit(url)
        for exchange in self._recording.exchanges():
            self._parts = asyncio.Queue()
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            reading = asyncio.create_task(_drop_response(reader, writer, self._parts))
            try:
                await self._exchange(exchange, writer)
            finally:
                writer.transport.abort()
                await reading
        return self._result

    async def _exchange(self, exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        result = self._result
        result.exchanges += 1
        result.gaps += exchange.lost_bytes
        result.http2 += exchange.response is not None and exchange.response.http_version.startswith("HTTP/2")
        misses = len(self._player.missed)
        try:
            with suppress(ConnectionError):  # the response shows it
                for part in request_bytes(self._recording, exchange):
                    writer.write(part)
                    await writer.drain()
            await self._compare(exchange, writer)
        except _Difference as difference:
            missed = self._player.missed[misses:]
            self._add_difference(exchange, f"no match: {missed[0].message}" if missed else f"{difference}.")
            self._player.queues.skip(exchange.number)

    async def _compare(self, exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        """Compare a response with the recorded one.  Raises _Difference, and RecordingError."""
        plan = plan_response(exchange)
        part = await self._next_part("the head")
        if not isinstance(part, RequestComplete):
            raise _Difference(f"{_ended(part)} before the head")
        if plan.head is not None:
            _compare_head(await self._next_part("the head"), plan.head)
        size = chunks = 0
        for _, chunk in plan.chunks(self._recording.body(exchange.number, Side.RESPONSE)):
            if chunk:
                chunks += 1
                _compare_chunk(await self._next_part(f"byte {size} of the body"), chunk, chunks, size)
                size += len(chunk)
                self._result.size += len(chunk)
                self._result.chunks += 1
        expected = plan.end_after(size)
        if expected is Ending.CLIENT_CLOSED:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            if self._parts.empty():
                writer.transport.abort()
        part = await self._next_part("the end")
        if isinstance(part, bytes):
            raise _Difference(f"more data follows the {count_of(chunks, 'recorded chunk')}: {_quoted(part)}")
        if part is not expected:
            raise _Difference(f"{_ended(part)} after the last byte; in the recording, it was {_ENDINGS[expected]}")

    async def _next_part(self, place: str) -> _Part:
        """The next part of a response, which is at a place.  Raises _Difference if nothing more arrives in time."""
        with suppress(TimeoutError):
            while True:
                if self._parts.empty():
                    part = await asyncio.wait_for(self._parts.get(), self._timeout_s)
                else:
                    part = self._parts.get_nowait()
                if isinstance(part, _Part):
                    return part
        raise _Difference(f"nothing more arrived before {place}")

    def _add_difference(self, exchange: Exchange, what: str) -> None:
        self._result.different += 1
        request = shorten(f"{exchange.request.method} {exchange.request.target.partition('?')[0]}")
        self._result.first = self._result.first or f"exchange {exchange.number}, {request}: {what}"


async def _drop_response(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parts: asyncio.Queue[ExchangePart]
) -> None:
    """Read a response to its end, which the server does not report for a request that it refuses."""
    with suppress(ConnectionError):
        while await reader.read(_READ_BYTES):
            pass
        if not writer.is_closing():
            parts.put_nowait(Ending.SERVICE_CLOSED)


def _compare_head(sent: _Part, expected: ResponseHead) -> None:
    if not isinstance(sent, ResponseHead):
        raise _Difference(f"{_ended(sent)} before the head")
    lines = zip_longest(sent.raw.split(b"\r\n"), expected.raw.split(b"\r\n"), fillvalue=b"")
    for line, recorded in lines:
        if line != recorded:
            raise _Difference(f"the head has {_quoted(line)} where {_quoted(recorded)} was recorded")


def _compare_chunk(sent: _Part, expected: bytes, number: int, start: int) -> None:
    """Compare the chunk of this number, from 1, which starts at this byte of the body."""
    if not isinstance(sent, bytes):
        raise _Difference(f"{_ended(sent)} before byte {start} of the body")
    if len(sent) != len(expected):
        raise _Difference(f"chunk {number} has {len(sent)} bytes where {len(expected)} bytes were recorded")
    if sent != expected:
        at = next(at for at in range(len(sent)) if sent[at] != expected[at])
        raise _Difference(
            f"byte {start + at} of the body begins {_quoted(sent[at:])} where {_quoted(expected[at:])} was recorded"
        )


def _ended(part: _Part) -> str:
    return _ENDED.get(part, "the replay stopped") if isinstance(part, Ending) else "another response began"


def _quoted(data: bytes) -> str:
    return f"'{shorten(data[: _MOST_SHOWN + 1].decode('latin-1'), _MOST_SHOWN)}'"


_CONNECTION_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers about the connection, not the request: the body gets its own length, and the protocol is not switched."""


def request_bytes(recording: Recording, exchange: Exchange) -> Iterator[bytes]:
    """Yield a request in HTTP/1.1: target and other headers as recorded, with fingerprints.

    The body is what was recorded of it.  Raises RecordingError.
    """
    request = exchange.request
    lines = [f"{single_line(request.method)} {single_line(request.target)} HTTP/1.1"]
    lines += [f"{single_line(name)}: {single_line(value)}" for name, value in _headers(exchange)]
    yield "\r\n".join([*lines, "\r\n"]).encode("latin-1", "replace")
    for run in recording.body(exchange.number, Side.REQUEST):
        if isinstance(run, BytesArrived):
            yield run.data


def _headers(exchange: Exchange) -> Headers:
    request = exchange.request
    kept = tuple(
        (name, value)
        for name, value in request.headers
        if not name.startswith(":") and name.lower() not in _CONNECTION_HEADERS
    )
    if header(request.headers, "host") is None:
        kept = (("Host", request.authority), *kept)
    if exchange.request_bytes or header(request.headers, "content-length") is not None:
        kept = (*kept, ("Content-Length", str(exchange.request_bytes)))
    return kept
