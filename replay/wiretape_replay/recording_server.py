"""Replay a recording from Python."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wiretape.agent_sessions import AUTHENTICATION_REQUIRED, ERROR_CODES, STREAM, bearer_keys
from wiretape.recording import Recording, open_recording
from wiretape_replay.access.auth_and_rate_limits import AccessControl
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.control.control_state import MissState, RequestSummary
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.offline_server import OfflineServer, RunningServer
from wiretape_replay.server_options import ReplayOptions
from wiretape_replay.session.log_builder import build_sessions, find_service_bases, find_session_ids
from wiretape_replay.session.playhead_clock import Playheads
from wiretape_replay.session.recorded_connection import read_event
from wiretape_replay.session.session_log import EntryKind, PlayableSession
from wiretape_replay.session.session_streams import SessionPlayer, SessionStreams
from wiretape_replay.verbatim.exchange_queues import RecordedRequest
from wiretape_replay.verbatim.verbatim_player import ServedRequest, UnmatchedRequest, VerbatimPlayer


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(RunningServer):
    """A recording that is replayed."""

    verbatim: VerbatimPlayer
    """Serves recorded responses: all of them in verbatim mode, those that are not streams in session mode."""
    player: SessionPlayer | None
    """Serves streams, in session mode."""
    warnings: Sequence[str] = ()
    """A sentence for each oddity of a recorded session, safe to print."""

    @property
    def served(self) -> list[ServedRequest]:
        """The requests that got a recorded response, in order."""
        return self.verbatim.served

    @property
    def misses(self) -> list[UnmatchedRequest]:
        """The requests that got status 501, in order."""
        return self.verbatim.missed

    @property
    def unfollowed(self) -> list[str]:
        """The sessions whose stream no client requested, in session mode."""
        if self.player is None:
            return []
        requested = {stream.session_id for stream in self.player.streams.requests if stream.refusal is None}
        return [session_id for session_id in self.player.sessions if session_id not in requested]

    @property
    def unconsumed(self) -> list[RecordedRequest]:
        """The recorded requests that no client sent, in recorded order."""
        return self.verbatim.queues.unconsumed


@asynccontextmanager
async def serve_replay(
    recording_path: Path | str,
    options: ReplayOptions | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    log: Callable[[str], None] | None = None,
    checker: ClientChecker | None = None,
    token: str | None = None,
) -> AsyncIterator[Replay]:
    """Replay a recording until the block is left.  Port 0 picks a free port.  `log` receives a line for each request.

    `checker` checks the client, and has finished after the block.
    `token` is the control token; None generates one.

    Raises RecordingError for a file that cannot be replayed, and InputError for an address that cannot be used.
    """
    options = options or ReplayOptions()
    with open_recording(recording_path) as recording:
        bases = find_service_bases(recording)
        server = OfflineServer(options.script, log=log, checker=checker, token=token, bases=bases)
        warnings: list[str] = []
        playheads = Playheads(
            speed=options.speed_factor, paused=options.paused, per_connection=options.playhead == "connection"
        )
        sessions = build_sessions(recording, warnings.append) if options.mode == "session" else {}
        verbatim = VerbatimPlayer(
            recording,
            options.speed_factor,
            matching=options.matching,
            includes=lambda exchange: exchange.operation != STREAM.name or exchange.session_id not in sessions,
            request_ids=server.ids,
        )
        player = None
        if options.mode == "session":
            streams = SessionStreams(playheads, server.ids, server.faulty_sender)
            player = SessionPlayer(
                sessions, known_ids=find_session_ids(recording), others=verbatim.respond, streams=streams
            )
        access = None
        policy = options.access_policy(recorded_keys=_required_keys(recording))
        if policy is not None:
            access = AccessControl(policy, server.ids.next, _workspaces_of(sessions))
        control = replay_control(playheads, verbatim, player)
        handler = verbatim.respond if player is None else player.respond
        try:
            async with server.listen(handler, control, host, port, access=access) as url:
                yield Replay(
                    url=url,
                    faults=server.faults,
                    control=control,
                    token=server.token,
                    has_playheads=player is not None,
                    verbatim=verbatim,
                    player=player,
                    warnings=warnings,
                )
        finally:
            playheads.stop()


def _required_keys(recording: Recording) -> bool:
    """Whether the recorded service required keys.

    A request for one of its operations had a key or was refused with 401, and none succeeded without a key.
    """
    refused = ERROR_CODES[AUTHENTICATION_REQUIRED].status
    required = False
    for exchange in recording.exchanges():
        if exchange.operation is None or exchange.request.is_invented:
            continue
        status = exchange.response.status if exchange.response is not None else None
        has_key = bool(bearer_keys(exchange.request.headers))
        if not has_key and status is not None and status // 100 == 2:
            return False
        required |= has_key or status == refused
    return required


def replay_control(playheads: Playheads, verbatim: VerbatimPlayer, player: SessionPlayer | None) -> PlayheadControl:
    """Control of a replay's playheads; `player` is None in verbatim mode, which has none."""
    return PlayheadControl(
        playheads,
        {} if player is None else {name: session.log for name, session in player.sessions.items()},
        connected=() if player is None else player.streams.connected,
        requests=lambda: _summarise_requests(verbatim, player),
        on_reset=[verbatim.queues.reset],
    )


def _summarise_requests(verbatim: VerbatimPlayer, player: SessionPlayer | None) -> RequestSummary:
    """The requests so far; of targets only the path, because the query may contain secrets."""
    requests = [] if player is None else player.streams.requests
    refused = sum(request.refusal is not None for request in requests)
    misses = [MissState(miss.method, miss.target.partition("?")[0], miss.message) for miss in verbatim.missed]
    return RequestSummary(len(requests) - refused, refused, len(verbatim.served), misses)


def _workspaces_of(sessions: Mapping[str, PlayableSession]) -> Callable[[str], str | None]:
    """Return a function that gives the workspace of a session; None if none of its events contains it."""

    @cache
    def find_workspace(session_id: str) -> str | None:
        durable = (entry for entry in sessions[session_id].log.entries if entry.kind is EntryKind.DURABLE)
        return next(filter(None, (read_event(entry.data).workspace_of(session_id) for entry in durable)), None)

    return lambda session_id: find_workspace(session_id) if session_id in sessions else None
