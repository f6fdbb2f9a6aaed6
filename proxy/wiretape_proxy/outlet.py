"""The end of a pipe that is written to."""

import asyncio
import os
from collections import deque


class Outlet:
    """Writes without waiting.  What the pipe does not take at once is kept, and tried again with every write.

    The transports of asyncio try again only once a turn of the event loop, and where many streams are as fast as they
    can be, a turn takes as long as the pipe holds.
    """

    def __init__(self, descriptor: int) -> None:
        """`descriptor`, which belongs to the outlet from now on, does not block."""
        self.backlog = 0
        """How many bytes are kept."""
        self.is_closing = False
        """Whether what is written goes nowhere."""
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._kept: deque[memoryview] = deque()
        self._waits = False

    def write(self, data: bytes) -> None:
        """Pass these bytes on.  Once nobody reads the pipe, they are dropped."""
        if not self.is_closing:
            self._kept.append(memoryview(data))
            self.backlog += len(data)
            self._push()

    def close(self) -> None:
        """End the pipe, behind what is kept."""
        self.is_closing = True
        if self._descriptor >= 0 and not self._kept:
            self._end()

    def abandon(self) -> None:
        """End the pipe, and drop what is kept: nobody reads it."""
        self._kept.clear()
        self.backlog = 0
        self.close()

    def _push(self) -> None:
        try:
            while self._kept:
                count = os.write(self._descriptor, self._kept[0])
                self.backlog -= count
                if count < len(self._kept[0]):
                    self._kept[0] = self._kept[0][count:]
                else:
                    self._kept.popleft()
        except BlockingIOError:
            self._wait()
        except OSError:
            self.abandon()
        else:
            self._settle()

    def _wait(self) -> None:
        if not self._waits:
            self._waits = True
            self._loop.add_writer(self._descriptor, self._push)

    def _settle(self) -> None:
        """All was taken."""
        if self._waits:
            self._waits = False
            self._loop.remove_writer(self._descriptor)
        if self.is_closing:
            self._end()

    def _end(self) -> None:
        if self._waits:
            self._waits = False
            self._loop.remove_writer(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
