"""Serve a scenario from Python."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from wiretape_replay.access.auth_and_rate_limits import AccessControl
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.control.control_state import RequestSummary
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.generated_ids import RequestIdCounter
from wiretape_replay.offline_server import OfflineServer, RunningServer
from wiretape_replay.server_options import ServeOptions
from wiretape_replay.service.assumptions import ServiceSettings
from wiretape_replay.service.live_sessions import LiveSessions
from wiretape_replay.service.scenario_file import find_scenario
from wiretape_replay.service.scenario_steps import Scenario
from wiretape_replay.service.service_clock import Clock, VirtualClock
from wiretape_replay.service.service_operations import ServiceOperations
from wiretape_replay.service.service_routes import find_route
from wiretape_replay.session.playhead_clock import Playheads
from wiretape_replay.session.session_streams import SessionStreams

DEFAULT_SCENARIO = "hello"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(RunningServer):
    """A service that serves a scenario."""

    key: str
    """A valid bearer key, with all scopes if there is one."""
    scenario: Scenario
    sessions: LiveSessions
    streams: SessionStreams

    @property
    def clock(self) -> Clock:
        """The clock of the service."""
        return self.sessions.clock


@asynccontextmanager
async def serve_scenario(
    scenario: Scenario | Path | str = DEFAULT_SCENARIO,
    options: ServeOptions | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    log: Callable[[str], None] | None = None,
    checker: ClientChecker | None = None,
    token: str | None = None,
) -> AsyncIterator[Service]:
    """Serve a scenario: the name of a bundled one, a file, TOML text, or a `Scenario`.

    Port 0 takes a free one.  `log` receives a line for each request.  `checker` checks the client, and has
    finished after the block.  `token` is the control token; None generates one.

    Raises InputError for a scenario or an address that cannot be used.
    """
    options = options or ServeOptions()
    parsed = scenario if isinstance(scenario, Scenario) else find_scenario(scenario)
    clock: Clock = VirtualClock() if options.is_virtual else Clock(datetime.now(UTC))
    playheads = Playheads(speed=float("inf"), paused=False, per_connection=False, call_later=clock.later)
    sessions = LiveSessions(options.seed, clock, parsed, playheads)
    ids = RequestIdCounter("req")
    server = OfflineServer(options.script, log=log, checker=checker, token=token, ids=ids)
    streams = SessionStreams(playheads, ids, server.faulty_sender)
    access = AccessControl(options.settings.access, ids.next)
    operations = ServiceOperations(sessions, streams, access, options.settings.assumed, ids)
    control = _control(sessions, streams)
    if checker is not None:
        checker.use_clock(clock.checker_ns)
    try:
        async with server.listen(
            operations.respond,
            control,
            host,
            port,
            access=access,
            clock_ns=clock.now_ns,
            allowed_methods=lambda target: find_route(operations.routes, "", target).allowed_methods,
        ) as url:
            yield Service(
                url=url,
                faults=server.faults,
                control=control,
                token=server.token,
                key=_valid_key(options.settings),
                scenario=parsed,
                sessions=sessions,
                streams=streams,
            )
    finally:
        sessions.stop()
        playheads.stop()
        clock.stop()


def _valid_key(settings: ServiceSettings) -> str:
    """A valid key, with all scopes if there is one."""
    keys = settings.access.keys
    if not keys:
        return "any-key"
    return next((text for text, key in keys.items() if key.scopes is None), next(iter(keys)))


def _control(sessions: LiveSessions, streams: SessionStreams) -> PlayheadControl:
    """The control of the playheads."""

    def requests() -> RequestSummary:
        refused = sum(stream.refusal is not None for stream in streams.requests)
        return RequestSummary(len(streams.requests) - refused, refused, None, [])

    def start() -> None:
        for live in sessions.by_id.values():
            sessions.playheads.latest(live.session.log).start()

    return PlayheadControl(
        sessions.playheads,
        sessions.logs,
        connected=streams.connected,
        requests=requests,
        # Sessions keep their events: a reset ends streams and moves playheads back.
        on_reset=[lambda: asyncio.get_running_loop().call_soon(start)],
        advance=sessions.clock.advance,
    )
