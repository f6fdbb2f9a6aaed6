"""The report as Markdown, short enough for a comment on a pull request."""

import re
from collections.abc import Iterator, Sequence

from wiretape.rules import CATALOGUE, Finding, Severity, Verdict
from wiretape.safe_text import printable
from wiretape_inspect.humanize import count
from wiretape_inspect.report.options import Options
from wiretape_inspect.report.recording_report import Report
from wiretape_inspect.report.text_format import findings_said, see
from wiretape_inspect.spans import text_of

SIZE = 60_000
"""Characters that a report may have; GitHub takes 65,536 in a comment."""
EACH = 3
"""How many findings of one rule are shown."""
_MARKS = {Severity.ERROR: "🔴", Severity.WARNING: "🟡", Severity.NOTE: "🔵"}


def markdown_lines(reports: Sequence[Report], options: Options) -> Iterator[str]:
    """The lines of the document; what does not fit is counted."""
    yield "## wiretape report"
    room = SIZE
    for number, report in enumerate(reports):
        of_one = list(_report(report, options))
        room -= sum(len(line) + 1 for line in of_one)
        if room < 0:
            yield ""
            yield f"… and {count(len(reports) - number, 'more recording')}: the report was cut to fit into a comment."
            return
        yield from of_one


def code(text: str) -> str:
    """`text` as a code span: there it is no markup, and GitHub makes no mention or link of it either."""
    shown = printable(text)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _report(report: Report, options: Options) -> Iterator[str]:
    yield ""
    yield f"### {code(report.file)}"
    yield ""
    said = [text_of(findings_said(report.severities))]
    said += [f"{len(report.suppressed):,} known to the baseline"] if report.suppressed else []
    said.append(f"{report.exercised} of {count(len(report.selected), 'rule')} exercised")
    unsure = report.verdicts[Verdict.INCONCLUSIVE]
    said += [f"{len(unsure)} inconclusive ({', '.join(unsure)})"] if unsure else []
    said.append(f"{count(report.events, 'event')} in {count(report.exchanges, 'exchange')}")
    yield f"{' · '.join(said)}  "
    counts = report.broken
    if not counts:
        return
    yield from ["", "| | Rule | Findings |", "|---|---|---:|"]
    for rule, number in sorted(counts.items()):
        yield f"| {_MARKS[report.severity_of(rule)]} {report.severity_of(rule)} | {_rule(rule, options)} | {number:,} |"
    yield from ["", "<details><summary>The first findings of each rule</summary>", ""]
    yield from _findings(report, SIZE // 2)
    yield from ["", "</details>"]


def _rule(rule: str, options: Options) -> str:
    said = f"{rule} {CATALOGUE[rule].name}"
    return f"[{said}]({options.docs_url}{rule}.md)" if options.docs_url else said


def _findings(report: Report, room: int) -> Iterator[str]:
    shown, left = list(report.firsts(EACH)), report.more(EACH)
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
    place = f"exchange {finding.exchange}"
    place += "" if finding.event is None else f", event {finding.event}"
    return f"- **{finding.code}** {place}: {code(finding.message)}  \n  see {code(see(report.file, finding))}"
