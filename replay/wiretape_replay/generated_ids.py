"""Ids of responses that do not come from a recording."""

from itertools import count


class RequestIdCounter:
    """Counts ids for responses that do not come from a recording: `wiretape-1`, `wiretape-2` and so on.

    Everything that responds on a server shares one of these, so no id occurs twice, and every run has the same ids.
    """

    def __init__(self, prefix: str = "wiretape") -> None:
        self._prefix = prefix
        self._numbers = count(1)

    def next(self) -> str:
        """Return the next unused request id."""
        return f"{self._prefix}-{next(self._numbers)}"
