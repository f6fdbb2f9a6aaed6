"""The report as Markdown, short enough for a comment on a pull request."""

import re
from collections.abc import Iterator, Sequence

from wiretape.labels import count_of
from wiretape.rules import Finding, Severity
from wiretape.safe_text import printable
from wiretape_inspect.report.case_results import CaseVerdict, totals
from wiretape_inspect.report.recording_report import Report, ReportOptions
from wiretape_inspect.report.text_format import scope_lines, show_command, summary_text

MAX_SIZE = 60_000
"""Characters of a report; GitHub accepts 65,536 in a comment."""
MAX_FINDINGS = 3
"""Findings of one rule that are shown."""
_MARKS = {Severity.ERROR: "🔴", Severity.WARNING: "🟡", Severity.NOTE: "🔵"}


def markdown_lines(reports: Sequence[Report], options: ReportOptions) -> Iterator[str]:
    """Yield the lines of the document; recordings that do not fit are counted."""
    yield "## wiretape report"
    room = MAX_SIZE
    for number, report in enumerate(reports):
        lines = list(_report(report, options))
        room -= sum(len(line) + 1 for line in lines)
        if room < 0:
            yield ""
            left = count_of(len(reports) - number, "more recording")
            yield f"… and {left}: the report was cut to fit into a comment."
            return
        yield from lines


def code_span(text: str) -> str:
    """Format text as a code span, in which it cannot be markup, a mention or a link."""
    shown = printable(text)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _report(report: Report, options: ReportOptions) -> Iterator[str]:
    yield ""
    yield f"### {code_span(report.file)}"
    yield ""
    if report.notice:
        yield from (f"> ⚠ {code_span(report.notice)}", "")
    yield f"{summary_text(report)}  "
    yield from (f"{code_span(str(line))}  " for line in scope_lines(report))
    yield from _cases(report)
    counts = report.broken
    if not counts:
        return
    yield from ["", "| | Rule | Findings |", "|---|---|---:|"]
    for rule, number in sorted(counts.items()):
        severity = report.worst_severity(rule)
        yield f"| {_MARKS[severity]} {severity} | {_rule(report, rule, options)} | {number:,} |"
    yield from ["", "<details><summary>The first findings of each rule</summary>", ""]
    yield from _findings(report, MAX_SIZE // 2)
    yield from ["", "</details>"]


def _cases(report: Report) -> Iterator[str]:
    """Yield the cases of a probe that did not hold."""
    if report.cases is None:
        return
    yield f"{totals(report.cases)}  "
    yield f"{report.coverage}"
    missed = [result for result in report.cases.results if result.verdict is not CaseVerdict.HELD]
    if not missed:
        return
    yield from ["", "| | Case | Why |", "|---|---|---|"]
    for result in missed:
        mark = f"{_MARKS[result.severity]} {result.severity}" if result.severity else str(result.verdict)
        why = code_span(result.problem.replace("|", "/"))
        yield f"| {mark} | {result.case.name} | {why} |"


def _rule(report: Report, rule: str, options: ReportOptions) -> str:
    title = f"{rule} {report.catalogue[rule].name}"
    return f"[{title}]({options.docs_url}{rule}.md)" if options.docs_url else title


def _findings(report: Report, room: int) -> Iterator[str]:
    shown, left = list(report.first_findings(MAX_FINDINGS)), report.omitted_findings(MAX_FINDINGS)
    for number, finding in enumerate(shown):
        line = _finding(report, finding)
        room -= len(line)
        if room < 0:
            yield f"- … and {len(shown) - number:,} more"
            return
        yield line
    if left:
        yield f"- … and {sum(left.values()):,} more"


def _finding(report: Report, finding: Finding) -> str:
    location = f"exchange {finding.exchange}"
    location += "" if finding.event is None else f", event {finding.event}"
    command = code_span(show_command(report.file, finding))
    return f"- **{finding.code}** {location}: {code_span(finding.message)}  \n  see {command}"
