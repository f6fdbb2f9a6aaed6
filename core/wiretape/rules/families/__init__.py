"""The rules of the Agent Session Service in Python, one module for each family of codes.

`wiretape/agent_sessions/agent-sessions.toml` has their texts, and `wiretape/contract/common.toml` those of the rules
that apply to every event stream.  They are read when they are first used: most commands check nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final

from wiretape.rules.catalogue import Explanation, Rule, RuleSet


@cache
def load_service() -> RuleSet:
    """Return the contract of the service."""
    from wiretape.contract.contract_builder import load_contract  # noqa: PLC0415 - takes as long as all others

    return load_contract("agent-sessions")


class _Catalogue(Mapping[str, Rule]):
    def __getitem__(self, code: str) -> Rule:
        return load_service().catalogue[code]

    def __iter__(self) -> Iterator[str]:
        return iter(load_service().catalogue)

    def __len__(self) -> int:
        return len(load_service().catalogue)


CATALOGUE: Final = _Catalogue()
"""Every built-in rule by its code, in the order of the codes."""
BUILT_IN: Final[Collection[Rule]] = CATALOGUE.values()
"""Every built-in rule, in the order of the codes."""


def explanation_of(rule: Rule) -> Explanation:
    """Return the explanation of a rule; its texts are empty if there is none."""
    return rule.explanation
