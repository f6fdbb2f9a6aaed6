"""How fast a recording is played."""

import asyncio
import math
from dataclasses import dataclass

from wiretape.errors import InputError


@dataclass(frozen=True, slots=True)
class PlaybackSpeed:
    """As recorded (1), so many times as fast, or at once (infinity)."""

    speed: float

    @classmethod
    def of(cls, speed: str | float) -> "PlaybackSpeed":
        """Read `max` or a number over 0.  Raises InputError."""
        try:
            number = math.inf if speed == "max" else float(speed)
        except ValueError:
            number = math.nan
        if not number > 0 or (number == math.inf and isinstance(speed, str) and speed != "max"):
            raise InputError(f"The speed {speed!r} is neither max nor a number over 0 (1: as recorded, 10: faster).")
        return cls(number)

    def __str__(self) -> str:
        """For people."""
        if self.speed == math.inf:
            return "at once"
        return "at its own speed" if self.speed == 1 else f"at {self.speed:g} times its speed"

    def start(self) -> "PlaybackClock":
        """A clock that begins now."""
        return PlaybackClock(self.speed, asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class PlaybackClock:
    """Waits for moments of the recording, each counted from the same beginning, so that delays do not add up."""

    speed: float
    began: float
    """Seconds, on the event loop's clock."""

    def left(self, delay_ns: int) -> float:
        """Seconds until `delay_ns` of recorded time after the beginning; 0 or less when that is over."""
        if self.speed == math.inf:
            return 0
        return self.began + delay_ns / 1e9 / self.speed - asyncio.get_running_loop().time()

    async def reach(self, delay_ns: int) -> None:
        """Return `delay_ns` of recorded time after the beginning, or at once when that is over."""
        left = self.left(delay_ns)
        if left > 0:
            await asyncio.sleep(left)
