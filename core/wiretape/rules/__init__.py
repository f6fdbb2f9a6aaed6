"""The rules that a recording is judged by, and the checker that applies them."""

from wiretape.rules import durability, envelope, sequence, sse  # noqa: F401 - they fill the catalogue
from wiretape.rules.catalogue import CATALOGUE, Basis, Rule, Scope
from wiretape.rules.checker import Checker
from wiretape.rules.finding import Finding, Party, Place, Severity, Tally, Verdict
from wiretape.rules.settings import Settings

__all__ = [
    "CATALOGUE",
    "Basis",
    "Checker",
    "Finding",
    "Party",
    "Place",
    "Rule",
    "Scope",
    "Settings",
    "Severity",
    "Tally",
    "Verdict",
]
