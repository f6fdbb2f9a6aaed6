"""The report as a code quality report of GitLab, which shows it in merge requests."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from wiretape.rules import CATALOGUE, Severity
from wiretape_inspect.report.evidence import LocatedFinding, locate
from wiretape_inspect.report.json_format import array_items
from wiretape_inspect.report.recording_report import Report, ReportOptions
from wiretape_inspect.report.sarif_format import file_and_line
from wiretape_inspect.report.source_map import SourceMap
from wiretape_inspect.report.text_format import show_command

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def gitlab_lines(reports: Sequence[Report], _options: ReportOptions) -> Iterator[str]:
    """Yield the lines of a JSON array with an object for each new finding, and each case that no rule explains."""
    yield "["
    yield from array_items(_issues(reports))
    yield "]"


def _issues(reports: Sequence[Report]) -> Iterator[dict[str, Any]]:
    # Of issues with the same fingerprint, GitLab shows one.
    seen: Counter[str] = Counter()

    def number(fingerprint: str) -> str:
        seen[fingerprint] += 1
        return f"{fingerprint}-{seen[fingerprint]}"

    for report in reports:
        source = SourceMap(report.recording.path)
        for located in locate(report.recording, report.findings):
            if report.findings.is_new(located.index):
                yield _issue(report, located, source, number(located.kind.fingerprint))
        for result in report.cases.unexplained if report.cases is not None else ():
            yield {
                "description": f"{result.case.name}: {result.reason}",
                "check_name": result.case.name,
                "fingerprint": number(result.case.fingerprint),
                "severity": _SEVERITIES[result.case.severity],
                "location": {"path": PurePath(report.file).name, "lines": {"begin": 1}},
            }


def _issue(report: Report, located: LocatedFinding, source: SourceMap, fingerprint: str) -> dict[str, Any]:
    finding = located.finding
    path, line, _ = file_and_line(report, located, source)
    return {
        "description": f"{finding.code} {CATALOGUE[finding.code].name}: {finding.message} "
        f"See: {show_command(report.file, finding)}",
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": path, "lines": {"begin": line}},
    }
