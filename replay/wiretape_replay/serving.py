"""A recording served from Python."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from wiretape.contract import STREAM
from wiretape.recording import Exchange, Recording, open_recording
from wiretape_replay.answers.foreign import foreign
from wiretape_replay.answers.guard import Guard
from wiretape_replay.answers.guarded import Guarded
from wiretape_replay.answers.request_ids import RequestIds
from wiretape_replay.answers.workspaces import workspaces_of
from wiretape_replay.control.control_access import check_token, new_token
from wiretape_replay.control.control_api import ControlApi
from wiretape_replay.control.handle import SessionHandle
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.control.wiring import operations_of
from wiretape_replay.faults.fault_application import FaultApplier
from wiretape_replay.faults.injector import FaultInjector
from wiretape_replay.front.server import Front
from wiretape_replay.front.source import Source
from wiretape_replay.judging.judge import Judge
from wiretape_replay.replay_options import ReplayOptions
from wiretape_replay.session.player import SessionPlayer
from wiretape_replay.session.playheads import Playheads
from wiretape_replay.session.recorded.log_builder import build_sessions, find_session_ids
from wiretape_replay.session.session_streams import SessionStreams
from wiretape_replay.tape.player import Missed, Served, TapePlayer
from wiretape_replay.tape.tape import Entry


@dataclass(frozen=True, slots=True)
class Replay:
    """A recording being played: where, and what was asked so far.  Stays readable when it has ended."""

    url: str
    """The base URL, without a slash at its end."""
    tape: TapePlayer
    """Answers from recorded exchanges: all of them in tape mode, in session mode those that are no streams."""
    player: SessionPlayer | None
    """In session mode."""
    faults: FaultInjector
    """What went wrong so far, and how often."""
    control: PlayheadControl
    """Moves all playheads; what begins anew with `reset` is in its `on_reset`."""
    token: str
    """Of the control interface over HTTP."""
    odd: Sequence[str] = ()
    """A sentence for each thing that is odd about a recorded session, safe to show."""

    def session(self, session_id: str | None = None) -> SessionHandle:
        """Moves the playhead of one session; None: of the only one.  Raises InputError."""
        return SessionHandle(self.control, self.control.session_state(session_id).session)

    @property
    def served(self) -> list[Served]:
        """The requests that were given a recorded answer, in order."""
        return self.tape.served

    @property
    def misses(self) -> list[Missed]:
        """The requests that were answered with status 501, in order."""
        return self.tape.missed

    @property
    def unfollowed(self) -> list[str]:
        """The sessions whose stream nobody was given, in session mode."""
        if self.player is None:
            return []
        given = {stream.session_id for stream in self.player.streamed if stream.refusal is None}
        return [session_id for session_id in self.player.sessions if session_id not in given]

    @property
    def unconsumed(self) -> list[Entry]:
        """The recorded requests that nobody asked, in recorded order."""
        return self.tape.tape.unconsumed


@asynccontextmanager
async def serve_replay(
    recording_path: Path | str,
    options: ReplayOptions | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    log: Callable[[str], None] = lambda _: None,
    judge: Judge | None = None,
    token: str | None = None,
) -> AsyncIterator[Replay]:
    """Play a recording.  Port 0 takes a free one.  `log` takes a line for each request.

    `judge` listens to what passes, and has finished when the block is left.
    `token` is what requests to the control interface have to carry; None: one that nobody can guess.

    Raises RecordingError for a file that cannot be played, and InputError for an address that cannot be used.
    """
    options = options or ReplayOptions()
    faults, ids = FaultInjector(options.script), RequestIds()
    token = new_token() if token is None else check_token(token)
    applier = FaultApplier(faults, ids, log)
    with open_recording(recording_path) as recording:
        odd: list[str] = []
        players = _players(recording, options, applier=applier, ids=ids, log=log, say=odd.append)
        guard = _guard(players, options, ids)
        source = players.source if guard is None else Guarded(guard, players.source, log)
        front = Front(applier.before(source), log, judge, foreign(ids))
        control = operations_of(players.drives, players.tape, players.session)
        control.on_reset.append(faults.rewind)
        if guard is not None:
            control.on_reset.append(guard.rewind)
        ControlApi(control, token).attach(front.app)
        url = await front.start(host, port)
        try:
            if judge is not None:
                judge.open(url)
            yield Replay(url, players.tape, players.session, faults, control, token, odd)
        finally:
            await front.stop()
            players.drives.stop()
            if judge is not None:
                judge.finish()


@dataclass(frozen=True, slots=True)
class _Players:
    """Those who answer, in session mode the second by way of the first."""

    session: SessionPlayer | None
    tape: TapePlayer
    drives: Playheads

    @property
    def source(self) -> Source:
        """Of all answers."""
        return self.session or self.tape


def _players(
    recording: Recording,
    options: ReplayOptions,
    *,
    applier: FaultApplier,
    ids: RequestIds,
    log: Callable[[str], None],
    say: Callable[[str], None],
) -> _Players:
    """`say` takes a sentence for each thing that is odd about a session."""
    drives = Playheads(speed=options.pace.speed, paused=options.paused, own=options.playhead == "connection")
    if options.mode == "tape":
        tape = TapePlayer(recording, options.pace, log, matching=options.matching, request_ids=ids)
        return _Players(None, tape, drives)
    sessions = build_sessions(recording, say)
    tape = TapePlayer(
        recording,
        options.pace,
        log,
        matching=options.matching,
        holds=lambda exchange: not _is_stream_of(exchange, sessions),
        request_ids=ids,
    )
    streams = SessionStreams(drives, ids, log, applier)
    player = SessionPlayer(sessions, known=find_session_ids(recording), others=tape, streams=streams)
    return _Players(player, tape, drives)


def _guard(players: _Players, options: ReplayOptions, ids: RequestIds) -> Guard | None:
    """Who stands before the source of all answers, if anybody."""
    if options.treatment is None:
        return None
    sessions = players.session.sessions if players.session is not None else {}
    workspace_of = workspaces_of({session_id: session.log for session_id, session in sessions.items()})
    return Guard(options.treatment, ids.next, workspace_of)


def _is_stream_of(exchange: Exchange, sessions: Collection[str]) -> bool:
    """Whether an exchange is a request for the stream of a session that has a log."""
    return exchange.operation == STREAM.name and exchange.session_id in sessions
