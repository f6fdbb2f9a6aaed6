"""Serving a recording and asking for all of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wiretape.labels import count_of
from wiretape.observations import BytesArrived, Headers, Side, header
from wiretape.recording import Exchange, Recording, open_recording
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import single_line
from wiretape_replay.http_server.server import HttpServer
from wiretape_replay.playback_speed import PlaybackSpeed
from wiretape_replay.verbatim.request_matching import Matching, Order
from wiretape_replay.verbatim.verbatim_player import VerbatimPlayer
from wiretape_replay.verify.raw_connection import RawConnection
from wiretape_replay.verify.response_comparison import Comparison, Difference, expected_response


@dataclass(slots=True)
class VerifyResult:
    """What came of it."""

    exchanges: int = 0
    size: int = 0
    """Bytes of answers' bodies that came as recorded."""
    chunks: int = 0
    different: int = 0
    """Exchanges that were not answered as recorded."""
    first: str | None = None
    """The first difference, one sentence."""
    http2: int = 0
    """Exchanges recorded over HTTP/2, whose answers were compared as HTTP/1.1 has them."""
    gaps: int = 0
    """Bytes of answers and requests that were never recorded, and so left out."""

    @property
    def same(self) -> bool:
        """Whether everything came back as recorded."""
        return self.different == 0

    @property
    def lines(self) -> list[str]:
        """What was found, for people."""
        all_of_it = count_of(self.exchanges, "exchange")
        if self.first is None:
            came = f"{count_of(self.size, 'byte')} of body in {count_of(self.chunks, 'chunk')}"
            lines = [f"{all_of_it} came back as recorded: {came}, with their heads and endings."]
        else:
            lines = [f"{self.different} of {all_of_it} came back differently. The first is {self.first}"]
        if self.http2:
            lines.append(
                f"Recorded over HTTP/2, served and compared over HTTP/1.1: {count_of(self.http2, 'exchange')}."
            )
        if self.gaps:
            lines.append(f"Not recorded, and so left out: {count_of(self.gaps, 'byte')}.")
        return lines


async def verify(recording_path: Path | str, *, patience_s: float = 10) -> VerifyResult:
    """Serve a recording in verbatim mode at once, ask for every exchange in recorded order, and compare all bytes.

    Holds no more than a piece of one body.  `patience_s` is how long nothing may come where something has to.
    Raises RecordingError for a file that cannot be played.
    """
    with open_recording(recording_path) as recording:
        player = VerbatimPlayer(
            recording, PlaybackSpeed.of("max"), lambda _: None, matching=Matching(order=Order.STRICT)
        )
        front = HttpServer(player.respond, lambda _: None)
        try:
            return await _Verifier(recording, player, await front.start("127.0.0.1", 0), patience_s).run()
        finally:
            await front.stop()


class _Verifier:
    def __init__(self, recording: Recording, player: VerbatimPlayer, url: str, patience_s: float) -> None:
        where = urlsplit(url)
        self._address = (where.hostname or "", where.port or 0)
        self._patience_s = patience_s
        self._recording = recording
        self._player = player
        self._wire: RawConnection | None = None
        self._found = VerifyResult()

    async def run(self) -> VerifyResult:
        """Ask for everything."""
        try:
            for exchange in self._recording.exchanges():
                await self._exchange(exchange)
        finally:
            self._leave()
        return self._found

    async def _exchange(self, exchange: Exchange) -> None:
        found = self._found
        found.exchanges += 1
        found.gaps += exchange.lost_bytes
        found.http2 += exchange.response is not None and exchange.response.http_version.startswith("HTTP/2")
        misses = len(self._player.missed)
        wire = self._wire = self._wire or await RawConnection.connect(*self._address, patience_s=self._patience_s)
        comparison = Comparison(wire, expected_response(exchange))
        try:
            for piece in request_bytes(self._recording, exchange):
                await wire.send(piece)
            usable = await comparison.answer(self._recording.body(exchange.number, Side.RESPONSE))
        except Difference as difference:
            usable = False
            missed = self._player.missed[misses:]
            self._differs(exchange, f"no match: {missed[0].message}" if missed else f"{difference}.")
            self._player.queues.skip(exchange.number)
        found.size += comparison.sent
        found.chunks += comparison.chunks
        if not usable:
            self._leave()

    def _differs(self, exchange: Exchange, what: str) -> None:
        self._found.different += 1
        request = shorten(f"{exchange.request.method} {exchange.request.target.partition('?')[0]}")
        self._found.first = self._found.first or f"exchange {exchange.number}, {request}: {what}"

    def _leave(self) -> None:
        if self._wire is not None:
            self._wire.leave()
            self._wire = None


_OF_THE_CONNECTION = frozenset(
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
"""Headers that say how a request travels, not what is asked: the body gets its own length, and nothing is switched."""


def request_bytes(recording: Recording, exchange: Exchange) -> Iterator[bytes]:
    """The request, piece by piece, over HTTP/1.1: target and other headers as recorded, fingerprints included.

    Of its body goes what was recorded of it.  Raises RecordingError.
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
        if not name.startswith(":") and name.lower() not in _OF_THE_CONNECTION
    )
    if header(request.headers, "host") is None:
        kept = (("Host", request.authority), *kept)
    if exchange.request_bytes or header(request.headers, "content-length") is not None:
        kept = (*kept, ("Content-Length", str(exchange.request_bytes)))
    return kept
