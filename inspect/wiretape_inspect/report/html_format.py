"""The report as one HTML file: the page of the debugger, opened at the findings.

`page_export` defines what the page contains; a report adds to it, and leaves out parts of large recordings.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from wiretape.json_codec import dump_json, members_of
from wiretape.rules import Finding, Severity
from wiretape_inspect.page_export import PageContent, document_parts, page_parts
from wiretape_inspect.report.case_results import case_lines
from wiretape_inspect.report.evidence import evidence_document
from wiretape_inspect.report.finding_location import LocatedFinding, locate
from wiretape_inspect.report.json_format import rule_document
from wiretape_inspect.report.recording_report import Report, ReportOptions
from wiretape_inspect.report.text_format import inconclusive_lines, scope_lines, show_command, summary_text
from wiretape_inspect.timeline_json import explained_rule

MAX_FINDINGS_OF_RULE, MAX_FINDINGS = 50, 10_000
"""Findings of one rule that are shown unless all are requested, and findings of a recording in any case."""
MAX_EVENTS, MAX_BYTES = 50_000, 64 << 20
"""Events and bytes of bodies in a page, of all recordings together; of larger ones only what is near findings."""
_MIN_RADIUS, _MAX_RADIUS = 3, 200
"""Events around a finding that such a page holds: the fewer findings, the more events."""


def html_parts(reports: Sequence[Report], options: ReportOptions) -> Iterator[bytes]:
    """Yield the document, a part at a time."""
    return page_parts(_documents(reports, options))


def _documents(reports: Sequence[Report], options: ReportOptions) -> Iterator[tuple[str, Iterator[bytes]]]:
    yield "report", iter([dump_json(_index(reports)).encode()])
    events, size = MAX_EVENTS, MAX_BYTES
    for number, report in enumerate(reports, 1):
        needed = _size(report)
        is_whole = report.outcomes.events <= events and needed <= size
        if is_whole:
            events, size = events - report.outcomes.events, size - needed
        name = "data" if number == 1 else f"data-{number}"
        yield name, document_parts(_page_content(report, options, is_whole=is_whole))


def _index(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the recordings to choose from, and where to start: at the one with the worst findings."""
    worst = max(reports, key=lambda report: tuple(report.severities.values()))
    file = "" if worst is reports[0] else f"f={reports.index(worst) + 1}&"
    return {
        "format": 1,
        "start": f"{file}findings=1{'' if worst.broken else '&verdicts=1'}",
        "files": [{"file": one.file, "summary": summary_text(one), "severities": _numbers(one)} for one in reports],
    }


def _numbers(report: Report) -> dict[str, int]:
    return {severity.value: number for severity, number in report.severities.items()}


def _size(report: Report) -> int:
    """Return the size of all bodies; each exchange counts as a little more, for its headers."""
    return sum(each.request_bytes + each.response_bytes + 1000 for each in report.recording.exchanges())


def _page_content(report: Report, options: ReportOptions, *, is_whole: bool) -> PageContent:
    shown = list(islice(report.first_findings(None if options.all_findings else MAX_FINDINGS_OF_RULE), MAX_FINDINGS))
    by_exchange: dict[int, list[Finding]] = {}
    for finding in shown:
        by_exchange.setdefault(finding.exchange, []).append(finding)
    radius = None if is_whole else max(_MIN_RADIUS, min(_MAX_RADIUS, MAX_EVENTS // (2 * len(shown) or 1)))
    more = {
        "findings": [_finding(report, located) for located in locate(report.recording, shown)],
        "rules": {code: _rule(report, code, options) for code in report.catalogue},
        "report": _summary(report, shown, radius),
    }
    if is_whole:
        exchanges = list(report.recording.exchanges())
    else:
        # Those with findings, or else the first one.
        found = [report.recording.exchange(number) for number in by_exchange]
        exchanges = found or list(islice(report.recording.exchanges(), 1))
    return PageContent(report.recording, exchanges, by_exchange, radius, more)


def _summary(report: Report, shown: Sequence[Finding], radius: int | None) -> dict[str, Any]:
    counts = Counter(finding.code for finding in shown)
    cases = case_lines(report.cases, report.coverage) if report.cases is not None else ()
    return {
        **members_of(report, "file", "notice", "suppressed"),
        "summary": summary_text(report),
        "severities": _numbers(report),
        "more": {code: number - counts[code] for code, number in report.broken.items() if number > counts[code]},
        "inconclusive_reasons": [str(line) for line in (*inconclusive_lines(report), *scope_lines(report), *cases)],
        "selected": len(report.selected),
        **members_of(report.outcomes, "events", "exchanges"),
        "radius": radius,
    }


def _rule(report: Report, code: str, options: ReportOptions) -> dict[str, Any]:
    suppressed = sum(report.findings.suppressed_counts[code, severity] for severity in Severity)
    rule = rule_document(report, report.catalogue[code], options)
    return {**rule, **explained_rule(report.catalogue[code], report.settings), "suppressed": suppressed}


def _finding(report: Report, located: LocatedFinding) -> dict[str, Any]:
    return evidence_document(report.recording, located) | {"see": show_command(report.file, located.finding)}
