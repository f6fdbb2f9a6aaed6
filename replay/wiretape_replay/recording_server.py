"""Replay a recording from Python."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import attrgetter
from pathlib import Path

from wiretape.contract.contract_tables import ErrorCase
from wiretape.http_headers import bearer_keys
from wiretape.recording import Recording, open_recording
from wiretape_replay.access.auth_and_rate_limits import AccessControl
from wiretape_replay.access.contract_errors import count_request_ids
from wiretape_replay.channel.channel_log import EntryKind, PlayableChannel, RecordedChannels
from wiretape_replay.channel.channel_routing import ChannelFinder, ChannelRouter
from wiretape_replay.channel.channel_streams import ChannelStreams
from wiretape_replay.channel.playhead_clock import Playheads
from wiretape_replay.channel.recorded_channels import (
    build_channels,
    find_bases,
    find_known_channels,
)
from wiretape_replay.channel.recorded_connection import read_event
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.control.control_state import MissState, RequestSummary
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.faults.fault_actions import FaultActions
from wiretape_replay.faults.fault_schedule import identify_request
from wiretape_replay.offline_server import OfflineServer, RunningServer
from wiretape_replay.replayed_contracts import ReplayedContracts
from wiretape_replay.server_options import ReplayOptions
from wiretape_replay.tape_recording import Cassette
from wiretape_replay.verbatim.exchange_queues import RecordedRequest
from wiretape_replay.verbatim.verbatim_player import ServedRequest, UnmatchedRequest, VerbatimPlayer


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(RunningServer):
    """A recording that is replayed."""

    path: Path
    """The recording."""
    verbatim: VerbatimPlayer
    """Serves recorded responses: all of them in verbatim mode, those that are not streams in channel mode."""
    player: ChannelRouter | None
    """Serves streams, in channel mode."""
    started_unix_ns: int = 0
    """When the recording began; 0 if it does not say."""
    cassette: Cassette | None = None
    """What is recorded; None if the recording is only replayed."""
    warnings: Sequence[str] = ()
    """A sentence for each oddity of a recorded channel, safe to print."""

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
        """The channels whose stream no client requested, in channel mode."""
        if self.player is None:
            return []
        requested = {stream.channel for stream in self.player.streams.requests if stream.refusal is None}
        return [name for name in self.player.channels if name not in requested]

    @property
    def unconsumed(self) -> list[RecordedRequest]:
        """The recorded requests that no client sent, in recorded order; those for streams are `unfollowed`."""
        channels = {} if self.player is None else self.player.by_exchange
        return [recorded for recorded in self.verbatim.queues.unconsumed if recorded.number not in channels]


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
    cassette: Cassette | None = None,
) -> AsyncIterator[Replay]:
    """Replay a recording until the block is left.  Port 0 picks a free port.  `log` receives a line for each request.

    `checker` checks the client, and has finished after the block.
    `token` is the control token; None generates one.
    `cassette` is replayed instead of the recording at the path, and gets the requests that were not recorded; save it
    after the block.

    Raises RecordingError for a file that cannot be replayed, and InputError for an address that cannot be used.
    """
    options = options or ReplayOptions()
    ids = count_request_ids()
    async with AsyncExitStack() as stack:
        recording = stack.enter_context(open_recording(recording_path) if cassette is None else cassette.open())
        warnings: list[str] = []
        contracts = options.contracts_for(recording)
        matching = replace(options.matching_for(contracts), always_bodies=cassette is not None)
        forward = None
        if cassette is not None and cassette.forwards:
            forward = await stack.enter_async_context(cassette.serving(contracts))
        has_playheads = options.mode == "channel"
        channels = RecordedChannels()
        if has_playheads:
            channels = build_channels(recording, warnings.append, contracts, matching)
        verbatim = VerbatimPlayer(
            recording,
            options.speed_factor,
            matching=matching,
            includes=lambda exchange: exchange.number not in channels.left_out,
            target_of=contracts.comparable_target if has_playheads else attrgetter("target"),
            request_ids=ids,
            errors_of=lambda request: contracts.of(request).errors,
            forward=forward,
        )
        finder = ChannelFinder(channels, verbatim.queues, contracts, () if has_playheads else verbatim.streams)
        server = OfflineServer(
            options.script,
            contracts,
            log=log,
            checker=checker,
            token=token,
            ids=ids,
            bases=find_bases(recording, contracts),
            identify=partial(identify_request, contracts, finder=finder),
            keeps_bodies=forward is not None,
        )
        verbatim.frame_sender = server.fault_actions.frame_sender
        playheads = Playheads(
            speed=options.speed_factor,
            paused=options.paused,
            per_connection=options.playhead == "connection",
            keep_alive_s=contracts.main.contract.service.keep_alive_s,
        )
        player = None
        if has_playheads:
            streams = ChannelStreams(playheads, ids, contracts, server.fault_actions.sender)
            player = ChannelRouter(finder, verbatim, streams, known=find_known_channels(recording, contracts))
        access = None
        policy = options.access_policy(contracts, recorded_keys=_required_keys(recording, contracts))
        if policy is not None:
            access = AccessControl(policy, contracts, ids, _workspaces_of(channels.by_name, contracts))
        control = replay_control(playheads, verbatim, player, contracts, server.fault_actions)
        handler = verbatim.respond if player is None else player.respond
        try:
            async with server.listen(handler, control, host, port, access=access) as url:
                yield Replay(
                    url=url,
                    faults=server.faults,
                    control=control,
                    token=server.token,
                    contracts=contracts,
                    has_playheads=has_playheads,
                    verbatim=verbatim,
                    player=player,
                    path=Path(recording_path),
                    started_unix_ns=recording.info.started_unix_ns,
                    cassette=cassette,
                    warnings=warnings,
                )
        finally:
            playheads.stop()


def _required_keys(recording: Recording, contracts: ReplayedContracts) -> bool:
    """Whether the recorded service required keys.

    A request for an operation of a contract that says how requests without a key are refused had a key or was refused
    so, and none succeeded without a key.
    """
    required = False
    for exchange in recording.exchanges():
        described = contracts.describe(exchange.request.method, exchange.request.target)
        errors = described.facts.errors
        code = None if errors is None else errors.code_of(ErrorCase.NO_KEY)
        if described.operation is None or errors is None or code is None or exchange.request.is_invented:
            continue
        status = exchange.response.status if exchange.response is not None else None
        has_key = bool(bearer_keys(exchange.request.headers))
        if not has_key and status is not None and status // 100 == 2:
            return False
        required |= has_key or status == errors.codes[code].status
    return required


def replay_control(
    playheads: Playheads,
    verbatim: VerbatimPlayer,
    player: ChannelRouter | None,
    contracts: ReplayedContracts,
    faults: FaultActions,
) -> PlayheadControl:
    """Control of a replay's playheads; `player` is None in verbatim mode, which has none."""
    return PlayheadControl(
        playheads,
        {} if player is None else {name: channel.log for name, channel in player.channels.items()},
        contracts,
        faults=faults,
        connected=() if player is None else player.streams.connected,
        requests=lambda: _summarise_requests(verbatim, player),
        on_reset=[verbatim.queues.reset],
    )


def _summarise_requests(verbatim: VerbatimPlayer, player: ChannelRouter | None) -> RequestSummary:
    """The requests so far; of targets only the path, because the query may contain secrets."""
    requests = [] if player is None else player.streams.requests
    refused = sum(request.refusal is not None for request in requests)
    misses = [MissState(miss.method, miss.target.partition("?")[0], miss.message) for miss in verbatim.missed]
    return RequestSummary(len(requests) - refused, refused, len(verbatim.served), misses)


def _workspaces_of(
    channels: Mapping[str, PlayableChannel], contracts: ReplayedContracts
) -> Callable[[str], str | None]:
    """Return a function that gives the workspace of a channel; None if none of its events contains it."""

    @cache
    def find_workspace(name: str) -> str | None:
        log = channels[name].log
        facts = contracts.main if log.opened_by is None else contracts.describe(*log.opened_by).facts
        durable = (entry for entry in log.entries if entry.kind is EntryKind.DURABLE)
        return next(filter(None, (facts.find_workspace(read_event(entry.data), name) for entry in durable)), None)

    return lambda name: find_workspace(name) if name in channels else None
