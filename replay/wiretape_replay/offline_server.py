"""The server that replays and services have in common: HTTP, authentication, faults, control API and client checks."""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wiretape.control_protocol import check_token
from wiretape_replay.access.auth_and_rate_limits import AccessControl
from wiretape_replay.access.contract_errors import malformed_request_handler
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.control.control_api import ControlApi
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.faults.fault_actions import FaultActions
from wiretape_replay.faults.fault_schedule import FaultSchedule, Identify
from wiretape_replay.faults.fault_script import FaultScript
from wiretape_replay.http_server.aiohttp_server import Handler, HttpServer
from wiretape_replay.replayed_contracts import ReplayedContracts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A replay or service that runs.  Its attributes stay readable after it stopped."""

    url: str
    """The base URL, without a trailing slash."""
    faults: FaultSchedule
    """The faults injected so far."""
    control: PlayheadControl
    """Moves the playheads."""
    token: str
    """The control token."""
    contracts: ReplayedContracts
    has_playheads: bool = True
    """Whether there is a playhead to move."""


class OfflineServer:
    """Serves the responses of a handler, after authentication, rate limits and faults."""

    def __init__(
        self,
        script: FaultScript,
        contracts: ReplayedContracts,
        *,
        log: Callable[[str], None] | None,
        checker: ClientChecker | None,
        token: str | None,
        ids: Callable[[], str],
        bases: Collection[str] = ("",),
        identify: Identify | None = None,
        keeps_bodies: bool = False,
    ) -> None:
        """`log` receives a line for each request; `token` is the control token, None generates one.

        `ids` are the ids of the responses that do not come from a recording.

        `bases` are the base paths of the service, under which every request is judged.
        `identify` is for channels that no path names; see FaultSchedule.  `keeps_bodies`: see HttpServer.

        Raises InputError for a token that cannot be sent in a header.
        """
        self._ids = ids
        self.faults = FaultSchedule(script, contracts, identify)
        self._contracts = contracts
        self.fault_actions = FaultActions(self.faults, ids)
        self.token = secrets.token_hex(16) if token is None else check_token(token)
        self._log = log
        self._checker = checker
        self._bases = bases
        self._keeps_bodies = keeps_bodies

    @asynccontextmanager
    async def listen(
        self,
        handler: Handler,
        control: PlayheadControl,
        host: str,
        port: int,
        *,
        access: AccessControl | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        allowed_methods: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> AsyncIterator[str]:
        """Serve until the block is left; yields the base URL.  The client check finishes with the block.

        `clock_ns` measures rate limits; `allowed_methods` returns the methods of a target.
        Raises InputError for an address that cannot be used.
        """
        if access is not None:
            handler = access.wrap(handler, clock_ns)
            control.on_reset.append(access.reset)
        handler = self.fault_actions.wrap(handler)
        self.fault_actions.on_change = control.changes.notify
        listener = None if self._checker is None else self._checker.start_exchange
        if self._checker is not None:
            control.client_findings = self._checker.attribution.client.kept
            self._checker.on_finding.append(lambda _: control.changes.notify())
        malformed = malformed_request_handler(self._contracts.main.errors, self._ids, allowed_methods)
        api = ControlApi(control, self.token)
        server = HttpServer(
            handler, self._log, listener, malformed, control=api.respond, keeps_bodies=self._keeps_bodies
        )
        try:
            url = await server.start(host, port)
            try:
                if self._checker is not None:
                    needs_key = access is not None and access.policy.authentication
                    self._checker.open(url, self._contracts, self._bases, needs_key=needs_key)
                yield url
            finally:
                control.changes.close()
                await server.stop()
        finally:
            if self._checker is not None:
                self._checker.finish()
