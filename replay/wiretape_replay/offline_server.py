"""The server that replays and services have in common: HTTP, authentication, faults, control API and client checks."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from wiretape.control_protocol import check_token
from wiretape_replay.access.auth_and_rate_limits import AccessControl
from wiretape_replay.access.contract_errors import malformed_request_handler
from wiretape_replay.channel.channel_log import LogEntry
from wiretape_replay.channel.channel_streams import FaultySender
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.control.control_api import ControlApi
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.faults.fault_schedule import FaultSchedule, Identify, StreamFaults
from wiretape_replay.faults.fault_script import FaultScript
from wiretape_replay.faults.frame_damage import Instruction, LogFault, PauseSending, SendBytes, SendError
from wiretape_replay.http_server.aiohttp_server import Handler, HttpServer
from wiretape_replay.http_server.http_messages import HttpRequest
from wiretape_replay.http_server.response_writer import ResponseWriter
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
        self._fault_actions = FaultActions(self.faults, self._ids) if script.faults else None
        self.faulty_sender = None if self._fault_actions is None else self._fault_actions.sender
        """Returns the sender of a stream that faults can hit; None without faults."""
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
        if self._fault_actions is not None:
            handler = self._fault_actions.wrap(handler)
        control.on_reset.append(self.faults.rewind)
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


class FaultActions:
    """Applies the faults of one server to its connections."""

    def __init__(self, schedule: FaultSchedule, ids: Callable[[], str]) -> None:
        """`ids` are for errors that are sent."""
        self._schedule = schedule
        self._ids = ids
        self._streams: dict[ResponseWriter, StreamFaults] = {}

    def wrap(self, handler: Handler) -> Handler:
        """Return a handler that applies the faults of a request, before the response of `handler` or in its place."""

        async def respond(request: HttpRequest, writer: ResponseWriter) -> None:
            injection = self._schedule.inject(request)
            if await self._execute(injection.before, writer):
                return
            if injection.stream is not None:
                self._streams[writer] = injection.stream
            try:
                await handler(request, writer)
            finally:
                self._streams.pop(writer, None)

        return respond

    def sender(self, writer: ResponseWriter) -> FaultySender | None:
        """The sender of the stream that is requested from `writer`; None if no fault can hit it."""
        faults = self._streams.get(writer)
        return None if faults is None else partial(self._send, faults, writer)

    async def _send(self, faults: StreamFaults, writer: ResponseWriter, entry: LogEntry | None) -> bool:
        return await self._execute(faults.flush() if entry is None else faults.apply(entry), writer)

    async def _execute(self, instructions: Iterable[Instruction], writer: ResponseWriter) -> bool:
        """Execute instructions; return True if that ended the response.  Raises ConnectionError."""
        for instruction in instructions:
            if isinstance(instruction, SendBytes):
                await writer.write(instruction.data)
            elif isinstance(instruction, LogFault):
                writer.mark_fault(instruction.fault)
                writer.log(instruction.text)
            elif isinstance(instruction, PauseSending):
                await asyncio.sleep(instruction.time_ns / 1e9)
            elif isinstance(instruction, SendError):
                await writer.respond(instruction.response(self._ids()))
                return True
            else:
                await writer.end(instruction.ending)
                return True
        return False
