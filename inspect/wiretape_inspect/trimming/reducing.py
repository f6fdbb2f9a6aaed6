"""Delta debugging: the smallest list of things that still does what the whole does, as far as the effort goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Thing = TypeVar("Thing")


@dataclass(slots=True)
class Effort:
    """What may still be spent."""

    tries: int
    things: int
    """How many things, in all tries together."""

    def spend(self, things: int) -> bool:
        """Whether there is one more try, with so many things."""
        self.tries -= 1
        self.things -= things
        return self.left

    @property
    def left(self) -> bool:
        """Whether anything is."""
        return self.tries >= 0 and self.things >= 0


def reduced(things: Sequence[Thing], holds: Callable[[list[Thing]], bool], effort: Effort) -> list[Thing]:
    """Those of `things` that are needed for `holds`, in order; of all of them it is taken to hold.

    Parts are left out, ever smaller ones, for as long as it holds without them.  What comes out was tried,
    unless it is all there was.
    """
    kept = list(things)
    size = len(kept)
    while size:
        fewer = _without_parts(kept, size, holds, effort)
        if size == 1 and len(fewer) == len(kept):
            break
        kept, size = fewer, min(max(size // 2, 1), len(fewer))
        if not effort.left:
            break
    return kept


def _without_parts(kept: list[Thing], size: int, holds: Callable[[list[Thing]], bool], effort: Effort) -> list[Thing]:
    """The same without each part of a size that is not needed, the last one first."""
    end = len(kept)
    while end > 0:
        begin = max(end - size, 0)
        fewer = kept[:begin] + kept[end:]
        if not effort.spend(len(fewer)):
            break
        if holds(fewer):
            kept = fewer
        end = begin
    return kept
