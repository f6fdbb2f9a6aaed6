"""What counts when a request is compared with recorded ones, and what is done when their answers run out."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from wiretape.errors import InputError
from wiretape.json_path import JsonPath
from wiretape.safe_text import shorten

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, 5.6.2."""
_Choice = TypeVar("_Choice", bound=StrEnum)


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

    @classmethod
    def of(
        cls,
        *,
        ignore_query: Iterable[str] = (),
        ignore_body: Iterable[str] = (),
        match_headers: Iterable[str] = (),
        order: str = Order.KIND,
        repeat: str = Repeat.REFUSE,
    ) -> "Matching":
        """From texts as people write them; `ignore_body` takes paths such as `$.created_at`.  Raises InputError."""
        match_headers, ignore_query = list(match_headers), frozenset(ignore_query)
        if "" in ignore_query:
            raise InputError("A query parameter that does not count needs a name.")
        for name in match_headers:
            if not _HEADER.fullmatch(name):
                raise InputError(f"{shorten(repr(name), 60)} cannot be the name of a header that counts.")
        return cls(
            ignore_query,
            tuple(map(JsonPath.of, ignore_body)),
            tuple(dict.fromkeys(name.lower() for name in match_headers)),
            _one_of(Order, order),
            _one_of(Repeat, repeat),
        )


def _one_of(choices: type[_Choice], text: str) -> _Choice:
    try:
        return choices(text)
    except ValueError:
        named = ", ".join(choices)
        raise InputError(f"The {choices.__name__.lower()} {text!r} is none of these: {named}.") from None
