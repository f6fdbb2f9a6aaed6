"""The report as workflow commands of GitHub Actions, which become annotations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wiretape.labels import count_of
from wiretape.rules import CATALOGUE, Finding, Severity
from wiretape.safe_text import printable
from wiretape_inspect.report.case_results import totals
from wiretape_inspect.report.recording_report import Report, ReportOptions
from wiretape_inspect.report.source_map import SourceMap
from wiretape_inspect.report.text_format import show_command, summary_line

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_MOST = 10
"""Annotations of each level that GitHub shows for a step."""


def github_lines(reports: Sequence[Report], _options: ReportOptions) -> Iterator[str]:
    """Yield an annotation for each broken rule and each broken case that no rule explains, and lines of totals.

    The worst come first, and no more than GitHub shows of each level, for all recordings together.
    """
    # Annotations by severity and title.
    found: dict[Severity, dict[str, _Annotation]] = {severity: {} for severity in Severity}
    for report in reports:
        if report.notice:
            yield f"::warning title=Nothing checked,file={_property(report.file)}::{_data(report.notice)}"
        for finding in report.first_findings(1):
            title = f"{finding.code} {CATALOGUE[finding.code].name}"
            added = found[report.worst_severity(finding.code)].setdefault(title, _Annotation(report, finding))
            added.count += report.broken[finding.code]
        for result in report.cases.unexplained if report.cases is not None else ():
            text = f"{result.reason}\nclause: {result.case.clause}"
            found[result.case.severity].setdefault(result.case.name, _Annotation(report, None, text))
    for severity, annotations in found.items():
        for title, annotation in list(annotations.items())[:_MOST]:
            yield f"::{_COMMANDS[severity]} title={_property(title)},{annotation.place}::{_data(annotation.message)}"
        if left := list(annotations)[_MOST:]:
            yield f"wiretape: {count_of(len(left), 'more annotation')} ({severity}): {_data(', '.join(left))}"
    for report in reports:
        if report.cases is not None:
            yield f"wiretape: {totals(report.cases)}"
            yield f"wiretape: {report.coverage}"
        # The name of a file must not begin the line, or it could be taken for a command.
        yield f"wiretape: {summary_line(report)}"


@dataclass(slots=True)
class _Annotation:
    """What is said about a rule or a case, and where it was seen first."""

    report: Report
    finding: Finding | None
    text: str = ""
    count: int = 0

    @property
    def place(self) -> str:
        """The file and, if it is text, the position in it."""
        file = f"file={_property(self.report.file)}"
        if self.finding is None:
            return file
        exchange = self.report.recording.exchange(self.finding.exchange)
        found = SourceMap(self.report.recording.path).find(self.finding, exchange)
        return f"{file},line={found[0]},col={found[1]}" if found else file

    @property
    def message(self) -> str:
        """The first finding, how many there are, and how to see and understand them."""
        if self.finding is None:
            return self.text
        counted = f"{self.count:,} findings, the first: " if self.count > 1 else ""
        return (
            f"{counted}{self.finding.message}\nsee: {show_command(self.report.file, self.finding)}\n"
            f"explain: wiretape rule {self.finding.code}"
        )


def _data(text: str) -> str:
    """Escape text as the runner expects it; control characters other than line ends become visible."""
    lines = [printable(line).replace("%", "%25") for line in text.split("\n")]
    return "%0A".join(lines)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
