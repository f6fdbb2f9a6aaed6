"""The rules of the Agent Session Service in Python, one module for each family of codes.

`wiretape/agent_sessions/agent-sessions.toml` has their texts, and `wiretape/contract/common.toml` those of the rules
that apply to every event stream.
"""

from typing import Final

from wiretape.contract.contract_builder import load_service
from wiretape.rules.catalogue import Explanation, Rule

CATALOGUE: Final = load_service().catalogue
"""Every built-in rule by its code, in the order of the codes."""
BUILT_IN: Final = tuple(CATALOGUE.values())
"""Every built-in rule, in the order of the codes."""
EVERYWHERE: Final = tuple(dict.fromkeys(rule.code[:-3] for rule in BUILT_IN if rule.everywhere))
"""The families with rules that also apply to traffic that is not the service's."""


def explanation_of(rule: Rule) -> Explanation:
    """Return the explanation of a rule; its texts are empty if there is none."""
    return rule.explanation
