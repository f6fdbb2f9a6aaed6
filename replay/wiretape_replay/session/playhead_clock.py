"""A playhead in the event loop: its clock runs, and streams wait for it to move."""

import asyncio
import math
import time
from collections.abc import Callable

from wiretape.contract import KEEP_ALIVE_SECONDS
from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.idle_timer import CallLater, IdleTimer, call_later
from wiretape_replay.session.playhead import Playhead, Step
from wiretape_replay.session.session_log import LogEntry

_LEAST_KEEP_ALIVE_S = 0.01
"""However fast a playhead moves, a stream that is sent nothing is not flooded."""


class PlayheadClock:
    """Moves one playhead and wakes the streams that follow it.  To be used in the event loop's thread."""

    def __init__(
        self,
        playhead: Playhead,
        *,
        changed: Callable[[], None] = lambda: None,
        keep_alive_s: float = KEEP_ALIVE_SECONDS,
        later: CallLater = call_later,
    ) -> None:
        """`changed` is called whenever something was done to the playhead.

        `keep_alive_s` are the seconds of the playhead's time after which a stream gets a keep-alive; `later` measures
        them.
        """
        self.playhead = playhead
        self.resets = 0
        """How often it was begun anew: streams from before that end."""
        self._paused_at_first = playhead.paused
        self._changed = changed
        self._keep_alive_s = keep_alive_s
        self._later = later
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: set[asyncio.Future[bool]] = set()

    @property
    def keep_alive_s(self) -> float:
        """Seconds of real time after which a stream that is sent nothing gets a keep-alive."""
        speed = self.playhead.speed
        return max(_LEAST_KEEP_ALIVE_S, self._keep_alive_s / (1 if speed == math.inf else speed))

    def start(self) -> None:
        """A stream has connected: the clock runs from now on, if it did not before."""
        if not self.playhead.started:
            self.playhead.start(time.monotonic_ns())
            self._run()

    def begin_after(self, cursor: str) -> None:
        """The first stream asks for what follows `cursor`: it has read what comes before, so that is behind.

        Nothing, for a playhead that has begun, that stands where it was put by hand, or that has no such event.
        """
        place = self.playhead.log.place_of(cursor)
        fresh = not (self.playhead.started or self.playhead.paused or self.playhead.place)
        if fresh and place is not None:
            self.seek(place + 1)

    def pause(self) -> None:
        """Stop here."""
        self.playhead.pause(time.monotonic_ns())
        self._run()

    def resume(self) -> None:
        """Move on."""
        self.playhead.resume(time.monotonic_ns())
        self._run()

    def step(self, to: Step) -> LogEntry | None:
        """See Playhead."""
        entry = self.playhead.step(to, time.monotonic_ns())
        self._run()
        return entry

    def seek(self, place: int, *, position_ns: int = 0) -> None:
        """See Playhead."""
        self.playhead.seek(place, time.monotonic_ns(), position_ns=position_ns)
        self._run()

    def set_breakpoints(self, breakpoints: list[Breakpoint]) -> None:
        """Stop at these and no others."""
        self.playhead.breakpoints = list(breakpoints)
        self._changed()

    def reset(self) -> None:
        """Begin anew; connected streams end."""
        self.resets += 1
        self.playhead.reset(time.monotonic_ns(), paused=self._paused_at_first)
        self._run()

    def grown(self) -> None:
        """The log has more entries than before."""
        self._run()

    def stop(self) -> None:
        """Let the clock run no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def silence(self) -> IdleTimer:
        """That of a stream that begins to follow."""
        return IdleTimer(self.keep_alive_s, self._later)

    async def moved(self, silence: IdleTimer) -> bool:
        """Wait until something is done to the playhead; False when it is the silence of a stream that became long."""
        if silence.is_long:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        silence.ended = lambda: _wake(waiter, False)
        self._waiting.add(waiter)
        try:
            return await waiter
        finally:
            self._waiting.discard(waiter)

    def _run(self) -> None:
        """Pass what is due, wake who waits, and come back when the next entry is due."""
        self.stop()
        self.playhead.advance(time.monotonic_ns())
        for waiter in self._waiting:
            _wake(waiter, True)
        due_ns = self.playhead.due_ns()
        if due_ns is not None:
            left_s = (due_ns - time.monotonic_ns()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(max(0.0, left_s), self._run)
        self._changed()


def _wake(waiter: "asyncio.Future[bool]", moved: bool) -> None:
    if not waiter.done():
        waiter.set_result(moved)
