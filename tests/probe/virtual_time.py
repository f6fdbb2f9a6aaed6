"""An event loop in virtual time: as soon as everything waits for a timer, the time of that timer has come.

Service, proxy and probe run in one loop and talk over real sockets; hours pass in seconds, and the speed of the machine
does not matter.
"""

import asyncio
import selectors
import time

from wiretape_inspect.probe.probe_client import ProbeClock

_PATIENCE_S = 0.0002
"""How long the sockets are given before time passes: what was sent to this machine is there almost at once."""


class _Selector(selectors.DefaultSelector):
    """Waits for sockets; without any, lets the time of the loop pass."""

    skipped_s = 0.0

    def select(self, timeout=None):
        if timeout is None:
            return super().select(None)
        ready = super().select(0) or super().select(min(timeout, _PATIENCE_S))
        if not ready:
            self.skipped_s += max(timeout, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop; its time begins at 0 and passes only while all wait."""

    def __init__(self):
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self):
        return self._virtual.skipped_s


class LoopClock(ProbeClock):
    """The clock of a probe in such a loop."""

    def now_ns(self):
        return round(asyncio.get_running_loop().time() * 1e9)


def run(main, limit_s=120):
    """Run a coroutine function in a new loop; fail if it takes longer than `limit_s` of real time."""
    began_s = time.monotonic()

    async def guarded():
        task = asyncio.ensure_future(main())
        while not task.done():
            await asyncio.wait([task], timeout=60)
            if time.monotonic() - began_s > limit_s:
                task.cancel()
        return await task

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(guarded())
