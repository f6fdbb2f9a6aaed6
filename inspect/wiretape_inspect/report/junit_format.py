"""The report as JUnit XML: a test suite for each recording, a test case for each rule, or for each probe case."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from wiretape.labels import count_of
from wiretape.rules import CATALOGUE, Finding, Rule, Verdict
from wiretape.safe_text import printable
from wiretape_inspect.report.case_results import CaseResult, CaseResults, CaseVerdict
from wiretape_inspect.report.recording_report import Report, ReportOptions
from wiretape_inspect.report.text_format import show_command

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
    rules = [rule for rule in CATALOGUE.values() if rule.code in report.selected]
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
    lines += [f"clause: {rule.clause} ({rule.basis})", f"explain: wiretape rule {rule.code}"]
    return _text("\n".join(lines))


def _text(text: str) -> str:
    """Replace the characters that XML cannot contain, not even as references."""
    return _NOT_XML.sub("\ufffd", text)
