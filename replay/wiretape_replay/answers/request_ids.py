"""The ids of the requests that are answered without a recorded answer: counted, so that every run has the same."""

from itertools import count


class RequestIds:
    """`wiretape-1`, `wiretape-2`, …  One of these serves all that answers on a front, so that no id comes twice."""

    def __init__(self, prefix: str = "wiretape") -> None:
        self._prefix = prefix
        self._numbers = count(1)

    def next(self) -> str:
        """An id that nobody had."""
        return f"{self._prefix}-{next(self._numbers)}"
