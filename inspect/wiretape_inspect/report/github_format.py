"""The report as workflow commands of GitHub Actions, which become annotations."""

from collections.abc import Iterator, Sequence

from wiretape.rules import CATALOGUE, Finding, Severity
from wiretape.safe_text import printable
from wiretape_inspect.report.options import Options
from wiretape_inspect.report.recording_report import Report
from wiretape_inspect.report.text_format import see, summary
from wiretape_inspect.spans import text_of

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def github_lines(reports: Sequence[Report], _options: Options) -> Iterator[str]:
    """A command for each finding that stands, and a line of plain text that sums each recording up.

    GitHub shows ten errors, ten warnings and ten notices of a step, so the worst come first.
    """
    for report in reports:
        for severity in (severity for severity, number in report.severities.items() if number):
            yield from (_command(report, found) for found in report.standing if found.severity is severity)
        # A file's name must not stand at the beginning, where it could be taken for a command.
        yield f"wiretape: {text_of(summary(report))}"


def _command(report: Report, finding: Finding) -> str:
    title = _property(f"{finding.code} {CATALOGUE[finding.code].name}")
    said = f"{finding.message}\nsee: {see(report.file, finding)}\nexplain: wiretape rule {finding.code}"
    return f"::{_COMMANDS[finding.severity]} title={title},file={_property(report.file)}::{_data(said)}"


def _data(text: str) -> str:
    """What is said, with the escapes that the runner undoes; control characters but line ends made visible."""
    lines = [printable(line).replace("%", "%25") for line in text.split("\n")]
    return "%0A".join(lines)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
