"""The report as text for people: a block for each finding, then one line of totals."""

import shlex
from collections.abc import Iterator, Sequence
from unicodedata import combining, east_asian_width

from wiretape.labels import count_of
from wiretape.rules import Finding, Severity, Verdict
from wiretape.safe_text import printable
from wiretape.units import format_time
from wiretape_inspect.report.case_results import case_lines
from wiretape_inspect.report.evidence import (
    EvidenceLine,
    Mark,
    evidence,
    find_offending,
    mark_offending,
    request_headers,
    shorten_line,
)
from wiretape_inspect.report.finding_location import LocatedFinding, SourceMap, locate
from wiretape_inspect.report.recording_report import Report, ReportOptions, total_severities
from wiretape_inspect.rule_output import explain_command, reason_lines
from wiretape_inspect.terminal_output import Line, Part, labelled, wrapped

MAX_FINDINGS = 5
"""Findings of one rule that are shown, unless all are requested."""
_EVIDENCE_WIDTH = 109
"""Characters of a line of evidence unless the width is known: with the margin they fit into 120 columns."""
_MAX_NAMED_RULES = 8
"""Rules that are named for one reason."""


def text_lines(reports: Sequence[Report], options: ReportOptions) -> Iterator[Line | str]:
    """Yield the lines of the reports; a last line adds up several reports."""
    for number, report in enumerate(reports):
        if number:
            yield ""
        if report.notice:
            yield wrapped(f"{report.file}: ", (report.notice, Severity.WARNING))
            yield ""
        most = 0 if options.statistics else None if options.all_findings else MAX_FINDINGS
        yield from _blocks(report, options, most)
        yield from _totals(report, most)
        if reasons := [*inconclusive_lines(report), *scope_lines(report)]:
            yield from reasons
            yield ""
        if report.cases is not None:
            yield from case_lines(report.cases, report.coverage)
            yield ""
        yield summary_line(report)
    if len(reports) > 1:
        yield ""
        yield _total_line(reports)


def concise_lines(reports: Sequence[Report], _options: ReportOptions) -> Iterator[str]:
    """Yield one line for each new finding: `run.tape:12:3: SEQ001 sequence-not-increasing error: Expected …`.

    The numbers are the line and the column; in a database, the exchange and the event.
    """
    for report in reports:
        source = SourceMap(report.recording.path)
        if report.notice:
            yield f"{printable(report.file)}: warning: {printable(report.notice)}"
        for finding in report.findings.new():
            found = source.find(finding, report.recording.exchange(finding.exchange))
            numbers = found or (finding.exchange, finding.event)
            location = ":".join(str(number) for number in numbers if number is not None)
            name = report.catalogue[finding.code].name
            yield (
                f"{printable(report.file)}:{location}: {finding.code} {name} {finding.severity}: "
                f"{printable(finding.message)}"
            )
        for result in report.cases.unexplained if report.cases is not None else ():
            name = result.case.name
            yield f"{printable(report.file)}: {name} {result.case.severity}: {printable(result.reason)}"


def show_command(file: str, finding: Finding) -> str:
    """Return the command that shows the location of a finding."""
    where = f"--exchange {finding.exchange}" if finding.event is None else f"--at {finding.exchange}:{finding.event}"
    return f"wiretape show {printable(shlex.quote(file))} {where}"


def inconclusive_lines(report: Report) -> Iterator[Line]:
    """Yield a line for each reason why rules were inconclusive, including rules that were broken elsewhere."""
    by_reason: dict[str, list[str]] = {}
    for code in report.catalogue:
        if code in report.selected:
            for reason in report.outcomes.tallies[code].reasons:
                by_reason.setdefault(reason, []).append(code)
    for reason, codes in by_reason.items():
        counts = [f"{code} ({count_of(report.outcomes.tallies[code].reasons[reason], 'time')})" for code in codes]
        more = len(codes) - _MAX_NAMED_RULES
        named = ", ".join(counts[:_MAX_NAMED_RULES]) + (f" and {count_of(more, 'more rule')}" if more > 0 else "")
        yield labelled(("inconclusive: ", "dim"), (f"{named}, because {reason}", "dim"))


def scope_lines(report: Report) -> Iterator[Line]:
    """Yield which parts of a rotated recording are not included, and which exchanges were judged by which rules.

    The latter with the reasons, and only if not all exchanges are the service's.
    """
    if report.partial:
        yield labelled(("scope: ", "dim"), (printable(report.partial).removesuffix("."), "dim"))
    if all(scope.reason.is_service for scope in report.scopes):
        return
    for scope in report.scopes:
        rules = "all rules" if scope.reason.is_service else f"{' and '.join(report.families(scope))} only"
        judged = f"{count_of(scope.exchanges, 'exchange')} judged by {rules}"
        yield labelled(("scope: ", "dim"), (f"{judged}, because {scope.text}", "dim"))


def summary_line(report: Report) -> Line:
    """The line of totals of a report."""
    return wrapped(f"{report.file}: ", *summary_parts(report))


def summary_parts(report: Report) -> list[Part]:
    """The totals of a report without its file."""
    parts = [f"{report.suppressed:,} in the baseline"] if report.suppressed else []
    if report.cases is None:  # those of a probe have a line about the coverage
        parts.append(f"{report.exercised} of {count_of(len(report.selected), 'rule')} exercised")
    inconclusive = report.verdicts[Verdict.INCONCLUSIVE]
    if inconclusive:
        parts.append(f"{len(inconclusive)} inconclusive ({', '.join(inconclusive)})")
    parts.append(f"{count_of(report.outcomes.events, 'event')} in {count_of(report.outcomes.exchanges, 'exchange')}")
    return [*finding_count_parts(report.severities), *(f" · {part}" for part in parts)]


def summary_text(report: Report) -> str:
    """The totals of a report without its file, as plain text."""
    return str(wrapped(*summary_parts(report)))


def finding_count_parts(severities: dict[Severity, int]) -> list[Part]:
    """`3 findings (1 error, 2 notes)`, or `no findings`."""
    found = {severity: number for severity, number in severities.items() if number}
    worst = next(iter(found), None)
    if worst is None:
        return ["no findings"]
    each = ", ".join(count_of(number, severity) for severity, number in found.items())
    return [(count_of(sum(found.values()), "finding"), worst), f" ({each})"]


def _blocks(report: Report, options: ReportOptions, most: int | None) -> Iterator[Line | str]:
    """Yield a block for each of the first `most` findings of each rule; for None, of all findings."""
    explained: set[str] = set()
    for located in locate(report.recording, report.first_findings(most)):
        code = located.finding.code
        yield from _block(report, located, options.width, is_first=code not in explained)
        explained.add(code)
        yield ""


def _block(report: Report, located: LocatedFinding, width: int | None, *, is_first: bool) -> Iterator[Line]:
    """Yield the lines about a finding; the first one of a rule also has why the rule matters, and its usual fix."""
    finding, exchange = located.finding, located.exchange
    room = _EVIDENCE_WIDTH if width is None else width - len(_margin(""))
    rule = report.catalogue[finding.code]
    lines = evidence(report.recording, located)
    yield wrapped((f"{rule.code} {rule.name}", finding.severity), f"  {finding.severity} in the {finding.side}")
    yield labelled("  ", finding.message)
    yield labelled(("  --> ", "dim"), (", ".join(_location(report, located)), "dim"))
    yield labelled(
        ("      ", "dim"), (f"{exchange.request.method} {shorten_line(exchange.request.target, 100)}", "dim")
    )
    headers = request_headers(located)
    mark = find_offending(finding.message, headers)
    yield from _evidence_lines([(">", line) for line in headers], mark, room, finding)
    failed = tuple(_failed_beginnings(located))
    yield from _evidence_lines(lines, None if mark else mark_offending(located, lines), room, finding, failed)
    yield from reason_lines(rule, clause_only=not is_first)
    yield Line([(f"    = see: {show_command(report.file, finding)}", "dim")], "keep")
    if command := explain_command(rule, report.settings):
        yield Line([(f"    = explain: {command}", "dim")], "keep")


def _failed_beginnings(located: LocatedFinding) -> Iterator[str]:
    """Yield how lines of evidence begin that name an event that reports a failure."""
    for event, begin in ((located.before, "("), (located.event, "event: ")):
        if event is not None and event.type in located.exchange.vocabulary.failures:
            yield f"{begin}{event.type}"


def _evidence_lines(
    lines: Sequence[EvidenceLine], mark: Mark | None, room: int, finding: Finding, failed: tuple[str, ...] = ()
) -> Iterator[Line]:
    """Yield lines of `room` characters, red if they begin as `failed`, and a line of ^^^ below what is marked."""
    for number, (margin, line) in enumerate(lines):
        style = "bad" if line.startswith(failed) else ""
        if mark is None or mark.line != number:
            yield Line([_margin(margin), (shorten_line(line, room), style)])
            continue
        # The beginning of a long line is left out, so that what is marked can be seen.
        start = 0 if mark.end < room else max(mark.begin - room // 2, 0)
        shown = shorten_line("…" + line[start + 1 :] if start else line, room)
        begin, end = mark.begin - start, max(min(mark.end - start, len(shown)), mark.begin - start + 1)
        yield Line([_margin(margin), (shown, style)])
        underline = " " * _columns(shown[:begin]) + "^" * max(_columns(shown[begin:end]), 1)
        yield Line([_margin(""), (underline, finding.severity)])


def _columns(text: str) -> int:
    """Return how many columns a terminal needs for a text."""
    return sum(2 if east_asian_width(character) in {"F", "W"} else not combining(character) for character in text)


def _margin(mark: str) -> str:
    return f"{mark:>8} | "


def _location(report: Report, located: LocatedFinding) -> Iterator[str]:
    finding = located.finding
    yield report.file
    yield f"exchange {finding.exchange}"
    if finding.event is not None:
        yield f"event {finding.event}"
    if finding.byte_offset is not None:
        begin = finding.byte_offset
        yield f"from byte {begin}" if located.frame is None else f"bytes {begin}-{located.frame.seen.frame.end}"
    yield format_time(finding.time_ns)


def _totals(report: Report, most: int | None) -> Iterator[Line | str]:
    """Yield a line for each broken rule, most severe first: number of findings, severity, rule, findings not shown."""
    counts = report.broken
    worst_first = list(Severity)
    omitted = report.omitted_findings(most) if most else {}
    width = max((len(f"{number:,}") for number in counts.values()), default=0)
    totals = [(report.worst_severity(code), number, code) for code, number in counts.items()]
    for severity, number, code in sorted(totals, key=lambda total: (worst_first.index(total[0]), -total[1], total[2])):
        more = f"  ({omitted[code]:,} not shown; --all shows them)" if code in omitted else ""
        rule = f"  {code:<7}  {report.catalogue[code].name}"
        yield wrapped(f"{number:>{width},}  ", (f"{severity:<7}", severity), rule, (more, "dim"))
    if counts:
        yield ""


def _total_line(reports: Sequence[Report]) -> Line:
    suppressed = sum(report.suppressed for report in reports)
    parts = [f"{suppressed:,} in the baseline"] if suppressed else []
    never = sum(
        all(code in report.verdicts[Verdict.NOT_EXERCISED] for report in reports if code in report.catalogue)
        for code in {code for report in reports for code in report.catalogue}
    )
    parts += [f"{count_of(never, 'rule')} not exercised by any"] if never else []
    counts = finding_count_parts(total_severities(reports))
    return wrapped(f"{len(reports)} recordings: ", *counts, *(f" · {part}" for part in parts))
