"""What counts when a request is compared with recorded ones, and what is done when their answers run out."""

from dataclasses import dataclass
from enum import StrEnum

from wiretape.json_path import JsonPath


class Order(StrEnum):
    """In which order recorded answers are given."""

    KIND = "kind"
    """Each kind of request has an order of its own."""
    STRICT = "strict"
    """Requests come in recorded order, all kinds together."""


class Repeat(StrEnum):
    """What a request gets when every recorded answer to it was given."""

    REFUSE = "refuse"
    LAST = "last"
    """The last one again."""
    CYCLE = "cycle"
    """All of them again, from the first."""


@dataclass(frozen=True, slots=True)
class Matching:
    """How requests are compared."""

    ignored_query: frozenset[str] = frozenset()
    """Names of query parameters that do not count."""
    ignored_body: tuple[JsonPath, ...] = ()
    """What does not count in JSON bodies."""
    headers: tuple[str, ...] = ()
    """Names of the headers that count, in lower case, each once."""
    order: Order = Order.KIND
    repeat: Repeat = Repeat.REFUSE
