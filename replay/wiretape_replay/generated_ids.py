"""Generated ids: of responses, and of the sessions, runs, events and calls of the stand-in; the same in every run."""

from hashlib import blake2b
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


def generate_id(prefix: str, seed: int, *parts: str | int) -> str:
    """Return `prefix_` and 20 hexadecimal digits, which depend on the seed and the parts only."""
    text = "\0".join(map(str, (prefix, seed, *parts)))
    return f"{prefix}_{blake2b(text.encode(), digest_size=10).hexdigest()}"
