"""Faults done on lines."""

import asyncio
from collections.abc import Callable, Iterable

from wiretape.contract import LIMITS
from wiretape_replay.answers.envelope import envelope
from wiretape_replay.answers.request_ids import RequestIds
from wiretape_replay.faults.actions import Action, Mark, Reply, Reset, Wait, Write
from wiretape_replay.faults.events import StreamFaults
from wiretape_replay.faults.injector import Faults
from wiretape_replay.front.answer import Answer
from wiretape_replay.front.asked import Asked
from wiretape_replay.front.line import Line
from wiretape_replay.front.source import Source
from wiretape_replay.session.session_log import LogEntry

_LARGEST = LIMITS["events"]


class FaultyStream:
    """Sends the entries of a log on one line, with what faults do to them."""

    def __init__(self, faults: StreamFaults, lines: "FaultyLines", line: Line) -> None:
        self._faults = faults
        self._lines = lines
        self._line = line

    async def send(self, entry: LogEntry) -> bool:
        """Send an event or comment; True when a fault ended the stream.  Raises ConnectionError as a line does."""
        return await self._lines.perform(self._faults.entry(entry), self._line)

    async def flush(self) -> bool:
        """Send what was held back, as nothing comes that it could be sent after; True when that ended the stream."""
        return await self._lines.perform(self._faults.flush(), self._line)


class FaultyLines:
    """The lines of one server, and what faults do on them."""

    def __init__(self, faults: Faults, ids: RequestIds, log: Callable[[str], None]) -> None:
        """`ids` are for the errors that are answered; `log` takes a line for each fault that is done."""
        self.faults = faults
        self._ids = ids
        self._log = log
        self._streams: dict[Line, FaultyStream] = {}

    def stream(self, line: Line) -> FaultyStream | None:
        """How to send the stream that is asked for on `line`; None when no fault can hit it."""
        return self._streams.get(line)

    async def answer(self, asked: Asked, line: Line, source: Source) -> None:
        """Do what comes before the answer or in its place, and else let `source` answer.  See Source."""
        injection = self.faults.request(asked)
        if await self.perform(injection.before, line, with_body=asked.method != "HEAD"):
            return
        if injection.stream is not None:
            self._streams[line] = FaultyStream(injection.stream, self, line)
        try:
            await source.answer(asked, line)
        finally:
            self._streams.pop(line, None)

    async def perform(self, actions: Iterable[Action], line: Line, *, with_body: bool = True) -> bool:
        """Do all of it; True when that ended the answer.  Raises ConnectionError when the client leaves."""
        for action in actions:
            if isinstance(action, Write):
                await line.send(action.data)
            elif isinstance(action, Mark):
                line.mark(action.fault)
                self._log(action.text)
            elif isinstance(action, Wait):
                await _wait(action.time_ns, line)
            elif isinstance(action, Reply):
                await self._answer(action).send(line, with_body=with_body)
                return True
            elif isinstance(action, Reset):
                await line.reset()
                return True
            else:
                line.close()
                return True
        return False

    def _answer(self, reply: Reply) -> Answer:
        return envelope(
            reply.code,
            reply.message,
            self._ids.next(),
            active=reply.active,
            limit=reply.limit or _LARGEST,
            retry_after=reply.retry_after,
            reasons=reply.reasons,
        )


class Faulty:
    """A source with faults before it."""

    def __init__(self, lines: FaultyLines, source: Source) -> None:
        self._lines = lines
        self._source = source

    async def answer(self, asked: Asked, line: Line) -> None:
        """See Source."""
        await self._lines.answer(asked, line, self._source)


async def _wait(time_ns: int | None, line: Line) -> None:
    if time_ns is None:
        await line.hold()
    else:
        await asyncio.sleep(time_ns / 1e9)
