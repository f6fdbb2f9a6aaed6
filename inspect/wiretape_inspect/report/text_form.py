"""The report as text, for people: a block for each finding, then one line that sums up."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator

from wiretape.recording import Exchange, Recording
from wiretape.rules import CATALOGUE, Finding, Rule, Verdict
from wiretape.text import printable
from wiretape_inspect.report.evidence import Evidence, gather, spot
from wiretape_inspect.report.judging import Report
from wiretape_inspect.words import count, moment

BLOCKS = 5
"""How many findings of one rule are shown, unless all are asked for."""

_NOTHING = Evidence(None, [])

Paint = Callable[[str, str], str]
"""Gives a text a style: the name of a severity, `head` or `dim`."""


def plain(text: str, _style: str) -> str:
    """No style at all."""
    return text


def text_lines(
    report: Report, recording: Recording, *, everything: bool = False, paint: Paint = plain
) -> Iterator[str]:
    """The lines of the report; with `everything` each finding is shown, however many there are of a rule."""
    shown, left = _chosen(report.findings, None if everything else BLOCKS)
    evidence = gather(recording, shown)
    for finding in shown:
        seen = evidence.get(spot(finding), _NOTHING)
        yield from _block(report, recording.exchange(finding.exchange), finding, seen, paint)
    for code, number in left.items():
        rule = CATALOGUE[code]
        head = paint(f"… and {number:,} more of {rule.code} {rule.name}", rule.severity)
        yield f"{head} ({rule.severity}); --all shows them"
    if left:
        yield ""
    yield _summary(report, paint)


def _chosen(findings: list[Finding], most: int | None) -> tuple[list[Finding], Counter[str]]:
    """The first `most` findings of each rule, and how many are left of it."""
    seen: Counter[str] = Counter()
    shown = []
    for finding in findings:
        seen[finding.code] += 1
        if most is None or seen[finding.code] <= most:
            shown.append(finding)
    return shown, seen - Counter(finding.code for finding in shown)


def _block(report: Report, exchange: Exchange, finding: Finding, evidence: Evidence, paint: Paint) -> Iterator[str]:
    rule = CATALOGUE[finding.code]
    yield f"{paint(f'{rule.code} {rule.name}', finding.severity)}  {finding.severity} of the {finding.side}"
    yield f"  {finding.message}"
    yield paint(f"  --> {', '.join(_where(report, finding, evidence))}", "dim")
    request = exchange.request
    yield paint(f"      {request.method} {_cut(request.target)}", "dim")
    for margin, line in evidence.lines:
        yield f"{margin:>8} | {line}"
    yield from (paint(line, "dim") for line in _footer(report, finding, rule))
    yield ""


def _where(report: Report, finding: Finding, evidence: Evidence) -> Iterator[str]:
    yield printable(report.file)
    yield f"exchange {finding.exchange}"
    if finding.event is not None:
        yield f"event {finding.event}"
    if finding.byte_offset is not None:
        yield f"bytes {finding.byte_offset}-{evidence.end or '?'}"
    yield moment(finding.time_ns)


def _footer(report: Report, finding: Finding, rule: Rule) -> Iterator[str]:
    yield f"    = clause: {rule.clause} ({rule.basis})"
    yield f"    = see: wiretape show {printable(shlex.quote(report.file))} --exchange {finding.exchange}"


def _cut(target: str) -> str:
    shown = printable(target[:101])
    return shown if len(shown) <= 100 else f"{shown[:99]}…"


def _summary(report: Report, paint: Paint) -> str:
    found = {severity: number for severity, number in report.severities.items() if number}
    worst = next(iter(found), None)
    said = paint(count(len(report.findings), "finding"), worst) if worst else "no findings"
    if found:
        said += f" ({', '.join(count(number, severity) for severity, number in found.items())})"
    parts = [said, f"{report.exercised} of {count(len(CATALOGUE), 'rule')} exercised"]
    unsure = report.verdicts[Verdict.INCONCLUSIVE]
    if unsure:
        parts.append(f"{len(unsure)} inconclusive ({', '.join(unsure)})")
    parts.append(f"{count(report.events, 'event')} in {count(report.exchanges, 'exchange')}")
    return f"{printable(report.file)}: {' · '.join(parts)}"
