"""The default rules: those of the installed contracts that are detected by their operations, and of `sse`.

They are read when they are first used: most commands check nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from wiretape.contract.contract_facts import detected_contracts
from wiretape.rules.catalogue import Rule, RuleSet, catalogue_of


@cache
def default_contracts() -> tuple[RuleSet, ...]:
    """Return the contracts whose rules check traffic if none is named.

    The last one is `sse`, for what no other contract covers.
    """
    from wiretape.contract.contract_builder import load_contract  # noqa: PLC0415 - it takes long to import

    return tuple(map(load_contract, [*(facts.name for facts in detected_contracts().contracts), "sse"]))


def combined_catalogue(contracts: Iterable[RuleSet]) -> Mapping[str, Rule]:
    """Return the rules of several contracts by code.  Raises ValueError if two have the same code."""
    rules: dict[tuple[str, str], Rule] = {}
    for each in contracts:
        for rule in each.rules:
            # Contracts that extend the same one have its rules, each its own copy.
            rules.setdefault((rule.code, rule.name), rule)
    return catalogue_of(rules.values())


@cache
def _load_catalogue() -> Mapping[str, Rule]:
    return combined_catalogue(default_contracts())


class _Catalogue(Mapping[str, Rule]):
    def __getitem__(self, code: str) -> Rule:
        return _load_catalogue()[code]

    def __iter__(self) -> Iterator[str]:
        return iter(_load_catalogue())

    def __len__(self) -> int:
        return len(_load_catalogue())


CATALOGUE: Final = _Catalogue()
"""Every default rule by its code, in the order of the codes."""
BUILT_IN: Final[Collection[Rule]] = CATALOGUE.values()
"""Every default rule, in the order of the codes."""
