"""The clock of a playhead in the event loop: it moves the playhead, wakes its streams, and times their keep-alives."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from wiretape.contract import KEEP_ALIVE_SECONDS
from wiretape_replay.session.playhead import Playhead

_P = ParamSpec("_P")
_T = TypeVar("_T")

_SHORTEST_KEEP_ALIVE_S = 0.01
"""Keep-alives are never closer together, however fast the playhead moves."""


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Cancel the call."""
        ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after a number of seconds."""


def call_later(delay_s: float, function: Callable[[], None]) -> Timer:
    """Call a function after a number of seconds by the clock of the event loop."""
    return asyncio.get_running_loop().call_later(delay_s, function)


class IdleTimer:
    """Idle timer of one stream.  Once started it runs, whatever the playhead does, until the stream sends something."""

    def __init__(self, timeout_s: float, call_later: CallLater) -> None:
        self.is_expired = False
        self.on_expiry: Callable[[], None] = lambda: None
        self._timeout_s = timeout_s
        self._call_later = call_later
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start the timer if it is not running."""
        if self._timer is None:
            self._timer = self._call_later(self._timeout_s, self._expire)

    def stop(self) -> None:
        """Stop the timer: the stream sent something, or has ended."""
        self.is_expired = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self.is_expired = True
        self.on_expiry()


class PlayheadClock:
    """Moves one playhead and wakes the streams that follow it.  Use it in the event loop's thread only."""

    def __init__(
        self,
        playhead: Playhead,
        *,
        on_change: Callable[[], None] = lambda: None,
        keep_alive_s: float = KEEP_ALIVE_SECONDS,
        call_later: CallLater = call_later,
    ) -> None:
        """`on_change` is called after every change of the playhead.

        A stream gets a keep-alive after `keep_alive_s` seconds of the playhead's time, which `call_later` measures.
        """
        self.playhead = playhead
        self._on_change = on_change
        self._keep_alive_s = keep_alive_s
        self._call_later = call_later
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: set[asyncio.Future[bool]] = set()

    @property
    def keep_alive_s(self) -> float:
        """Seconds of real time after which an idle stream gets a keep-alive."""
        speed = self.playhead.speed
        return max(_SHORTEST_KEEP_ALIVE_S, self._keep_alive_s / (1 if speed == math.inf else speed))

    def start(self) -> None:
        """Start the playhead's clock when the first stream connects."""
        if not self.playhead.started:
            self.move(Playhead.start)

    def start_after(self, cursor: str) -> None:
        """Put the playhead behind the event that the first stream resumes after, because the client has read it.

        Does nothing if the playhead has started, was moved by hand, or the log has no such event.
        """
        playhead = self.playhead
        position = playhead.log.position_of(cursor)
        is_fresh = not (playhead.started or playhead.paused or playhead.position)
        if is_fresh and position is not None:
            self.move(Playhead.seek, position + 1)

    def move(self, operation: Callable[Concatenate[Playhead, int, _P], _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do an operation of the playhead now: `clock.move(Playhead.step, StepTarget.DURABLE)`."""
        result = operation(self.playhead, time.monotonic_ns(), *args, **kwargs)
        self.update()
        return result

    def update(self) -> None:
        """Pass what is due, wake the streams, and schedule the next entry.  Call this after the log has grown."""
        self.stop()
        self.playhead.advance(time.monotonic_ns())
        for waiter in self._waiters:
            _wake(waiter, True)
        due_ns = self.playhead.due_ns()
        if due_ns is not None:
            delay_s = (due_ns - time.monotonic_ns()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(max(0.0, delay_s), self.update)
        self._on_change()

    def stop(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def idle_timer(self) -> IdleTimer:
        """A timer for the keep-alives of one stream."""
        return IdleTimer(self.keep_alive_s, self._call_later)

    async def wait_for_move(self, idle: IdleTimer) -> bool:
        """Wait for a change of the playhead; return False if the stream's idle timer expires first."""
        if idle.is_expired:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        idle.on_expiry = lambda: _wake(waiter, False)
        self._waiters.add(waiter)
        try:
            return await waiter
        finally:
            self._waiters.discard(waiter)


def _wake(waiter: "asyncio.Future[bool]", moved: bool) -> None:
    if not waiter.done():
        waiter.set_result(moved)
