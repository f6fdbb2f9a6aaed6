"""What every form of a report is told about how to write it."""

from dataclasses import dataclass

from wiretape.rules import Severity
from wiretape_inspect.timeline_text import PLAIN, Paper


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
    paper: Paper = PLAIN
    """What text is written on: a terminal has colours and a width."""
