"""Why rules came up that could not be decided."""

from collections.abc import Iterator

from wiretape.rules import CATALOGUE
from wiretape_inspect.humanize import count
from wiretape_inspect.report.recording_report import Report
from wiretape_inspect.spans import Span

_NAMED = 8
"""How many rules are named for one reason."""


def doubt_lines(report: Report) -> Iterator[list[Span]]:
    """A line for each reason, with the rules that it kept from being decided, be they broken elsewhere."""
    by_reason: dict[str, list[str]] = {}
    for code in CATALOGUE:
        if code in report.selected:
            for reason in report.tallies[code].reasons:
                by_reason.setdefault(reason, []).append(code)
    for reason, codes in by_reason.items():
        yield [("inconclusive: ", "dim"), (f"{reason}: {_listed(report, reason, codes)}", "dim")]


def doubts(report: Report, code: str) -> str:
    """Why a rule could not be decided, as one line; empty when it always could."""
    return "; ".join(report.tallies[code].reasons)


def _listed(report: Report, reason: str, codes: list[str]) -> str:
    named = [f"{code} ({count(report.tallies[code].reasons[reason], 'time')})" for code in codes[:_NAMED]]
    more = len(codes) - _NAMED
    return ", ".join(named) + (f" and {count(more, 'more rule')}" if more > 0 else "")
