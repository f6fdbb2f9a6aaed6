"""What counts when two recordings are compared."""

from dataclasses import dataclass
from typing import Literal

from wiretape.json_path import JsonPath

Deltas = Literal["text", "pieces", "none"]
"""text: what they join to.  pieces: also how they cut it.  none: not at all."""


@dataclass(frozen=True, slots=True)
class Choices:
    """All of it; by default everything that is compared at all has to be the same."""

    ids: bool = False
    """Ids are normalised: they have to stand in the same places, whatever they are."""
    times: bool = False
    """Points in time that JSON holds have to be there, whatever they are."""
    ignored: tuple[JsonPath, ...] = ()
    """Places in JSON that do not count."""
    headers: tuple[str, ...] = ()
    """Names, in lower case, of headers that count beside those that always do."""
    deltas: Deltas = "text"
    tolerance_ns: int | None = None
    """How much later or sooner something may come; None: times are not compared."""
    most: int = 100
    """How many differences of each kind are told of a pair of exchanges, 0: all; the others are counted."""


STRICT = Choices()
