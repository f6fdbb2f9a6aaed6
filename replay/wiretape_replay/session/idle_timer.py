"""How long a stream is sent nothing."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that is to happen."""

    def cancel(self) -> None:
        """Let it not happen."""
        ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Lets something happen after so many seconds."""


def call_later(delay_s: float, happen: Callable[[], None]) -> Timer:
    """By the clock of the event loop."""
    return asyncio.get_running_loop().call_later(delay_s, happen)


class IdleTimer:
    """Watches over one stream: whatever else happens, its silence goes on until it is broken."""

    def __init__(self, after_s: float, later: CallLater) -> None:
        """It is long after `after_s` seconds, which `later` measures."""
        self.is_long = False
        self.ended: Callable[[], None] = lambda: None
        """What is called when it has become long."""
        self._after_s = after_s
        self._later = later
        self._timer: Timer | None = None

    def watch(self) -> None:
        """Measure it from now on, if that has not begun."""
        if self._timer is None:
            self._timer = self._later(self._after_s, self._long)

    def broken(self) -> None:
        """Something was sent, or nothing more will be."""
        self.is_long = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _long(self) -> None:
        self.is_long = True
        self.ended()
