"""A recording served from Python."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from wiretape.recording import open_recording
from wiretape_replay.front.server import Front
from wiretape_replay.pace import Pace
from wiretape_replay.tape.player import Missed, Served, TapePlayer
from wiretape_replay.tape.tape import Entry


@dataclass(frozen=True, slots=True)
class ServedTape:
    """A tape being served: where, and what was asked so far.  Stays readable when serving has ended."""

    url: str
    """The base URL, without a slash at its end."""
    player: TapePlayer

    @property
    def served(self) -> list[Served]:
        """The requests that were given a recorded answer, in order."""
        return self.player.served

    @property
    def misses(self) -> list[Missed]:
        """The requests that were answered with status 501, in order."""
        return self.player.missed

    @property
    def unconsumed(self) -> list[Entry]:
        """The recorded requests that nobody asked, in recorded order."""
        return self.player.tape.unconsumed


@asynccontextmanager
async def serve_tape(
    recording_path: Path | str,
    *,
    speed: str | float = "max",
    host: str = "127.0.0.1",
    port: int = 0,
    log: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[ServedTape]:
    """Serve the answers of a recording in recorded order, at `speed` ("max", or times as fast as recorded).

    Port 0 takes a free one.  `log` takes a line for each request.
    Raises RecordingError for a file that cannot be played, and InputError for an address or speed that cannot be used.
    """
    pace = Pace.of(speed)
    with open_recording(recording_path) as recording:
        player = TapePlayer(recording, pace, log)
        front = Front(player, log)
        url = await front.start(host, port)
        try:
            yield ServedTape(url, player)
        finally:
            await front.stop()
