"""The rules that a recording is judged by, and the checker that applies them."""

from wiretape.rules import (  # noqa: F401 - they fill the catalogue
    auth,
    busy,
    capture,
    client,
    cursors,
    durability,
    envelope,
    envelope_edges,
    event_fields,
    events,
    keepalive,
    rate,
    resume,
    runs,
    sequence,
    sse,
    tools,
)
from wiretape.rules.catalogue import CATALOGUE, Basis, Rule, Scope, in_order
from wiretape.rules.checker import Checker
from wiretape.rules.finding import Finding, Party, Place, Severity, Tally, Verdict
from wiretape.rules.settings import Settings

in_order()

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
