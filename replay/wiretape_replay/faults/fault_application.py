"""Apply faults to connections."""

import asyncio
from collections.abc import Callable, Iterable

from wiretape.contract import LIMITS
from wiretape_replay.faults.injector import FaultInjector
from wiretape_replay.faults.instructions import Instruction, LogFault, ResetConnection, Send, SendError, Wait
from wiretape_replay.faults.stream_faults import StreamFaults
from wiretape_replay.http_server.http_messages import HttpRequest, Response
from wiretape_replay.http_server.response_writer import ResponseWriter
from wiretape_replay.http_server.server import Handler
from wiretape_replay.responses.error_envelope import RequestIds, error_response
from wiretape_replay.session.session_log import LogEntry

_LARGEST_LIMIT = LIMITS["events"]


class FaultApplier:
    """Applies the faults of one server: stands before the handler of all requests, if there are faults."""

    def __init__(self, injector: FaultInjector, ids: RequestIds, log: Callable[[str], None]) -> None:
        """`ids` are for errors that are sent; `log` takes a line for each fault that is applied."""
        self.injector = injector
        self._ids = ids
        self._log = log
        self._handler: Handler | None = None
        self._streams: dict[ResponseWriter, FaultyStream] = {}

    def before(self, handler: Handler) -> Handler:
        """Put the faults before a handler; without faults return it unchanged."""
        self._handler = handler
        return self.respond if self.injector.script.faults else handler

    def stream(self, line: ResponseWriter) -> "FaultyStream | None":
        """How to send the stream that is requested on `line`; None if no fault can hit it."""
        return self._streams.get(line)

    async def respond(self, asked: HttpRequest, line: ResponseWriter) -> None:
        """Handle a request with its faults."""
        if self._handler is None:
            raise RuntimeError("There is no handler behind the faults.")
        injection = self.injector.inject(asked)
        if await self.execute(injection.before, line):
            return
        if injection.stream is not None:
            self._streams[line] = FaultyStream(injection.stream, self, line)
        try:
            await self._handler(asked, line)
        finally:
            self._streams.pop(line, None)

    async def execute(self, instructions: Iterable[Instruction], line: ResponseWriter) -> bool:
        """Execute instructions; True if that ended the response.  Raises ConnectionError when the client leaves."""
        for instruction in instructions:
            if isinstance(instruction, Send):
                await line.write(instruction.data)
            elif isinstance(instruction, LogFault):
                line.mark_fault(instruction.fault)
                self._log(instruction.text)
            elif isinstance(instruction, Wait):
                await _wait(instruction.time_ns, line)
            elif isinstance(instruction, SendError):
                await line.respond(self._error(instruction))
                return True
            elif isinstance(instruction, ResetConnection):
                await line.reset()
                return True
            else:
                line.close()
                return True
        return False

    def _error(self, error: SendError) -> Response:
        return error_response(
            error.code,
            error.message,
            self._ids.next(),
            active=error.active,
            limit=error.limit or _LARGEST_LIMIT,
            retry_after=error.retry_after,
            reasons=error.reasons,
        )


class FaultyStream:
    """Sends the entries of a log on one connection, with faults."""

    def __init__(self, faults: StreamFaults, applier: FaultApplier, line: ResponseWriter) -> None:
        self._faults = faults
        self._applier = applier
        self._line = line

    async def send(self, entry: LogEntry) -> bool:
        """Send an event or comment; True if a fault ended the stream.  Raises ConnectionError as a line does."""
        return await self._applier.execute(self._faults.apply(entry), self._line)

    async def flush(self) -> bool:
        """Send delayed events, because nothing follows that they could wait for; True if that ended the stream."""
        return await self._applier.execute(self._faults.flush(), self._line)


async def _wait(time_ns: int | None, line: ResponseWriter) -> None:
    if time_ns is None:
        await line.hold_open()
    else:
        await asyncio.sleep(time_ns / 1e9)
