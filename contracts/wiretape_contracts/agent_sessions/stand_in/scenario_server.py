"""Serve a scenario from Python."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from wiretape.contract.service_terms import ErrorWriter
from wiretape_contracts.agent_sessions.stand_in.assumptions import ServiceSettings, list_assumptions, read_settings
from wiretape_contracts.agent_sessions.stand_in.live_sessions import LiveSessions
from wiretape_contracts.agent_sessions.stand_in.scenario_file import find_scenario, list_scenarios
from wiretape_contracts.agent_sessions.stand_in.scenario_steps import Scenario
from wiretape_contracts.agent_sessions.stand_in.service_operations import ServiceOperations
from wiretape_contracts.agent_sessions.stand_in.service_routes import find_route
from wiretape_replay.access.auth_and_rate_limits import AccessControl
from wiretape_replay.access.contract_errors import count_request_ids
from wiretape_replay.channel.channel_streams import ChannelStreams
from wiretape_replay.channel.playhead_clock import Playheads
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.control.control_state import RequestSummary
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.faults.fault_actions import FaultActions
from wiretape_replay.offline_server import OfflineServer
from wiretape_replay.replayed_contracts import ReplayedContracts
from wiretape_replay.service_clock import Clock, VirtualClock
from wiretape_replay.stand_in import ServeOptions, Service, StandIn


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioService(Service):
    """A service that serves a scenario."""

    scenario: Scenario
    sessions: LiveSessions


@asynccontextmanager
async def serve_scenario(
    scenario: object,
    options: ServeOptions,
    *,
    host: str,
    port: int,
    log: Callable[[str], None] | None,
    checker: ClientChecker | None,
    token: str | None,
) -> AsyncIterator[ScenarioService]:
    """Serve a scenario; see `wiretape_replay.stand_in.serve_scenario`."""
    parsed = find_scenario(scenario)
    clock: Clock = VirtualClock() if options.is_virtual else Clock(datetime.now(UTC))
    playheads = Playheads(speed=float("inf"), paused=False, per_connection=False, call_later=clock.later)
    sessions = LiveSessions(options.seed, clock, parsed, playheads)
    ids = count_request_ids("req")
    contracts, settings = options.contracts, options.settings
    server = OfflineServer(options.script, contracts, log=log, checker=checker, token=token, ids=ids)
    streams = ChannelStreams(playheads, ids, contracts, server.fault_actions.sender)
    access = AccessControl(settings.access, contracts, ids)
    operations = ServiceOperations(sessions, streams, access, settings.assumed, errors=_errors_of(contracts), ids=ids)
    control = _control(sessions, streams, contracts, server.fault_actions)
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
            yield ScenarioService(
                url=url,
                faults=server.faults,
                control=control,
                token=server.token,
                contracts=contracts,
                key=_valid_key(settings),
                scenario=parsed,
                clock=clock,
                sessions=sessions,
                logs=sessions.logs,
                streams=streams,
            )
    finally:
        sessions.stop()
        playheads.stop()
        clock.stop()


def _errors_of(contracts: ReplayedContracts) -> ErrorWriter:
    errors = contracts.main.errors
    if errors is None:
        raise ValueError("The contract has no errors.")
    return errors


def _valid_key(settings: ServiceSettings) -> str:
    """A valid key, with all scopes if there is one."""
    keys = settings.access.keys
    if not keys:
        return "any-key"
    return next((text for text, key in keys.items() if key.scopes is None), next(iter(keys)))


def _control(
    sessions: LiveSessions, streams: ChannelStreams, contracts: ReplayedContracts, faults: FaultActions
) -> PlayheadControl:
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
        contracts,
        faults=faults,
        connected=streams.connected,
        requests=requests,
        # Sessions keep their events: a reset ends streams and moves playheads back.
        on_reset=[lambda: asyncio.get_running_loop().call_soon(start)],
        advance=sessions.clock.advance,
    )


STAND_IN = StandIn(
    contract="agent-sessions",
    serve=serve_scenario,
    default_scenario="hello",
    scenarios=list_scenarios,
    assumptions=list_assumptions,
    read_settings=read_settings,
)
"""What `wiretape serve` plays."""
