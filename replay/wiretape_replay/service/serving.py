"""A service that scenarios play, served from Python."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from wiretape.errors import InputError
from wiretape.toml_files import is_toml_text
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.control.control_state import RequestSummary
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.playback_server import Playback, PlaybackServer
from wiretape_replay.responses.auth_and_rate_limits import AccessControl
from wiretape_replay.responses.error_envelope import RequestIds
from wiretape_replay.service.assumptions import Setup
from wiretape_replay.service.clock import VIRTUAL_EPOCH, Clock, RealClock, VirtualClock, judging_time
from wiretape_replay.service.operations.doing import Doing
from wiretape_replay.service.operations.routing import find
from wiretape_replay.service.scenario.scenario_file import parse_scenario, read_scenario
from wiretape_replay.service.scenario.scenario_steps import Scenario
from wiretape_replay.service.scenario.shipped_scenarios import find_scenario_path
from wiretape_replay.service.serve_options import ServeOptions
from wiretape_replay.service.sessions import Sessions
from wiretape_replay.service.source import ScenarioSource
from wiretape_replay.service.store import Store
from wiretape_replay.session.playheads import Playheads
from wiretape_replay.session.session_streams import SessionStreams

DEFAULT_SCENARIO = "hello"
_MICROSECOND = timedelta(microseconds=1)
_ZERO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Playback):
    """A service played from a scenario."""

    key: str
    """A valid bearer key, with all scopes if there is one."""
    scenario: Scenario
    sessions: Sessions
    streams: SessionStreams

    @property
    def clock(self) -> Clock:
        """By which everything happens."""
        return self.sessions.clock


@asynccontextmanager
async def serve_scenario(
    scenario: Scenario | Path | str = DEFAULT_SCENARIO,
    options: ServeOptions | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    log: Callable[[str], None] = lambda _: None,
    judge: ClientChecker | None = None,
    token: str | None = None,
) -> AsyncIterator[Service]:
    """Play the service by a scenario: a shipped one's name, a file, its text, or one that was read.

    Port 0 takes a free one.  `log` takes a line for each request.  `judge` listens to what passes, and has finished
    when the block is left.  `token` is what requests to the control interface have to carry; None: one that nobody
    can guess.

    Raises InputError for a scenario, data or an address that cannot be used.
    """
    options = options or ServeOptions()
    name, text, script = _scenario(scenario)
    broken = asyncio.Event()
    with _opened(options) as store:
        clock = _clock(store, virtual=options.is_virtual)
        drives = Playheads(speed=float("inf"), paused=False, per_connection=False, call_later=clock.later)

        def break_down(error: InputError) -> None:
            log(f"Error: {error.message}")
            broken.set()

        sessions = Sessions(store, clock, script, store.scenario(name, text), drives, break_down)
        ids = RequestIds("req" if store.starts == 1 else f"req-{store.starts}")
        server = PlaybackServer(options.script, log=log, checker=judge, token=token, ids=ids)
        streams = SessionStreams(drives, ids, log, server.faulty_sender)
        access = AccessControl(options.setup.service, ids.next)
        source = ScenarioSource(
            Doing(sessions, options.setup.assumed),
            streams,
            access,
            routes=options.setup.assumed.routes,
            request_ids=ids,
            log=log,
        )
        control = _control(sessions, streams)
        if judge is not None:
            judge.keep_time(judging_time(clock))
        try:
            sessions.restore(_scenarios(store, sessions))
            async with server.listen(
                source.respond,
                control,
                host,
                port,
                access=access,
                clock_ns=clock.now_ns,
                allowed_methods=lambda target: find(options.setup.assumed.routes, "", target).allowed,
            ) as url:
                yield Service(
                    url=url,
                    faults=server.faults,
                    control=control,
                    token=server.token,
                    key=_key(options.setup),
                    scenario=script,
                    sessions=sessions,
                    streams=streams,
                    broken=broken,
                )
        finally:
            sessions.stop()
            drives.stop()
            clock.stop()


def _scenario(given: Scenario | Path | str) -> tuple[str, str, Scenario]:
    """Name, text and meaning of a scenario.  Raises InputError."""
    if isinstance(given, Scenario):
        return given.title, "", given
    if isinstance(given, str) and is_toml_text(given):
        return "scenario", given, parse_scenario(given)
    path = find_scenario_path(given) if isinstance(given, str) else given
    scenario = read_scenario(path)
    return path.stem, path.read_text("utf-8-sig"), scenario


def _scenarios(store: Store, sessions: Sessions) -> Mapping[int, Scenario]:
    """The scenarios of the sessions that there are.  Raises InputError."""
    known = {sessions.scenario_number: sessions.scenario}
    needed = {session.scenario for session in store.sessions()} - known.keys()
    for stored in store.scenarios():
        if stored.number in needed:
            known[stored.number] = parse_scenario(stored.text) if stored.text else sessions.scenario
    return known


@contextmanager
def _opened(options: ServeOptions) -> Iterator[Store]:
    """The data; temporary data is removed when the block is left.  Raises InputError."""
    epoch = VIRTUAL_EPOCH if options.is_virtual else datetime.now(UTC)
    began = (epoch - _ZERO) // _MICROSECOND
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        store = Store.open(
            Path(options.data) if options.data is not None else Path(folder) / "service.db",
            seed=options.seed,
            epoch_unix_us=began,
        )
        try:
            yield store
        finally:
            store.close()


def _clock(store: Store, *, virtual: bool) -> Clock:
    epoch = _ZERO + store.epoch_unix_us * _MICROSECOND
    return VirtualClock(epoch, store.last_ns()) if virtual else RealClock(epoch, store.last_ns())


def _key(setup: Setup) -> str:
    """A key to begin with."""
    keys = setup.service.keys
    if not keys:
        return "any-key"
    return next((key for key, known in keys.items() if known.scopes is None), next(iter(keys)))


def _control(sessions: Sessions, streams: SessionStreams) -> PlayheadControl:
    """What can be done to it while it runs."""

    def requests() -> RequestSummary:
        refused = sum(stream.refusal is not None for stream in streams.requests)
        return RequestSummary(len(streams.requests) - refused, refused, None, [])

    def start() -> None:
        for live in sessions.by_id.values():
            sessions.drives.latest(live.session.log).start()

    return PlayheadControl(
        sessions.drives,
        sessions.logs,
        connected=streams.connected,
        requests=requests,
        # What was said stays said: streams end, and playheads go to where they were.
        on_reset=[lambda: asyncio.get_running_loop().call_soon(start)],
        advance=sessions.clock.advance,
    )
