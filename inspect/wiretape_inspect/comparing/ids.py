"""Which id of one recording stands for which of the other.  Pure."""

import re
from functools import lru_cache

_WORDS = re.compile(r"([^\w-]+)")
_LITERAL = re.compile(r"v\d+|[A-Za-z]+(?:[_.-][A-Za-z]+)*")


@lru_cache(4096)
def is_id(name: str) -> bool:
    """Whether a member of a JSON object of this name holds an id, or a list of them."""
    return name == "id" or name.endswith(("_id", "_ids"))


def may_be_id(segment: str) -> bool:
    """Whether a segment of a path may be an id: it holds something else than words, and is no version."""
    return _LITERAL.fullmatch(segment) is None


class Partners:
    """Ids and their partners, each bound where it first came at the same place as the other.

    With it, ids are the same when they were made in the same order and are referred to from the same places.
    Memory grows with the number of ids.
    """

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def same(self, first: str, second: str) -> bool:
        """Whether the two stand for each other; they do from now on, if neither stood for any other before."""
        known = self._of.get(first)
        if known is not None:
            return known == second
        if second in self._back:
            return False
        self._of[first] = second
        self._back[second] = first
        return True

    def of(self, first: str | None) -> str | None:
        """What stands in the second recording for an id of the first; None where that is not known."""
        return None if first is None else self._of.get(first)

    def same_text(self, first: str, second: str) -> bool:
        """Whether two texts are the same but for ids in them that are known to stand for each other."""
        here, there = _WORDS.split(first), _WORDS.split(second)
        return len(here) == len(there) and all(
            self._of.get(one, one) == other for one, other in zip(here, there, strict=True)
        )
