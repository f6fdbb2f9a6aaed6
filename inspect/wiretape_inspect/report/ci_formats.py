"""The report for CI: workflow commands of GitHub, a code quality report of GitLab, and JUnit XML."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from wiretape.labels import count_of
from wiretape.rules import Finding, Rule, Severity, Verdict
from wiretape.safe_text import printable
from wiretape_inspect.report.baseline import fingerprint_of
from wiretape_inspect.report.case_results import CaseResult, CaseResults, CaseVerdict, totals
from wiretape_inspect.report.finding_location import LocatedFinding, SourceMap, locate
from wiretape_inspect.report.json_format import array_items
from wiretape_inspect.report.recording_report import Report, ReportOptions
from wiretape_inspect.report.text_format import show_command, summary_line
from wiretape_inspect.rule_output import explain_command

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_MOST = 10
"""Annotations of each level that GitHub shows for a step."""


def github_lines(reports: Sequence[Report], _options: ReportOptions) -> Iterator[str]:
    """Yield an annotation for each broken rule and each broken case that no rule explains, and lines of totals.

    The worst come first, and no more than GitHub shows of each level, for all recordings together.
    """
    found: dict[Severity, dict[str, tuple[Report, Finding | CaseResult]]] = {severity: {} for severity in Severity}
    counts: Counter[str] = Counter()
    for report in reports:
        if report.notice:
            yield f"::warning title=Nothing checked,file={_property(report.file)}::{_data(report.notice)}"
        for finding in report.first_findings(1):
            title = f"{finding.code} {report.catalogue[finding.code].name}"
            found[report.worst_severity(finding.code)].setdefault(title, (report, finding))
            counts[title] += report.broken[finding.code]
        for result in report.cases.unexplained if report.cases is not None else ():
            found[result.case.severity].setdefault(result.case.name, (report, result))
    for severity, annotations in found.items():
        for title, (report, first) in list(annotations.items())[:_MOST]:
            text = _data(_annotation_text(report, first, counts[title]))
            yield f"::{_COMMANDS[severity]} title={_property(title)},{_annotation_place(report, first)}::{text}"
        if left := list(annotations)[_MOST:]:
            yield f"wiretape: {count_of(len(left), 'more annotation')} ({severity}): {_data(', '.join(left))}"
    for report in reports:
        if report.cases is not None:
            yield f"wiretape: {totals(report.cases)}"
            yield f"wiretape: {report.coverage}"
        # The name of a file must not begin the line, or it could be taken for a command.
        yield f"wiretape: {summary_line(report)}"


def _annotation_place(report: Report, first: Finding | CaseResult) -> str:
    """Return the file and, if it is text, the position in it."""
    file = f"file={_property(report.file)}"
    if isinstance(first, CaseResult):
        return file
    found = SourceMap(report.recording.path).find(first, report.recording.exchange(first.exchange))
    return f"{file},line={found[0]},col={found[1]}" if found else file


def _annotation_text(report: Report, first: Finding | CaseResult, count: int) -> str:
    """Return the first finding of a rule, how many there are, and how to see and understand them."""
    if isinstance(first, CaseResult):
        return f"{first.reason}\nclause: {first.case.clause}"
    counted = f"{count:,} findings, the first: " if count > 1 else ""
    lines = [f"{counted}{first.message}", f"see: {show_command(report.file, first)}", *_explain(report, first.code)]
    return "\n".join(lines)


def _explain(report: Report, code: str) -> list[str]:
    """Return the line with the command that explains a rule, if there is one."""
    command = explain_command(report.catalogue[code], report.settings)
    return [f"explain: {command}"] if command else []


def _data(text: str) -> str:
    """Escape text as the runner expects it; control characters other than line ends become visible."""
    lines = [printable(line).replace("%", "%25") for line in text.split("\n")]
    return "%0A".join(lines)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


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
        for located in locate(report.recording, report.findings.new()):
            yield _issue(report, located, source, number(fingerprint_of(located)))
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
    path, line, _ = source.find_in_code(report.file, located)
    return {
        "description": f"{finding.code} {report.catalogue[finding.code].name}: {finding.message} "
        f"See: {show_command(report.file, finding)}",
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": path, "lines": {"begin": line}},
    }


MAX_FINDINGS = 200
"""Findings of one rule that are listed."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_IN_BASELINE = "all its findings are in the baseline"
_NOT_EXERCISED = "not exercised: the recording proves nothing about this rule"


def junit_lines(reports: Sequence[Report], options: ReportOptions) -> Iterator[str]:
    """Yield the lines of the XML document.

    JUnit has no severities: a case fails if a finding reaches the threshold; less severe findings are its output.
    An inconclusive rule fails too if the options say so.
    """
    root = ET.Element("testsuites", name="wiretape")
    for report in reports:
        _suite(root, report, options)
    ET.indent(root)
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield from ET.tostring(root, encoding="unicode").split("\n")


def _suite(root: ET.Element, report: Report, options: ReportOptions) -> None:
    suite = ET.SubElement(root, "testsuite", name=_text(printable(report.file)))
    if report.cases is not None:
        _probe_cases(suite, report, report.cases, options)
        return
    by_rule: dict[str, list[Finding]] = {}
    for finding in report.first_findings(MAX_FINDINGS):
        by_rule.setdefault(finding.code, []).append(finding)
    rules = [rule for rule in report.catalogue.values() if rule.code in report.selected]
    for rule in rules:
        _case(suite, report, rule, by_rule.get(rule.code, []), options)
    if report.notice:
        ET.SubElement(suite, "system-out").text = _text(printable(report.notice))
    _add_numbers(suite)


def _add_numbers(suite: ET.Element) -> None:
    kinds = {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error"}
    for name, path in {**kinds, "skipped": "testcase/skipped"}.items():
        suite.set(name, str(len(suite.findall(path))))


def _probe_cases(suite: ET.Element, report: Report, cases: CaseResults, options: ReportOptions) -> None:
    """Add a test case for each probe case; the findings of all exchanges belong to one."""
    for result in cases.results:
        case = ET.SubElement(suite, "testcase", classname=f"probe.{result.case.group}", name=result.case.name)
        if result.verdict in {CaseVerdict.NOT_POSSIBLE, CaseVerdict.INCONCLUSIVE}:
            fails = result.lacks_verdict(options.threshold, on_inconclusive=options.fail_on_inconclusive)
            outcome = "failure" if fails else "skipped"
            ET.SubElement(case, outcome, message=_text(f"{result.verdict}: {result.reason}"))
        elif result.severity is not None and result.severity.reaches(options.threshold):
            messages = (each.message for each in result.new_findings if each.severity is result.severity)
            first = result.reason if result.is_unexplained else next(messages)
            failure = ET.SubElement(case, "failure", type=result.severity, message=_text(first))
            failure.text = _describe_case(report, cases, result)
        elif result.severity is not None:
            ET.SubElement(case, "system-out").text = _describe_case(report, cases, result)
        elif result.verdict is CaseVerdict.BROKEN:
            ET.SubElement(case, "skipped", message=_IN_BASELINE)
    ET.SubElement(suite, "system-out").text = _text(str(report.coverage))
    _add_numbers(suite)


def _describe_case(report: Report, cases: CaseResults, result: CaseResult) -> str:
    lines = [f"{result.case.severity}: {result.reason}" if result.is_unexplained else result.reason]
    for finding in result.new_findings[:MAX_FINDINGS]:
        lines.append(f"{finding.severity} {finding.code}: {finding.message}")
        lines.append(f"  see: {show_command(report.file, finding)}")
    lines += [f"case: {result.case.about}", f"steps: {result.case.steps}", f"clause: {result.case.clause}"]
    lines += [line for each in cases.reproductions if each.code in result.broken_rules for line in each.curl]
    return _text("\n".join(map(printable, filter(None, lines))))


def _case(suite: ET.Element, report: Report, rule: Rule, findings: list[Finding], options: ReportOptions) -> None:
    family = rule.code.rstrip("0123456789")
    case = ET.SubElement(suite, "testcase", classname=f"contract.{family}", name=f"{rule.code} {rule.name}")
    verdict = report.outcomes.tallies[rule.code].verdict
    severities = [severity for code, severity in report.counts if code == rule.code]
    if any(severity.reaches(options.threshold) for severity in severities):
        message = f"{count_of(report.broken[rule.code], 'finding')}: {findings[0].message}"
        failure = ET.SubElement(case, "failure", type=report.worst_severity(rule.code), message=_text(message))
        failure.text = _describe(report, rule, findings)
    elif findings:
        ET.SubElement(case, "system-out").text = _describe(report, rule, findings)
    elif verdict is Verdict.FAIL:
        ET.SubElement(case, "skipped", message=_IN_BASELINE)
    elif verdict is Verdict.NOT_EXERCISED:
        ET.SubElement(case, "skipped", message=_NOT_EXERCISED)
    elif verdict is Verdict.INCONCLUSIVE:
        outcome = "failure" if options.fail_on_inconclusive else "skipped"
        ET.SubElement(case, outcome, message=f"inconclusive: {'; '.join(report.outcomes.tallies[rule.code].reasons)}")


def _describe(report: Report, rule: Rule, findings: list[Finding]) -> str:
    lines = []
    for finding in findings:
        lines += [f"{finding.severity}: {finding.message}", f"  see: {show_command(report.file, finding)}"]
    if left := report.broken[rule.code] - len(findings):
        lines.append(f"… and {left:,} more")
    lines += [f"clause: {rule.clause} ({rule.basis})", *_explain(report, rule.code)]
    return _text("\n".join(lines))


def _text(text: str) -> str:
    """Replace the characters that XML cannot contain, not even as references."""
    return _NOT_XML.sub("\ufffd", text)
