"""The report as text, for people: a block for each finding, then one line that sums up."""

import shlex
from collections.abc import Iterator, Sequence

from wiretape.rules import CATALOGUE, Finding, Party, Severity, Verdict
from wiretape.safe_text import printable
from wiretape_inspect.humanize import count, moment
from wiretape_inspect.report.doubts import doubt_lines
from wiretape_inspect.report.evidence import ROOM, Evidence, asked, evidence
from wiretape_inspect.report.options import Options
from wiretape_inspect.report.places import Placed, placed
from wiretape_inspect.report.recording_report import Report
from wiretape_inspect.spans import Span
from wiretape_inspect.timeline_text import NARROW, Paper

BLOCKS = 5
"""How many findings of one rule are shown, unless all are asked for."""


def text_lines(reports: Sequence[Report], options: Options) -> Iterator[str]:
    """The lines of the reports; with several a last line sums all of them up."""
    for number, report in enumerate(reports):
        if number:
            yield ""
        yield from _statistics(report, options.paper) if options.statistics else _blocks(report, options)
        doubts = [options.paper.whole(line) for line in doubt_lines(report)]
        yield from [*doubts, ""] if doubts else doubts
        yield options.paper.whole(summary(report))
    if len(reports) > 1:
        yield ""
        yield options.paper.whole(_total(reports))


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
        yield from _block(report, place, options.paper)
    left = report.more(most)
    for code, number in left.items():
        severity = report.severity_of(code)
        head = f"… and {number:,} more of {code} {CATALOGUE[code].name}"
        yield options.paper.whole([("", ""), (head, severity), (f" ({severity}); --all shows them", "")])
    if left:
        yield ""


def _block(report: Report, place: Placed, paper: Paper) -> Iterator[str]:
    finding, exchange = place.finding, place.exchange
    room = ROOM if paper.width is None else max(paper.width, NARROW) - len(_margin(""))
    rule, seen = CATALOGUE[finding.code], evidence(report.recording, place, room)
    head = (f"{rule.code} {rule.name}", finding.severity)
    yield paper.whole([("", ""), head, (f"  {finding.severity} of the {finding.side}", "")])
    yield paper.whole([("  ", ""), (finding.message, "")])
    yield paper.whole([("  --> ", "dim"), (", ".join(_where(report, finding, seen)), "dim")])
    yield paper.whole([("      ", "dim"), (f"{exchange.request.method} {_cut(exchange.request.target)}", "dim")])
    lines = [(">", line) for line in asked(exchange, room)] if finding.side is Party.CLIENT else []
    yield from (paper.line([(_margin(mark), ""), (line, "")]) for mark, line in [*lines, *seen.lines])
    yield paper.whole([("    = clause: ", "dim"), (f"{rule.clause} ({rule.basis})", "dim")])
    yield paper.uncut([(f"    = see: {see(report.file, finding)}", "dim")])
    yield paper.uncut([(f"    = explain: wiretape rule {rule.code}", "dim")])
    yield ""


def _margin(mark: str) -> str:
    return f"{mark:>8} | "


def _where(report: Report, finding: Finding, seen: Evidence) -> Iterator[str]:
    yield printable(report.file)
    yield f"exchange {finding.exchange}"
    if finding.event is not None:
        yield f"event {finding.event}"
    if finding.byte_offset is not None:
        yield seen.span(finding.byte_offset)
    yield moment(finding.time_ns)


def _cut(target: str) -> str:
    shown = printable(target[:101])
    return shown if len(shown) <= 100 else f"{shown[:99]}…"


def _statistics(report: Report, paper: Paper) -> Iterator[str]:
    """A line for each rule that was broken: how often, how bad, which."""
    counts = report.broken
    wide = max((len(f"{number:,}") for number in counts.values()), default=0)
    for code, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        severity = report.severity_of(code)
        rule = f"  {code:<7}  {CATALOGUE[code].name}"
        yield paper.whole([(f"{number:>{wide},}  ", ""), (f"{severity:<7}", severity), (rule, "")])
    if counts:
        yield ""


def summary(report: Report) -> list[Span]:
    """The line that sums a report up."""
    return [(f"{printable(report.file)}: ", ""), *said(report)]


def said(report: Report) -> list[Span]:
    """What that line says of the recording."""
    parts = [f"{len(report.suppressed):,} known to the baseline"] if report.suppressed else []
    parts.append(f"{report.exercised} of {count(len(report.selected), 'rule')} exercised")
    unsure = report.verdicts[Verdict.INCONCLUSIVE]
    if unsure:
        parts.append(f"{len(unsure)} inconclusive ({', '.join(unsure)})")
    parts.append(f"{count(report.events, 'event')} in {count(report.exchanges, 'exchange')}")
    return [*findings_said(report.severities), *_joined(parts)]


def findings_said(severities: dict[Severity, int]) -> list[Span]:
    """`3 findings (1 error, 2 notes)`, or that there are none."""
    found = {severity: number for severity, number in severities.items() if number}
    worst = next(iter(found), None)
    if worst is None:
        return [("no findings", "")]
    each = ", ".join(count(number, severity) for severity, number in found.items())
    return [(count(sum(found.values()), "finding"), worst), (f" ({each})", "")]


def _joined(parts: Sequence[str]) -> list[Span]:
    return [(f" · {part}", "") for part in parts]


def _total(reports: Sequence[Report]) -> list[Span]:
    severities = {severity: sum(report.severities[severity] for report in reports) for severity in Severity}
    suppressed = sum(len(report.suppressed) for report in reports)
    parts = [f"{suppressed:,} known to the baseline"] if suppressed else []
    never = sum(all(code in report.verdicts[Verdict.NOT_EXERCISED] for report in reports) for code in CATALOGUE)
    parts += [f"{count(never, 'rule')} not exercised by any"] if never else []
    return [(f"{len(reports)} recordings: ", ""), *findings_said(severities), *_joined(parts)]
