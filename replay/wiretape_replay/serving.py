"""A recording served from Python."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from wiretape.contract import STREAM, session_in
from wiretape.recording import Exchange, Recording, open_recording
from wiretape_replay.answers.request_ids import RequestIds
from wiretape_replay.front.server import Front
from wiretape_replay.front.source import Source
from wiretape_replay.pace import Pace
from wiretape_replay.session.drives import Drives
from wiretape_replay.session.player import SessionPlayer
from wiretape_replay.tape.matching import Matching
from wiretape_replay.tape.player import Missed, Served, TapePlayer
from wiretape_replay.tape.tape import Entry


@dataclass(frozen=True, slots=True)
class Options:
    """How a recording is played."""

    mode: str = "session"
    """`session` (by the playhead) or `tape` (recorded answers in recorded order)."""
    pace: Pace = field(default_factory=lambda: Pace.of("max"))
    paused: bool = False
    """Whether playheads stand until they are moved by hand."""
    own_playhead: bool = False
    """Whether each stream that begins anew gets a playhead of its own."""
    matching: Matching = field(default_factory=Matching)
    """What counts when a request is matched to recorded ones: all of them in tape mode, else those for no stream."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A recording being played: where, and what was asked so far.  Stays readable when it has ended."""

    url: str
    """The base URL, without a slash at its end."""
    tape: TapePlayer
    """Answers from recorded exchanges: all of them in tape mode, in session mode those that are no streams."""
    player: SessionPlayer | None
    """In session mode."""

    @property
    def served(self) -> list[Served]:
        """The requests that were given a recorded answer, in order."""
        return self.tape.served

    @property
    def misses(self) -> list[Missed]:
        """The requests that were answered with status 501, in order."""
        return self.tape.missed

    @property
    def unconsumed(self) -> list[Entry]:
        """The recorded requests that nobody asked, in recorded order."""
        return self.tape.tape.unconsumed


@asynccontextmanager
async def serve_replay(
    recording_path: Path | str,
    options: Options | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    log: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Replay]:
    """Play a recording.  Port 0 takes a free one.  `log` takes a line for each request.

    Raises RecordingError for a file that cannot be played, and InputError for an address that cannot be used.
    """
    options = options or Options()
    with open_recording(recording_path) as recording:
        source, tape, drives = _players(recording, options, log)
        front = Front(source, log)
        url = await front.start(host, port)
        try:
            yield Replay(url, tape, source if isinstance(source, SessionPlayer) else None)
        finally:
            await front.stop()
            drives.stop()


def _players(recording: Recording, options: Options, log: Callable[[str], None]) -> tuple[Source, TapePlayer, Drives]:
    drives = Drives(speed=options.pace.speed, paused=options.paused, own=options.own_playhead)
    if options.mode == "tape":
        tape = TapePlayer(recording, options.pace, log, matching=options.matching)
        return tape, tape, drives
    from wiretape_replay.session.building import sessions_of  # noqa: PLC0415

    sessions = sessions_of(recording, log)
    ids = RequestIds()
    tape = TapePlayer(
        recording,
        options.pace,
        log,
        matching=options.matching,
        holds=lambda exchange: not _on_log(exchange),
        request_ids=ids,
    )
    player = SessionPlayer(
        sessions, known=_known(recording), others=tape, drives=drives, request_ids=ids, log=log
    )
    return player, tape, drives


def _on_log(exchange: Exchange) -> bool:
    """Whether an exchange is a stream of which a log is made."""
    return exchange.operation == STREAM.name and exchange.session_id is not None


def _known(recording: Recording) -> frozenset[str]:
    named = (exchange.session_id or session_in(exchange.request.target) for exchange in recording.exchanges())
    return frozenset(session_id for session_id in named if session_id is not None)
