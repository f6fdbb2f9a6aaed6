"""Apply faults to connections: execute the instructions of the fault schedule."""

import asyncio
from collections.abc import Iterable
from functools import partial

from wiretape_replay.faults.fault_schedule import FaultSchedule, StreamFaults
from wiretape_replay.faults.frame_damage import (
    Instruction,
    LogFault,
    PauseSending,
    SendBytes,
    SendError,
)
from wiretape_replay.generated_ids import RequestIdCounter
from wiretape_replay.http_server.aiohttp_server import Handler
from wiretape_replay.http_server.http_messages import HttpRequest
from wiretape_replay.http_server.response_writer import ResponseWriter
from wiretape_replay.session.session_log import LogEntry
from wiretape_replay.session.session_streams import FaultySender


class FaultActions:
    """Applies the faults of one server to its connections."""

    def __init__(self, schedule: FaultSchedule, ids: RequestIdCounter) -> None:
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
                await writer.respond(instruction.response(self._ids.next()))
                return True
            else:
                await writer.end(instruction.ending)
                return True
        return False
