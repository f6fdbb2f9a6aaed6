"""Where answers come from: the front knows HTTP and connections, a source knows what to say and when."""

from typing import Protocol

from wiretape_replay.front.asked import Asked
from wiretape_replay.front.line import Line


class Source(Protocol):
    """Answers requests."""

    async def answer(self, asked: Asked, line: Line) -> None:
        """Write the whole answer to `line` and end it.

        Raises ConnectionError when the client leaves, or is cancelled then.
        """
        ...
