"""The speed at which a recording is replayed, and the clock that follows it."""

import asyncio
import math
from dataclasses import dataclass

from wiretape.errors import InputError


@dataclass(frozen=True, slots=True)
class PlaybackSpeed:
    """A multiple of the recorded speed: 1 is as recorded, infinity is at once."""

    speed: float

    @classmethod
    def of(cls, speed: str | float) -> "PlaybackSpeed":
        """Parse `max` or a number greater than 0.  Raises InputError."""
        try:
            number = math.inf if speed == "max" else float(speed)
        except ValueError:
            number = math.nan
        if not number > 0 or (number == math.inf and isinstance(speed, str) and speed != "max"):
            raise InputError(f"Invalid speed {speed!r}: expected max or a number greater than 0, such as 1 or 10.")
        return cls(number)

    def __str__(self) -> str:
        """For people."""
        if self.speed == math.inf:
            return "at once"
        return "at its own speed" if self.speed == 1 else f"at {self.speed:g} times its speed"

    def start(self) -> "PlaybackClock":
        """A clock that starts now."""
        return PlaybackClock(self.speed, asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class PlaybackClock:
    """Waits for times of the recording.  All are relative to the same start, so delays do not add up."""

    speed: float
    started: float
    """The start, in seconds of the event loop's clock."""

    def remaining_s(self, delay_ns: int) -> float:
        """Seconds until `delay_ns` of recorded time after the start; 0 or less if that has passed."""
        if self.speed == math.inf:
            return 0
        return self.started + delay_ns / 1e9 / self.speed - asyncio.get_running_loop().time()

    async def wait_until(self, delay_ns: int) -> None:
        """Return `delay_ns` of recorded time after the start, or at once if that has passed."""
        remaining_s = self.remaining_s(delay_ns)
        if remaining_s > 0:
            await asyncio.sleep(remaining_s)
