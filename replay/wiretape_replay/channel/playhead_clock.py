"""The playheads of a replay: their clocks in the event loop, which of them a stream follows, and its keep-alives."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from wiretape.contract.service_terms import DEFAULT_KEEP_ALIVE_S
from wiretape.http_headers import AUTHORIZATION, bearer_key
from wiretape_replay.channel.channel_log import ChannelLog
from wiretape_replay.channel.playhead import Playhead
from wiretape_replay.http_server.http_messages import HttpRequest

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
    """Once started, it runs until the stream sends something, whatever the playhead does."""

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


class ChangeNotifier:
    """Counts changes and wakes whoever waits for the next.  Use it in the event loop's thread only."""

    def __init__(self) -> None:
        self.count = 0
        self.is_closed = False
        self.waiting = 0
        """How many tasks are waiting."""
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Count one more change."""
        self.count += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """Wake all tasks that wait; from now on none waits."""
        self.is_closed = True
        self.notify()

    async def wait(self, count: int) -> None:
        """Return once there are more than `count` changes."""
        if self.is_closed or self.count > count:
            return
        self.waiting += 1
        try:
            await self._changed.wait()
        finally:
            self.waiting -= 1


class PlayheadClock:
    """Moves one playhead and wakes the streams that follow it.  Use it in the event loop's thread only."""

    def __init__(
        self,
        playhead: Playhead,
        *,
        on_change: Callable[[], None],
        keep_alive_s: float,
        call_later: CallLater,
    ) -> None:
        """`on_change` is called after every change of the playhead; `keep_alive_s` and `call_later`: see Playheads."""
        self.playhead = playhead
        self.is_released = False
        """Whether the stream that had it for itself has ended."""
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


class Playheads:
    """The playheads of a replay: one for each channel, or one for each stream that begins without a cursor."""

    def __init__(
        self,
        *,
        speed: float,
        paused: bool,
        per_connection: bool,
        keep_alive_s: float = DEFAULT_KEEP_ALIVE_S,
        call_later: CallLater = call_later,
    ) -> None:
        """With `per_connection`, a stream without a cursor gets a new playhead, and one with a cursor keeps the last.

        An idle stream gets a keep-alive after `keep_alive_s` seconds of the playhead's time, measured by `call_later`.
        """
        self.speed = speed
        self.changes = ChangeNotifier()
        """Changes of the playheads, and of the streams that follow them."""
        self._paused = paused
        self._per_connection = per_connection
        self._keep_alive_s = keep_alive_s
        self._call_later = call_later
        self._latest: dict[str, PlayheadClock] = {}
        self._unclaimed: dict[str, PlayheadClock] = {}
        """Playheads that were moved before any stream connected."""
        self._by_client: dict[tuple[str, str], PlayheadClock] = {}
        self._all: list[PlayheadClock] = []

    def latest(self, log: ChannelLog) -> PlayheadClock:
        """The playhead of a channel, or the latest if it has several.

        A playhead that no stream follows yet belongs to the next stream that begins without a cursor.
        """
        clock = self._latest.get(log.name)
        if clock is None:
            clock = self._unclaimed[log.name] = self._create(log)
        return clock

    def of_channel(self, log: ChannelLog) -> list[PlayheadClock]:
        """All playheads of a channel, the latest last; at least one."""
        latest = self.latest(log)
        has_several = self._per_connection or log.restarts
        return [clock for clock in self._all if clock.playhead.log is log] if has_several else [latest]

    def for_stream(self, log: ChannelLog, request: HttpRequest, cursor: str | None) -> PlayheadClock:
        """The playhead that a requested stream follows; `release` it after the stream."""
        if not (self._per_connection or log.restarts):
            return self.latest(log)
        client = (log.name, _client_of(request))
        clock = self._by_client.get(client)
        if clock is None or cursor is None:
            unclaimed = self._unclaimed.pop(log.name, None)
            clock = self._by_client[client] = self._create(log) if unclaimed is None else unclaimed
        return clock

    def release(self, clock: PlayheadClock) -> None:
        """Note that a stream has ended: of a log that restarts, only the playhead of the latest stream is kept."""
        log = clock.playhead.log
        if not log.restarts:
            return
        clock.is_released = True
        for other in self.of_channel(log)[:-1]:
            if other.is_released:
                other.stop()
                self._all.remove(other)

    def set_speed(self, speed: float) -> None:
        """Move all playheads at another speed from now on."""
        self.speed = speed
        for clock in self._all:
            clock.move(Playhead.set_speed, speed)

    def reset(self) -> None:
        """Reset the playheads of all channels."""
        for clock in self._all:
            clock.move(Playhead.reset)

    def stop(self) -> None:
        """Stop all clocks."""
        for clock in self._all:
            clock.stop()
        self.changes.close()

    def _create(self, log: ChannelLog) -> PlayheadClock:
        playhead = Playhead(log, speed=self.speed, paused=self._paused)
        latest = self._latest.get(log.name)
        if latest is not None:
            playhead.breakpoints = latest.playhead.breakpoints
        clock = PlayheadClock(
            playhead, on_change=self.changes.notify, keep_alive_s=self._keep_alive_s, call_later=self._call_later
        )
        self._latest[log.name] = clock
        self._all.append(clock)
        return clock


def _client_of(request: HttpRequest) -> str:
    """What identifies a client: its bearer key, or its address if it sends no key."""
    return bearer_key(request.header(AUTHORIZATION) or "") or request.client


def _wake(waiter: "asyncio.Future[bool]", moved: bool) -> None:
    if not waiter.done():
        waiter.set_result(moved)
