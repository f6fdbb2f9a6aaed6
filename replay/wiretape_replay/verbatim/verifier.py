"""Replay a recording against itself (`replay --verify`): send every recorded request, and compare every byte."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wiretape.labels import count_of
from wiretape.observations import BytesArrived, Headers, Side, header
from wiretape.recording import Exchange, Recording, open_recording
from wiretape.safe_text import shorten
from wiretape_replay.http_server.aiohttp_server import HttpServer
from wiretape_replay.http_server.http_messages import single_line
from wiretape_replay.verbatim.request_matching import Matching, Order
from wiretape_replay.verbatim.response_comparison import Comparison, Difference, RawConnection, expected_response
from wiretape_replay.verbatim.verbatim_player import VerbatimPlayer


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
        server = HttpServer(player.respond)
        try:
            return await _Verifier(recording, player, await server.start("127.0.0.1", 0), timeout_s).run()
        finally:
            await server.stop()


class _Verifier:
    def __init__(self, recording: Recording, player: VerbatimPlayer, url: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._timeout_s = timeout_s
        self._recording = recording
        self._player = player
        self._connection: RawConnection | None = None
        self._result = VerifyResult()

    async def run(self) -> VerifyResult:
        """Send all requests."""
        try:
            for exchange in self._recording.exchanges():
                await self._exchange(exchange)
        finally:
            self._disconnect()
        return self._result

    async def _exchange(self, exchange: Exchange) -> None:
        result = self._result
        result.exchanges += 1
        result.gaps += exchange.lost_bytes
        result.http2 += exchange.response is not None and exchange.response.http_version.startswith("HTTP/2")
        misses = len(self._player.missed)
        connection = self._connection = self._connection or await RawConnection.connect(
            *self._address, timeout_s=self._timeout_s
        )
        comparison = Comparison(connection, expected_response(exchange))
        try:
            for part in request_bytes(self._recording, exchange):
                await connection.send(part)
            usable = await comparison.compare(self._recording.body(exchange.number, Side.RESPONSE))
        except Difference as difference:
            usable = False
            missed = self._player.missed[misses:]
            self._add_difference(exchange, f"no match: {missed[0].message}" if missed else f"{difference}.")
            self._player.queues.skip(exchange.number)
        result.size += comparison.sent
        result.chunks += comparison.chunks
        if not usable:
            self._disconnect()

    def _add_difference(self, exchange: Exchange, what: str) -> None:
        self._result.different += 1
        request = shorten(f"{exchange.request.method} {exchange.request.target.partition('?')[0]}")
        self._result.first = self._result.first or f"exchange {exchange.number}, {request}: {what}"

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


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
