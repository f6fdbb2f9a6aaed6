"""Settings of the checker, and selection of rules by prefixes of their codes.

`SEQ` is a family, `SEQ004` one rule, `ALL` every rule.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wiretape.checker.default_rules import CATALOGUE, combined_catalogue
from wiretape.errors import InputError
from wiretape.rules.catalogue import Rule, RuleSet
from wiretape.rules.finding import Severity
from wiretape.rules.traffic import TrafficSettings
from wiretape.safe_text import closest_match

EVERY = "ALL"


@dataclass(frozen=True, slots=True)
class Settings(TrafficSettings):
    """Settings of the checker; the defaults are those of the specification."""

    severities: Mapping[str, Severity] = field(default_factory=dict)
    """Severities by rule code, if they are not those of the catalogue."""
    off: frozenset[str] = frozenset()
    """Codes of rules that do not run; their verdict is always `not-exercised`."""
    contracts: tuple[RuleSet, ...] = ()
    """What to check instead of the service: each exchange belongs to the first contract that has its operation."""

    @property
    def catalogue(self) -> Mapping[str, Rule]:
        """The rules to check, by code.  Raises ValueError if rules of two contracts have the same code."""
        if not self.contracts:
            return CATALOGUE
        return combined_catalogue(self.contracts)

    def contract_of(self, code: str) -> RuleSet | None:
        """Return the first contract with a rule; None for a built-in rule."""
        return next((each for each in self.contracts if code in each.catalogue), None)

    def with_contracts(self, contracts: Sequence[RuleSet]) -> "Settings":
        """Return settings that check with contracts; with the built-in rules if there are none.

        Raises InputError if their rules have the same codes.
        """
        settings = replace(self, contracts=tuple(contracts))
        try:
            settings.catalogue  # noqa: B018 - it checks the codes
        except ValueError as error:
            names = " and ".join(each.name for each in contracts)
            raise InputError(f"The contracts {names} cannot be combined: {error}") from None
        return settings


class UnknownCodeError(ValueError):
    """No rule has a code with a given prefix.  The message suggests the closest code."""


def family_names(catalogue: Mapping[str, Rule] = CATALOGUE) -> list[str]:
    """Return the letters of the codes, in the order of the catalogue."""
    return list(dict.fromkeys(code.rstrip("0123456789") for code in catalogue))


def codes_of(prefix: str, catalogue: Mapping[str, Rule] = CATALOGUE) -> frozenset[str]:
    """Return the codes that begin with `prefix`, in any case.  Raises UnknownCodeError if there are none."""
    wanted = prefix.strip().upper()
    found = catalogue.keys() if wanted == EVERY else [code for code in catalogue if wanted and code.startswith(wanted)]
    if not found:
        raise UnknownCodeError(f"Unknown rule code {prefix.strip()!r}{_hint(wanted, catalogue)}")
    return frozenset(found)


def selected(
    select: Collection[str] = (), ignore: Iterable[str] = (), catalogue: Mapping[str, Rule] = CATALOGUE
) -> frozenset[str]:
    """Return the codes that `select` (or nothing, for all) includes and `ignore` does not exclude.

    If both match a rule, the longer prefix wins, and `ignore` if they are equally long.  Raises UnknownCodeError.
    """
    included = _longest_prefixes(select or (EVERY,), catalogue)
    excluded = _longest_prefixes(ignore, catalogue)
    return frozenset(code for code, length in included.items() if length > excluded.get(code, -1))


def weight(prefix: str) -> int:
    """Return how specific a prefix is: its length, and 0 for `ALL`."""
    return 0 if prefix.strip().upper() == EVERY else len(prefix.strip())


def _longest_prefixes(prefixes: Iterable[str], catalogue: Mapping[str, Rule]) -> dict[str, int]:
    """Return for each matched code the length of the longest prefix that matches it."""
    lengths: dict[str, int] = {}
    for prefix in prefixes:
        length = weight(prefix)
        for code in codes_of(prefix, catalogue):
            lengths[code] = max(length, lengths.get(code, 0))
    return lengths


def _hint(wanted: str, catalogue: Mapping[str, Rule]) -> str:
    """Suggest the closest family, and the codes that it has."""
    parts = re.fullmatch(r"([A-Z]+)[^A-Z0-9]*([0-9]{0,9})", wanted)
    family = _closest_family(parts[1], family_names(catalogue)) if parts else None
    if parts is None or family is None:
        return f"; the families are {', '.join(family_names(catalogue))}."
    if not parts[2]:
        return f"; did you mean {family}?"
    codes = sorted(codes_of(family, catalogue))
    if (exact := f"{family}{parts[2]:>03}") in codes:
        return f"; did you mean {exact}?"
    return f"; {family} has {codes[0]}." if len(codes) == 1 else f"; {family} has {codes[0]} to {codes[-1]}."


def _closest_family(letters: str, known: list[str]) -> str | None:
    """Return the family that the letters are a misspelling of, preferring swapped letters."""
    swapped = [family for family in known if sorted(family) == sorted(letters)]
    return swapped[0] if swapped else closest_match(letters, known)
