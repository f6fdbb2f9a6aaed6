"""A stream that is connected now."""

from dataclasses import dataclass

from wiretape_replay.session.drive import Drive
from wiretape_replay.session.follower import Follower


@dataclass(frozen=True, slots=True, eq=False)
class Connected:
    """Who follows which playhead, and how far."""

    drive: Drive
    follower: Follower
    cursor: str | None
    """As the client sent it."""
    deltas: bool
