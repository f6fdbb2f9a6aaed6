"""The time of a service that is played: that of the machine, or one that nobody has to wait for."""

import asyncio
import heapq
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Protocol

from wiretape.errors import InputError
from wiretape_replay.session.playhead_clock import Timer

_SECOND_NS = 1_000_000_000
_LONGEST_ADVANCE_S = 86_400
_END_NS = 100 * 365 * 86_400 * _SECOND_NS
"""Virtual time is advanced no further: calendars and files have an end."""
_TURNS = 10
"""After so many turns of the event loop everybody has done what a moment brought."""
VIRTUAL_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When virtual time begins, so that every run has the same times."""


class Clock(Protocol):
    """Times are ns since `epoch`; they do not go back.  To be used in the event loop's thread."""

    epoch: datetime

    def now_ns(self) -> int:
        """The time."""
        ...

    def at(self, time_ns: int, happen: Callable[[], None], *, driving: bool) -> Timer:
        """Let something happen at a time.  What is `driving` is what virtual time goes on for."""
        ...

    def later(self, delay_s: float, happen: Callable[[], None]) -> Timer:
        """Let something happen after so many seconds, for which virtual time does not go on by itself."""
        ...

    async def advance(self, seconds: float) -> None:
        """Let so many seconds pass, with everything that happens in them.  Raises InputError."""
        ...

    def stop(self) -> None:
        """Let nothing happen any more."""
        ...


class RealClock:
    """The clock of the machine."""

    def __init__(self, epoch: datetime, least_ns: int = 0) -> None:
        """The time is `least_ns` or later, even if the machine's was changed since."""
        self.epoch = epoch
        began_ns = (datetime.now(UTC) - epoch) // timedelta(microseconds=1) * 1000
        self._ahead_ns = max(began_ns, least_ns) - time.monotonic_ns()

    def now_ns(self) -> int:
        """See Clock."""
        return time.monotonic_ns() + self._ahead_ns

    def at(self, time_ns: int, happen: Callable[[], None], *, driving: bool) -> Timer:  # noqa: ARG002 - a Clock
        """See Clock."""
        return self.later((time_ns - self.now_ns()) / _SECOND_NS, happen)

    def later(self, delay_s: float, happen: Callable[[], None]) -> Timer:
        """See Clock."""
        return asyncio.get_running_loop().call_later(max(0.0, delay_s), happen)

    async def advance(self, seconds: float) -> None:  # noqa: ARG002 - a Clock
        """See Clock."""
        raise InputError("Only virtual time can be advanced: begin with a virtual clock (--clock virtual).")

    def stop(self) -> None:
        """See Clock."""


def judging_time(clock: Clock) -> Callable[[], int]:
    """The time by which clients are judged: who reads and who waits can be told apart in virtual time, too."""
    if isinstance(clock, VirtualClock):
        return lambda: clock.now_ns() + time.monotonic_ns()
    return clock.now_ns


class VirtualClock:
    """Stands while something happens, and then goes to the next time at which something drives it on.

    What waits for a client drives nothing: such times pass when somebody says so.
    """

    def __init__(self, epoch: datetime = VIRTUAL_EPOCH, now_ns: int = 0) -> None:
        self.epoch = epoch
        self._now_ns = now_ns
        self._heap: list[tuple[int, int, _VirtualTimer]] = []
        self._numbers = count()
        self._driving = 0
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def now_ns(self) -> int:
        """See Clock."""
        return self._now_ns

    def at(self, time_ns: int, happen: Callable[[], None], *, driving: bool) -> Timer:
        """See Clock."""
        timer = _VirtualTimer(happen, self._drive if driving else None)
        heapq.heappush(self._heap, (max(time_ns, self._now_ns), next(self._numbers), timer))
        return timer

    def later(self, delay_s: float, happen: Callable[[], None]) -> Timer:
        """See Clock.  It happens after as much real time, too: clients that wait for nothing want their keep-alives."""
        time_ns = self._now_ns + round(delay_s * _SECOND_NS)
        timer = _VirtualTimer(happen)
        timer.real = asyncio.get_running_loop().call_later(delay_s, timer.happen)
        heapq.heappush(self._heap, (time_ns, next(self._numbers), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """See Clock."""
        until_ns = self._now_ns + _passing_ns(seconds)
        if until_ns > _END_NS:
            raise InputError("Virtual time cannot be advanced any more: it ends a hundred years after it began.")
        await _settled()
        while not self._stopped and self._next_ns() is not None and (self._next_ns() or 0) <= until_ns:
            self._happen()
            await _settled()
        self._now_ns = max(self._now_ns, until_ns)

    def stop(self) -> None:
        """See Clock."""
        self._stopped = True
        for _, _, timer in self._heap:
            timer.cancel()
        self._heap.clear()
        if self._task is not None:
            self._task.cancel()

    def _drive(self, change: int) -> None:
        """There are so many more timers that drive."""
        self._driving += change
        if self._driving and not self._stopped and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        await _settled()
        while self._driving and not self._stopped:
            self._happen()
            await _settled()

    def _next_ns(self) -> int | None:
        while self._heap and self._heap[0][2].is_over:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _happen(self) -> None:
        """Go to the next time at which something happens."""
        time_ns = self._next_ns()
        if time_ns is None:
            return
        self._now_ns = max(self._now_ns, time_ns)
        while self._next_ns() == time_ns:
            heapq.heappop(self._heap)[2].happen()


class _VirtualTimer:
    """Something that is to happen at a virtual time."""

    def __init__(self, happen: Callable[[], None], drive: Callable[[int], None] | None = None) -> None:
        self.is_over = False
        self.real: asyncio.TimerHandle | None = None
        self._happen = happen
        self._drive = drive
        if drive is not None:
            drive(1)

    def happen(self) -> None:
        """Let it happen, once."""
        if not self.is_over:
            self.cancel()
            self._happen()

    def cancel(self) -> None:
        """See Timer."""
        if not self.is_over:
            self.is_over = True
            if self.real is not None:
                self.real.cancel()
            if self._drive is not None:
                self._drive(-1)


def _passing_ns(seconds: object) -> int:
    """What is to pass at once, in ns.  Raises InputError where that is no time, or too long."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= _LONGEST_ADVANCE_S:
        raise InputError(f"Say how many seconds are to pass: a number from 0 to {_LONGEST_ADVANCE_S}, which is a day.")
    return round(seconds * _SECOND_NS)


async def _settled() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
