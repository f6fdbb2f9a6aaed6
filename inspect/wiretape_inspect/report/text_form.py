"""The report as text, for people: a block for each finding, then one line that sums up."""

import shlex
from collections.abc import Iterator, Sequence

from wiretape.rules import CATALOGUE, Finding, Party, Rule, Severity, Verdict
from wiretape.text import printable
from wiretape_inspect.report.doubts import doubt_lines
from wiretape_inspect.report.evidence import Evidence, asked, evidence
from wiretape_inspect.report.judging import Report
from wiretape_inspect.report.options import Options, Paint
from wiretape_inspect.report.places import Placed, placed
from wiretape_inspect.words import count, moment

BLOCKS = 5
"""How many findings of one rule are shown, unless all are asked for."""


def text_lines(reports: Sequence[Report], options: Options) -> Iterator[str]:
    """The lines of the reports; with several a last line sums all of them up."""
    for number, report in enumerate(reports):
        if number:
            yield ""
        yield from _statistics(report, options.paint) if options.statistics else _blocks(report, options)
        yield from doubt_lines(report, options.paint)
        yield summary(report, options.paint)
    if len(reports) > 1:
        yield ""
        yield _total(reports, options.paint)


def concise_lines(reports: Sequence[Report], _options: Options) -> Iterator[str]:
    """A line for each finding that stands: `run.db:2:57: SEQ001 error Expected …`."""
    for report in reports:
        for finding in report.standing:
            place = f"{finding.exchange}" if finding.event is None else f"{finding.exchange}:{finding.event}"
            name = CATALOGUE[finding.code].name
            yield (
                f"{printable(report.file)}:{place}: {finding.code} {name} {finding.severity}: "
                f"{printable(finding.message)}"
            )


def see(file: str, finding: Finding) -> str:
    """The command that shows the place of a finding in a recording."""
    place = f"--exchange {finding.exchange}" if finding.event is None else f"--at {finding.exchange}:{finding.event}"
    return f"wiretape show {printable(shlex.quote(file))} {place}"


def _blocks(report: Report, options: Options) -> Iterator[str]:
    most = None if options.everything else BLOCKS
    for place in placed(report.recording, enumerate(report.firsts(most))):
        yield from _block(report, place, options.paint)
    left = report.more(most)
    for code, number in left.items():
        severity = report.severity_of(code)
        head = options.paint(f"… and {number:,} more of {code} {CATALOGUE[code].name}", severity)
        yield f"{head} ({severity}); --all shows them"
    if left:
        yield ""


def _block(report: Report, place: Placed, paint: Paint) -> Iterator[str]:
    finding, exchange = place.finding, place.exchange
    rule, seen = CATALOGUE[finding.code], evidence(report.recording, place)
    yield f"{paint(f'{rule.code} {rule.name}', finding.severity)}  {finding.severity} of the {finding.side}"
    yield f"  {finding.message}"
    yield paint(f"  --> {', '.join(_where(report, finding, seen))}", "dim")
    request = exchange.request
    yield paint(f"      {request.method} {_cut(request.target)}", "dim")
    if finding.side is Party.CLIENT:
        yield from (f"{'>':>8} | {line}" for line in asked(exchange))
    for margin, line in seen.lines:
        yield f"{margin:>8} | {line}"
    yield from (paint(line, "dim") for line in _footer(report, finding, rule))
    yield ""


def _where(report: Report, finding: Finding, seen: Evidence) -> Iterator[str]:
    yield printable(report.file)
    yield f"exchange {finding.exchange}"
    if finding.event is not None:
        yield f"event {finding.event}"
    if finding.byte_offset is not None:
        yield seen.span(finding.byte_offset)
    yield moment(finding.time_ns)


def _footer(report: Report, finding: Finding, rule: Rule) -> Iterator[str]:
    yield f"    = clause: {rule.clause} ({rule.basis})"
    yield f"    = see: {see(report.file, finding)}"
    yield f"    = explain: wiretape rule {rule.code}"


def _cut(target: str) -> str:
    shown = printable(target[:101])
    return shown if len(shown) <= 100 else f"{shown[:99]}…"


def _statistics(report: Report, paint: Paint) -> Iterator[str]:
    """A line for each rule that was broken: how often, how bad, which."""
    counts = report.broken
    wide = max((len(f"{number:,}") for number in counts.values()), default=0)
    for code, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        severity = report.severity_of(code)
        yield f"{number:>{wide},}  {paint(f'{severity:<7}', severity)}  {code:<7}  {CATALOGUE[code].name}"
    if counts:
        yield ""


def summary(report: Report, paint: Paint) -> str:
    """The line that sums a report up."""
    return f"{printable(report.file)}: {said(report, paint)}"


def said(report: Report, paint: Paint) -> str:
    """What that line says of the recording."""
    parts = [findings_said(report.severities, paint)]
    if report.suppressed:
        parts.append(f"{len(report.suppressed):,} known to the baseline")
    parts.append(f"{report.exercised} of {count(len(report.selected), 'rule')} exercised")
    unsure = report.verdicts[Verdict.INCONCLUSIVE]
    if unsure:
        parts.append(f"{len(unsure)} inconclusive ({', '.join(unsure)})")
    parts.append(f"{count(report.events, 'event')} in {count(report.exchanges, 'exchange')}")
    return " · ".join(parts)


def findings_said(severities: dict[Severity, int], paint: Paint) -> str:
    """`3 findings (1 error, 2 notes)`, or that there are none."""
    found = {severity: number for severity, number in severities.items() if number}
    worst = next(iter(found), None)
    if worst is None:
        return "no findings"
    said = paint(count(sum(found.values()), "finding"), worst)
    return f"{said} ({', '.join(count(number, severity) for severity, number in found.items())})"


def _total(reports: Sequence[Report], paint: Paint) -> str:
    severities = {severity: sum(report.severities[severity] for report in reports) for severity in Severity}
    parts = [findings_said(severities, paint)]
    suppressed = sum(len(report.suppressed) for report in reports)
    parts += [f"{suppressed:,} known to the baseline"] if suppressed else []
    never = sum(all(code in report.verdicts[Verdict.NOT_EXERCISED] for report in reports) for code in CATALOGUE)
    parts += [f"{count(never, 'rule')} not exercised by any"] if never else []
    return f"{len(reports)} recordings: {' · '.join(parts)}"
