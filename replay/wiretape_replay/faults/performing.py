"""Faults done on a line."""

import asyncio
from collections.abc import Callable, Iterable

from wiretape.contract import LIMITS
from wiretape_replay.answers.envelope import envelope
from wiretape_replay.answers.request_ids import RequestIds
from wiretape_replay.faults.actions import Action, Drop, Mark, Reply, Reset, Wait, Write
from wiretape_replay.front.answer import Answer
from wiretape_replay.front.line import Line

_LARGEST = LIMITS["events"]


class Performer:
    """Does on lines what faults ask for."""

    def __init__(self, ids: RequestIds, log: Callable[[str], None]) -> None:
        """`ids` are for the errors that are answered; `log` takes a line for each fault that is done."""
        self._ids = ids
        self._log = log

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
            else:
                await self._end(action, line, with_body=with_body)
                return True
        return False

    async def _end(self, action: Drop | Reset | Reply, line: Line, *, with_body: bool) -> None:
        if isinstance(action, Reply):
            await self._answer(action).send(line, with_body=with_body)
        elif isinstance(action, Reset):
            await line.reset()
        else:
            line.close()

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


async def _wait(time_ns: int | None, line: Line) -> None:
    if time_ns is None:
        await line.hold()
    else:
        await asyncio.sleep(time_ns / 1e9)
