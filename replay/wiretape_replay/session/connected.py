"""A stream that is connected now."""

from dataclasses import dataclass

from wiretape_replay.session.follower import Follower
from wiretape_replay.session.playhead_clock import PlayheadClock


@dataclass(frozen=True, slots=True, eq=False)
class Connected:
    """Who follows which playhead, and how far."""

    drive: PlayheadClock
    follower: Follower
    cursor: str | None
    """As the client sent it."""
    deltas: bool
