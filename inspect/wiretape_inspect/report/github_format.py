"""The report as workflow commands of GitHub Actions, which become annotations."""

from collections.abc import Iterator, Sequence

from wiretape.rules import CATALOGUE, Finding, Severity
from wiretape.safe_text import printable
from wiretape_inspect.report.case_results import totals
from wiretape_inspect.report.recording_report import Report, ReportOptions
from wiretape_inspect.report.source_map import SourceMap
from wiretape_inspect.report.text_format import show_command, summary_line

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def github_lines(reports: Sequence[Report], _options: ReportOptions) -> Iterator[str]:
    """Yield a command for each new finding, and a line of totals for each recording.

    GitHub shows ten errors, ten warnings and ten notices of a step, so the worst come first.
    """
    for report in reports:
        if report.notice:
            yield f"::warning title=Nothing checked,file={_property(report.file)}::{_data(report.notice)}"
        source = SourceMap(report.recording.path)
        for severity in (severity for severity, number in report.severities.items() if number):
            yield from (_command(report, found, source) for found in report.new_findings if found.severity is severity)
        for result in report.cases.unexplained if report.cases is not None else ():
            command, text = _COMMANDS[result.case.severity], f"{result.reason}\nclause: {result.case.clause}"
            yield f"::{command} title={_property(result.case.name)},file={_property(report.file)}::{_data(text)}"
        if report.cases is not None:
            yield f"wiretape: {totals(report.cases)}"
            yield f"wiretape: {report.coverage}"
        # The name of a file must not begin the line, or it could be taken for a command.
        yield f"wiretape: {summary_line(report)}"


def _command(report: Report, finding: Finding, source: SourceMap) -> str:
    title = _property(f"{finding.code} {CATALOGUE[finding.code].name}")
    found = source.find(finding, report.recording.exchange(finding.exchange))
    position = f",line={found[0]},col={found[1]}" if found else ""
    text = f"{finding.message}\nsee: {show_command(report.file, finding)}\nexplain: wiretape rule {finding.code}"
    return f"::{_COMMANDS[finding.severity]} title={title},file={_property(report.file)}{position}::{_data(text)}"


def _data(text: str) -> str:
    """Escape text as the runner expects it; control characters other than line ends become visible."""
    lines = [printable(line).replace("%", "%25") for line in text.split("\n")]
    return "%0A".join(lines)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
