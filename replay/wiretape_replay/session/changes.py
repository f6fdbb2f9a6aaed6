"""Tells those who wait that something is not as it was: a playhead moved, a stream connected or ended."""

import asyncio


class Changes:
    """Counts changes, and wakes who waits for the next.  To be used in the event loop's thread."""

    def __init__(self) -> None:
        self.count = 0
        """How many changes there were."""
        self.closed = False
        """Whether nobody is to wait any longer."""
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return len(self._waiting)

    def note(self) -> None:
        """Something changed."""
        self.count += 1
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """Let everybody go."""
        self.closed = True
        self.note()

    async def after(self, count: int) -> None:
        """Return once there were more than `count` changes."""
        if self.closed or self.count > count:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
