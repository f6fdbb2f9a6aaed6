"""Choosing rules by prefixes of their codes: `SEQ` is a family, `SEQ004` one rule, `ALL` every rule."""

import re
from collections.abc import Collection, Iterable

from wiretape.rules.catalogue import CATALOGUE
from wiretape.safe_text import closest_match

__all__ = ["EVERY", "UnknownCodeError", "closest_match", "codes_of", "families", "selected", "weight"]

EVERY = "ALL"


class UnknownCodeError(ValueError):
    """No rule has a code that begins so.  Says which codes come nearest."""


def families() -> list[str]:
    """The prefixes that codes have before their number, in the order of the catalogue."""
    return list(dict.fromkeys(code.rstrip("0123456789") for code in CATALOGUE))


def codes_of(prefix: str) -> frozenset[str]:
    """The codes that begin with `prefix`, in any case.  Raises UnknownCodeError when there are none."""
    wanted = prefix.strip().upper()
    found = CATALOGUE.keys() if wanted == EVERY else [code for code in CATALOGUE if wanted and code.startswith(wanted)]
    if not found:
        raise UnknownCodeError(f"No rule's code begins with {prefix.strip()!r}{_hint(wanted)}")
    return frozenset(found)


def selected(select: Collection[str] = (), ignore: Iterable[str] = ()) -> frozenset[str]:
    """The codes that `select` names (all, when it names none) and `ignore` does not.

    Where both name a rule the longer prefix decides, and `ignore` when they are equally long.
    Raises UnknownCodeError.
    """
    wanted = _longest(select or (EVERY,))
    unwanted = _longest(ignore)
    return frozenset(code for code, length in wanted.items() if length > unwanted.get(code, -1))


def weight(prefix: str) -> int:
    """How much a prefix counts against others: the longer, the more; `ALL` least of all."""
    return 0 if prefix.strip().upper() == EVERY else len(prefix.strip())


def _longest(prefixes: Iterable[str]) -> dict[str, int]:
    """For each code that is named the length of the longest prefix that names it."""
    lengths: dict[str, int] = {}
    for prefix in prefixes:
        length = weight(prefix)
        for code in codes_of(prefix):
            lengths[code] = max(length, lengths.get(code, 0))
    return lengths


def _hint(wanted: str) -> str:
    """What was meant, perhaps: the family that comes nearest, and within it the rule whose number does."""
    said = re.fullmatch(r"([A-Z]+)[^A-Z0-9]*([0-9]{0,9})", wanted)
    family = _family(said[1]) if said else None
    if said is None or family is None:
        return f"; the families are {', '.join(families())}."
    if not said[2]:
        return f"; did you mean {family}?"
    numbers = [int(code.removeprefix(family)) for code in codes_of(family)]
    number = min(numbers, key=lambda number: (abs(number - int(said[2])), number))
    return f"; did you mean {family}{number:03}?"


def _family(letters: str) -> str | None:
    """The family that letters are most likely a slip of; letters in another order before other letters."""
    swapped = [family for family in families() if sorted(family) == sorted(letters)]
    return swapped[0] if swapped else closest_match(letters, families())
