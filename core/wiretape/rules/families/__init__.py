"""The built-in rules, one module for each family of codes."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Final

from wiretape.rules.catalogue import Explanation, Rule, catalogue_of, rules_in
from wiretape.rules.families import (
    capture_gaps,
    client_behaviour,
    durable_events,
    error_responses,
    event_content,
    keep_alive,
    resume,
    run_lifecycle,
    sse_framing,
    tool_calls,
)

_FAMILIES = (
    capture_gaps,
    client_behaviour,
    durable_events,
    error_responses,
    event_content,
    keep_alive,
    resume,
    run_lifecycle,
    sse_framing,
    tool_calls,
)

CATALOGUE: Final = catalogue_of(rule for family in _FAMILIES for rule in rules_in(family))
"""Every built-in rule by its code, in the order of the codes."""
BUILT_IN: Final = tuple(CATALOGUE.values())
"""Every built-in rule, in the order of the codes."""
EVERYWHERE: Final = tuple(dict.fromkeys(rule.code[:-3] for rule in BUILT_IN if rule.everywhere))
"""The families with rules that also apply to traffic that is not the service's."""


def explanation_of(rule: Rule) -> Explanation:
    """Return the explanation of a rule; its texts are empty if there is none."""
    return rule.explanation or _explanations().get(rule.code, Explanation())


@cache
def _explanations() -> dict[str, Explanation]:
    text = files(__package__).joinpath("explanations.toml").read_text("utf-8")
    return {code: Explanation(**table) for code, table in tomllib.loads(text).items()}
