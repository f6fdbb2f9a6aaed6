"""The clock of a service: real time, or virtual time that does not wait."""

import asyncio
import heapq
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

from wiretape.errors import InputError
from wiretape_replay.channel.playhead_clock import Timer

_SECOND_NS = 1_000_000_000
_END_NS = 100 * 365 * 86_400 * _SECOND_NS
"""Virtual time ends here, because calendars and files have an end."""
_TURNS = 10
"""After this many turns of the event loop, all tasks have handled what happened."""
VIRTUAL_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When virtual time starts: every service has the same times."""


class Clock:
    """The clock of the machine.  Times are ns since `epoch` and never go back.  Only for the event loop's thread."""

    def __init__(self, epoch: datetime) -> None:
        self.epoch = epoch
        self._began_ns = time.monotonic_ns()

    def now_ns(self) -> int:
        """The time."""
        return time.monotonic_ns() - self._began_ns

    def checker_ns(self) -> int:
        """The time for the client checker."""
        return self.now_ns()

    def at(self, time_ns: int, callback: Callable[[], None], *, waits_for_client: bool) -> Timer:  # noqa: ARG002
        """Call a function at a time.  Virtual time does not advance for calls that wait for a client."""
        return self.later((time_ns - self.now_ns()) / _SECOND_NS, callback)

    def later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call a function after a delay; virtual time does not advance for it."""
        return asyncio.get_running_loop().call_later(max(0.0, delay_s), callback)

    async def advance(self, seconds: float) -> None:  # noqa: ARG002 - for virtual time
        """Let this many seconds pass, with everything that happens in them.  Raises InputError."""
        raise InputError("Real time cannot be advanced: use a virtual clock (--clock virtual).")

    def stop(self) -> None:
        """Cancel all calls."""


class VirtualClock(Clock):
    """Stands still while something happens, then jumps to the next call that does not wait for a client.

    The time of calls that wait for a client passes only by `advance`.
    """

    def __init__(self) -> None:
        self.epoch = VIRTUAL_EPOCH
        self._now_ns = self._advanced_to_ns = 0
        self._advanced_ns = 0
        """How much of the time so far `advance` added."""
        self._heap: list[tuple[int, int, _VirtualTimer]] = []
        self._numbers = count()
        self._waking = 0
        """How many calls do not wait for a client."""
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def now_ns(self) -> int:
        """See Clock."""
        return self._now_ns

    def checker_ns(self) -> int:
        """The time for the client checker: real time, to which `advance` adds its seconds."""
        return time.monotonic_ns() + self._advanced_ns

    def at(self, time_ns: int, callback: Callable[[], None], *, waits_for_client: bool) -> Timer:
        """See Clock."""
        timer = _VirtualTimer(callback)
        if not waits_for_client:
            self._count_waking(1)
            timer.on_end = lambda: self._count_waking(-1)
        heapq.heappush(self._heap, (max(time_ns, self._now_ns), next(self._numbers), timer))
        return timer

    def later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """See Clock.  Calls after the same real time, too, so that idle clients get keep-alives."""
        time_ns = self._now_ns + round(delay_s * _SECOND_NS)
        timer = _VirtualTimer(callback)
        timer.on_end = asyncio.get_running_loop().call_later(delay_s, timer.call).cancel
        heapq.heappush(self._heap, (time_ns, next(self._numbers), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """See Clock."""
        until_ns = self._now_ns + round(seconds * _SECOND_NS)
        if until_ns > _END_NS:
            raise InputError("Virtual time cannot be advanced any further: it ends a hundred years after it began.")
        self._advanced_to_ns = max(self._advanced_to_ns, until_ns)
        await _settle()
        while not self._stopped and (next_ns := self._next_ns()) is not None and next_ns <= until_ns:
            self._call_next()
            await _settle()
        self._jump(until_ns)

    def stop(self) -> None:
        """See Clock."""
        self._stopped = True
        for _, _, timer in self._heap:
            timer.cancel()
        self._heap.clear()
        if self._task is not None:
            self._task.cancel()

    def _count_waking(self, change: int) -> None:
        self._waking += change
        if self._waking and not self._stopped and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        await _settle()
        while self._waking and not self._stopped:
            self._call_next()
            await _settle()

    def _next_ns(self) -> int | None:
        while self._heap and self._heap[0][2].is_over:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _jump(self, time_ns: int) -> None:
        # What lies beyond passes only for runs.
        self._advanced_ns += max(0, min(time_ns, self._advanced_to_ns) - self._now_ns)
        self._now_ns = max(self._now_ns, time_ns)

    def _call_next(self) -> None:
        """Jump to the next call, and make all calls of that time."""
        time_ns = self._next_ns()
        if time_ns is None:
            return
        self._jump(time_ns)
        while self._next_ns() == time_ns:
            heapq.heappop(self._heap)[2].call()


class _VirtualTimer:
    """A call at a virtual time."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.is_over = False
        self.on_end: Callable[[], None] = lambda: None
        self._callback = callback

    def call(self) -> None:
        """Make the call, once."""
        if not self.is_over:
            self.cancel()
            self._callback()

    def cancel(self) -> None:
        """See Timer."""
        if not self.is_over:
            self.is_over = True
            self.on_end()


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
