"""Idle timer of one stream: the time after which a silent stream gets a keep-alive."""

import asyncio
from collections.abc import Callable
from typing import Protocol


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
