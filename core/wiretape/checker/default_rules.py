"""The default rules: those of the installed contracts that are detected by their operations.

They are read when they are first used: most commands check nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final

from wiretape.contract.contract_facts import detected_contracts
from wiretape.rules.catalogue import Rule, RuleSet, catalogue_of


@cache
def default_contracts() -> tuple[RuleSet, ...]:
    """Return the contracts whose rules check traffic if none is named; `sse` if none is installed."""
    from wiretape.contract.contract_builder import load_contract  # noqa: PLC0415 - it takes long to import

    names = [facts.name for facts in detected_contracts().contracts] or ["sse"]
    return tuple(map(load_contract, names))


@cache
def _load_catalogue() -> Mapping[str, Rule]:
    return catalogue_of({(rule.code, rule.name): rule for each in default_contracts() for rule in each.rules}.values())


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
