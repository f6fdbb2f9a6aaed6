"""When the recorder may index and check, and when it had better only store.

Storing is a tenth of its work, and the part that cannot wait.  The rest is put off while much comes and others want
the cores as well: it would take from those who make, pass on and read the traffic.  A low priority is no way to the
same: it puts off storing, too, and where sessions are scheduled as groups it counts for nothing.
"""

import math

from wiretape.recording import LARGE_SLICE, SMALL_SLICE, TINY_SLICE, BacklogSlice

_MUCH_BYTES = 64 * 1024
"""In one read.  The proxy sends what there is 25 times a second."""
_MEANWHILE_S = 0.1
"""For so long after the last input more is likely, and must not wait for the end of a long turn."""
_LITTLE_BYTES = 16 * 1024
"""In one read, and unchecked in all: until the next read there is time enough to work in the smallest turns."""
_REST_S = 0.0015
"""Between these, so that a core is free at once for whoever passes an event on just then."""
_OWN_SHARE = 0.85
"""Who has a core for less than this share of the time has to share it."""
_AT_LEAST_EVERY_S = 0.25
"""Findings go on, however much comes: a turn as often as this."""
MOST_BYTES = 64 * 1024 * 1024
"""With more than this unchecked, storing and checking take turns, and the traffic is slowed down if need be."""


class Pace:
    """Says before each turn of indexing and checking whether there may be one, and how long.  All times in seconds."""

    def __init__(self) -> None:
        self._heard_at = self._much_at = self._turned_at = -math.inf
        self._alone = True
        self._volume = 0

    def heard(self, now: float, volume: int) -> None:
        """There was input, of so many bytes."""
        self._heard_at = now
        self._volume = volume
        if volume >= _MUCH_BYTES:
            self._much_at = now

    def turned(self, now: float, wall: float, cpu: float) -> None:
        """There was a turn; it took `wall`, and had a core for `cpu` of it."""
        self._turned_at = now
        self._alone = cpu >= _OWN_SHARE * wall

    def patience(self, now: float, unchecked: int) -> float:
        """How long until there may be a turn, with so many bytes unchecked."""
        if self.most(now, unchecked) is TINY_SLICE:
            return max(0.0, self._turned_at + _REST_S - now)
        if self._alone or unchecked > MOST_BYTES:
            return 0
        return max(0.0, min(self._much_at + _MEANWHILE_S, self._turned_at + _AT_LEAST_EVERY_S) - now)

    def most(self, now: float, unchecked: int) -> BacklogSlice:
        """How much a turn may take."""
        if now - self._heard_at >= _MEANWHILE_S or unchecked > MOST_BYTES:
            return LARGE_SLICE
        return TINY_SLICE if max(self._volume, unchecked) <= _LITTLE_BYTES else SMALL_SLICE
