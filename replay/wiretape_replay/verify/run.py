"""Serving a recording and asking for all of it."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wiretape.labels import count_of
from wiretape.observations import Side
from wiretape.recording import Exchange, Recording, open_recording
from wiretape.safe_text import shorten
from wiretape_replay.front.server import Front
from wiretape_replay.playback_speed import PlaybackSpeed
from wiretape_replay.tape.matching import Matching, Order
from wiretape_replay.tape.player import TapePlayer
from wiretape_replay.verify.compare import Comparison, Difference
from wiretape_replay.verify.expected import expected
from wiretape_replay.verify.request import request_bytes
from wiretape_replay.verify.wire import Wire


@dataclass(slots=True)
class Verified:
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


async def verify(recording_path: Path | str, *, patience_s: float = 10) -> Verified:
    """Serve a recording in tape mode at once, ask for every exchange in recorded order, and compare all bytes.

    Holds no more than a piece of one body.  `patience_s` is how long nothing may come where something has to.
    Raises RecordingError for a file that cannot be played.
    """
    with open_recording(recording_path) as recording:
        player = TapePlayer(recording, PlaybackSpeed.of("max"), lambda _: None, matching=Matching(order=Order.STRICT))
        front = Front(player, lambda _: None)
        try:
            return await _Verifier(recording, player, await front.start("127.0.0.1", 0), patience_s).run()
        finally:
            await front.stop()


class _Verifier:
    def __init__(self, recording: Recording, player: TapePlayer, url: str, patience_s: float) -> None:
        where = urlsplit(url)
        self._address = (where.hostname or "", where.port or 0)
        self._patience_s = patience_s
        self._recording = recording
        self._player = player
        self._wire: Wire | None = None
        self._found = Verified()

    async def run(self) -> Verified:
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
        wire = self._wire = self._wire or await Wire.connect(*self._address, patience_s=self._patience_s)
        comparison = Comparison(wire, expected(exchange))
        try:
            for piece in request_bytes(self._recording, exchange):
                await wire.send(piece)
            usable = await comparison.answer(self._recording.body(exchange.number, Side.RESPONSE))
        except Difference as difference:
            usable = False
            missed = self._player.missed[misses:]
            self._differs(exchange, f"no match: {missed[0].message}" if missed else f"{difference}.")
            self._player.tape.skip(exchange.number)
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
