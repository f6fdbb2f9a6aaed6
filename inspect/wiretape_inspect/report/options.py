"""What every form of a report is told about how to write it."""

from collections.abc import Callable
from dataclasses import dataclass

from wiretape.rules import Severity

Paint = Callable[[str, str], str]
"""Gives a text a style: the name of a severity, `head` or `dim`."""


def plain(text: str, _style: str) -> str:
    """No style at all."""
    return text


@dataclass(frozen=True, slots=True)
class Options:
    """How to write a report; each form looks at what concerns it."""

    everything: bool = False
    """Show every finding, however many there are of a rule."""
    statistics: bool = False
    """Count the findings of each rule instead of showing them."""
    threshold: Severity | None = Severity.ERROR
    """From which severity on findings fail; None: they never do."""
    docs_url: str | None = None
    """Where the pages of docs/rules are published; ends with a slash."""
    paint: Paint = plain
